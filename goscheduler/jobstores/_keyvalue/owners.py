"""Owners in the stores on etcd and ZooKeeper: leases, and what becomes of the runs of lost owners."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from goscheduler.errors import StoreUnavailable
from goscheduler.jobstores._keyvalue.context import StoreContext
from goscheduler.jobstores._keyvalue.groups import Groups
from goscheduler.jobstores._keyvalue.rows import RunRow
from goscheduler.jobstores._keyvalue.server import (
    Heartbeat,
    Heartbeats,
    KeyValue,
    Span,
    Transaction,
    escape,
    new_token,
    read_all,
)
from goscheduler.jobstores._keyvalue.settling import RunEnd, Settling, put_aside
from goscheduler.jobstores._keyvalue.transaction import Change, write_all
from goscheduler.runs.model import Owner, Run, Settlement
from goscheduler.times import UTC, from_micros, to_micros


class TimedHeartbeats:
    """Leases by the clock of the scheduler, for tests and for servers whose clocks are not reliable."""

    def __init__(self, server: KeyValue) -> None:
        self._server = server

    def renew(self, name: str, text: str, now: datetime, seconds: float, known: bool) -> bool:
        value = with_end(text, now, seconds)
        if self._server.commit(Transaction().replace(("owners", name), value)):
            return True
        if known:
            return False
        return self._server.commit(Transaction().create(("owners", name), value))

    def alive(self, now: datetime) -> dict[str, Heartbeat]:
        found = {name: heartbeat(each.value) for name, each in read_all(self._server, ("owners",))}
        return {name: each for name, each in found.items() if each.until > to_micros(now)}

    def give_up(self, now: datetime) -> dict[str, str]:
        given_up = {}
        for name, each in read_all(self._server, ("owners",)):
            text, until = heartbeat(each.value)
            if until > to_micros(now):
                continue
            if self._server.commit(Transaction().delete(("owners", name), each.version)):
                given_up[name] = text
        return given_up

    def stop(self, name: str) -> None:
        self._server.commit(Transaction().delete(("owners", name)))


class Owners:
    """The owners of one store."""

    def __init__(self, context: StoreContext, heartbeats: Heartbeats) -> None:
        self._context = context
        self._heartbeats = heartbeats
        self._known: set[str] = set()
        self._given_up: set[str] = set()

    def renew(self, owner: Owner, now: datetime, lease: timedelta) -> bool:
        """Renew the lease of an owner; false if another process has given the owner up."""
        name = escape(owner.id)
        started = to_micros(owner.started_at or now)
        text = json.dumps([owner.id, owner.host, owner.pid, started, owner.executors, owner.tasks, owner.report])
        if name in self._given_up or not self._heartbeats.renew(
            name, text, now, lease.total_seconds(), name in self._known
        ):
            return False
        self._known.add(name)
        return True

    def alive(self, now: datetime) -> list[Owner]:
        """Return the owners whose lease lasts."""
        found = [(_owner(text), until) for text, until in self._heartbeats.alive(now).values()]
        return [owner._replace(expires_at=from_micros(until, UTC)) for owner, until in found if owner is not None]

    def retire(self, owner: str) -> bool:
        """Forget an owner and make its runs pending; true if it had any."""
        names = self._context.server.names([Span.of_prefix(("owned",), escape(owner))])[0]
        rows = self._context.run_rows([name.split(".")[1] for name in names])
        settling = Settling(self._context)
        settling.end([RunEnd(run, None) for row in rows if (run := self._read(row)) is not None])
        self._heartbeats.stop(escape(owner))
        return bool(rows)

    def recover(self, now: datetime, decide: Callable[[Run, str], Settlement]) -> list[Settlement]:
        """Give up the owners whose lease has ended, and settle their runs; return what this call has settled."""
        given_up = self._heartbeats.give_up(now)
        names = self._context.server.names([Span(("owned",))])[0]
        if not names:
            self._given_up.update(given_up)
            return []
        alive = self._heartbeats.alive(now)
        lost = [name for name in names if name.split(".")[0] not in alive]
        self._given_up.update(given_up, (name.split(".")[0] for name in lost))
        if not given_up.keys() >= {name.split(".")[0] for name in lost}:
            given_up.update(self._heartbeats.give_up(now))  # a lease may have ended since
        ends = []
        for run in self._lost_runs(lost):
            owner = _owner(given_up.get(escape(run.owner or ""), ""))
            ends.append(RunEnd(run, decide(run, "" if owner is None else owner.host)))
        settling = Settling(self._context)
        try:
            settling.end(ends)
        except StoreUnavailable:
            if not settling.written:
                raise  # else the next recovery settles the rest
        return [end.settlement for end in settling.written if end.settlement is not None]

    def _lost_runs(self, names: Sequence[str]) -> list[Run]:
        """Return the runs in these places; other processes may have claimed some of them meanwhile."""
        rows = {escape(row.id): row for row in self._context.run_rows([name.split(".")[1] for name in names])}
        runs = []
        for name in names:
            row = rows.get(name.split(".")[1])
            if row is None:
                self._put_aside(None, name)
            elif row.place == ("owned", name) and (run := self._read(row)) is not None:
                runs.append(run)
        return runs

    def _read(self, row: RunRow) -> Run | None:
        run = self._context.read_run(row)
        if run is None:
            self._put_aside(row, row.place[1])
        return run

    def _put_aside(self, row: RunRow | None, name: str) -> None:
        """Keep a run that cannot be read, or an entry without a readable row, in a place where no process claims it."""
        change = Change()
        groups = Groups(self._context.server, () if row is None else row.groups)
        if row is None:
            change.delete(("owned", name))
            change.create(("aside", f"{name.split('.')[1]}.{new_token()}"))
        else:
            put_aside(change, row, groups)
        write_all(self._context.server, groups, [change])


def _owner(text: str) -> Owner | None:
    try:
        owner_id, host, pid, started_at, executors, tasks, *report = json.loads(text)
        return Owner(owner_id, host, pid, from_micros(started_at, UTC), tuple(executors), tuple(tasks), *report[:1])
    except (ValueError, TypeError, OverflowError):
        return None


def with_end(text: str, now: datetime, seconds: float) -> str:
    """Return the text of an owner with the end of its lease."""
    return f"{to_micros(now) + int(seconds * 1e6)} {text}"


def heartbeat(value: str) -> Heartbeat:
    """Return what :func:`with_end` has put together."""
    until, _, text = value.partition(" ")
    return Heartbeat(text, int(until) if until.isdecimal() else 0)
