"""Jobs that APScheduler 3 itself has written into real stores, looked at and moved by the command."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sqlite3
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import pytest
from apscheduler.jobstores.memory import MemoryJobStore as TheirMemoryStore
from apscheduler.schedulers.base import BaseScheduler as TheirScheduler
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger as TheirCalendarInterval
from apscheduler.triggers.combining import AndTrigger as TheirAnd
from apscheduler.triggers.combining import OrTrigger as TheirOr
from apscheduler.triggers.cron import CronTrigger as TheirCron
from apscheduler.triggers.date import DateTrigger as TheirDate
from apscheduler.triggers.interval import IntervalTrigger as TheirInterval
from server_process import free_port

from goscheduler._program import PROGRAM
from goscheduler.apscheduler_import import reader
from goscheduler.apscheduler_import.candidates import read_candidates
from goscheduler.apscheduler_import.sources import StoredJob, read_source
from goscheduler.job import Job
from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from goscheduler.testing import ManualScheduler

KINDS = ("sqlite", "postgresql", "mariadb", "redis", "mongodb", "zookeeper", "etcd")
LATER = datetime(2090, 5, 4, 3, 2, 1, tzinfo=ZoneInfo("Europe/Berlin"))
ARGUMENTS = (
    "text", 1.5, None, b"\x00", [1, {"k": (1, 2)}], {3}, Decimal("1.50"), uuid.UUID(int=7), timedelta(hours=1), LATER,
    timezone.utc, ZoneInfo("Asia/Tokyo"),
)  # fmt: skip

FUNCTIONS = """
def work(*args, **kwargs): ...
def gone(): ...
"""

TARGET = """
from goscheduler import BackgroundScheduler
from goscheduler.executors.pool import ThreadPoolExecutor
from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore

scheduler = BackgroundScheduler(
    jobstores={"default": SQLAlchemyJobStore("sqlite:///target.db")},
    executors={"default": ThreadPoolExecutor(1), "slow": ThreadPoolExecutor(1)},
)
"""


def triggers() -> dict[str, Any]:
    berlin = "Europe/Berlin"
    return {
        "date": TheirDate("2090-01-01 12:00:00", berlin),
        "interval": TheirInterval(minutes=5, start_date="2026-01-01", end_date="2095-01-01", timezone="UTC"),
        "jitter": TheirInterval(minutes=5, start_date="2026-01-01", timezone="UTC", jitter=3),
        "calendar": TheirCalendarInterval(months=1, weeks=2, hour=3, start_date="2026-01-31", timezone=berlin),
        "cron": TheirCron(month="jan-mar", day_of_week="mon-wed,fri", hour="*/3", minute="5/20", timezone=berlin),
        "days": TheirCron(day="2nd fri, last sun, last, 5-9/2", end_date="2095-01-01", timezone="UTC"),
        "weeks": TheirCron(year="2026-2095", week="*/5", second="1,2,3", timezone="UTC"),
        "crontab": TheirCron.from_crontab("0 9 * * 1-5", timezone=berlin),
        "and": TheirAnd([TheirCron(hour=2, timezone=berlin), TheirCron(minute=0, timezone=berlin)]),
        "or": TheirOr([TheirCron(hour=1, timezone=berlin), TheirAnd([TheirCron(hour=2), TheirCron(minute=0)])]),
    }


class Source(NamedTuple):
    """A store of APScheduler: its URL and options for the command, and itself."""

    url: str
    options: tuple[str, ...]
    theirs: Any

    def stored(self) -> list[StoredJob]:
        places = dict(zip((name[2:] for name in self.options[::2]), self.options[1::2], strict=True))
        return read_source(self.url, places)


class Writer(TheirScheduler):  # type: ignore[misc]
    """Writes jobs and does nothing else: it has no thread, which would use stores after their shutdown."""

    def wakeup(self) -> None: ...

    def shutdown(self, wait: bool = True) -> None:
        super().shutdown(wait)


class EtcdWrittenByHand(TheirMemoryStore):
    """Writes what APScheduler's store for etcd writes, whose driver cannot be installed beside a new protobuf."""

    def __init__(self, port: int, path: str) -> None:
        super().__init__()
        self._port, self._path = port, path

    def add_job(self, job: Any) -> None:
        import etcd3gw

        super().add_job(job)
        due = None if job.next_run_time is None else job.next_run_time.timestamp()
        client = etcd3gw.client(host="127.0.0.1", port=self._port, timeout=10)
        record = {"next_run_time": due, "job_state": job.__getstate__()}
        client.put(f"{self._path}/{job.id}", pickle.dumps(record, pickle.DEFAULT_PROTOCOL))
        client.session.close()


@pytest.fixture
def source(
    tmp_path: Path, shared_server: Callable[[str], Any], fresh: Callable[[Any], Any]
) -> Callable[[str], Source]:
    def make(kind: str) -> Source:
        if kind == "sqlite":
            return sql_source(f"sqlite:///{tmp_path}/theirs.db")
        space = fresh(shared_server(kind))
        return SOURCES.get(kind, lambda space: sql_source(space.url))(space)

    return make


def sql_source(url: str) -> Source:
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore as TheirSQLStore

    return Source(url, (), TheirSQLStore(url))


def redis_source(space: Any) -> Source:
    from apscheduler.jobstores.redis import RedisJobStore as TheirRedisStore

    address = urlsplit(space.url)
    return Source(space.url, (), TheirRedisStore(int(address.path[1:]), host=address.hostname, port=address.port))


def mongodb_source(space: Any) -> Source:
    from apscheduler.jobstores.mongodb import MongoDBJobStore as TheirMongoStore

    return Source(space.url, ("--database", space.name), TheirMongoStore(space.name, host=space.url))


def zookeeper_source(space: Any) -> Source:
    from apscheduler.jobstores.zookeeper import ZooKeeperJobStore as TheirZooKeeperStore

    hosts = space.url.partition("://")[2]
    theirs = TheirZooKeeperStore(f"/{space.name}", hosts=hosts, close_connection_on_exit=True)
    return Source(space.url, ("--path", f"/{space.name}"), theirs)


def etcd_source(space: Any) -> Source:
    port = urlsplit(space.url).port
    assert port is not None
    return Source(space.url, ("--path", f"/{space.name}"), EtcdWrittenByHand(port, f"/{space.name}"))


SOURCES: dict[str, Callable[[Any], Source]] = {
    "redis": redis_source, "mongodb": mongodb_source, "zookeeper": zookeeper_source, "etcd": etcd_source,
}  # fmt: skip


@pytest.fixture
def functions(module: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with functions, as APScheduler imports it."""
    monkeypatch.syspath_prepend(tmp_path)
    return module(FUNCTIONS)


@pytest.fixture
def filled(source: Callable[[str], Source], functions: str) -> Callable[..., Source]:
    """Give a store into which APScheduler has written jobs."""

    def fill(kind: str, *jobs: dict[str, Any]) -> Source:
        made = source(kind)
        scheduler = Writer(timezone="Europe/Berlin", jobstores={"default": made.theirs})
        scheduler.start(paused=True)
        try:
            for job in jobs:
                scheduler.add_job(**{"func": f"{functions}:work", "trigger": TheirDate(LATER), **job})
        finally:
            scheduler.shutdown()
        sys.modules.pop(functions, None)
        return made

    return fill


@pytest.fixture
def target(module: Callable[[str], str]) -> str:
    return f"{module(TARGET)}:scheduler"


@pytest.fixture
def moved(tmp_path: Path) -> Callable[[], dict[str, Job]]:
    """Read the jobs of the target."""

    def read() -> dict[str, Job]:
        store = SQLAlchemyJobStore(f"sqlite:///{tmp_path}/target.db")
        with ManualScheduler(jobstores={"default": store}) as scheduler:
            return {job.id: job for job in scheduler.get_jobs()}

    return read


def every_kind_of_job() -> Iterator[dict[str, Any]]:
    for name, trigger in triggers().items():
        yield {"id": name, "trigger": trigger, "next_run_time": LATER}
    yield {"id": "paused", "next_run_time": None}
    yield {
        "id": "all options", "args": ARGUMENTS, "kwargs": {"deep": {"x": [1]}}, "name": "A näme", "executor": "slow",
        "misfire_grace_time": 30, "coalesce": False, "max_instances": 4,
    }  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_jobs_of_every_kind_are_moved_with_all_that_belongs_to_them(
    kind: str,
    filled: Callable[..., Source],
    target: str,
    functions: str,
    invoke: Callable[..., Any],
    moved: Callable[[], dict[str, Job]],
) -> None:
    wanted = list(every_kind_of_job())
    made = filled(kind, *wanted)
    before = made.stored()
    assert len(before) == len(wanted)

    looked = invoke("import-apscheduler", made.url, *made.options, "--app", target)
    assert looked.exit_code == 0, looked.output
    assert moved() == {}
    assert f"--apply would add {len(wanted)}; not added: 0, not readable: 0" in looked.stderr

    applied = invoke("import-apscheduler", made.url, *made.options, "--app", target, "--apply")
    assert applied.exit_code == 0, applied.output
    assert functions not in sys.modules, "what the data names must not be imported"
    assert made.stored() == before

    jobs = moved()
    assert jobs.keys() == {job["id"] for job in wanted}
    for name, theirs in triggers().items():
        assert type(jobs[name].trigger).__name__ == type(theirs).__name__
        assert jobs[name].next_run_time == LATER
        assert jobs[name].func_ref == f"{functions}:work"
    assert jobs["paused"].next_run_time is None
    assert "APScheduler" in str(jobs["paused"].stats.paused_by)
    rich = jobs["all options"]
    assert (rich.args, rich.kwargs, rich.name) == (ARGUMENTS, {"deep": {"x": [1]}}, "A näme")
    assert (rich.executor, rich.misfire_grace_time, rich.coalesce, rich.max_instances) == ("slow", 30, False, 4)
    assert jobs["date"].misfire_grace_time == 1


def test_a_trigger_that_was_moved_fires_when_it_would_have_fired_there(
    filled: Callable[..., Source], target: str, invoke: Callable[..., Any], moved: Callable[[], dict[str, Job]]
) -> None:
    same = ("date", "interval", "cron", "days", "weeks", "crontab")
    theirs = triggers()
    made = filled("sqlite", *({"id": name, "trigger": theirs[name]} for name in same))
    assert invoke("import-apscheduler", made.url, "--app", target, "--apply").exit_code == 0
    jobs = moved()
    for name in same:
        previous, now = None, datetime(2040, 2, 3, tzinfo=timezone.utc)
        for _ in range(5):
            expected = theirs[name].get_next_fire_time(previous, previous or now)
            assert jobs[name].trigger.get_next_fire_time(previous, previous or now) == expected
            previous = expected or previous


def test_without_a_target_jobs_are_shown_with_what_to_know_of_them(
    filled: Callable[..., Source], invoke: Callable[..., Any], functions: str
) -> None:
    made = filled(
        "sqlite",
        {"id": "crontab", "trigger": triggers()["crontab"], "next_run_time": LATER, "max_instances": 3},
        {"id": "paused", "next_run_time": None, "misfire_grace_time": None},
    )
    shown = invoke("import-apscheduler", made.url)
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert lines[0].split() == ["id", "function", "schedule", "next", "run", "time", "result"]
    assert f"{functions}:work  at 09:00 on every Tuesday to Saturday (Europe/Berlin)" in lines[1]
    assert lines[1].endswith("would be added")
    assert "  paused  " in lines[2]
    assert any(line.startswith("crontab: keeps misfire_grace_time=1") for line in lines)
    assert any(line.startswith("crontab: weekday numbers count from 0 for Monday") for line in lines)
    assert any(line.startswith("crontab: max_instances=3 holds for all processes together") for line in lines)
    assert not any(line.startswith("paused: ") for line in lines)
    assert "Nothing was changed. --apply would add 2" in shown.stderr

    document = json.loads(invoke("import-apscheduler", made.url, "--json").stdout)
    assert document["applied"] is False
    assert document["unreadable"] == []
    assert [(job["id"], job["paused"], len(job["notes"])) for job in document["jobs"]] == [
        ("crontab", False, 3),
        ("paused", True, 0),
    ]
    assert document["jobs"][0]["next_run_time"] == LATER.isoformat()


def test_a_sqlite_file_is_not_touched_by_reading_it(
    filled: Callable[..., Source], invoke: Callable[..., Any], tmp_path: Path
) -> None:
    made = filled("sqlite", {"id": "one"})
    file = tmp_path / "theirs.db"
    before, files = file.read_bytes(), sorted(os.listdir(tmp_path))
    file.chmod(0o400)
    assert invoke("import-apscheduler", made.url).exit_code == 0
    assert file.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == files


def test_an_id_that_is_taken_is_told_and_left_alone_unless_it_is_to_be_replaced(
    filled: Callable[..., Source], target: str, invoke: Callable[..., Any], moved: Callable[[], dict[str, Job]]
) -> None:
    first = filled("sqlite", {"id": "one", "name": "first"})
    command = ("import-apscheduler", first.url, "--app", target)
    assert invoke(*command, "--apply").exit_code == 0
    with closing(sqlite3.connect(first.url.removeprefix("sqlite:///"))) as database, database:
        database.execute("DELETE FROM apscheduler_jobs")
    filled("sqlite", {"id": "one", "name": "second"}, {"id": "two"})

    for arguments, results in (
        ((), ["id is taken", "would be added"]),
        (("--replace",), ["would replace the one that is there", "would be added"]),
        (("--apply",), ["id is taken", "added"]),
    ):
        done = invoke(*command, *arguments, "--json")
        assert [job["result"] for job in json.loads(done.stdout)["jobs"]] == results
        assert done.exit_code == ("id is taken" in results)
    assert {name: job.name for name, job in moved().items()} == {"one": "first", "two": "work"}

    assert "replaced the one that was there" in invoke(*command, "--apply", "--replace").stdout
    assert moved()["one"].name == "second"


def test_jobs_are_moved_to_the_store_that_a_url_names(
    filled: Callable[..., Source], invoke: Callable[..., Any], moved: Callable[[], dict[str, Job]], tmp_path: Path
) -> None:
    made = filled("sqlite", {"id": "one", "next_run_time": LATER}, {"id": "two", "executor": "elsewhere"})
    done = invoke("import-apscheduler", made.url, "--to", f"sqlite:///{tmp_path}/target.db", "--apply")
    assert done.exit_code == 0, done.output
    assert "two: is suspended until its scheduler has an executor 'elsewhere'" in done.stdout
    assert moved()["one"].next_run_time == LATER


class Evil:
    """Pickles as a call of something."""

    def __init__(self, *reduced: Any) -> None:
        self.reduced = reduced

    def __reduce__(self) -> tuple[Any, ...]:
        return self.reduced


class NotAllowed: ...


def state(functions: str = "some.module", **changes: Any) -> dict[str, Any]:
    return {
        "version": 1, "id": "x", "func": f"{functions}:work", "trigger": TheirDate(LATER), "executor": "default",
        "args": (), "kwargs": {}, "name": "work", "misfire_grace_time": 1, "coalesce": True, "max_instances": 1,
        "next_run_time": LATER,
    } | changes  # fmt: skip


def plant(path: Path, **pickles: bytes) -> str:
    """Write rows as APScheduler does, with anything as pickle."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE apscheduler_jobs (id TEXT PRIMARY KEY, next_run_time FLOAT, job_state BLOB)")
        database.executemany("INSERT INTO apscheduler_jobs VALUES (?, 1, ?)", pickles.items())
    return f"sqlite:///{path}"


@pytest.mark.parametrize(
    ("hostile", "reason"),
    [
        (lambda canary: Evil(os.system, (f"touch {canary}",)), "posix.system"),
        (lambda canary: state(args=(Evil(os.system, (f"touch {canary}",)),)), "posix.system"),
        (lambda canary: state(trigger=Evil(open, (str(canary), "w"))), "open"),
        (lambda canary: state(kwargs={"x": Evil(exec, (f"open({str(canary)!r}, 'w')",))}), "builtins.exec"),
        (lambda _: state(args=(Evil(getattr, (ZoneInfo, "no_cache")),)), "looks up an attribute"),
        (lambda _: state(args=(NotAllowed(),)), "NotAllowed"),
        (lambda _: state(trigger=NotAllowed()), "NotAllowed"),
        (lambda _: state(args=(TheirDate(LATER),)), "DateTrigger"),
        (lambda _: state(args=(Path("x"),)), "pathlib"),
        (lambda _: state(trigger="cron"), "'cron' is no trigger"),
        (lambda canary: state(func="os:system", args=(f"touch {canary}",)), "module 'os' is not open to references"),
        (lambda _: state(func="nothing"), "expected 'module:attribute'"),
        (lambda _: state(func=5), "5 is no func"),
        (lambda _: state(id="y"), "it calls itself 'y'"),
        (lambda _: state(version=2), "no job of APScheduler 3"),
        (lambda _: state(next_run_time="soon"), "'soon' is no next_run_time"),
        (lambda _: {"job_state": 5}, "no job of APScheduler 3"),
        (lambda _: {"id": "x"}, "it has no func"),
        (lambda _: 5, "no job of APScheduler 3"),
    ],
)  # fmt: skip
def test_a_job_with_anything_but_plain_values_is_told_and_left_alone_and_nothing_runs(
    hostile: Callable[[Path], Any],
    reason: str,
    target: str,
    tmp_path: Path,
    invoke: Callable[..., Any],
    moved: Callable[[], dict[str, Job]],
) -> None:
    canary = tmp_path / "canary"
    good = pickle.dumps(state(id="good"))
    url = plant(tmp_path / "theirs.db", x=pickle.dumps(hostile(canary)), good=good)
    done = invoke("import-apscheduler", url, "--app", target, "--apply", "--json")
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    assert [job["id"] for job in document["jobs"]] == ["good"]
    assert document["unreadable"][0]["id"] == "x"
    assert reason in document["unreadable"][0]["reason"]
    assert moved().keys() == {"good"}
    assert not canary.exists()
    assert len(read_source(url, {})) == 2, "the source keeps what cannot be read"


@pytest.mark.parametrize(
    "pickled",
    [b"", b"garbage", pickle.dumps(state())[:-10], b"\x80\x04r\xff\xff\xff\x7fN.", b"(" * 10_000, b"\x80\x04]" * 5000],
)
def test_a_broken_pickle_is_told_by_the_id_of_its_job(
    pickled: bytes, tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    done = invoke("import-apscheduler", plant(tmp_path / "theirs.db", broken=pickled))
    assert done.exit_code == 1
    assert "These cannot be read, and stay where they are:" in done.stdout
    assert "broken  it contains a pickle that" in done.stdout


def test_a_job_that_the_target_refuses_is_told_and_the_others_are_added(
    functions: str, target: str, tmp_path: Path, invoke: Callable[..., Any], moved: Callable[[], dict[str, Job]]
) -> None:
    wrong = pickle.dumps(state(functions, id="wrong", max_instances=-1))
    url = plant(tmp_path / "theirs.db", wrong=wrong, good=pickle.dumps(state(functions, id="good")))
    for arguments in ((), ("--apply",)):
        done = invoke("import-apscheduler", url, "--app", target, *arguments)
        assert done.exit_code == 1
        assert "not added: max_instances must be" in done.stdout
    assert moved().keys() == {"good"}


def test_a_job_whose_function_is_gone_is_moved_and_the_reader_is_told(
    functions: str, module: Callable[[str], str], tmp_path: Path, invoke: Callable[..., Any],
    moved: Callable[[], dict[str, Job]],
) -> None:  # fmt: skip
    target = module(f"import {functions}\n{TARGET}")
    jobs = {
        "here": state(functions),
        "gone": state(func=f"{functions}:renamed"),
        "nowhere": state(func="no_such_package.tasks:work"),
        "unloaded": state(func="wsgiref.validate:validator"),
    }
    url = plant(tmp_path / "theirs.db", **{name: pickle.dumps(job | {"id": name}) for name, job in jobs.items()})
    done = invoke("import-apscheduler", url, "--app", f"{target}:scheduler", "--apply")
    assert done.exit_code == 0, done.output
    assert f"gone: is suspended until there is a function 'renamed' in module '{functions}'" in done.stdout
    assert "nowhere: is suspended until there is a module 'no_such_package.tasks'" in done.stdout
    assert "\nhere: is suspended" not in done.stdout
    assert "unloaded: is suspended" not in done.stdout
    assert "unloaded: will be refused, because 'wsgiref.validate' is not code of the program" in done.stdout
    assert "allowed_modules=['wsgiref.validate']" in done.stdout
    assert "\nhere: will be refused" not in done.stdout
    assert "wsgiref.validate" not in sys.modules
    stored = moved()
    assert {name: job.func_ref for name, job in stored.items()} == {name: job["func"] for name, job in jobs.items()}


def test_without_a_target_functions_are_looked_for_in_the_current_directory_and_remarks_are_told_once(
    module: Callable[[str], str], tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    name = module(FUNCTIONS)
    jobs = {f"job{number}": state(func=f"{name}:work") for number in range(7)}
    jobs["foreign"] = state(func="wsgiref.validate:validator")
    url = plant(tmp_path / "theirs.db", **{each: pickle.dumps(job | {"id": each}) for each, job in jobs.items()})
    shown = invoke("import-apscheduler", url)
    assert "is suspended until there is a module" not in shown.stdout
    assert name not in sys.modules, "nothing is imported"
    assert shown.stdout.count("keeps misfire_grace_time=1") == 1
    assert "8 jobs (foreign, job0, job1, job2, job3, …): keeps misfire_grace_time=1" in shown.stdout
    assert shown.stdout.count("will be refused") == 1
    assert "foreign: will be refused" in shown.stdout


def test_what_the_command_is_made_with_is_not_taken_for_the_program(
    tmp_path: Path, invoke: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PROGRAM, "_packages", set())
    monkeypatch.setattr(PROGRAM, "_owned", {})
    url = plant(tmp_path / "theirs.db", job=pickle.dumps(state(id="job", func="typer:launch")))
    shown = invoke("import-apscheduler", url, "--to", f"sqlite:///{tmp_path}/ours.db")
    assert "will be refused" in shown.stdout
    assert not PROGRAM.owns("typer")


def test_a_foreign_function_that_is_a_task_or_whose_module_is_allowed_is_not_refused(
    module: Callable[[str], str], tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    tasks = "import textwrap\nscheduler.register('wrap', textwrap.wrap)\n"
    target = module(TARGET.replace("(\n", "(\n    allowed_modules=['wsgiref'],\n", 1) + tasks)
    refs = {"task": "textwrap:wrap", "allowed": "wsgiref.validate:validator", "other": "textwrap:dedent"}
    url = plant(tmp_path / "theirs.db", **{each: pickle.dumps(state(id=each, func=ref)) for each, ref in refs.items()})
    document = json.loads(invoke("import-apscheduler", url, "--app", f"{target}:scheduler", "--json").stdout)
    told = {job["id"]: any("will be refused" in note for note in job["notes"]) for job in document["jobs"]}
    assert told == {"task": False, "allowed": False, "other": True}


def test_the_grace_time_that_nobody_chose_can_be_left_behind(
    filled: Callable[..., Source], invoke: Callable[..., Any], moved: Callable[[], dict[str, Job]], tmp_path: Path
) -> None:
    made = filled("sqlite", {"id": "default"}, {"id": "chosen", "misfire_grace_time": 60})
    options = ["--to", f"sqlite:///{tmp_path}/target.db", "--apply", "--drop-default-grace"]
    done = invoke("import-apscheduler", made.url, *options)
    assert "keeps misfire_grace_time=1" not in done.stdout
    assert {job.id: job.misfire_grace_time for job in moved().values()} == {"default": None, "chosen": 60}


def test_a_function_that_is_a_registered_task_is_moved_under_its_name(
    functions: str, module: Callable[[str], str], tmp_path: Path, invoke: Callable[..., Any],
    moved: Callable[[], dict[str, Job]],
) -> None:  # fmt: skip
    target = module(f"import {functions}\n{TARGET}\nscheduler.register('the work', {functions}.work)")
    url = plant(tmp_path / "theirs.db", x=pickle.dumps(state(functions)))
    assert invoke("import-apscheduler", url, "--app", f"{target}:scheduler", "--apply").exit_code == 0
    assert moved()["x"].task == "the work"


#: A set with one member, a pair of a pair of a pair …, whose hash takes 2⁶⁰ steps.
ENDLESS = b"\x80\x04\x8f()" + b"2\x86" * 60 + b"\x90."
#: One text of a megabyte, encoded again and again.
TEXT = b"X" + (1024 * 1024).to_bytes(4, "little") + b"x" * 1024 * 1024 + b"\x94"
HUGE = b"\x80\x04](c_codecs\nencode\n\x940" + TEXT + b"0" + b"h\x00h\x01X\x06\x00\x00\x00latin1\x86R" * 3000 + b"e."


@pytest.mark.serial
@pytest.mark.parametrize(
    ("hostile", "reason"), [(ENDLESS, "it was not read within 1 seconds"), (HUGE, "MiB that reading a job may take")]
)
def test_a_pickle_that_takes_all_time_or_memory_is_told_and_the_others_are_moved(
    hostile: bytes,
    reason: str,
    target: str,
    tmp_path: Path,
    invoke: Callable[..., Any],
    moved: Callable[[], dict[str, Job]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "READ_SECONDS", 1.0 if hostile is ENDLESS else 60.0)
    jobs = {name: pickle.dumps(state(id=name)) for name in ("before", "until")}
    url = plant(tmp_path / "theirs.db", bomb=hostile, **jobs)
    done = invoke("import-apscheduler", url, "--app", target, "--apply", "--json")
    assert done.exit_code == 1
    unreadable = json.loads(done.stdout)["unreadable"]
    assert [job["id"] for job in unreadable] == ["bomb"]
    assert reason in unreadable[0]["reason"]
    assert moved().keys() == {"before", "until"}


@pytest.mark.serial
def test_ctrl_c_ends_the_command_while_a_pickle_is_read_and_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    children: list[Any] = []
    asked = threading.Event()

    class Watched(reader._Child):
        def ask(self, *arguments: Any) -> Any:
            children.append(self._process)
            asked.set()
            return super().ask(*arguments)

    def interrupt() -> None:
        assert asked.wait(30)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    monkeypatch.setattr(reader, "_Child", Watched)
    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        read_candidates([StoredJob("x", ENDLESS)])
    interrupter.join()
    assert children[0].poll() is not None


def test_control_characters_in_ids_do_not_reach_the_terminal(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    url = plant(tmp_path / "theirs.db", **{"\x1b[2J": b"", "x": pickle.dumps(state(func="m\x1b:f"))})
    done = invoke("import-apscheduler", url)
    assert "\x1b" not in done.output


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("sqlite:///x.db", "--apply"), 2, "where to? Give the scheduler with --app"),
        (("x.db",), 2, "the source must be a URL"),
        (("rethinkdb://localhost",), 2, "RethinkDB is not supported"),
        (("sqlite://",), 2, "a SQLite database in memory belongs to one process"),
        (("sqlite:///x.db",), 1, "there is no SQLite file 'x.db'"),
        (("redis://localhost", "--table", "t"), 2, "--table is not for Redis, which takes --key"),
        (("sqlite:///x.db", "--path", "/x"), 2, "--path is not for the SQL database, which takes --table, --schema"),
        (("mongodb://localhost", "--collection", ""), 2, "--collection must not be empty"),
        (("etcd://me:secret@localhost",), 2, "etcd cannot be read with a user and a password"),
        (("nosuch://localhost/x",), 1, "the SQL database cannot be read"),
    ],
)
def test_what_cannot_be_read_is_one_line_that_says_why(
    arguments: tuple[str, ...], code: int, message: str, module: object, invoke: Callable[..., Any]
) -> None:
    done = invoke("import-apscheduler", *arguments)
    assert (done.exit_code, done.stdout) == (code, "")
    assert done.stderr.startswith("Error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not Path("x.db").exists()


def test_a_database_without_the_table_says_so(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    url = plant(tmp_path / "theirs.db")
    done = invoke("import-apscheduler", url, "--table", "other")
    assert done.exit_code == 1
    assert "no such table: other" in done.stderr


def test_a_missing_driver_is_told_with_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, invoke: Callable[..., Any]
) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    done = invoke("import-apscheduler", "redis://localhost")
    assert done.exit_code == 1
    assert 'pip install "goscheduler[redis]"' in done.stderr


def test_jobs_are_not_added_to_a_store_in_memory(
    filled: Callable[..., Source], module: Callable[[str], str], invoke: Callable[..., Any]
) -> None:
    made = filled("sqlite", {"id": "one"})
    target = module("from goscheduler import BackgroundScheduler\nscheduler = BackgroundScheduler()")
    assert invoke("import-apscheduler", made.url, "--app", f"{target}:scheduler").exit_code == 0
    done = invoke("import-apscheduler", made.url, "--app", f"{target}:scheduler", "--apply")
    assert done.exit_code == 2
    assert "lives in memory" in done.stderr


@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "redis", "mongodb"])
@pytest.mark.parametrize(("option", "debug"), [("source", ()), ("target", ("--debug",))])
def test_a_password_is_never_shown(
    kind: str, option: str, debug: tuple[str, ...], shared_server: Callable[[str], Any], tmp_path: Path,
    process: Callable[..., Any],
) -> None:  # fmt: skip
    server = shared_server(kind)
    scheme = server.url.partition("://")[0]
    url = f"{scheme}://nobody:hunter2%2F@127.0.0.1:{server.port}/nothing"
    arguments = (url,) if option == "source" else (plant(tmp_path / "theirs.db"), "--to", url, "--apply")
    done = process("import-apscheduler", *arguments, *debug)
    assert done.end() != 0
    assert "Error: " in done.output
    assert "hunter2" not in done.output


def test_a_target_whose_server_is_down_is_not_waited_for(tmp_path: Path, process: Callable[..., Any]) -> None:
    url = plant(tmp_path / "theirs.db", x=pickle.dumps(state()))
    nobody = f"redis://:hunter2@127.0.0.1:{free_port()}/0"
    done = process("import-apscheduler", url, "--to", nobody, "--apply")
    assert done.end() == 1
    assert 'job store "default" cannot be reached' in done.output
    assert "hunter2" not in done.output
