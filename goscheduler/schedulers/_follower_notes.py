"""The notes of a store that say which jobs follow others, so that nobody has to look through the jobs for that."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from goscheduler.runs.queries import Note, is_readable

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore

KIND = "follower"
#: A note is written again if it is older than this, and taken away, if there is nothing to it, after a day: a job that
#: is part of somebody's transaction comes into being late. Both in microseconds.
REUSED_FOR, KEPT_FOR = 43_200_000_000, 86_400_000_000
_PAGE = 200


class Follower(NamedTuple):
    """What a note says of a job that follows others."""

    key: str
    job_id: str
    upstream: tuple[str, ...]
    noted_at: int


def read_followers(store: BaseJobStore) -> list[Follower]:
    """Return what the notes of a store say; those that cannot be read, perhaps of a newer version, are left alone."""
    found: list[Follower] = []
    before: str | None = None
    while True:
        notes = store.notes(KIND, before, _PAGE)
        found += [follower for follower in map(_read, notes) if follower is not None]
        if len(notes) < _PAGE:
            return found
        before = notes[-1].key


def _read(note: Note) -> Follower | None:
    try:
        told = json.loads(note.text)
        job_id, upstream, moment = told["job"], told["after"], int(note.key.partition(".")[0], 16)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if not isinstance(upstream, list) or not all(isinstance(one, str) for one in (job_id, *upstream)):
        return None
    return Follower(note.key, job_id, tuple(upstream), moment)


def write_follower(store: BaseJobStore, job_id: str, upstream: tuple[str, ...], now: int) -> Follower:
    """Note that a job follows others."""
    text = json.dumps({"job": job_id, "after": upstream})
    key = f"{now:016x}.{crc32(text.encode()):08x}"
    store.put_note(Note(KIND, key, text))
    return Follower(key, job_id, upstream, now)


def outdated(notes: Sequence[Follower], job: Job | None, now: int) -> list[Follower]:
    """Return the old notes of one job that it does not need: it is gone, follows others, or has a newer note.

    Of a job that cannot be read nobody knows whom it follows, so its notes stay.
    """
    if job is not None and not is_readable(job):
        return []
    fitting = [each for each in notes if job is not None and each.upstream == job.trigger.upstream]
    kept = max(fitting, key=lambda each: each.noted_at, default=None)
    return [each for each in notes if each is not kept and now - each.noted_at > KEPT_FOR]


def by_job(followers: Iterable[Follower]) -> dict[str, tuple[Follower, ...]]:
    """Return id of a job → its notes."""
    found: dict[str, tuple[Follower, ...]] = {}
    for each in followers:
        found[each.job_id] = (*found.get(each.job_id, ()), each)
    return found
