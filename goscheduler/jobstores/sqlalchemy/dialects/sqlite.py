"""SQLite: one file, one writer at a time, several processes."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from sqlalchemy import Table, event, func, select
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import StaticPool
from sqlalchemy.sql.elements import ColumnElement

from goscheduler._chance import CHANCE
from goscheduler._files import create_private
from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import GoSchedulerError
from goscheduler.jobstores.sqlalchemy.bulk import Batch, RowSource
from goscheduler.jobstores.sqlalchemy.dialects.base import CALL_SECONDS, CONNECT_SECONDS
from goscheduler.jobstores.sqlalchemy.dialects.json_rows import JSONDialect
from goscheduler.jobstores.sqlalchemy.dialects.postgresql.listener import ChangeListener
from goscheduler.jobstores.sqlalchemy.tables import Tables
from goscheduler.jobstores.sqlalchemy.watcher import FilePeekCursor, Watcher

if TYPE_CHECKING:
    from goscheduler.jobstores.sqlalchemy.due_work import DueWorkReader

#: A commit is on the disk, and readers do not wait for writers.
_SAFETY = ("journal_mode=WAL", "synchronous=FULL")
#: A batch of firings among a million jobs changes a page of four kilobytes for each of them. With what SQLite takes by
#: itself it would not have room for them, look at them twice and copy them into the file after every second batch.
_TUNING = (
    "cache_size=-16000",  # kilobytes for each connection, and only if they are needed
    "wal_autocheckpoint=4000",  # pages
    "temp_store=MEMORY",  # what undoes a statement that fails is a file otherwise
)
#: Few connections, because each has a cache: one that writes, and some that read beside it.
_POOL = {"pool_size": 2, "max_overflow": 4, "pool_use_lifo": True, "pool_timeout": CONNECT_SECONDS}


#: The pause between two looks at the version of the file.
WATCH_SECONDS = 0.04


class SQLite(JSONDialect):
    def __init__(self, url: URL) -> None:
        self._in_memory = url.database in (None, "", ":memory:") or "mode=memory" in str(url)
        self._turn = WriteTurn()

    def connect_args(self) -> dict[str, Any]:
        # Others may write for as long as a call may take: their commits wait for the disk.
        return {"timeout": CALL_SECONDS, "check_same_thread": False}

    def engine_options(self, url: URL) -> dict[str, Any]:
        return {"poolclass": StaticPool} if self._in_memory else dict(_POOL)

    def after_fork(self) -> None:
        self._turn = WriteTurn()

    def prepare(self, engine: Engine) -> None:
        @event.listens_for(engine, "do_connect")
        def connecting(_dialect: Any, _record: Any, arguments: Sequence[Any], options: dict[str, Any]) -> None:
            path = _file_to_make(str(arguments[0]), bool(options.get("uri")))
            if path:
                create_private(path)

        @event.listens_for(engine, "connect")
        def connected(connection: Any, _record: Any) -> None:
            connection.isolation_level = None  # or the driver would begin transactions when it sees fit
            _set(connection, _SAFETY)

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            options = connection.get_execution_options()
            if not options.get("writes", True):
                connection.exec_driver_sql("BEGIN")
            elif options.get("first"):
                _begin_to_write(connection, PRIORITY_PAUSE_SECONDS)
            else:
                self._turn.let_others_go_first()
                _begin_to_write(connection, PAUSE_SECONDS)

    def tune(self, engine: Engine) -> None:
        event.listen(engine, "connect", lambda connection, _record: _set(connection, _TUNING))

    @contextmanager
    def turn(self, writes: bool, first: bool = False) -> Iterator[None]:
        # The thread with the turn may wait for another process. A renewal does not wait behind it.
        if self._in_memory or (writes and not first):
            with self._turn.taken():
                yield
        else:
            yield

    def begin(self, connection: Connection, tables: Tables) -> None:
        """Nothing more: the transaction was begun as the only one that writes."""

    def listen(
        self, engine: Engine, tables: Tables, reader: DueWorkReader,
        wake: Callable[[], None], warn: Callable[[str], None],
    ) -> ChangeListener | None:  # fmt: skip
        if isinstance(engine.pool, StaticPool):  # the only connection there is, and maybe the only one that sees it
            return None
        watcher = Watcher(engine, FilePeekCursor, WATCH_SECONDS, reader, wake, warn)
        watcher.start()
        return watcher

    def is_outage(self, error: DBAPIError) -> bool:
        return "database is locked" in str(error.orig)  # others wrote all the time, or one of them stands still

    def column_in(self, column: ColumnElement[Any], values: Collection[str]) -> ColumnElement[bool]:
        each = func.json_each(json.dumps(list(values))).table_valued("value")
        return column.in_(select(each.c.value))

    def check_version(self, connection: Connection) -> None:
        version = str(connection.exec_driver_sql("SELECT sqlite_version()").scalar())
        if tuple(map(int, version.split("."))) < (3, 33):
            raise GoSchedulerError(f"SQLite is too old: 3.33 is needed, this Python has {version}")

    def fetch(self, connection: Connection, query: Any) -> Iterable[Sequence[Any]]:
        # The driver lets other threads run at every row.
        inner = query.subquery()
        whole = select(func.json_group_array(func.json_array(*inner.c)))
        try:
            rows: list[list[Any]] = json.loads(connection.execute(whole).scalar_one())
        except OperationalError:  # a row holds what JSON cannot hold
            return super().fetch(connection, query)
        return rows

    def source(self, connection: Connection, table: Table, batch: Batch) -> RowSource:
        values = {name: f"json_extract(given.value, '$[{number}]')" for number, name in enumerate(batch.variable)}
        values.update(dict.fromkeys(batch.constant, "?"))
        return RowSource("json_each(?) AS given", values, (*batch.constant.values(), batch.by_row()))


class WriteTurn:
    """The turns of one process to write to a file: one thread after the other, with pauses for other processes."""

    def __init__(self) -> None:
        # A thread that finds the file locked by another one sleeps and looks again; a lock wakes it at once.
        self._lock = threading.Lock()
        self._since = self._until = -math.inf
        """When we first wanted to write after a pause in which others could begin, and when we last ended."""

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Have the turn."""
        with self._lock:
            try:
                yield
            finally:
                self._until = SYSTEM_CLOCK.monotonic()

    def let_others_go_first(self) -> None:
        """Leave the file alone for a moment if we have written for long: otherwise only chance would let others in."""
        now = SYSTEM_CLOCK.monotonic()
        has_paused = now - self._until >= LET_GO_SECONDS
        if not has_paused and now - self._since > MOST_SECONDS:
            look_again(LET_GO_SECONDS)
            now, has_paused = SYSTEM_CLOCK.monotonic(), True
        if has_paused:
            self._since = now


def _file_to_make(place: str, is_uri: bool) -> str:
    """Return the path of the file that SQLite would make if it were not there; nothing for a database without one."""
    if not is_uri or not place.startswith("file:"):
        return "" if place == ":memory:" else place
    parts = urlsplit(place)
    modes = parse_qs(parts.query).get("mode", ["rwc"])
    path = unquote(parts.path)
    return path if modes[-1] == "rwc" and path != ":memory:" else ""


def _begin_to_write(connection: Connection, pauses: tuple[float, float]) -> None:
    """Begin to write as soon as no other process does.

    SQLite's own wait grows to a tenth of a second, while the last writer begins again at once: one of four processes
    gets next to nothing. A process that tries every few milliseconds meets most of the pauses between transactions,
    and each that a writer makes for others.
    """
    driver: Any = connection.connection.driver_connection
    (milliseconds,) = driver.execute("PRAGMA busy_timeout").fetchone()
    until = SYSTEM_CLOCK.monotonic() + milliseconds / 1000
    driver.execute("PRAGMA busy_timeout = 0")
    try:
        while not _has_begun(connection, driver, is_last_try=SYSTEM_CLOCK.monotonic() >= until):
            look_again(CHANCE.uniform(*pauses))
    finally:
        driver.execute(f"PRAGMA busy_timeout = {milliseconds}")


def _has_begun(connection: Connection, driver: Any, is_last_try: bool) -> bool:
    if not is_last_try:
        try:
            driver.execute("BEGIN IMMEDIATE")  # not by SQLAlchemy, which takes long for an error
            return True
        except connection.dialect.loaded_dbapi.OperationalError as error:
            if "locked" in str(error):
                return False
    connection.exec_driver_sql("BEGIN IMMEDIATE")
    return True


#: The least and the greatest pause before the next try, in seconds. The renewal
#: of a lease, which is short and cannot wait, tries more often.
PAUSE_SECONDS = (0.001, 0.004)
PRIORITY_PAUSE_SECONDS = (0.0002, 0.001)
look_again = threading.Event().wait
#: A process that has written for so long without a pause makes one: longer than others wait until their next try.
MOST_SECONDS = 0.2
LET_GO_SECONDS = 0.005


def _set(connection: Any, settings: Sequence[str]) -> None:
    cursor = connection.cursor()
    for setting in settings:
        cursor.execute(f"PRAGMA {setting}")
    cursor.close()
