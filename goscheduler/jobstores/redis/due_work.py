"""What is due in the Redis store: what one call of the script has taken, and what else it has seen."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from goscheduler.jobstores.base import FireRequest
from goscheduler.jobstores.redis.rows import dumps
from goscheduler.jobstores.redis.scripts import ScriptClient
from goscheduler.runs.limits import Ledger, starts_within
from goscheduler.runs.plan import PRIORITY_STEP_US
from goscheduler.runs.queries import LimitUse
from goscheduler.times import SECOND, UTC, from_micros, to_micros

#: How many jobs or runs one call takes at most.
MAX_TAKEN = 1000
#: For how long other processes do not see what one has taken, in microseconds.
HIDDEN_US = 5 * SECOND


class DueWork(NamedTuple):
    """What there was to do at the end of a step."""

    now: datetime
    due: Mapping[str, int]
    """Executor → when the next of its jobs is due."""
    ready: Mapping[str, int]
    """Executor → when the next of its pending runs can be claimed."""
    to_cancel: bool
    """Whether a live run of this owner has a cancel request."""
    blocked: bool
    """Whether any pending run waits for other runs to end."""

    @classmethod
    def read(cls, seen: Mapping[str, Any]) -> DueWork:
        due, ready = ({alias: int(time) for alias, time in seen[kind].items()} for kind in ("due", "ready"))
        return cls(from_micros(int(seen["now"]), UTC), due, ready, seen["to_cancel"], seen["blocked"])

    def next_of(self, times: Mapping[str, int], room: Mapping[str, int]) -> datetime | None:
        """Return the earliest time of the executors that have room."""
        earliest = min((time for alias, time in times.items() if room.get(alias, 0) > 0), default=None)
        return None if earliest is None else from_micros(earliest, UTC)

    def is_due(self, times: Mapping[str, int], room: Mapping[str, int]) -> bool:
        """Tell whether something is due for an executor that has room."""
        earliest = self.next_of(times, room)
        return earliest is not None and earliest <= self.now

    def is_out_of_capacity(self, times: Mapping[str, int], room: Mapping[str, int]) -> bool:
        """Tell whether something is due for an executor that has no room."""
        now = to_micros(self.now)
        return any(time <= now and room.get(alias, 0) <= 0 for alias, time in times.items())


def limit_usage(scripts: ScriptClient, now: datetime) -> list[LimitUse]:
    """Return what is used of every limit, ascending by name."""
    answer = scripts.call_json("limit_usage", now)
    live, waiting = (Counter(dict(answer[kind] or {})) for kind in ("live", "waiting"))
    moment = from_micros(int(answer["now"]), UTC)
    names, states = list(answer["rates"])[::2], map(json.loads, list(answer["rates"])[1::2])
    starts = {name: starts_within(state, moment) for name, state in zip(names, states, strict=True)}
    return [
        LimitUse(name, live[name], waiting[name], starts.get(name, {}))
        for name in sorted(live.keys() | waiting.keys() | starts.keys())
    ]  # fmt: skip


class Batch(NamedTuple):
    """What one call has taken."""

    taken: Sequence[Any]
    limits: Sequence[Sequence[Any]]
    """Name, number of live runs and latest starts of each limit that a decision may depend on."""
    work: DueWork
    definitions: Sequence[str]
    """Of the jobs that were taken, each once."""

    def ledger(self) -> Ledger:
        """Return how the limits stand."""
        return Ledger(
            {name: live for name, live, _ in self.limits if live},
            {name: json.loads(starts) for name, _, starts in self.limits if starts},
        )


class DueWorkReader:
    """Takes what is due, and writes what was decided about it."""

    def __init__(self, scripts: ScriptClient) -> None:
        self._scripts = scripts
        self._last: tuple[FireRequest, DueWork] | None = None

    def take(self, step: str, request: FireRequest, room: Mapping[str, int]) -> Batch:
        """Take what is due for executors with room: ``take_due`` takes jobs, ``take_ready`` pending runs."""
        asked = _asked(request, room)
        answer = self._scripts.call_json(step, request.now, asked, MAX_TAKEN, HIDDEN_US, PRIORITY_STEP_US)
        return Batch(list(answer["taken"]), list(answer["limits"]), DueWork.read(answer["work"]), answer["definitions"])

    def write(
        self, step: str, request: FireRequest, room: Mapping[str, int], batch: Batch, ledger: Ledger, *rest: str
    ) -> tuple[set[str], DueWork]:
        """Write decisions about a batch. Return the ids that were refused, and what there is to do now."""
        rates = [[name, dumps(state)] for name, state in ledger.changed.items()]
        asked, limits = _asked(request, room), dumps(batch.limits)
        answer = self._scripts.call_json(step, request.now, asked, limits, dumps(rates), *rest)
        return set(answer["refused"]), DueWork.read(answer["work"])

    # One round of a scheduler fires, then claims; the claim need not ask for what the firing has seen.

    def remember(self, request: FireRequest, work: DueWork) -> None:
        """Note what a firing has seen last."""
        self._last = request, work

    def recall(self, request: FireRequest) -> DueWork | None:
        """Return what the firing of the same round has seen, unless something was written since."""
        if self._last is None or self._last[0].now is not request.now or self._last[0].owner != request.owner:
            return None
        return self._last[1]

    def forget(self) -> None:
        """Note that something was written, so that what was seen does not count any more."""
        self._last = None


def _asked(request: FireRequest, room: Mapping[str, int]) -> str:
    bounded = {alias: max(0, min(free, MAX_TAKEN)) for alias, free in room.items()}
    return dumps({"owner": request.owner, "room": bounded, "executors": list(bounded), "tasks": list(request.tasks)})
