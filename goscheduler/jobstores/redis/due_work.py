"""What is due, as the Redis store has read it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from goscheduler.jobstores.redis.rows import JobHead
from goscheduler.runs.limits import Ledger
from goscheduler.runs.model import unchecked_tuple
from goscheduler.times import UTC, from_micros, to_micros


class Seen(NamedTuple):
    """What there was to do at the end of a step."""

    now: datetime
    due: Mapping[str, int]
    """Executor → when the next of its jobs is due."""
    ready: Mapping[str, int]
    """Executor → when the next of its pending runs can be claimed."""
    ending: bool
    """Whether a run of ours is to be ended."""
    held: bool
    """Whether any run waits for others to end."""

    @classmethod
    def read(cls, seen: Mapping[str, Any]) -> Seen:
        due, ready = ({alias: int(time) for alias, time in seen[kind].items()} for kind in ("due", "ready"))
        return cls(from_micros(int(seen["now"]), UTC), due, ready, seen["ending"], seen["held"])

    def next_of(self, times: Mapping[str, int], room: Mapping[str, int]) -> datetime | None:
        """Return the earliest time of the executors that have room."""
        earliest = min((time for alias, time in times.items() if room.get(alias, 0) > 0), default=None)
        return None if earliest is None else from_micros(earliest, UTC)

    def has_ready(self, room: Mapping[str, int]) -> bool:
        """Tell whether a pending run can be claimed by an executor that has room."""
        next_ready = self.next_of(self.ready, room)
        return next_ready is not None and next_ready <= self.now

    def is_due(self, room: Mapping[str, int]) -> bool:
        """Tell whether a job is due for an executor that has room."""
        next_due = self.next_of(self.due, room)
        return next_due is not None and next_due <= self.now

    def is_crowded(self, times: Mapping[str, int], room: Mapping[str, int]) -> bool:
        """Tell whether something is due for an executor that has no room."""
        now = to_micros(self.now)
        return any(time <= now and room.get(alias, 0) <= 0 for alias, time in times.items())


class DueJob(NamedTuple):
    """A job that was taken."""

    id: str
    head_text: str
    definition: str
    head: JobHead | None
    """None if it cannot be read, or cannot fire."""
    live: int
    waiting: int


class Batch(NamedTuple):
    """What was taken."""

    taken: Sequence[Any]
    limits: Sequence[Sequence[Any]]
    """Name, live runs and latest starts of the limits that it needs."""
    seen: Seen

    def ledger(self) -> Ledger:
        """Return how the limits stand."""
        return Ledger(
            {name: live for name, live, _ in self.limits if live},
            {name: json.loads(starts) for name, _, starts in self.limits if starts},
        )


class Answer(NamedTuple):
    """What a step of firing answers."""

    facts: Mapping[str, Any]
    seen: Seen
    jobs: Sequence[DueJob]

    @classmethod
    def read(cls, answer: str) -> Answer:
        first, *texts = answer.split("\0")
        facts = json.loads(first)
        standings, count = facts.get("standings", {}), facts["definitions"]
        definitions, texts = texts[:count], texts[count:] if count else []
        ids, heads, numbers = texts[::3], texts[1::3], texts[2::3]
        jobs = [
            unchecked_tuple(DueJob, (job_id, head_text, definitions[int(number)], head, *standings.get(job_id, (0, 0))))
            for job_id, head_text, number, head in zip(ids, heads, numbers, _that_can_fire(heads), strict=True)
        ]
        return cls(facts, Seen.read(facts["seen"]), jobs)


def _that_can_fire(heads: Sequence[str]) -> list[JobHead | None]:
    return [None if head is None or head.due == "" else head for head in JobHead.read_all(heads)]
