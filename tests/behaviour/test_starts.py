"""Jobs that were added before the start, and starts that fail and leave a scheduler that can be started."""

from __future__ import annotations

import sys
import types
from datetime import timedelta

import pytest
from behaviour_doubles import (
    START,
    FaultyMemoryStore,
    FaultySimpleStore,
    FirstThen,
    PickledStore,
    note,
    our_threads,
    works,
)

from goscheduler.errors import ConflictingIdError, SchedulerNotRunningError
from goscheduler.events import (
    EVENT_JOB_ADDED,
    EVENT_SCHEDULER_SHUTDOWN,
    EVENT_SCHEDULER_STARTED,
)
from goscheduler.executors.base import BaseExecutor
from goscheduler.executors.pool import ThreadPoolExecutor
from goscheduler.testing import EventRecorder, ManualScheduler


def test_options_of_jobs_added_before_the_start_come_from_the_job_defaults_at_the_start(background):
    job = background.add_job(note, "interval", hours=1, id="job", max_instances=4)
    background.configure(timezone="UTC", job_defaults={"coalesce": False, "misfire_grace_time": 7, "max_instances": 2})
    assert job.pending
    background.start()
    assert not job.pending
    assert (job.coalesce, job.misfire_grace_time, job.max_instances) == (False, 7, 4)
    assert job.next_run_time is not None


def test_a_pending_job_is_announced_when_it_enters_its_store(background):
    recorder = EventRecorder(background)
    background.add_job(note, "interval", hours=1, id="job")
    background.engine.bus.flush()
    assert not recorder.of(EVENT_JOB_ADDED)
    background.start()
    recorder.wait_for(EVENT_JOB_ADDED, "job", timeout=60)
    background.shutdown()
    codes = recorder.codes
    assert codes.index(EVENT_JOB_ADDED) < codes.index(EVENT_SCHEDULER_STARTED)


def test_two_pending_jobs_with_one_id_conflict_at_the_second(background):
    background.add_job(note, id="job", args=["first"])
    with pytest.raises(ConflictingIdError):
        background.add_job(note, id="job", args=["second"])
    assert [job.args for job in background.get_jobs()] == [("first",)]
    background.start()
    assert works(background)


def test_two_pending_jobs_with_one_id_for_different_stores_are_two_jobs(schedulers):
    scheduler = schedulers(ManualScheduler, jobstores={"other": PickledStore()})
    scheduler.add_job(note, "interval", hours=1, id="job", args=["default"])
    scheduler.add_job(note, "interval", hours=1, id="job", args=["other"], jobstore="other")
    assert sorted(job.args[0] for job in scheduler.get_jobs()) == ["default", "other"]
    assert scheduler.get_job("job", "other").args == ("other",)
    scheduler.start()
    assert scheduler.get_job("job", "default").args == ("default",)
    assert scheduler.get_job("job", "other").args == ("other",)


def test_a_pending_job_that_conflicts_with_a_stored_one_leaves_a_startable_scheduler(schedulers):
    store = PickledStore()
    scheduler = schedulers(jobstores={"default": store})
    scheduler.start()
    scheduler.add_job(note, "interval", hours=1, id="taken")
    scheduler.shutdown()
    before = our_threads()
    scheduler.add_job(note, "interval", hours=1, id="free")
    scheduler.add_job(note, "interval", hours=2, id="taken")
    for _ in range(2):
        with pytest.raises(ConflictingIdError):
            scheduler.start()
        assert not scheduler.running
    assert set(store.rows) == {"taken"}
    for thread in our_threads() - before:
        thread.join(60)
    assert not our_threads() - before
    scheduler.remove_job("taken")
    scheduler.start()
    assert {job.id for job in scheduler.get_jobs()} == {"free", "taken"}
    assert works(scheduler)


def test_a_pending_job_for_an_unknown_store_leaves_a_startable_scheduler(background):
    background.add_job(note, id="job", jobstore="nowhere")
    with pytest.raises(KeyError, match="No such job store: nowhere"):
        background.start()
    assert not background.running
    background.add_jobstore("memory", "nowhere")
    background.start()
    assert works(background)


def test_a_pending_job_whose_trigger_raises_leaves_a_startable_scheduler(background):
    class Breaking(FirstThen):
        asked = 0

        def get_next_fire_time(self, previous_fire_time, now):
            self.asked += 1
            if self.asked > 1:
                raise OSError("no calendar")
            return START

    background.add_job(note, Breaking(None), id="bad")
    background.add_job(note, "interval", hours=1, id="good")
    before = our_threads()
    with pytest.raises(OSError, match="no calendar"):
        background.start()
    assert not background.running
    for thread in our_threads() - before:
        thread.join(60)
    assert not our_threads() - before
    background.remove_job("bad")
    background.start()
    assert [job.id for job in background.get_jobs()] == ["good"]
    assert works(background)


@pytest.mark.parametrize("kind", [FaultySimpleStore, FaultyMemoryStore])
@pytest.mark.parametrize("method", ["start", "lookup_job", "add_job"])
def test_a_store_that_fails_during_the_start_leaves_a_startable_scheduler(schedulers, kind, method):
    store = kind()
    scheduler = schedulers(jobstores={"default": store})
    job = scheduler.add_job(note, "interval", hours=1, id="job")
    store.faults[method] = OSError("store is away")
    with pytest.raises(OSError, match="store is away"):
        scheduler.start()
    assert not scheduler.running
    assert job.pending
    with pytest.raises(SchedulerNotRunningError):
        scheduler.shutdown()
    del store.faults[method]
    scheduler.start()
    assert scheduler.get_job("job") is not None
    assert works(scheduler)


class BadExecutor(BaseExecutor):
    """Fails where it is told to."""

    def __init__(self, *failing):
        self.failing = set(failing)

    def start(self, scheduler, alias):
        super().start(scheduler, alias)
        self._maybe("start")

    def shutdown(self, wait=True, timeout=None):
        self._maybe("shutdown")

    def room(self):
        self._maybe("room")
        return 10

    def submit(self, run):
        self._maybe("submit")
        self._report(run, self._attempt(run))

    def _maybe(self, name):
        if name in self.failing:
            raise OSError(f"{name} does not work")


def test_an_executor_that_fails_to_start_leaves_a_startable_scheduler(schedulers):
    bad = BadExecutor("start")
    scheduler = schedulers(executors={"default": ThreadPoolExecutor(), "bad": bad})
    with pytest.raises(OSError, match="start does not work"):
        scheduler.start()
    assert not scheduler.running
    bad.failing.clear()
    scheduler.start()
    assert works(scheduler)


def test_the_error_of_a_failed_start_is_the_one_that_caused_it(schedulers):
    store = FaultySimpleStore()
    scheduler = schedulers(executors={"bad": BadExecutor("shutdown")}, jobstores={"default": store})
    store.faults["start"] = ValueError("the cause")
    with pytest.raises(ValueError, match="the cause"):
        scheduler.start()
    del store.faults["start"]
    scheduler.start()
    assert works(scheduler)


def test_the_rest_is_shut_down_when_an_executor_or_a_store_cannot_be(schedulers, caplog):
    stores = {name: FaultyMemoryStore() for name in ("first", "default")}
    scheduler = schedulers(executors={"bad": BadExecutor("shutdown")}, jobstores=stores)
    recorder = EventRecorder(scheduler)
    stores["first"].faults["shutdown"] = OSError("stuck")
    scheduler.start()
    scheduler.shutdown()
    assert "shutdown" in stores["default"].asked
    assert recorder.codes[-1] == EVENT_SCHEDULER_SHUTDOWN
    assert 'executor "bad"' in caplog.text
    assert 'job store "first"' in caplog.text


def test_an_executor_added_while_running_that_fails_to_start_is_not_added(background):
    background.start()
    with pytest.raises(OSError, match="start does not work"):
        background.add_executor(BadExecutor("start"), "bad")
    assert "bad" not in background.engine.executors
    store = FaultySimpleStore()
    store.faults["start"] = OSError("no server")
    with pytest.raises(OSError, match="no server"):
        background.add_jobstore(store, "bad")
    assert "bad" not in background.engine.stores
    assert works(background)


def test_uwsgi_without_threads_is_refused_and_with_threads_is_fine(background, monkeypatch):
    fake = types.ModuleType("uwsgi")
    fake.has_threads = False
    monkeypatch.setitem(sys.modules, "uwsgi", fake)
    with pytest.raises(RuntimeError, match="--enable-threads"):
        background.start()
    assert not background.running
    fake.has_threads = True
    background.start()
    assert works(background)


def test_get_jobs_shows_pending_jobs_while_stopped_and_stored_ones_while_running(schedulers):
    scheduler = schedulers(jobstores={"default": PickledStore()})
    scheduler.add_job(note, "interval", hours=1, id="job")
    assert [job.pending for job in scheduler.get_jobs()] == [True]
    scheduler.start()
    assert [job.pending for job in scheduler.get_jobs()] == [False]
    scheduler.shutdown()
    assert scheduler.get_jobs() == []


def test_a_date_job_without_a_date_runs_at_the_start_however_late_that_is(schedulers, jobcalls):
    scheduler = schedulers(ManualScheduler)
    scheduler.add_job(note, misfire_grace_time=5)
    scheduler.clock.advance(timedelta(days=1))
    scheduler.start()
    scheduler.run_due()
    assert jobcalls == ["called"]
