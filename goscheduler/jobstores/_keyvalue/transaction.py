"""How the stores on etcd and ZooKeeper write changes: many in one transaction, each only if nothing has changed since.

A transaction without an answer raises :class:`~goscheduler.errors.StoreUnavailable`; the scheduler later asks the
store which runs it has, and the history which runs have ended.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from goscheduler._chance import CHANCE
from goscheduler.errors import StoreUnavailable
from goscheduler.jobstores._keyvalue.groups import Group, Groups
from goscheduler.jobstores._keyvalue.rows import JobRow, RunRow
from goscheduler.jobstores._keyvalue.server import Key, KeyValue, Transaction, new_token

#: How often a change is tried again after other processes were faster.
MAX_ATTEMPTS = 60
MAX_CHANGES_PER_TRANSACTION = 1000


class Change(Transaction):
    """What is written for one job or run; several changes may share a transaction."""

    __slots__ = ("alone", "bumped", "gone", "left", "result")

    def __init__(self, result: Any = None) -> None:
        super().__init__()
        self.alone = False
        """Whether it needs a transaction of its own."""
        self.bumped: set[str] = set()
        """Groups that get a live run, or in which a run is blocked: they need a new version."""
        self.left: set[str] = set()
        """Groups that lose a run."""
        self.gone: set[str] = set()
        """Those of them whose job is gone."""
        self.result = result
        """What the caller wants to know once it is written."""

    def insert(self, row: JobRow | RunRow) -> None:
        """Write a new row and its entries."""
        self.create(row.key, row.text)
        for key in row.entries:
            self.create(key)

    def move(self, row: JobRow | RunRow, new: JobRow | RunRow) -> None:
        """Replace a row, delete the entries that it no longer has, create those that it has now, check the others."""
        before, after = row.entries, new.entries
        for key in before:
            if key in after:
                self.check(key)
            else:
                self.delete(key)
        for key in after:
            if key not in before:
                self.create(key)
        self.replace(row.key, new.text, row.version)

    def remove(self, row: JobRow | RunRow) -> None:
        """Delete a row and its entries."""
        for key in row.entries:
            self.delete(key)
        self.delete(row.key, row.version)

    def add_run(self, row: RunRow, groups: Groups) -> None:
        """Write a new run, and make it a member of its groups."""
        self.insert(row)
        self.join_groups(row, groups)

    def join_groups(self, row: RunRow, groups: Groups) -> None:
        """Make a run a member of its groups."""
        member = row.member[2]
        for name in row.member_of:
            self.create(("members", name, member))
            groups[name].add(member)
            self.bumped.add(name)

    def leave_groups(self, row: RunRow, groups: Groups) -> None:
        """Take a run out of its groups."""
        member = row.member[2]
        for name in row.member_of:
            self.delete(("members", name, member))
            groups[name].remove(member)
            self.left.add(name)


class Written(NamedTuple):
    """How many of some changes were written."""

    changes: Sequence[Change]
    """The changes that were written, from the first one on."""
    lost: bool = False
    """Whether another process was faster with one of the others: those have to be prepared again."""
    error: StoreUnavailable | None = None
    """What stopped the store."""


def write_all(server: KeyValue, groups: Groups, changes: Sequence[Change]) -> bool:
    """Write changes; false if another process was faster with one of them: then it and those after it are not written.

    :raises StoreUnavailable: if the server does not answer
    """
    written = write(server, groups, changes)
    if written.error is not None:
        raise written.error
    return not written.lost


def write(
    server: KeyValue, groups: Groups, changes: Sequence[Change], limit: int = MAX_CHANGES_PER_TRANSACTION
) -> Written:
    """Write changes in as few transactions as the server takes, with at most ``limit`` changes in each."""
    written: list[Change] = []
    for chunk in _chunks(server, changes, limit):
        rest = changes[len(written) + len(chunk) :] if any(change.left for change in chunk) else ()
        needed = set().union(*(change.left | change.bumped for change in rest))
        transaction, versions = _merged(chunk, groups, needed)
        try:
            if not server.commit(transaction):
                return Written(written, lost=True)
        except StoreUnavailable as error:
            return Written(written, error=error)
        for name, version in versions.items():
            groups[name].version = version
        written += chunk
    return Written(written)


def _chunks(server: KeyValue, changes: Sequence[Change], limit: int) -> Iterator[list[Change]]:
    chunk: list[Change] = []
    count = size = 0
    for change in changes:
        cost = len(change) + 3 * len(change.bumped | change.left)
        full = count + cost > server.max_changes or size + change.bytes > server.max_bytes
        if chunk and (full or len(chunk) >= limit or change.alone or chunk[-1].alone):
            yield chunk
            chunk, count, size = [], 0, 0
        chunk.append(change)
        count += cost
        size += change.bytes
    if chunk:
        yield chunk


def _merged(
    changes: Sequence[Change], groups: Groups, needed: set[str]
) -> tuple[Transaction, dict[str, str | None]]:  # fmt: skip
    """Return one transaction for all changes, and the new versions of groups; later ones need some of the groups."""
    transaction = Transaction()
    for change in changes:
        transaction.add(change)
    versions: dict[str, str | None] = {}
    bumped = set().union(*(change.bumped for change in changes))
    gone = set().union(*(change.gone for change in changes))
    for name in sorted(bumped):
        versions[name] = _bump_version(transaction, groups[name], groups.state_of(name))
    for name in sorted(set().union(*(change.left for change in changes)) - bumped):
        group = groups[name]
        if group.version is None:
            continue
        version = ("members", name, group.version)
        forgotten = name in gone if name.startswith("j.") else not group.rates
        if group.empty and forgotten and name not in needed:
            transaction.delete(version)
            transaction.delete(("groups", name))
            versions[name] = None
        else:
            transaction.check(version)
    transaction.drop_implied_checks()
    return transaction, versions


def _bump_version(transaction: Transaction, group: Group, state: str | None) -> str:
    key: Key = ("groups", group.name)
    version = f"T.{new_token()}"
    if group.version is None:
        transaction.create(key, state or "")
    else:
        transaction.delete(("members", group.name, group.version))
        if state is not None:
            transaction.replace(key, state)
    transaction.create(("members", group.name, version))
    return version


def attempts() -> Iterator[int]:
    """Yield the number of each attempt; after the first few, wait a little before each, so that others get through."""
    pause = threading.Event()
    for number in range(MAX_ATTEMPTS):
        if number > 3:
            pause.wait(CHANCE.uniform(0, 0.002 * min(number, 20)))
        yield number


def lost_all_races() -> StoreUnavailable:
    """Return the error raised when all attempts have lost the race."""
    return StoreUnavailable(f"other processes have changed the same entries first, {MAX_ATTEMPTS} times in a row")
