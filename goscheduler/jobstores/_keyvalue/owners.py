"""Owners in the stores on etcd and ZooKeeper: who is alive, who has left, and what becomes of the runs of the lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from goscheduler.codec import CodecError
from goscheduler.errors import StoreUnavailable
from goscheduler.jobstores._keyvalue.groups import Change, Groups, StoreContext, write_all
from goscheduler.jobstores._keyvalue.rows import RunRow
from goscheduler.jobstores._keyvalue.server import Heartbeats, KeyValue, Span, Transaction, escape, new_token, read_all
from goscheduler.jobstores._keyvalue.settling import RunEnd, Settling, put_aside, rows_named, rows_of_owner
from goscheduler.runs.model import Owner, Run, Settlement
from goscheduler.times import UTC, from_micros, to_micros

if TYPE_CHECKING:
    from logging import Logger


class TimedHeartbeats:
    """Goes by the time that it is told, for tests and for servers whose clocks are not to be relied upon."""

    def __init__(self, server: KeyValue) -> None:
        self._server = server

    def renew(self, name: str, text: str, now: datetime, seconds: float, known: bool) -> bool:
        """Note that ``name`` lives for so many seconds from now on. False if it was known and is known no more."""
        value = f"{to_micros(now) + int(seconds * 1e6)} {text}"
        transaction = Transaction()
        transaction.replace(("owners", name), value)
        if self._server.commit(transaction):
            return True
        if known:
            return False
        transaction = Transaction()
        transaction.create(("owners", name), value)
        return self._server.commit(transaction)

    def alive(self, now: datetime) -> dict[str, str]:
        """Return name → text of those whose time is not over."""
        found = {name: each.value.partition(" ") for name, each in read_all(self._server, ("owners",))}
        return {name: text for name, (until, _, text) in found.items() if _number(until) > to_micros(now)}

    def give_up(self, now: datetime) -> dict[str, str]:
        """Forget those whose time is over; return name → text of those that this call has forgotten."""
        given_up = {}
        for name, each in read_all(self._server, ("owners",)):
            until, _, text = each.value.partition(" ")
            if _number(until) > to_micros(now):
                continue
            transaction = Transaction()
            transaction.delete(("owners", name), each.version)
            if self._server.commit(transaction):
                given_up[name] = text
        return given_up

    def stop(self, name: str) -> None:
        """Forget one."""
        transaction = Transaction()
        transaction.delete(("owners", name))
        self._server.commit(transaction)


class Owners:
    """The owners of one store."""

    def __init__(
        self, context: StoreContext, heartbeats: Heartbeats, need_queue: Callable[[RunRow], None], logger: Logger
    ) -> None:
        self._context = context
        self._heartbeats = heartbeats
        self._need_queue = need_queue
        self._logger = logger
        self._known: set[str] = set()
        self._given_up: set[str] = set()

    def renew(self, owner: Owner, now: datetime, lease: timedelta) -> bool:
        """Keep an owner alive; false if it has been given up."""
        name = escape(owner.id)
        started = to_micros(owner.started_at or now)
        text = json.dumps([owner.id, owner.host, owner.pid, started, owner.executors, owner.tasks])
        if name in self._given_up or not self._heartbeats.renew(
            name, text, now, lease.total_seconds(), name in self._known
        ):
            return False
        self._known.add(name)
        return True

    def alive(self, now: datetime) -> list[Owner]:
        """Return those whose lease has not lapsed."""
        return [owner for text in self._heartbeats.alive(now).values() if (owner := _owner(text)) is not None]

    def retire(self, owner: str) -> bool:
        """Forget an owner, making pending what it has; true if there was something."""
        rows = rows_of_owner(self._context, escape(owner))
        settling = Settling(self._context, self._need_queue)
        settling.end([RunEnd(run, None) for row in rows if (run := self._read(row)) is not None])
        self._heartbeats.stop(escape(owner))
        return bool(rows)

    def recover(self, now: datetime, decide: Callable[[Run, str], Settlement]) -> list[Settlement]:
        """Give up the owners whose time is over, and settle what they had; return what was settled by this call."""
        given_up = self._heartbeats.give_up(now)
        names = self._context.server.names([Span(("owned",))])[0]
        if not names:
            self._given_up.update(given_up)
            return []
        alive = self._heartbeats.alive(now)
        lost = [name for name in names if name.split(".")[0] not in alive]
        self._given_up.update(given_up, (name.split(".")[0] for name in lost))
        if not given_up.keys() >= {name.split(".")[0] for name in lost}:
            given_up.update(self._heartbeats.give_up(now))  # those whose time was over just now
        ends = []
        for run in self._lost_runs(lost):
            owner = _owner(given_up.get(escape(run.owner or ""), ""))
            ends.append(RunEnd(run, decide(run, "" if owner is None else owner.host)))
        settling = Settling(self._context, self._need_queue)
        try:
            settling.end(ends)
        except StoreUnavailable:
            if not settling.written:
                raise  # else the rest is done by whoever looks next
        return [end.settlement for end in settling.written if end.settlement is not None]

    def _lost_runs(self, names: Sequence[str]) -> list[Run]:
        """Return the runs that stand in these places; some may have been handed to others meanwhile."""
        rows = {escape(row.id): row for row in rows_named(self._context, [name.split(".")[1] for name in names])}
        runs = []
        for name in names:
            row = rows.get(name.split(".")[1])
            if row is None:
                self._put_aside(None, name)
            elif row.place == ("owned", name) and (run := self._read(row)) is not None:
                runs.append(run)
        return runs

    def _read(self, row: RunRow) -> Run | None:
        try:
            return self._context.codec.run(row)
        except CodecError as error:
            self._logger.error("Run %s is kept and cannot be run: %s", row.id, error)
            self._put_aside(row, row.place[1])
            return None

    def _put_aside(self, row: RunRow | None, name: str) -> None:
        """Keep a run that cannot be read, or of which it cannot even be told which one it is, where nobody takes it."""
        change = Change()
        groups = Groups(self._context.server)
        if row is None:
            change.transaction.delete(("owned", name))
            change.transaction.create(("aside", f"{name.split('.')[1]}.{new_token()}"))
        else:
            groups.load(row.groups)
            put_aside(change, row, groups)
        write_all(self._context, groups, [change])


def _owner(text: str) -> Owner | None:
    try:
        owner_id, host, pid, started_at, executors, tasks = json.loads(text)
        return Owner(owner_id, host, pid, from_micros(started_at, UTC), tuple(executors), tuple(tasks))
    except (ValueError, TypeError, OverflowError):
        return None


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
