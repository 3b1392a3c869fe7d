"""What is asked of the jobs of a store, and what a store answers to people: pages, counts, usage, notes.

Jobs have one order for people: those that wait for a time first, ascending by it, then all others; ascending by id
within the same time. Or they are ordered by id alone. A page begins behind the last job of the page before it, so
that a page costs the same at any depth.
"""

from __future__ import annotations

import base64
import heapq
import re
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from goscheduler._resolver import MissingFunction
from goscheduler.runs.model import JobState, OutcomeKind
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.records import Record

#: The states that a store can tell jobs by. What is queued depends on the processes, which a store does not ask.
STORED_STATES = frozenset({
    JobState.SCHEDULED, JobState.RUNNING, JobState.PAUSED, JobState.SUSPENDED, JobState.COMPLETED, JobState.FAILED,
    JobState.WAITING,
})  # fmt: skip
SORTS = ("next_run", "id")
#: A search through text gives up after so many seconds, and says how far it came.
SEARCH_SECONDS = 1.0
#: Sorts behind every moment: the place of jobs that wait for none.
NEVER = 1 << 62
MOST_LETTERS = 10_000
#: So many job ids are shown of a group of dead letters.
SAMPLE = 5
LONGEST_SIGNATURE = 200


class JobPosition(NamedTuple):
    """Where a job stands in the order of a list."""

    due: int
    """Its next time in microseconds if it can fire, else :data:`NEVER`; 0 where jobs are ordered by id."""
    id: str


class JobQuery(NamedTuple):
    """Which jobs are wanted: those that fit all of it."""

    tag: str | None = None
    state: JobState | None = None
    """One of :data:`STORED_STATES`. A job that has a live run counts as running, and as what it is otherwise too."""
    executor: str | None = None
    task: str | None = None
    """The name of its task, or the reference to its function."""
    text: str | None = None
    """Part of its id, name, task or function, in any case of letters."""
    due_before: datetime | None = None
    """It can fire, and its next time is before this moment."""
    last_outcome: OutcomeKind | None = None
    """How its last attempt ended."""
    pause_id: str | None = None
    """It was paused, and is still paused, by the bulk operation of this id."""
    sort: str = "next_run"
    after: JobPosition | None = None
    """Only what comes behind this position."""
    limit: int = 50

    @property
    def digest(self) -> str:
        """Tells this query from others, whatever page of it is wanted."""
        plain = self._replace(after=None, limit=0, due_before=None)
        return f"{zlib.crc32(repr((plain, self.due_before is not None)).encode('utf-8', 'backslashreplace')):08x}"

    def cursor(self, position: JobPosition) -> str:
        """Return a position as one word that may stand in a URL, and that belongs to this query."""
        text = f"{self.digest}.{position.due}.{position.id}"
        return base64.urlsafe_b64encode(text.encode("utf-8")).decode("ascii").rstrip("=")

    def position_of(self, cursor: str) -> JobPosition | None:
        """Return the position of a cursor of this query, None for a cursor of another one.

        :raises ValueError: for any other text
        """
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        digest, due, job_id = base64.b64decode(padded, b"-_", validate=True).decode("utf-8").split(".", 2)
        position = JobPosition(int(due), job_id)
        if self.cursor(position) == cursor:
            return position
        if re.fullmatch("[0-9a-f]{8}", digest):
            return None
        raise ValueError(cursor)

    def place(self, job: Job) -> JobPosition:
        """Return where a job stands in the order of this query."""
        if self.sort == "id":
            return JobPosition(0, job.id)
        time = next_time(job)
        return JobPosition(NEVER if time is None else to_micros(time), job.id)

    def matches(self, job: Job, running: Collection[str]) -> bool:
        """Tell whether a job is wanted, its position and the limit aside. ``running`` has the ids of jobs with a live
        run; it is only looked at if the query asks for these."""
        stats = job.stats
        return (
            (self.tag is None or self.tag in job.tags)
            and (self.executor is None or job.executor == self.executor)
            and (self.task is None or self.task in (job.task, job.func_ref))
            and (self.last_outcome is None or stats.last_outcome is self.last_outcome)
            and (self.pause_id is None or stats.pause_id == self.pause_id)
            and (self.state is None or _is_in(self.state, job, running))
            and (self.due_before is None or self._is_due(job))
            and (self.text is None or contains(self.text, job.id, job.name, job.func_ref))
        )

    def _is_due(self, job: Job) -> bool:
        time = next_time(job)
        return time is not None and self.due_before is not None and time < self.due_before

    def page(self, jobs: Iterable[Job], running: Collection[str] = ()) -> JobPage:
        """Return the page of those of ``jobs`` that are wanted."""
        placed = [(self.place(job), job) for job in jobs if self.matches(job, running)]
        found = [each for each in placed if self.after is None or each[0] > self.after]
        first = heapq.nsmallest(self.limit, found, key=itemgetter(0))
        return JobPage([job for _, job in first], first[-1][0] if len(found) > self.limit else None)


def _is_in(state: JobState, job: Job, running: Collection[str]) -> bool:
    if state is JobState.RUNNING:
        return job.id in running
    return stored_state(job) is state


def next_time(job: Job) -> datetime | None:
    """Return when a job fires next; None if it is suspended or paused, or waits for its scheduler to start."""
    return None if job.suspended is not None else getattr(job, "next_run_time", None)


def stored_state(job: Job) -> JobState:
    """Return the state of a job as far as its own record tells it: whether it runs stands elsewhere."""
    if job.suspended is not None:
        return JobState.SUSPENDED
    if next_time(job) is not None or not hasattr(job, "next_run_time"):
        return JobState.SCHEDULED
    if job.stats.finished_at is None:
        return JobState.WAITING if follows(job) else JobState.PAUSED
    return JobState.COMPLETED if job.stats.last_outcome is OutcomeKind.SUCCEEDED else JobState.FAILED


def follows(job: Job) -> bool:
    """Tell whether the ends of other jobs make a job fire: without a next run time it waits, and is not paused."""
    return bool(getattr(job.trigger, "upstream", ())) and job.stats.paused_by is None


def is_readable(job: Job) -> bool:
    """Tell whether the record of a job could be read; of one that could not, nothing is known but its id."""
    return not (isinstance(job.func, MissingFunction) and job.func.unreadable)


def contains(part: str, *texts: str | None) -> bool:
    """Tell whether ``part`` is in one of the texts, in any case of letters."""
    part = part.lower()
    return any(text is not None and part in text.lower() for text in texts)


class JobPage(NamedTuple):
    """A page of a list of jobs."""

    jobs: Sequence[Job]
    """With their statistics, and with the reason if they are suspended."""
    next: JobPosition | None = None
    """Where the next page begins; None if there is none."""
    complete: bool = True
    """False if a search gave up before the page was full; it goes on at ``next``."""


class Count(NamedTuple):
    """How many there are."""

    number: int
    exact: bool = True
    """False if there are more, which were not counted."""


class RunCounts(NamedTuple):
    """How many runs of a job have not ended."""

    live: int = 0
    """An owner has them."""
    due: int = 0
    """Pending, and due."""
    waiting: int = 0
    """Pending until later."""


class Edited(NamedTuple):
    """What became of several jobs that were to be edited."""

    changed: Sequence[Job] = ()
    unchanged: Sequence[str] = ()
    """Ids of jobs that the edit left as they were."""
    missing: Sequence[str] = ()
    """Ids that no job has."""
    refused: Mapping[str, str] = {}
    """Id → why the job could not be edited."""


class LimitUse(NamedTuple):
    """What is used of a limit, in the whole cluster."""

    name: str
    live: int
    """How many live runs count under it."""
    waiting: int
    """How many pending runs it holds back."""
    starts: Mapping[float, int]
    """Length of a window in seconds → how many starts lie in the window that ends now."""


class LetterGroup(NamedTuple):
    """Dead letters of one task that died of errors of one kind."""

    task: str | None
    error_type: str | None
    signature: str
    """What their messages have in common."""
    size: int
    first: datetime
    last: datetime
    """When the first and the last of them died."""
    job_ids: Sequence[str]
    """Of some of them."""
    run_id: str
    """The newest of them."""


def letter_groups(records: Iterable[Record]) -> list[LetterGroup]:
    """Return dead letters, given by the records of their last attempts, in groups; the largest first."""
    groups: dict[tuple[str | None, str | None, str], list[Record]] = {}
    for record in records:
        key = record.task, record.error_type, signature(record.error_message or record.reason)
        groups.setdefault(key, []).append(record)
    found = [_group(*key, sorted(members, key=lambda record: record.position)) for key, members in groups.items()]
    return sorted(found, key=lambda group: (-group.size, group.task or "", group.error_type or "", group.signature))


def _group(task: str | None, error_type: str | None, common: str, records: Sequence[Record]) -> LetterGroup:
    jobs = list(dict.fromkeys(record.job_id for record in reversed(records)))[:SAMPLE]
    first, last = records[0], records[-1]
    return LetterGroup(
        task, error_type, common, len(records), first.finished_at, last.finished_at, jobs, last.run_id
    )


_VARYING = re.compile(r"""0x[0-9a-fA-F]+|'[^']*'|"[^"]*"|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|\b[0-9a-f]{12,}\b|\d+""")


def signature(message: str) -> str:
    """Return the first line of a message with numbers, ids and quoted texts blotted out."""
    line = message[:1000].partition("\n")[0]
    return _VARYING.sub("…", line)[:LONGEST_SIGNATURE]


class Note(NamedTuple):
    """A small text that processes keep in a store beside the jobs: audit, bulk operations, alerts, figures."""

    kind: str
    key: str
    """Notes of a kind are ordered by it."""
    text: str


#: As the expected text of a note: whatever is there, or nothing.
ANY_TEXT = "\0any"
MAX_NOTE = 65_536
"""The longest text of a note, in characters."""


class InboxEntry(NamedTuple):
    """What a program that is not Python wants of a store: a job or a message, as JSON."""

    id: str
    """Names it in its store."""
    request: str


class Drained(NamedTuple):
    """What became of entries of the inbox."""

    jobs: Sequence[Job] = ()
    """Jobs that were added."""
    refused: Mapping[str, str] = {}
    """Id of an entry → why nothing was added. The reason stands beside the entry in the store, too."""
    more: bool = False
    """Whether there may be more entries to drain."""
