"""Acts on all jobs that fit some filters, portion by portion, so that a lost process leaves nothing half done.

==============================  ====================================================================================
a crash after                   leaves
==============================  ====================================================================================
the note is written             an act that another process takes up when the claim on it has lapsed
a portion is written            the same, and the portion is done once more, which changes nothing
the last portion is noted       the act, done
==============================  ====================================================================================
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from goscheduler.errors import JobLookupError, NeverFires, described, survivable
from goscheduler.runs.bulk import BULK, DONE, PAUSE, REMOVE, RUN, STOPPED, Bulk, BulkResult, read_bulk
from goscheduler.runs.job_filters import job_query
from goscheduler.runs.queries import Note, follows
from goscheduler.runs.transitions import asked_for
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.schedulers._engine import Engine

#: At most so many acts are looked through for one that was abandoned.
LOOKED_THROUGH = 50


class BulkActs:
    """The acts on many jobs that one scheduler works on."""

    def __init__(self, engine: Engine, zone: Callable[[], tzinfo]) -> None:
        self._engine = engine
        self._zone = zone
        self._worker = uuid4().hex
        self._threads: list[threading.Thread] = []

    @property
    def is_working(self) -> bool:
        """Whether an act is worked on in the background."""
        return any(thread.is_alive() for thread in self._threads)

    def wait(self) -> None:
        """Wait until no act is worked on in the background: its end, or the end of the portion behind which it stops.
        """
        for thread in self._threads:
            thread.join()

    def start(
        self, act: str, filters: Mapping[str, Any], jobstore: str | None, by: str, reason: str,
        progress: Callable[[Bulk], None] | None = None, *, background: bool = False, bulk_id: str | None = None,
    ) -> BulkResult:  # fmt: skip
        """Do something to all jobs that fit, in one store or in all, and return what became of them.

        In the background the result says only how the act is called. It is noted in all stores before it begins.
        """
        job_query(filters, self._zone())  # what makes no sense is refused before anything is done
        now = self._engine.clock.now()
        key = bulk_id or f"{to_micros(now):016x}-{uuid4().hex[:8]}"
        bulk = Bulk(key, act, _plain(filters), to_micros(now), by, reason).claimed(self._worker, to_micros(now))
        places = self._places(jobstore)
        for _, store in places:  # in all of them before the first job: who is lost meanwhile has not forgotten one
            store.put_note(Note(BULK, bulk.id, bulk.text))
        if background:
            self._on_a_thread(places, bulk)
            return BulkResult(bulk.id, done=False, started_at=now)
        result = BulkResult(bulk.id, started_at=now)
        for alias, store in places:
            result = result.plus(self._claim_and_work(alias, store, bulk, progress))
        return result

    def _claim_and_work(
        self, alias: str | None, store: BaseJobStore, bulk: Bulk, progress: Callable[[Bulk], None] | None = None
    ) -> Bulk:
        """Work on an act of this process, unless another one has taken it over, or it was stopped, meanwhile."""
        own = bulk.claimed(self._worker, to_micros(self._engine.clock.now()))
        if own.text == bulk.text or store.put_note(Note(BULK, own.id, own.text), expected=bulk.text):
            return self._work(alias, store, own, progress)
        return read_bulk(store.read_note(BULK, bulk.id) or "") or replace(bulk, state=STOPPED)

    def _places(self, jobstore: str | None) -> list[tuple[str | None, BaseJobStore]]:
        places = list(self._engine.jobs.places(jobstore))
        if jobstore is not None and not places and self._engine.jobs.started:
            self._engine.jobs.store(jobstore)  # says that there is none
        return places

    def take_up(self, store: BaseJobStore) -> Bulk | None:
        """Claim an act that its process has abandoned; None if there is none."""
        now = to_micros(self._engine.clock.now())
        for note in store.notes(BULK, limit=LOOKED_THROUGH):
            bulk = read_bulk(note.text)
            if bulk is None or not bulk.is_abandoned(now):
                continue
            own = bulk.claimed(self._worker, now)
            if store.put_note(Note(BULK, own.id, own.text), expected=note.text):
                self._engine.logger.warning(
                    'Bulk %s "%s" was left behind by another process after %d jobs; this one goes on with it',
                    own.act, own.id, own.changed + own.unchanged + own.refused,
                )  # fmt: skip
                return own
        return None

    def go_on(self, alias: str, store: BaseJobStore, bulk: Bulk) -> None:
        """Do what is left of an act that was taken up, on a thread of its own: firing does not wait for it."""
        self._on_a_thread([(alias, store)], bulk, taken_up=True)

    def _on_a_thread(
        self, places: Sequence[tuple[str | None, BaseJobStore]], bulk: Bulk, taken_up: bool = False
    ) -> None:
        def work() -> None:
            try:
                for alias, store in places:
                    if taken_up:
                        self._work(alias, store, bulk, taken_up=True)
                    else:
                        self._claim_and_work(alias, store, bulk)
            except BaseException as error:
                self._engine.logger.warning(
                    'Bulk %s "%s" was interrupted: %s; a process goes on with it when the claim has lapsed', bulk.act,
                    bulk.id, described(error),
                )  # fmt: skip

        if self._engine.sleep is None:  # its clock is moved by hand, and nothing happens beside that
            work()
        else:
            thread = threading.Thread(target=work, name="goscheduler-bulk", daemon=True)
            thread.start()
            self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]

    def stop(self, bulk_id: str) -> bool:
        """Do no more portions of an act; false if none of this id goes on. What is done stays."""
        stopped = False
        for _, store in self._engine.jobs.places(None):
            while (text := store.read_note(BULK, bulk_id)) is not None:
                bulk = read_bulk(text)
                if bulk is None or bulk.state in (DONE, STOPPED):
                    break
                if store.put_note(Note(BULK, bulk_id, replace(bulk, state=STOPPED).text), expected=text):
                    stopped = True
                    break
        return stopped

    def _work(
        self, alias: str | None, store: BaseJobStore, bulk: Bulk, progress: Callable[[Bulk], None] | None = None,
        taken_up: bool = False,
    ) -> Bulk:  # fmt: skip
        """Do portion after portion; return what came of it, also if another process has taken the act over."""
        query = job_query(bulk.filters, self._zone())
        while True:
            page = store.find_jobs(bulk.page(query))
            counts = self._portion(alias, store, bulk, page.jobs, taken_up)
            following = bulk.advanced(None if page.next is None else page.next.id, *counts)
            following = following.claimed(self._worker, to_micros(self._engine.clock.now()))
            if not store.put_note(Note(BULK, bulk.id, following.text), expected=bulk.text):
                return self._ended_by_others(store, following)
            bulk, taken_up = following, False
            if progress is not None:
                progress(bulk)
            if bulk.state == DONE:
                return bulk

    def _ended_by_others(self, store: BaseJobStore, bulk: Bulk) -> Bulk:
        """Return what came of an act that was stopped, or that another process has taken over meanwhile."""
        text = store.read_note(BULK, bulk.id) or ""
        current, stopped = read_bulk(text), replace(bulk, state=STOPPED)
        if current is None:
            return stopped
        if current.state == STOPPED and current.worker == self._worker:
            store.put_note(Note(BULK, bulk.id, stopped.text), expected=text)  # with what was done since it was stopped
            return stopped
        return current

    def _portion(
        self, alias: str | None, store: BaseJobStore, bulk: Bulk, jobs: Sequence[Job], taken_up: bool
    ) -> tuple[int, int, Mapping[str, str]]:
        """Return how many jobs were changed, how many were left as they are, and which were refused."""
        ids = [job.id for job in jobs]
        if bulk.act == REMOVE:
            removed = self._engine.jobs.remove_several(alias, store, ids)
            return len(removed), len(ids) - len(removed), {}
        if bulk.act == RUN:
            return self._run_portion(store, bulk, jobs, taken_up)
        return self._edit_portion(alias, store, bulk, ids)

    def _edit_portion(
        self, alias: str | None, store: BaseJobStore, bulk: Bulk, ids: Sequence[str]
    ) -> tuple[int, int, Mapping[str, str]]:
        jobs = self._engine.jobs
        ended: list[str] = []
        if bulk.act == PAUSE:
            edit = _unless_paused(jobs.pausing(bulk.by or None, bulk.reason, bulk.id))
        else:
            edit = _unless_active(jobs.resuming(), ended)
        edited = jobs.edit_several(alias, store, ids, edit)
        removed = jobs.remove_several(alias, store, ended) if ended else []
        changed = len(edited.changed) + len(removed)
        return changed, len(ids) - changed - len(edited.refused), edited.refused

    def _run_portion(
        self, store: BaseJobStore, bulk: Bulk, jobs: Sequence[Job], taken_up: bool
    ) -> tuple[int, int, Mapping[str, str]]:
        """Ask for a run of each job. Of jobs of an abandoned portion it is found out which have theirs already."""
        now, count = self._engine.clock.now(), 0
        for job in jobs:
            if to_micros(self._engine.clock.now()) > bulk.until:
                raise TimeoutError("the claim on a bulk act has lapsed while it went on; a process takes it up")
            run_id = f"{bulk.id}-{hashlib.sha256(job.id.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
            if taken_up and self._has_run(store, job, run_id):
                continue
            try:
                store.add_run(asked_for(job, run_id, now), must_exist=True)
                count += 1
            except JobLookupError:
                text = 'Job "%s" was removed before it could be run'
                self._engine.logger.debug(text, job.id, extra={"job_id": job.id})
        self._engine.wake()
        return count, len(jobs) - count, {}

    def _has_run(self, store: BaseJobStore, job: Job, run_id: str) -> bool:
        live = store.pending_runs(job.id) + store.live_runs(job.id)
        return any(run.id == run_id for run in live) or bool(store.attempts(run_id, job.id))


def take_up_abandoned(engine: Engine) -> None:
    """Go on with acts on many jobs that lost processes have left behind, in every store that answers."""
    for alias, store in engine.stores.items():
        if not store.shared or alias in engine.outages:
            continue
        try:
            bulk = engine.bulk.take_up(store)
            if bulk is not None:
                engine.bulk.go_on(alias, store, bulk)
        except BaseException as error:
            if not survivable(error):
                raise
            engine.logger.warning('Job store "%s" could not search for bulk acts: %s', alias, error, exc_info=error)


def _unless_paused(edit: Callable[[Job], Job]) -> Callable[[Job], Job]:
    """Leave jobs as they are that are paused, or have fired for the last time."""

    def pause(job: Job) -> Job:
        return job if getattr(job, "next_run_time", job) is None and not follows(job) else edit(job)

    return pause


def _unless_active(edit: Callable[[Job], Job], ended: list[str]) -> Callable[[Job], Job]:
    """Leave jobs as they are that are neither paused nor suspended, or have fired for the last time; those that have
    no fire time left are added to ``ended``."""

    def resume(job: Job) -> Job:
        active = job.suspended is None and (getattr(job, "next_run_time", job) is not None or follows(job))
        if active or job.stats.finished_at is not None:
            return job
        try:
            return edit(job)
        except NeverFires:
            if job.id not in ended:
                ended.append(job.id)
            return job

    return resume


def _plain(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Return filters as a note keeps them."""
    return {name: _plain_value(value) for name, value in filters.items() if value is not None}


def _plain_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return value.value if hasattr(value, "value") else value
