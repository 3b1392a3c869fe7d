"""Firing and claiming in the Redis store.

=====  ===================================================================  =======================================
step   what happens                                                         a crash after it leaves
=====  ===================================================================  =======================================
take   what is due is read, and hidden from others for a while              it is due again after :data:`HIDDEN_FOR`
plan   the pure functions of the request decide, here                       the same
write  what was decided is written, unless something that it is based on    owned runs; the lease lapses
       has changed since: then it is due again
=====  ===================================================================  =======================================

Whoever writes first wins: what others have based on the same fence comes in vain. Each step is one round trip for any
number of jobs. A round that finds nothing due is the first step alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from goscheduler.codec import CodecError
from goscheduler.jobstores._shared.records import zone_text
from goscheduler.jobstores.base import Claimed, Fired, FireRequest, Suspended
from goscheduler.jobstores.redis.due_work import Answer, Batch, DueJob, Seen
from goscheduler.jobstores.redis.packing import Firings
from goscheduler.jobstores.redis.rows import Items, JobHead, Rows, RunHead, dumps, quoted, record_row
from goscheduler.jobstores.redis.scripts import Link
from goscheduler.runs.limits import Ledger
from goscheduler.runs.model import Run, unchecked_tuple
from goscheduler.runs.plan import PRIORITY_STEP_US, ConcurrencyState, FiringPlan
from goscheduler.runs.records import record_of
from goscheduler.runs.transitions import claimed
from goscheduler.times import SECOND, to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.plan import Refusal

#: How many jobs or runs are taken at once, at most.
MOST = 1000
#: For how long nobody else sees what was taken, in microseconds.
HIDDEN_FOR = 5 * SECOND
#: How often a round is tried again in which everything was refused, because others have changed what it was based on.
TRIES = 3
DISPLACED = quoted("a newer run of its job takes its place")


class Doubt(NamedTuple):
    """What was taken, where nobody knows whether the decision about it was written."""

    kind: str
    taken: Sequence[Any]

    def ids_and_fences(self) -> list[tuple[str, str]]:
        """Return what it was based on."""
        if self.kind == "due":
            return [(job.id, job.head.fence) for job in self.taken if job.head is not None]
        place = RunHead._fields.index("fence")
        return [(run_id, json.loads(head)[place]) for run_id, head, *_ in self.taken]


class Desk:
    """Fires and claims for one store."""

    def __init__(self, link: Link, rows: Rows) -> None:
        self._link = link
        self._rows = rows
        self._last: tuple[FireRequest, Seen] | None = None
        """What ``fire`` has seen last, for the ``claim`` of the same round."""
        self._undecided: list[Doubt] = []

    def forget_what_was_seen(self) -> None:
        """Look again: something was written."""
        self._last = None

    def settle_doubts(self) -> None:
        """Give back what was taken and not decided about; a decision that arrives after this comes in vain."""
        while self._undecided:
            try:
                doubt = self._undecided.pop()
            except IndexError:  # another thread was quicker
                return
            with self._undecided_if_it_fails(doubt):
                self._link.step("void", None, doubt.kind, dumps(doubt.ids_and_fences()))

    # Firing

    def fire(self, request: FireRequest) -> Fired:
        """Fire what is due."""
        self.settle_doubts()
        room = dict(request.room)
        fired: list[Run | _Firing] = []
        for _ in range(TRIES):
            batch = self._take_due(request, room)
            seen = batch.seen
            if not batch.taken:
                break
            done, seen, left = self._fire(batch, request, room)
            fired += done
            if not left or done or not seen.is_due(room):
                break
        self._last = (request, seen)
        firings = [each for each in fired if isinstance(each, _Firing)]
        return Fired(
            [run for each in fired for run in _runs_of(each)],
            [record for each in firings for record in each.plan.records],
            [each.job for each in fired if _is_gone(each)],
            [Suspended(each.job, each.plan.suspended) for each in firings if each.plan.suspended is not None],
            seen.next_of(seen.due, room), seen.is_crowded(seen.due, room), None, seen.now,
        )  # fmt: skip

    def _fire(
        self, batch: Batch, request: FireRequest, room: dict[str, int]
    ) -> tuple[list[Run | _Firing], Seen, bool]:
        """Return what was fired of a batch, what there is to do after that, and whether some of it is left."""
        with self._undecided_if_it_fails(Doubt("due", batch.taken)):
            ledger, now = batch.ledger(), batch.seen.now
            readable = [job for job in batch.taken if job.head is not None]
            firings = (self._plan(job, request, ledger, now) for job in readable)
            self._put_aside([job.id for job in batch.taken if job.head is None])
            lists, items, planned = self._rows_of(firings)
            answer = Answer.read(self._link.say(
                "write_due", request.now, self._asked(request, room),
                dumps(batch.limits), _rates(ledger), DISPLACED, *lists.arguments(), *items.arguments(),
            ))  # fmt: skip
        refused = set(answer.facts["refused"])
        done = [each for each in planned if each.job.id not in refused] if refused else planned
        for each in done:
            room[each.job.executor] = room.get(each.job.executor, 0) - len(_runs_of(each))
        return done, answer.seen, len(done) < len(readable)

    def _take_due(self, request: FireRequest, room: Mapping[str, int]) -> Batch:
        answer = Answer.read(self._take("take_due", request, room))
        return Batch(answer.jobs, list(answer.facts["limits"]), answer.seen)

    def _plan(self, due: DueJob, request: FireRequest, ledger: Ledger, now: datetime) -> _Firing:
        job_id, _, definition, head, live, waiting = due
        assert head is not None, "only what has a head is planned"
        job = self._rows.job(job_id, head, definition, "")
        fence = max(int(head.fence) + 1, to_micros(now))
        if job.suspended is not None:
            plan = FiringPlan(suspended=job.suspended)
        else:
            plan = request.plan(job, ConcurrencyState(live, waiting, fence, ledger), now)
        return unchecked_tuple(_Firing, (job, head, plan, fence, due))

    def _put_aside(self, job_ids: Sequence[str]) -> None:
        """Keep jobs out of the way that stand in line though they cannot fire."""
        if job_ids:
            self._link.step("put_jobs_aside", None, *job_ids)

    def _rows_of(self, firings: Iterable[_Firing]) -> tuple[Firings, Items, list[Run | _Firing]]:
        """Return firings as they are written, and what is to be known of them afterwards.

        Of a plain one, as nearly all are, that is its run: what else was made for it is let go at once, because the
        garbage collector takes longer for a thousand objects that stay than it takes to make them.
        """
        lists, items, kept = Firings(), Items(), list[Run | _Firing]()
        for firing in firings:
            job, head, plan, _, due = firing
            if firing.is_plain():
                lists.add(due.head_text, head, plan, due.definition)
                kept.append(plan.start[0])
            else:
                items.add(self._item(firing, items))
                kept.append(firing)
            if plan.suspended is None:
                job.next_run_time = plan.next_run_time
        return lists, items, kept

    def _item(self, firing: _Firing, items: Items) -> list[Any]:
        job, head, plan, fence, due = firing
        rows, following = self._rows, plan.next_run_time
        return [
            job.id, due.live, _fate(plan),
            "" if following is None else str(to_micros(following)),
            "Z" if following is None else zone_text(following),
            str(fence), quoted(plan.suspended),
            [rows.started(run, due.definition, items) for run in plan.start],
            [rows.started(run, due.definition, items) for run in plan.wait],
            [record_row(record_of(attempt), items) for attempt in plan.records],
            int(plan.cancel_live), [head.stamp, head.fence, head.due],
        ]  # fmt: skip

    # Claiming

    def claim(self, request: FireRequest) -> tuple[Claimed, bool]:
        """Claim what is pending and due; tell also whether a run of ours is to be ended."""
        self.settle_doubts()
        room = dict(request.room)
        seen = self._seen_in_this_round(request)
        runs: list[Run] = []
        tries_left = TRIES
        while not runs and tries_left and (seen is None or seen.has_ready(room)):
            batch = self._take_ready(request, room)
            seen = batch.seen
            if not batch.taken:
                break
            runs, seen, refused = self._claim(batch, request, room)
            tries_left -= len(refused) == len(batch.taken)  # else some were put off, and others have their turn
        assert seen is not None, "every round looks once"
        self._last = None
        more = seen.held or seen.is_crowded(seen.ready, room)
        return Claimed(runs, seen.next_of(seen.ready, room), more), seen.ending

    def _seen_in_this_round(self, request: FireRequest) -> Seen | None:
        if self._last is None or self._last[0].now is not request.now or self._last[0].owner != request.owner:
            return None
        return self._last[1]

    def _take_ready(self, request: FireRequest, room: Mapping[str, int]) -> Batch:
        answer = json.loads(self._take("take_ready", request, room))
        return Batch(list(answer["taken"]), list(answer["limits"]), Seen.read(answer["seen"]))

    def _claim(
        self, batch: Batch, request: FireRequest, room: dict[str, int]
    ) -> tuple[list[Run], Seen, Sequence[str]]:
        with self._undecided_if_it_fails(Doubt("ready", batch.taken)):
            ledger, started = batch.ledger(), Counter[str]()
            decisions = [self._decide(each, request, ledger, started, batch.seen.now) for each in batch.taken]
            answer = self._link.ask(
                "write_ready", request.now, self._asked(request, room), dumps(batch.limits), _rates(ledger),
                *_items_of(decisions).arguments(),
            )  # fmt: skip
        refused = set(answer["refused"])
        runs = [each.run for each in decisions if each.run is not None and each.row[0] not in refused]
        for run in runs:
            room[run.job.executor] = room.get(run.job.executor, 0) - 1
        return runs, Seen.read(answer["seen"]), list(refused)

    def _decide(
        self, taken: Sequence[Any], request: FireRequest, ledger: Ledger, started: Counter[str], now: datetime
    ) -> _Decision:
        run_id, head_text, text, live = taken
        _, _, due, _, known_fence, *_ = json.loads(head_text)
        base = (known_fence, due)
        try:
            run, head = self._rows.run(run_id, head_text, text)
        except CodecError as error:
            return _Decision([run_id, live, "aside", "", quoted(str(error)), base])
        fence = max(int(head.fence) + 1, to_micros(now))
        concurrency = ConcurrencyState(live + started[head.job_id], 0, fence, ledger)
        refusal: Refusal | None = request.admit(run, concurrency, now)
        if refusal is None:
            started[head.job_id] += 1
            return _Decision([run_id, live, "start", str(fence), "", base], claimed(run, request.owner, fence))
        if refusal.until is not None:
            until = max(to_micros(refusal.until), to_micros(run.due_at))
            return _Decision([run_id, live, "later", "", str(until), base])
        return _Decision([run_id, live, "hold", "", refusal.key, base])

    # Both

    def _take(self, step: str, request: FireRequest, room: Mapping[str, int]) -> str:
        return self._link.say(step, request.now, self._asked(request, room), MOST, HIDDEN_FOR, PRIORITY_STEP_US)

    def _asked(self, request: FireRequest, room: Mapping[str, int]) -> str:
        bounded = {alias: max(0, min(free, MOST)) for alias, free in room.items()}
        return dumps({
            "owner": request.owner, "room": bounded, "executors": list(bounded), "tasks": list(request.tasks),
        })  # fmt: skip

    @contextmanager
    def _undecided_if_it_fails(self, doubt: Doubt) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._undecided.append(doubt)
            raise


class _Firing(NamedTuple):
    """What was decided about a due job."""

    job: Job
    head: JobHead
    plan: FiringPlan
    fence: int
    due: DueJob

    def is_plain(self) -> bool:
        """Tell whether one run starts, and nothing else happens but that the job moves on or is gone."""
        start, wait, records, following, suspended, cancel_live, keep = self.plan
        return (
            len(start) == 1
            and not start[0].coalesced
            and start[0].scheduled_at == self.job.next_run_time  # its text has one time for everything
            and not (wait or records or cancel_live or self.due.live or self.head.limits or self.head.finished)
            and suspended is None
            and (following is not None or not keep)
            and "\ufffd" not in self.due.head_text  # else it is not what is stored
        )


class _Decision(NamedTuple):
    """What was decided about a pending run."""

    row: list[Any]
    run: Run | None = None


def _runs_of(fired: Run | _Firing) -> Sequence[Run]:
    """Return the runs that start."""
    return (fired,) if isinstance(fired, Run) else fired.plan.start


def _is_gone(fired: Run | _Firing) -> bool:
    """Tell whether the job was removed by having fired."""
    return fired.job.next_run_time is None if isinstance(fired, Run) else _fate(fired.plan) == "gone"


def _fate(plan: FiringPlan) -> str:
    """Return what becomes of the job."""
    if plan.suspended is not None:
        return "suspended"
    if plan.next_run_time is not None:
        return "moved"
    return "finished" if plan.keep else "gone"


def _items_of(decisions: Iterable[_Decision]) -> Items:
    items = Items()
    for decision in decisions:
        items.add(decision.row)
    return items


def _rates(ledger: Ledger) -> str:
    changed: Iterable[tuple[str, Any]] = ledger.changed.items()
    return dumps([[name, dumps(state)] for name, state in changed])
