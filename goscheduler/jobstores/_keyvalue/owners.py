"""Owners in the stores on etcd and ZooKeeper: who is alive, who has left, and what becomes of the runs of the lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from goscheduler.codec import CodecError
from goscheduler.errors import StoreUnavailable
from goscheduler.jobstores._keyvalue.groups import Groups, Part, Work, write_all
from goscheduler.jobstores._keyvalue.rows import RunRow
from goscheduler.jobstores._keyvalue.server import Heartbeats, KeyValue, Span, Step, read_all, unique, word
from goscheduler.jobstores._keyvalue.settling import End, Settling, put_aside, rows_named, rows_of_owner
from goscheduler.runs.model import Owner, Run, Settlement
from goscheduler.times import UTC, from_micros, to_micros

if TYPE_CHECKING:
    from logging import Logger


class TimedHeartbeats:
    """Goes by the time that it is told, for tests and for servers whose clocks are not to be relied upon."""

    def __init__(self, server: KeyValue) -> None:
        self._server = server

    def beat(self, name: str, text: str, now: datetime, seconds: float, known: bool) -> bool:
        """Note that ``name`` lives for so many seconds from now on. False if it was known and is known no more."""
        value = f"{to_micros(now) + int(seconds * 1e6)} {text}"
        step = Step()
        step.replace(("owners", name), value)
        if self._server.commit(step):
            return True
        if known:
            return False
        step = Step()
        step.create(("owners", name), value)
        return self._server.commit(step)

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
            step = Step()
            step.delete(("owners", name), each.version)
            if self._server.commit(step):
                given_up[name] = text
        return given_up

    def stop(self, name: str) -> None:
        """Forget one."""
        step = Step()
        step.delete(("owners", name))
        self._server.commit(step)


class Owners:
    """The owners of one store."""

    def __init__(self, work: Work, hearts: Heartbeats, need_lane: Callable[[RunRow], None], logger: Logger) -> None:
        self._work = work
        self._hearts = hearts
        self._need_lane = need_lane
        self._logger = logger
        self._known: set[str] = set()
        self._given_up: set[str] = set()

    def renew(self, owner: Owner, now: datetime, lease: timedelta) -> bool:
        """Keep an owner alive; false if it has been given up."""
        name = word(owner.id)
        started = to_micros(owner.started_at or now)
        text = json.dumps([owner.id, owner.host, owner.pid, started, owner.executors, owner.tasks])
        if name in self._given_up or not self._hearts.beat(name, text, now, lease.total_seconds(), name in self._known):
            return False
        self._known.add(name)
        return True

    def alive(self, now: datetime) -> list[Owner]:
        """Return those whose lease has not lapsed."""
        return [owner for text in self._hearts.alive(now).values() if (owner := _owner(text)) is not None]

    def retire(self, owner: str) -> bool:
        """Forget an owner, making pending what it has; true if there was something."""
        rows = rows_of_owner(self._work, word(owner))
        settling = Settling(self._work, self._need_lane)
        settling.end([End(run, None) for row in rows if (run := self._read(row)) is not None])
        self._hearts.stop(word(owner))
        return bool(rows)

    def recover(self, now: datetime, decide: Callable[[Run, str], Settlement]) -> list[Settlement]:
        """Give up the owners whose time is over, and settle what they had; return what was settled by this call."""
        given_up = self._hearts.give_up(now)
        names = self._work.server.names([Span(("owned",))])[0]
        if not names:
            self._given_up.update(given_up)
            return []
        alive = self._hearts.alive(now)
        lost = [name for name in names if name.split(".")[0] not in alive]
        self._given_up.update(given_up, (name.split(".")[0] for name in lost))
        if not given_up.keys() >= {name.split(".")[0] for name in lost}:
            given_up.update(self._hearts.give_up(now))  # those whose time was over just now
        ends = []
        for run in self._lost_runs(lost):
            owner = _owner(given_up.get(word(run.owner or ""), ""))
            ends.append(End(run, decide(run, "" if owner is None else owner.host)))
        settling = Settling(self._work, self._need_lane)
        try:
            settling.end(ends)
        except StoreUnavailable:
            if not settling.written:
                raise  # else the rest is done by whoever looks next
        return [end.settlement for end in settling.written if end.settlement is not None]

    def _lost_runs(self, names: Sequence[str]) -> list[Run]:
        """Return the runs that stand in these places; some may have been handed to others meanwhile."""
        rows = {word(row.id): row for row in rows_named(self._work, [name.split(".")[1] for name in names])}
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
            return self._work.rows.run(row)
        except CodecError as error:
            self._logger.error("Run %s is kept and cannot be run: %s", row.id, error)
            self._put_aside(row, row.place[1])
            return None

    def _put_aside(self, row: RunRow | None, name: str) -> None:
        """Keep a run that cannot be read, or of which it cannot even be told which one it is, where nobody takes it."""
        part = Part()
        groups = Groups(self._work.server)
        if row is None:
            part.step.delete(("owned", name))
            part.step.create(("aside", f"{name.split('.')[1]}.{unique()}"))
        else:
            groups.load(row.groups)
            put_aside(part, row, groups)
        write_all(self._work, groups, [part])


def _owner(text: str) -> Owner | None:
    try:
        owner_id, host, pid, started_at, executors, tasks = json.loads(text)
        return Owner(owner_id, host, pid, from_micros(started_at, UTC), tuple(executors), tuple(tasks))
    except (ValueError, TypeError, OverflowError):
        return None


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
