"""What one process counts by schedule, by task and by message, while something reads it.

A run counts under the id of its job if that is a schedule of a registry, or if the reader has named it; any other run
counts under its task. So there are as many series as a program has schedules and tasks, however many jobs it adds.
There are at most :data:`MOST_SERIES` of each kind; what comes after them counts under :data:`OTHER`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from goscheduler.runs.model import OutcomeKind

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.model import Attempt, Outcome, Run

MOST_SERIES = 1000
#: The last ones are kept for what is counted under this name, one for each outcome.
OTHER = "_other"
KEPT_FOR_OTHER = 16
#: A schedule that is in no store any more is forgotten after so long.
GONE_AFTER = timedelta(hours=1)
#: What the tag of a job begins with that a registry of schedules owns; the name of the registry follows.
MARK = "goscheduler.periodic:"
#: What the names of the tasks begin with that deliver messages, and those that hand firings to a queue.
OWN_TASKS, DISPATCH = "goscheduler.", "goscheduler.dispatch."
#: Times are counted in as many steps, by the length of their milliseconds in bits.
SLOTS = 64

_WORD_OF = {kind: kind.value.replace(" ", "_") for kind in OutcomeKind}


class Times:
    """How many times lie in which step, and their sum in seconds."""

    __slots__ = ("seconds", "slots")

    def __init__(self) -> None:
        self.slots = [0] * SLOTS
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one time."""
        self.slots[int(max(0.0, seconds) * 1000).bit_length()] += 1
        self.seconds += max(0.0, seconds)

    def copy(self) -> Times:
        copy = Times()
        copy.slots, copy.seconds = self.slots[:], self.seconds
        return copy


class Line:
    """What is counted under one schedule or task."""

    __slots__ = ("by_outcome", "duration", "gone_since", "last_run", "lateness", "lock_failures", "not_run", "retries")

    def __init__(self) -> None:
        self.by_outcome: dict[str, int] = {}
        self.not_run: dict[str, int] = {}
        """Fire times that did not become a run: "missed" or "skipped"."""
        self.retries = self.lock_failures = 0
        self.duration, self.lateness = Times(), Times()
        self.last_run: datetime | None = None
        self.gone_since: datetime | None = None
        """When it was first noticed that there is no such job any more."""

    def copy(self) -> Line:
        copy = Line()
        copy.by_outcome, copy.not_run = dict(self.by_outcome), dict(self.not_run)
        copy.retries, copy.lock_failures, copy.last_run = self.retries, self.lock_failures, self.last_run
        copy.duration, copy.lateness = self.duration.copy(), self.lateness.copy()
        return copy


class MessageLine:
    """What is counted of the messages of one event name."""

    __slots__ = ("counts", "delay", "failures", "processing")

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """Of "scheduled", "delivered", "cancelled", "recovered", "dlq", "rescheduled"."""
        self.failures: dict[str, int] = {}
        """By the type of the error."""
        self.delay, self.processing = Times(), Times()

    def copy(self) -> MessageLine:
        copy = MessageLine()
        copy.counts, copy.failures = Counter(self.counts), dict(self.failures)
        copy.delay, copy.processing = self.delay.copy(), self.processing.copy()
        return copy


class Tally:
    """The counters of one process. Whoever feeds or reads it holds the lock of the statistics."""

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self.ids = set(ids)
        """Ids of jobs that are counted by themselves although no registry has them."""
        self.lines: dict[str, Line] = {}
        self.schedules: set[str] = set()
        """Which of the lines are those of schedules."""
        self.marks: set[str] = set()
        """The tags of the registries that were seen."""
        self.messages: dict[str, MessageLine] = {}
        self.calls: dict[tuple[str, str], Times] = {}
        """Alias of a store and name of a call → how long it took."""
        self.store_errors: Counter[str] = Counter()
        self._outcomes = self._failures = 0
        """How many series of outcomes, and of failures of messages, there are."""

    def name_of(self, job: Job) -> str:
        """Return under which name the runs of a job are counted."""
        return job.id if self._is_single(job) else job.func_ref or job.name

    def add_end(
        self, run: Run, outcome: Outcome, late: timedelta | None, slots: tuple[int, int], retried: bool, dead: bool
    ) -> None:
        """Count the end of an attempt; ``slots`` are the steps of its lateness and of its duration if it had begun."""
        job = run.job
        line = self._line_of(job)
        self._count_outcome(line, _WORD_OF[outcome.kind], 1)
        if late is not None:
            line.lateness.slots[slots[0]] += 1
            line.lateness.seconds += max(0.0, late.total_seconds())
            line.duration.slots[slots[1]] += 1
            line.duration.seconds += outcome.seconds
            line.last_run = outcome.started_at
        if retried:
            line.retries += 1
        if job.task is not None and job.task.startswith(OWN_TASKS) and not job.task.startswith(DISPATCH):
            self._add_delivery(job.name, outcome, late, retried, dead)

    def add_not_run(self, records: Iterable[Attempt]) -> None:
        """Count fire times that were missed or skipped."""
        for run, outcome, _, times, _, _ in records:
            line, word = self._line_of(run.job), _WORD_OF[outcome.kind]
            self._count_outcome(line, word, times)
            line.not_run[word] = line.not_run.get(word, 0) + times

    def add_refused(self, runs: Iterable[Run]) -> None:
        """Count runs that another process has by now, so that the store has refused their end."""
        for run in runs:
            self._line_of(run.job).lock_failures += 1

    def add_jobs(self, jobs: Iterable[Job]) -> None:
        """Count the messages among jobs that were added."""
        for job in jobs:
            if job.task is not None and job.task.startswith(OWN_TASKS) and not job.task.startswith(DISPATCH):
                self._message_line(job.name).counts["scheduled"] += 1

    def add_call(self, alias: str, call: str, seconds: float) -> None:
        """Count a call of a store."""
        times = self.calls.get((alias, call))
        if times is None:
            times = self.calls[alias, call] = Times()
        times.add(seconds)

    def forget_gone(self, alive: Collection[str], now: datetime) -> None:
        """Forget schedules that have been in no store for an hour."""
        for name in list(self.schedules):
            line = self.lines.get(name)
            if line is None or name in alive:
                if line is not None:
                    line.gone_since = None
                continue
            line.gone_since = line.gone_since or now
            if now - line.gone_since >= GONE_AFTER:
                del self.lines[name]
                self.schedules.discard(name)
                self._outcomes -= len(line.by_outcome)

    def copy(self) -> Tally:
        """Return the counters as they stand."""
        copy = Tally(self.ids)
        copy.lines = {name: line.copy() for name, line in self.lines.items()}
        copy.messages = {name: line.copy() for name, line in self.messages.items()}
        copy.calls = {key: times.copy() for key, times in self.calls.items()}
        copy.schedules, copy.marks, copy.store_errors = set(self.schedules), set(self.marks), Counter(self.store_errors)
        return copy

    def _is_single(self, job: Job) -> bool:
        """Tell whether a job has counters of its own."""
        tags = job.options.tags
        if tags and any(tag.startswith(MARK) for tag in tags):
            return True
        return bool(self.ids) and job.id in self.ids

    def _line_of(self, job: Job) -> Line:
        line = self.lines.get(self.name_of(job))
        return self._new_line(job) if line is None else line

    def _new_line(self, job: Job) -> Line:
        self.marks.update(tag for tag in job.options.tags if tag.startswith(MARK))
        name = self.name_of(job)
        if len(self.lines) >= MOST_SERIES - 1:
            name = OTHER
        elif self._is_single(job):
            self.schedules.add(name)
        return self.lines.setdefault(name, Line())

    def _count_outcome(self, line: Line, word: str, times: int) -> None:
        counts = line.by_outcome
        if word not in counts:
            if self._outcomes >= MOST_SERIES - KEPT_FOR_OTHER and line is not self.lines.get(OTHER):
                counts = self.lines.setdefault(OTHER, Line()).by_outcome
            else:
                self._outcomes += line is not self.lines.get(OTHER)
        counts[word] = counts.get(word, 0) + times

    def _add_delivery(
        self, event: str, outcome: Outcome, late: timedelta | None, retried: bool, dead: bool
    ) -> None:
        line, kind = self._message_line(event), outcome.kind
        word = _COUNTED_AS.get(kind)
        if word is not None:
            line.counts[word] += 1
        if kind in _FAILURES:
            self._count_failure(line, type(outcome.error).__name__ if outcome.error is not None else _WORD_OF[kind])
        line.counts["dlq"] += dead
        line.counts["rescheduled"] += retried
        if late is not None:
            line.processing.add(outcome.seconds)
            if kind is OutcomeKind.SUCCEEDED:
                line.delay.add(late.total_seconds() + outcome.seconds)

    def _count_failure(self, line: MessageLine, reason: str) -> None:
        if reason not in line.failures:
            if self._failures >= MOST_SERIES - len(self.messages):
                reason = OTHER
            else:
                self._failures += 1
        line.failures[reason] = line.failures.get(reason, 0) + 1

    def _message_line(self, event: str) -> MessageLine:
        line = self.messages.get(event)
        if line is not None:
            return line
        return self.messages.setdefault(event if len(self.messages) < MOST_SERIES - 1 else OTHER, MessageLine())


_FAILURES = frozenset({OutcomeKind.FAILED, OutcomeKind.TIMED_OUT})
_COUNTED_AS = {
    OutcomeKind.SUCCEEDED: "delivered", OutcomeKind.CANCELLED: "cancelled", OutcomeKind.LOST: "recovered",
}  # fmt: skip
