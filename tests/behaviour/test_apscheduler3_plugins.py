"""Stores, triggers, executors and schedulers written for APScheduler 3 work after the change of the import root."""

from __future__ import annotations

import asyncio
import sys
import threading
from datetime import timedelta

import pytest
from behaviour_doubles import START, PickledStore, note

from goscheduler.errors import ConflictingIdError, JobLookupError
from goscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, EVENT_JOB_MAX_INSTANCES, EVENT_JOB_REMOVED
from goscheduler.executors.base import BaseExecutor, MaxInstancesReachedError, run_job
from goscheduler.executors.debug import DebugExecutor
from goscheduler.executors.pool import ThreadPoolExecutor
from goscheduler.runs.records import HistoryQuery
from goscheduler.schedulers._lifecycle import ROUND_GOES_ON
from goscheduler.schedulers.background import BackgroundScheduler
from goscheduler.schedulers.base import BaseScheduler
from goscheduler.testing import EventRecorder, ManualClock, ManualScheduler
from goscheduler.triggers.base import BaseTrigger


class EveryOtherMinute(BaseTrigger):
    """As a user wrote it: one method, slots, an own start."""

    __slots__ = ("limit", "start")

    def __init__(self, start, limit=None, timezone=None):
        self.start = start
        self.limit = limit

    def get_next_fire_time(self, previous_fire_time, now):
        following = self.start if previous_fire_time is None else previous_fire_time + timedelta(minutes=2)
        while previous_fire_time is None and following < now:
            following += timedelta(minutes=2)
        return None if self.limit is not None and following > self.limit else following

    def __str__(self):
        return "every other minute"


class InlineExecutor(BaseExecutor):
    """As a user wrote it, after the manual's example."""

    def __init__(self):
        super().__init__()
        self.submitted = []

    def _do_submit_job(self, job, run_times):
        self.submitted.append((job.id, list(run_times)))
        try:
            events = run_job(job, job._jobstore_alias, run_times, self._logger.name)
        except BaseException:
            self._run_job_error(job.id, *sys.exc_info()[1:])
        else:
            self._run_job_success(job.id, events)


class ThreadPerJobExecutor(InlineExecutor):
    """Reports from threads of its own."""

    def start(self, scheduler, alias):
        super().start(scheduler, alias)
        self.threads = []

    def shutdown(self, wait=True):
        if wait:
            for thread in self.threads:
                thread.join()

    def _do_submit_job(self, job, run_times):
        thread = threading.Thread(target=super()._do_submit_job, args=(job, run_times))
        self.threads.append(thread)
        thread.start()


@pytest.fixture
def store():
    return PickledStore()


@pytest.fixture
def scheduler(schedulers, store):
    scheduler = schedulers(ManualScheduler, jobstores={"default": store}, executors={"default": InlineExecutor()})
    scheduler.start()
    return scheduler


def test_all_three_work_together(scheduler, store, jobcalls):
    recorder = EventRecorder(scheduler)
    scheduler.add_job(note, EveryOtherMinute(START + timedelta(minutes=1)), id="job")
    scheduler.advance("10m")
    assert len(jobcalls) == 5
    assert len(recorder.of(EVENT_JOB_EXECUTED, "job")) == 5
    assert store.lookup_job("job").next_run_time == START + timedelta(minutes=11)


def test_the_store_keeps_jobs_as_copies_and_handles_show_what_is_stored(scheduler, store):
    job = scheduler.add_job(note, "interval", hours=1, id="job", args=[1], kwargs={})
    assert store.lookup_job("job") is not job
    assert store.lookup_job("job").args == (1,)
    job.modify(name="other")
    assert (job.name, store.lookup_job("job").name) == ("other", "other")
    job.pause()
    assert store.lookup_job("job").next_run_time is None
    job.resume()
    assert store.lookup_job("job").next_run_time == START + timedelta(hours=1)
    job.reschedule("interval", minutes=5)
    assert store.lookup_job("job").next_run_time == START + timedelta(minutes=5)
    job.remove()
    assert store.rows == {}


def test_conflicts_and_unknown_ids_are_errors_of_the_store(scheduler):
    scheduler.add_job(note, "interval", hours=1, id="job")
    with pytest.raises(ConflictingIdError):
        scheduler.add_job(note, "interval", hours=1, id="job")
    with pytest.raises(JobLookupError):
        scheduler.remove_job("other")
    replaced = scheduler.add_job(note, "interval", hours=1, id="job", args=["new"], replace_existing=True)
    assert scheduler.get_job("job").args == replaced.args == ("new",)


def test_what_the_store_cannot_keep_is_refused_at_the_call(scheduler, store):
    for func in (lambda: None, Callable()):
        with pytest.raises(ValueError, match=r"(?i)callable|reference|serializ"):
            scheduler.add_job(func, "interval", hours=1, id="bad")
    assert store.rows == {}


class Callable:
    def __call__(self):
        return None


def test_paused_jobs_come_last_in_the_list(scheduler):
    scheduler.add_job(note, "interval", hours=2, id="later")
    scheduler.add_job(note, "interval", hours=1, id="sooner")
    scheduler.add_job(note, "interval", hours=1, id="paused", next_run_time=None)
    assert [job.id for job in scheduler.get_jobs()] == ["sooner", "later", "paused"]


def test_a_date_job_is_removed_from_the_store_after_its_run(scheduler, store, jobcalls):
    recorder = EventRecorder(scheduler)
    scheduler.add_job(note, "date", run_date=START + timedelta(seconds=5), id="job")
    scheduler.advance(5)
    assert jobcalls == ["called"]
    assert store.rows == {}
    assert recorder.of(EVENT_JOB_REMOVED, "job")


def test_missed_firings_are_coalesced_and_counted(scheduler, store, jobcalls):
    scheduler.add_job(note, EveryOtherMinute(START), id="job")
    scheduler.run_due()
    scheduler.clock.advance(3600)
    scheduler.run_due()
    assert len(jobcalls) == 2
    assert store.history(HistoryQuery("job"))[0].coalesced == 29


def test_the_trigger_that_ends_removes_its_job(scheduler, store, jobcalls):
    scheduler.add_job(note, EveryOtherMinute(START, limit=START + timedelta(minutes=5)), id="job")
    scheduler.advance("1h")
    assert len(jobcalls) == 3
    assert store.rows == {}


def test_the_trigger_shows_in_the_text_of_the_job_and_can_be_previewed(scheduler):
    trigger = EveryOtherMinute(START)
    job = scheduler.add_job(note, trigger, id="job")
    assert "every other minute" in str(job)
    assert trigger.preview(2, after=START) == [START, START + timedelta(minutes=2)]
    assert trigger.explain() == "every other minute"


def test_the_executor_reports_failures(scheduler):
    recorder = EventRecorder(scheduler)
    scheduler.add_job("behaviour_doubles:within", "date", run_date=START, args=[1, "no function"], id="job")
    scheduler.run_due()
    (event,) = recorder.of(EVENT_JOB_ERROR, "job")
    assert isinstance(event.exception, TypeError)


def test_an_executor_that_reports_from_its_own_threads_serves_a_background_scheduler(schedulers, jobcalls):
    scheduler = schedulers(jobstores={"default": PickledStore()}, executors={"default": ThreadPerJobExecutor()})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    for number in range(20):
        scheduler.add_job(note, id=str(number), args=[number])
    for number in range(20):
        recorder.wait_for(EVENT_JOB_EXECUTED, str(number), timeout=60)
    scheduler.shutdown()
    assert sorted(jobcalls) == list(range(20))


def test_max_instances_holds_for_the_executor_of_the_user(schedulers):
    release = threading.Event()

    class Slow(ThreadPerJobExecutor):
        def _do_submit_job(self, job, run_times):
            thread = threading.Thread(target=self._wait_and_report, args=(job,))
            self.threads.append(thread)
            thread.start()

        def _wait_and_report(self, job):
            release.wait(60)
            self._run_job_success(job.id, [])

    scheduler = schedulers(ManualScheduler, jobstores={"default": PickledStore()}, executors={"default": Slow()})
    scheduler.start()
    scheduler.add_job(note, "interval", seconds=1, id="job", max_instances=2)
    for _ in range(5):
        scheduler.clock.advance(1)
        scheduler._process_jobs()
    assert len(scheduler.engine.stores["default"].live_runs("job")) == 2
    release.set()
    for thread in scheduler.engine.executors["default"].threads:
        thread.join(60)
    scheduler.engine.settler.settle_reported()
    assert scheduler.engine.stores["default"].live_runs("job") == []


def test_a_store_that_leaves_out_what_it_cannot_read_does_not_stop_the_rest(schedulers, jobcalls):
    class Forgiving(PickledStore):
        def get_all_jobs(self):
            readable = {key: row for key, row in self.rows.items() if row != b"broken"}
            whole, self.rows = self.rows, readable
            try:
                return super().get_all_jobs()
            finally:
                self.rows = whole

    store = Forgiving()
    scheduler = schedulers(ManualScheduler, jobstores={"default": store})
    scheduler.start()
    scheduler.add_job(note, "interval", seconds=10, id="good")
    store.rows["broken"] = b"broken"
    scheduler.advance(20)
    assert len(jobcalls) == 2
    assert "broken" in store.rows


def test_a_run_on_an_executor_in_the_manner_of_apscheduler3_is_ended_by_its_timeout(schedulers):
    class Silent(BaseExecutor):
        """Takes jobs and never tells of them."""

        grace_seconds = 1.0

        def _do_submit_job(self, job, run_times):
            """Nothing comes of it."""

    executor = Silent()
    scheduler = schedulers(ManualScheduler, executors={"default": executor})
    scheduler.start()
    scheduler.add_job(note, "date", run_date=START + timedelta(seconds=1), id="job", timeout=5)
    scheduler.advance(2)
    assert [run.state for run in scheduler.live_runs("job")] == ["running"]
    scheduler.advance(10)
    executor._run_job_success("job", [])
    scheduler.run_due()
    assert [record.outcome.value for record in scheduler.runs("job")] == ["timed out"]


class LoopScheduler(BaseScheduler):
    """A scheduler for an event loop, as a user wrote it after the manual's example."""

    _timer = None

    def _configure(self, config):
        self._loop = config.pop("loop")
        super()._configure(config)

    def shutdown(self, wait=True):
        super().shutdown(wait)
        self._stop_timer()

    def wakeup(self):
        self._loop.call_soon_threadsafe(self._fire)

    def _fire(self):
        self._stop_timer()
        wait = self._process_jobs()
        if wait is not None:
            self._timer = self._loop.call_later(wait, self._fire)

    def _stop_timer(self):
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def test_a_scheduler_that_has_start_shutdown_and_wakeup_runs_jobs_on_its_event_loop():
    async def program():
        loop, ran = asyncio.get_running_loop(), asyncio.Event()
        scheduler = LoopScheduler(loop=loop, timezone="UTC")
        scheduler.add_job(loop.call_soon_threadsafe, args=[ran.set])
        scheduler.start()
        await asyncio.wait_for(ran.wait(), 60)
        ran.clear()
        scheduler.add_job(loop.call_soon_threadsafe, "interval", seconds=0.01, args=[ran.set])
        await asyncio.wait_for(ran.wait(), 60)
        scheduler.shutdown(wait=False)
        assert (scheduler.running, scheduler._timer) == (False, None)

    asyncio.run(program())


class CallingScheduler(BaseScheduler):
    """A scheduler that has its round in ``wakeup`` itself, and notes what that returned."""

    def __init__(self, **options):
        self.waits = []
        super().__init__(**options)

    def wakeup(self):
        self.waits.append(self._process_jobs())


@pytest.fixture
def calling(schedulers):
    return schedulers(CallingScheduler, clock=ManualClock(), executors={"default": DebugExecutor()}, poll_interval=60)


def test_start_and_resume_wake_a_scheduler_for_its_first_round(calling):
    calling.start(paused=True)
    assert calling.waits == []
    calling.resume()
    assert len(calling.waits) == 1


def test_a_round_after_the_shutdown_does_nothing_and_asks_for_no_other(calling, jobcalls):
    calling.start(paused=True)
    calling.add_job(note, next_run_time=START)
    calling.shutdown()
    assert calling._process_jobs() is None
    assert jobcalls == []


def test_a_round_that_is_called_for_inside_a_round_is_put_off(calling):
    inside = []

    def job():
        calling.wakeup()
        inside.append(calling.waits[-1])

    calling.start()
    calling.add_job(job)
    assert inside == [ROUND_GOES_ON]


@pytest.mark.parametrize("base", [InlineExecutor, DebugExecutor, ThreadPoolExecutor])
@pytest.mark.parametrize("method", ["submit_job", "_do_submit_job"])
def test_what_an_executor_does_about_submission_is_done(schedulers, base, method):
    seen = []

    def override(self, job, run_times):
        seen.append((job.id, list(run_times)))
        getattr(base, method)(self, job, run_times)

    executor = type("Counting", (base,), {method: override})()
    scheduler = schedulers(BackgroundScheduler, executors={"default": executor})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(pow, args=[2, 5], id="job", next_run_time=START, misfire_grace_time=None)
    assert recorder.wait_for(EVENT_JOB_EXECUTED, "job").retval == 32
    assert seen == [("job", [START])]
    scheduler.shutdown()  # the thread that has submitted the run may be behind the one that has run it
    assert executor._taken == {}


def test_an_executor_that_has_submit_over_the_methods_of_apscheduler_goes_by_that(schedulers, jobcalls):
    class Both(InlineExecutor):
        def submit(self, run):
            self._report(run, self._attempt(run))

    executor = Both()
    scheduler = schedulers(ManualScheduler, executors={"default": executor})
    scheduler.start()
    scheduler.add_job(note, next_run_time=START)
    scheduler.run_due()
    assert (jobcalls, executor.submitted) == (["called"], [])


def test_an_executor_that_has_enough_of_a_job_skips_the_run(schedulers):
    class Full(DebugExecutor):
        def submit_job(self, job, run_times):
            raise MaxInstancesReachedError(job)

    scheduler = schedulers(ManualScheduler, executors={"default": Full()})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(note, id="job", next_run_time=START)
    scheduler.run_due()
    assert recorder.of(EVENT_JOB_MAX_INSTANCES, "job")[0].scheduled_run_times == [START]
    assert [record.outcome.value for record in scheduler.runs("job")] == ["skipped"]


def test_a_submission_that_is_refused_below_the_methods_of_apscheduler_fails_the_run(schedulers):
    class Full(DebugExecutor):
        def submit(self, run):
            raise OSError("full")

    class Counting(Full):
        def submit_job(self, job, run_times):
            super().submit_job(job, run_times)

    scheduler = schedulers(ManualScheduler, executors={"default": Counting()})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(note, id="job", next_run_time=START)
    scheduler.run_due()
    assert str(recorder.of(EVENT_JOB_ERROR, "job")[0].exception) == "full"
