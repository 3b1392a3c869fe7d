"""Reads sorted sets of jobs as one list in order, portion by portion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from goscheduler.jobstores.redis.rows import dumps
from goscheduler.jobstores.redis.scripts import ScriptClient

#: How many jobs one call looks at, or a few more where there are many lists.
MAX_LOOKED_AT = 1000
MIN_LOOKED_AT = 16

#: A time (0 in lists that are ordered by id alone) and the id of a job.
Place = tuple[int, str]


class JobList(NamedTuple):
    """A sorted set of jobs."""

    key: str
    end: int | None = None
    """It is read to this time, which is not read any more."""


class Portion(NamedTuple):
    """What was read of all lists together."""

    places: Sequence[Place]
    """Of the jobs that no filter refuses, ascending."""
    end: Place | None
    """How far all lists have been read; None if to the end."""


class _Source:
    """How far one list has been read."""

    def __init__(self, wanted: JobList, after: Place | None) -> None:
        self.wanted = wanted
        self.last = after
        self.done = False
        self.buffer: list[Place] = []

    @property
    def argument(self) -> list[Any]:
        time, job_id = (False, False) if self.last is None else (str(self.last[0]), self.last[1])
        return [self.wanted.key, time, job_id, False if self.wanted.end is None else str(self.wanted.end)]

    def take(self, ids: Sequence[str], times: Sequence[str], last: Any) -> None:
        self.buffer += [(int(time), job_id) for time, job_id in zip(times, ids, strict=True)]
        self.done = not last
        if last:
            self.last = int(last[0]), last[1]


def merged(
    scripts: ScriptClient, lists: Sequence[JobList], after: Place | None, filters: Sequence[Any], size: int
) -> Iterator[Portion]:
    """Yield the jobs of several lists behind a place, in order and in portions.

    ``size`` says how many jobs of each list are looked at first; later calls look at more.
    """
    sources = [_Source(each, after) for each in lists]
    to_read, budget = sources, max(size * len(sources), MIN_LOOKED_AT)
    while to_read:
        each = min(max(min(budget, MAX_LOOKED_AT) // len(to_read), MIN_LOOKED_AT), MAX_LOOKED_AT)
        arguments = dumps([source.argument for source in to_read])
        answer = scripts.call_json("walk", None, arguments, each, "place", dumps(filters))
        for source, (ids, times, last) in zip(to_read, answer, strict=True):
            source.take(ids, times, last)
        open_ends = [source.last for source in sources if not source.done and source.last is not None]
        end = min(open_ends, default=None)
        yield Portion(_taken(sources, end), end)
        to_read = [
            source for source in sources
            if not source.done and (not source.buffer or source.last is None or source.last == end)
        ]  # fmt: skip
        budget *= 2


def _taken(sources: Sequence[_Source], end: Place | None) -> list[Place]:
    """Take what all lists have been read to."""
    places: list[Place] = []
    for source in sources:
        taken = source.buffer if end is None else [place for place in source.buffer if place <= end]
        places += taken
        source.buffer = source.buffer[len(taken) :]
    places.sort()
    return places
