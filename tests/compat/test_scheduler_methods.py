"""What each method of a scheduler does, returns and raises."""

from __future__ import annotations

import io
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from goscheduler.events import (
    EVENT_ALL_JOBS_REMOVED,
    EVENT_EXECUTOR_ADDED,
    EVENT_EXECUTOR_REMOVED,
    EVENT_JOB_ADDED,
    EVENT_JOB_ERROR,
    EVENT_JOB_EXECUTED,
    EVENT_JOB_MODIFIED,
    EVENT_JOB_REMOVED,
    EVENT_JOB_SUBMITTED,
    EVENT_JOBSTORE_ADDED,
    EVENT_JOBSTORE_REMOVED,
    EVENT_SCHEDULER_PAUSED,
    EVENT_SCHEDULER_RESUMED,
    EVENT_SCHEDULER_SHUTDOWN,
    EVENT_SCHEDULER_STARTED,
)
from goscheduler.executors.debug import DebugExecutor
from goscheduler.executors.pool import ThreadPoolExecutor
from goscheduler.job import Job
from goscheduler.jobstores.base import ConflictingIdError, JobLookupError
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.schedulers import SchedulerAlreadyRunningError, SchedulerNotRunningError
from goscheduler.schedulers.base import STATE_PAUSED, STATE_RUNNING, STATE_STOPPED
from goscheduler.testing import EventRecorder, ManualScheduler
from goscheduler.testing.clock import START
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.date import DateTrigger
from goscheduler.triggers.interval import IntervalTrigger

HOUR = timedelta(hours=1)


def noop(*args: Any, **kwargs: Any) -> None:
    pass


def add(scheduler: ManualScheduler, id: str, **options: Any) -> Job:
    return scheduler.add_job(noop, "interval", hours=1, id=id, **options)


# Starting, pausing, stopping


def test_state_and_running_follow_the_life_of_a_scheduler(scheduler: ManualScheduler) -> None:
    seen = [(scheduler.state, scheduler.running)]
    for step in (scheduler.start, scheduler.pause, scheduler.resume, scheduler.shutdown):
        step()
        seen.append((scheduler.state, scheduler.running))
    assert seen == [
        (STATE_STOPPED, False),
        (STATE_RUNNING, True),
        (STATE_PAUSED, True),
        (STATE_RUNNING, True),
        (STATE_STOPPED, False),
    ]


def test_the_life_of_a_scheduler_is_told_in_apschedulers_order(
    scheduler: ManualScheduler, recorder: EventRecorder
) -> None:
    add(scheduler, "a")
    scheduler.start()
    scheduler.pause()
    scheduler.pause()
    scheduler.resume()
    scheduler.resume()
    scheduler.shutdown()
    assert recorder.codes == [
        EVENT_EXECUTOR_ADDED, EVENT_JOBSTORE_ADDED, EVENT_JOB_ADDED, EVENT_SCHEDULER_STARTED, EVENT_SCHEDULER_PAUSED,
        EVENT_SCHEDULER_RESUMED, EVENT_SCHEDULER_SHUTDOWN,
    ]  # fmt: skip
    assert [event.alias for event in recorder.events[:2]] == ["default", "default"]


@pytest.mark.parametrize("method", ["shutdown", "pause", "resume"])
def test_a_stopped_scheduler_cannot_be_stopped_paused_or_resumed(scheduler: ManualScheduler, method: str) -> None:
    with pytest.raises(SchedulerNotRunningError, match=r"^Scheduler is not running$"):
        getattr(scheduler, method)()


@pytest.mark.parametrize("method", ["start", "configure"])
@pytest.mark.parametrize("paused", [False, True])
def test_a_started_scheduler_cannot_be_started_or_configured(
    scheduler: ManualScheduler, method: str, paused: bool
) -> None:
    scheduler.start(paused)
    with pytest.raises(SchedulerAlreadyRunningError, match=r"^Scheduler is already running$"):
        getattr(scheduler, method)()


def test_a_scheduler_started_paused_fires_only_after_resume(scheduler: ManualScheduler) -> None:
    recorder = EventRecorder(scheduler, EVENT_JOB_EXECUTED)
    add(scheduler, "a")
    scheduler.start(paused=True)
    scheduler.advance("2h")
    assert recorder.events == []
    scheduler.resume()
    scheduler.run_due()
    assert len(recorder.events) == 1


def test_configuring_again_drops_components_and_keeps_pending_jobs_and_listeners(
    scheduler: ManualScheduler, recorder: EventRecorder
) -> None:
    scheduler.add_jobstore("memory", "extra")
    add(scheduler, "a")
    scheduler.configure(timezone="Europe/Berlin", clock=scheduler.clock, event_dispatch="sync")
    scheduler.start()
    assert [job.id for job in scheduler.get_jobs()] == ["a"]
    assert str(scheduler.timezone) == "Europe/Berlin"
    with pytest.raises(KeyError, match="No such job store: extra"):
        scheduler.remove_jobstore("extra")
    assert recorder.of(EVENT_SCHEDULER_STARTED)


# Executors and stores


@pytest.mark.parametrize("started", [False, True])
def test_executors_come_as_instances_or_by_name(scheduler: ManualScheduler, started: bool) -> None:
    if started:
        scheduler.start()
    recorder = EventRecorder(scheduler)
    assert scheduler.add_executor(DebugExecutor(), "one") is None
    assert scheduler.add_executor("threadpool", "two", max_workers="3") is None
    assert scheduler.remove_executor("one") is None
    assert [(event.code, event.alias) for event in recorder.events] == [
        (EVENT_EXECUTOR_ADDED, "one"), (EVENT_EXECUTOR_ADDED, "two"), (EVENT_EXECUTOR_REMOVED, "one"),
    ]  # fmt: skip


@pytest.mark.parametrize("started", [False, True])
def test_stores_come_as_instances_or_by_name(scheduler: ManualScheduler, started: bool) -> None:
    if started:
        scheduler.start()
    recorder = EventRecorder(scheduler)
    assert scheduler.add_jobstore(MemoryJobStore(), "one") is None
    assert scheduler.add_jobstore("memory", "two") is None
    assert scheduler.remove_jobstore("one") is None
    assert [(event.code, event.alias) for event in recorder.events] == [
        (EVENT_JOBSTORE_ADDED, "one"), (EVENT_JOBSTORE_ADDED, "two"), (EVENT_JOBSTORE_REMOVED, "one"),
    ]  # fmt: skip


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize(
    ("method", "value", "error", "text"),
    [
        ("add_executor", "debug", ValueError, 'This scheduler already has an executor by the alias of "taken"'),
        ("add_jobstore", "memory", ValueError, 'This scheduler already has a job store by the alias of "taken"'),
        ("add_executor", 5, TypeError, "Expected an executor instance or a string, got int instead"),
        ("add_jobstore", 5, TypeError, "Expected a job store instance or a string, got int instead"),
        ("add_executor", MemoryJobStore(), TypeError, "Expected an executor instance or a string, got MemoryJobStore"),
        ("add_jobstore", MemoryJobStore, TypeError, "Expected a job store instance or a string, got ABCMeta"),
        ("add_executor", "treadpool", LookupError, 'No executor by the name "treadpool" was found; did you mean'),
        ("add_jobstore", "memori", LookupError, 'No jobstore by the name "memori" was found; did you mean "memory"'),
    ],
)
def test_a_component_that_cannot_be_added_is_refused(
    scheduler: ManualScheduler, started: bool, method: str, value: Any, error: type[Exception], text: str
) -> None:
    scheduler.add_executor("debug", "taken")
    scheduler.add_jobstore("memory", "taken")
    if started:
        scheduler.start()
    with pytest.raises(error) as caught:
        getattr(scheduler, method)(value, "taken")
    assert str(caught.value).startswith(text)


def test_a_misspelt_option_of_a_component_is_answered_with_the_right_one(scheduler: ManualScheduler) -> None:
    with pytest.raises(TypeError, match=r"max_worker.*did you mean 'max_workers'"):
        scheduler.add_executor("threadpool", "pool", max_worker=3)


@pytest.mark.parametrize(
    ("method", "text"),
    [("remove_executor", "No such executor: x"), ("remove_jobstore", "No such job store: x")],
)
def test_removing_an_unknown_component_is_a_key_error(scheduler: ManualScheduler, method: str, text: str) -> None:
    with pytest.raises(KeyError, match=text):
        getattr(scheduler, method)("x")


def test_a_removed_executor_is_shut_down_unless_told_otherwise(running: ManualScheduler) -> None:
    class Watched(ThreadPoolExecutor):
        ended = False

        def shutdown(self, wait: bool = True, timeout: float | None = None) -> None:
            super().shutdown(wait, timeout)
            self.ended = True

    kept, ended = Watched(1), Watched(1)
    running.add_executor(kept, "kept")
    running.add_executor(ended, "ended")
    running.remove_executor("kept", shutdown=False)
    running.remove_executor("ended")
    assert (kept.ended, ended.ended) == (False, True)
    kept.shutdown()


# Listeners


def test_a_listener_hears_what_its_mask_asks_for(running: ManualScheduler) -> None:
    heard: list[int] = []
    running.add_listener(lambda event: heard.append(event.code), EVENT_JOB_ADDED | EVENT_JOB_REMOVED)
    add(running, "a")
    running.modify_job("a", name="x")
    running.remove_job("a")
    assert heard == [EVENT_JOB_ADDED, EVENT_JOB_REMOVED]


def test_a_removed_listener_hears_nothing_and_an_unknown_one_is_fine(running: ManualScheduler) -> None:
    heard: list[int] = []

    def listener(event: Any) -> None:
        heard.append(event.code)

    running.add_listener(listener)
    running.add_listener(listener)
    running.remove_listener(listener)
    running.remove_listener(noop)
    add(running, "a")
    assert heard == []


def test_a_listener_that_raises_does_not_keep_the_event_from_the_others(
    running: ManualScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[int] = []

    def broken(event: Any) -> None:
        raise SystemExit

    running.add_listener(broken)
    running.add_listener(lambda event: heard.append(event.code), EVENT_JOB_ADDED)
    add(running, "a")
    assert heard == [EVENT_JOB_ADDED]
    assert "Error notifying listener" in caplog.text


# Adding jobs


def test_every_argument_of_add_job_can_be_given_by_position(running: ManualScheduler) -> None:
    trigger = IntervalTrigger(hours=1, timezone=timezone.utc)
    when = START + timedelta(days=3)
    running.add_jobstore("memory", "other")
    running.add_executor("debug", "second")
    job = running.add_job(noop, trigger, [1], {"k": 2}, "id", "name", 7, False, 3, when, "other", "second", True)
    assert (job.func, job.args, job.kwargs, job.id, job.name) == (noop, (1,), {"k": 2}, "id", "name")
    assert (job.misfire_grace_time, job.coalesce, job.max_instances) == (7, False, 3)
    assert (job.next_run_time, job.executor) == (when, "second")
    assert running.get_job("id", "other") is not None
    assert running.get_job("id", "default") is None


@pytest.mark.parametrize(
    ("trigger", "args", "expected"),
    [
        (None, {}, DateTrigger),
        ("date", {"run_date": "2026-05-01"}, DateTrigger),
        ("interval", {"minutes": 5}, IntervalTrigger),
        ("cron", {"hour": "*/3"}, CronTrigger),
        (CronTrigger(hour=3), {}, CronTrigger),
    ],
)
def test_a_trigger_comes_as_an_instance_by_name_or_not_at_all(
    running: ManualScheduler, trigger: Any, args: dict[str, Any], expected: type
) -> None:
    assert type(running.add_job(noop, trigger, **args).trigger) is expected


def test_the_and_or_triggers_can_be_named(running: ManualScheduler) -> None:
    """APScheduler 3 fails here: it hands them a time zone."""
    triggers = [CronTrigger(hour=3, timezone="UTC"), CronTrigger(day_of_week="mon", hour=3, timezone="UTC")]
    assert str(running.add_job(noop, "or", triggers=triggers).trigger).startswith("or[cron[hour='3']")
    assert str(running.add_job(noop, "and", triggers=triggers).trigger).startswith("and[cron[hour='3']")


def test_a_named_trigger_takes_the_zone_of_the_scheduler_unless_given_one() -> None:
    with ManualScheduler(timezone="Asia/Tokyo") as scheduler:
        own = scheduler.add_job(noop, "cron", hour=3)
        given = scheduler.add_job(noop, "cron", hour=3, timezone="Europe/Berlin")
    assert str(own.trigger.timezone) == "Asia/Tokyo"
    assert str(given.trigger.timezone) == "Europe/Berlin"


def test_no_trigger_means_once_and_now(running: ManualScheduler) -> None:
    recorder = EventRecorder(running, EVENT_JOB_EXECUTED | EVENT_JOB_REMOVED)
    job = running.add_job(noop)
    assert job.next_run_time is not None
    running.advance("1s")
    assert sorted(recorder.codes) == [EVENT_JOB_REMOVED, EVENT_JOB_EXECUTED]
    assert running.get_jobs() == []


def test_no_trigger_goes_by_the_clock_of_the_scheduler(running: ManualScheduler) -> None:
    assert running.add_job(noop).next_run_time == START


def test_args_and_kwargs_are_copied(running: ManualScheduler) -> None:
    args, kwargs = [1], {"k": 2}
    job = running.add_job(noop, "interval", args, kwargs, hours=1)
    args.append(2)
    kwargs["other"] = 3
    assert (job.args, job.kwargs) == ((1,), {"k": 2})


def test_next_run_time_overrides_the_first_run_and_none_adds_the_job_paused(running: ManualScheduler) -> None:
    when = START + timedelta(minutes=5)
    assert add(running, "a", next_run_time=when).next_run_time == when
    assert add(running, "b", next_run_time=None).next_run_time is None
    assert add(running, "c", next_run_time="2026-01-01 00:07:00").next_run_time == START + timedelta(minutes=7)


def test_an_id_that_is_taken_is_refused_and_nothing_changes(running: ManualScheduler) -> None:
    first = add(running, "a")
    with pytest.raises(ConflictingIdError, match=r"^Job identifier \(a\) conflicts with an existing job$"):
        running.add_job(noop, "cron", hour=1, id="a")
    assert [job.trigger for job in running.get_jobs()] == [first.trigger]


def test_replacing_changes_the_definition_and_tells_of_an_added_job(running: ManualScheduler) -> None:
    add(running, "a", name="old")
    recorder = EventRecorder(running)
    running.add_job(noop, "cron", hour=1, id="a", name="new", replace_existing=True)
    [job] = running.get_jobs()
    assert (job.name, str(job.trigger)) == ("new", "cron[hour='1']")
    assert recorder.codes == [EVENT_JOB_ADDED]


def test_replacing_with_the_same_schedule_keeps_the_next_run_time(running: ManualScheduler) -> None:
    """APScheduler 3 starts the interval afresh, so one that is longer than a deployment never fires."""
    first = add(running, "a").next_run_time
    running.advance("50m")
    assert add(running, "a", replace_existing=True).next_run_time == first


def test_an_unknown_store_is_refused_at_once_while_running(running: ManualScheduler) -> None:
    with pytest.raises(KeyError, match="No such job store: nowhere"):
        add(running, "a", jobstore="nowhere")
    assert running.get_jobs() == []


def test_job_defaults_hold_for_options_that_were_not_given() -> None:
    defaults = {"misfire_grace_time": 30, "coalesce": False, "max_instances": 4}
    with ManualScheduler(job_defaults=defaults) as scheduler:
        job = add(scheduler, "a")
        other = add(scheduler, "b", misfire_grace_time=None, coalesce=True, max_instances=1)
    assert (job.misfire_grace_time, job.coalesce, job.max_instances) == (30, False, 4)
    assert (other.misfire_grace_time, other.coalesce, other.max_instances) == (None, True, 1)


def test_without_defaults_a_late_run_runs_coalesced_and_alone(running: ManualScheduler) -> None:
    job = add(running, "a")
    assert (job.misfire_grace_time, job.coalesce, job.max_instances, job.executor) == (None, True, 1, "default")


def test_a_textual_reference_is_resolved(running: ManualScheduler) -> None:
    job = running.add_job("math:sqrt", "interval", args=[4], hours=1)
    assert (job.func(4), job.func_ref, job.name) == (2.0, "math:sqrt", "sqrt")


def test_references_to_apscheduler_lead_to_our_modules(running: ManualScheduler) -> None:
    job = running.add_job("apscheduler.util:asbool", "interval", args=["yes"], hours=1)
    assert job.func.__module__ == "goscheduler.util"


# The decorator


def test_scheduled_job_returns_the_function_itself_and_replaces(scheduler: ManualScheduler) -> None:
    def tick() -> None:
        pass

    assert scheduler.scheduled_job("interval", id="a", hours=1)(tick) is tick
    assert scheduler.scheduled_job("interval", id="a", hours=2)(tick) is tick
    assert [str(job.trigger) for job in scheduler.get_jobs()] == ["interval[2:00:00]"]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"replace_existing": True}, "interval[2:00:00]"),
        ({"if_exists": "replace"}, "interval[2:00:00]"),
        ({"if_exists": "keep"}, "interval[1:00:00]"),
    ],
)
def test_scheduled_job_can_be_told_what_to_do_about_a_taken_id(
    running: ManualScheduler, given: dict[str, Any], kept: str
) -> None:
    for hours in (1, 2):
        running.scheduled_job("interval", id="a", hours=hours, **given)(noop)
    assert [str(job.trigger) for job in running.get_jobs()] == [kept]


@pytest.mark.parametrize("given", [{"replace_existing": False}, {"if_exists": "error"}])
def test_scheduled_job_can_be_told_to_refuse_a_taken_id(running: ManualScheduler, given: dict[str, Any]) -> None:
    running.scheduled_job("interval", id="a", hours=1)(noop)
    with pytest.raises(ConflictingIdError):
        running.scheduled_job("interval", id="a", hours=2, **given)(noop)


def test_every_argument_of_scheduled_job_can_be_given_by_position(running: ManualScheduler) -> None:
    when = START + timedelta(days=3)
    arguments = ("interval", [1], {"k": 2}, "id", "name", 7, False, 3, when, "default", "default")
    running.scheduled_job(*arguments, hours=1)(noop)
    job = running.get_job("id")
    assert job is not None
    assert (job.args, job.kwargs, job.name, job.misfire_grace_time) == ((1,), {"k": 2}, "name", 7)
    assert (job.coalesce, job.max_instances, job.next_run_time) == (False, 3, when)


def test_the_decorator_calls_add_job_of_a_subclass() -> None:
    class Counting(ManualScheduler):
        calls = 0

        def add_job(self, *args: Any, **kwargs: Any) -> Job:
            self.calls += 1
            return super().add_job(*args, **kwargs)

    scheduler = Counting()
    scheduler.scheduled_job("interval", hours=1)(noop)
    assert scheduler.calls == 1


# Pending jobs


def test_a_job_added_while_stopped_is_pending_and_silent(scheduler: ManualScheduler, recorder: EventRecorder) -> None:
    job = add(scheduler, "a")
    assert job.pending
    assert recorder.events == []
    assert scheduler.get_jobs() == [job]
    assert scheduler.get_job("a") is job
    assert str(job) == "noop (trigger: interval[1:00:00], pending)"


@pytest.mark.parametrize("attribute", ["misfire_grace_time", "coalesce", "max_instances", "next_run_time"])
def test_what_was_left_open_does_not_exist_on_a_pending_job_until_the_start(
    scheduler: ManualScheduler, attribute: str
) -> None:
    job = add(scheduler, "a")
    assert not hasattr(job, attribute)
    scheduler.start()
    assert hasattr(job, attribute)


def test_what_was_given_exists_on_a_pending_job(scheduler: ManualScheduler) -> None:
    when = START + HOUR
    job = add(scheduler, "a", misfire_grace_time=3, coalesce=False, max_instances=2, next_run_time=when)
    assert (job.misfire_grace_time, job.coalesce, job.max_instances, job.next_run_time) == (3, False, 2, when)


def test_the_start_puts_pending_jobs_into_their_stores(scheduler: ManualScheduler, recorder: EventRecorder) -> None:
    scheduler.add_jobstore("memory", "other")
    job = add(scheduler, "a", jobstore="other")
    scheduler.start()
    assert not job.pending
    assert scheduler.get_job("a", "other") is not None
    assert job.next_run_time == START + HOUR
    [event] = recorder.of(EVENT_JOB_ADDED)
    assert (event.job_id, event.jobstore) == ("a", "other")


def test_a_pending_job_can_be_changed_paused_rescheduled_and_removed(scheduler: ManualScheduler) -> None:
    job = add(scheduler, "a")
    assert job.modify(name="other") is job
    assert job.reschedule("interval", hours=3) is job
    assert scheduler.pause_job("a") is job
    assert str(job) == "other (trigger: interval[3:00:00], paused)"
    assert scheduler.resume_job("a") is job
    job.remove()
    assert scheduler.get_jobs() == []
    with pytest.raises(JobLookupError):
        job.remove()


def test_a_paused_pending_job_stays_paused_after_the_start(scheduler: ManualScheduler) -> None:
    job = add(scheduler, "a")
    job.pause()
    scheduler.start()
    assert job.next_run_time is None


def test_rescheduling_a_paused_job_lets_it_run_again_before_the_start_too(scheduler: ManualScheduler) -> None:
    pending = add(scheduler, "pending")
    pending.pause()
    pending.reschedule("interval", hours=2)
    scheduler.start()
    running = add(scheduler, "running")
    running.pause()
    running.reschedule("interval", hours=2)
    assert pending.next_run_time == running.next_run_time == START + 2 * HOUR


def test_a_modified_pending_job_is_told_without_a_store(scheduler: ManualScheduler, recorder: EventRecorder) -> None:
    add(scheduler, "a").modify(name="other")
    [event] = recorder.events
    assert (event.code, event.job_id, event.jobstore) == (EVENT_JOB_MODIFIED, "a", None)


def test_options_changed_while_pending_survive_the_start(scheduler: ManualScheduler) -> None:
    job = add(scheduler, "a")
    job.modify(max_instances=5, misfire_grace_time=9, coalesce=False)
    scheduler.start()
    stored = scheduler.get_job("a")
    assert stored is not None
    assert (stored.max_instances, stored.misfire_grace_time, stored.coalesce) == (5, 9, False)


def test_a_pending_job_for_an_unknown_store_stops_the_start_and_leaves_nothing_half_started(
    scheduler: ManualScheduler,
) -> None:
    add(scheduler, "good")
    bad = add(scheduler, "bad", jobstore="nowhere")
    with pytest.raises(KeyError, match="No such job store: nowhere"):
        scheduler.start()
    assert not scheduler.running
    bad.remove()
    scheduler.start()
    assert [job.id for job in scheduler.get_jobs()] == ["good"]


def test_two_pending_jobs_cannot_share_an_id_unless_one_replaces_the_other(scheduler: ManualScheduler) -> None:
    """APScheduler 3 takes both and then cannot start any more."""
    add(scheduler, "a")
    with pytest.raises(ConflictingIdError):
        add(scheduler, "a")
    add(scheduler, "a", name="second", replace_existing=True)
    scheduler.start()
    assert [job.name for job in scheduler.get_jobs()] == ["second"]


def test_pending_jobs_of_different_stores_may_share_an_id(scheduler: ManualScheduler) -> None:
    scheduler.add_jobstore("memory", "other")
    add(scheduler, "a")
    add(scheduler, "a", jobstore="other")
    scheduler.start()
    assert [job.id for job in scheduler.get_jobs()] == ["a", "a"]


def test_the_handle_of_a_pending_job_changes_that_job_and_no_other(scheduler: ManualScheduler) -> None:
    scheduler.add_jobstore("memory", "other")
    first = add(scheduler, "a", name="first")
    second = add(scheduler, "a", name="second", jobstore="other")
    second.modify(name="changed")
    assert (first.name, second.name) == ("first", "changed")
    second.remove()
    assert scheduler.get_jobs() == [first]
    assert scheduler.get_jobs()[0].name == "first"


def test_jobs_added_after_a_shutdown_wait_for_the_next_start(scheduler: ManualScheduler) -> None:
    scheduler.start()
    scheduler.shutdown()
    job = add(scheduler, "a")
    assert job.pending
    scheduler.start()
    assert [job.id for job in scheduler.get_jobs()] == ["a"]


# Changing, pausing, resuming


def test_modify_job_returns_the_job_and_tells(running: ManualScheduler) -> None:
    add(running, "a")
    recorder = EventRecorder(running)
    job = running.modify_job("a", name="other", max_instances=3)
    assert (job.id, job.name, job.max_instances) == ("a", "other", 3)
    [event] = recorder.events
    assert (event.code, event.job_id, event.jobstore) == (EVENT_JOB_MODIFIED, "a", "default")


def test_reschedule_job_computes_the_next_run_from_now(running: ManualScheduler) -> None:
    add(running, "a")
    running.advance("10m")
    job = running.reschedule_job("a", trigger="interval", minutes=30)
    assert job.next_run_time == START + timedelta(minutes=40)
    assert str(job.trigger) == "interval[0:30:00]"


def test_reschedule_job_takes_the_trigger_by_position_too(running: ManualScheduler) -> None:
    add(running, "a")
    assert str(running.reschedule_job("a", "default", "cron", hour=5).trigger) == "cron[hour='5']"


def test_modifying_the_trigger_computes_a_new_next_run_time(running: ManualScheduler) -> None:
    """APScheduler 3 keeps the old one."""
    add(running, "a")
    job = running.modify_job("a", trigger=IntervalTrigger(minutes=5, timezone=timezone.utc))
    assert job.next_run_time == START + timedelta(minutes=5)


def test_pause_and_resume_return_the_job_and_resume_counts_from_now(running: ManualScheduler) -> None:
    add(running, "a")
    assert running.pause_job("a").next_run_time is None
    running.advance("4h30m")
    resumed = running.resume_job("a")
    assert resumed is not None
    assert resumed.next_run_time == START + 5 * HOUR


def test_resuming_a_job_whose_trigger_has_ended_removes_it(running: ManualScheduler) -> None:
    job = running.add_job(noop, "interval", hours=1, end_date=START + 3 * HOUR, id="a")
    job.pause()
    running.advance("5h")
    recorder = EventRecorder(running)
    assert running.resume_job("a") is None
    assert running.get_job("a") is None
    assert EVENT_JOB_REMOVED in recorder.codes


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("modify_job", {"name": "x"}),
        ("reschedule_job", {"trigger": "interval", "hours": 1}),
        ("pause_job", {}),
        ("resume_job", {}),
        ("remove_job", {}),
    ],
)
@pytest.mark.parametrize("place", [("nobody", None), ("a", "nowhere")])
def test_an_unknown_job_or_store_is_a_lookup_error(
    scheduler: ManualScheduler, started: bool, method: str, arguments: dict[str, Any], place: tuple[str, str | None]
) -> None:
    add(scheduler, "a")
    if started:
        scheduler.start()
    with pytest.raises(JobLookupError, match=rf"^No job by the id of {place[0]} was found$") as caught:
        getattr(scheduler, method)(*place, **arguments)
    assert isinstance(caught.value, KeyError)


# Finding and removing


@pytest.mark.parametrize("started", [False, True])
def test_get_job_and_get_jobs_answer_unknown_names_with_nothing(scheduler: ManualScheduler, started: bool) -> None:
    add(scheduler, "a")
    if started:
        scheduler.start()
    assert scheduler.get_job("nobody") is None
    assert scheduler.get_job("a", "nowhere") is None
    assert scheduler.get_jobs("nowhere") == []
    assert scheduler.get_jobs("default") == scheduler.get_jobs()


def test_the_pending_argument_of_get_jobs_is_taken_with_a_warning(scheduler: ManualScheduler) -> None:
    job = add(scheduler, "a")
    with pytest.warns(DeprecationWarning, match="pending"):
        assert scheduler.get_jobs(pending=True) == [job]


def test_jobs_are_listed_by_next_run_time_with_paused_ones_last(running: ManualScheduler) -> None:
    add(running, "late", next_run_time=START + 3 * HOUR)
    add(running, "paused", next_run_time=None)
    add(running, "early", next_run_time=START + HOUR)
    assert [job.id for job in running.get_jobs()] == ["early", "late", "paused"]


def test_remove_job_tries_the_stores_in_order(running: ManualScheduler) -> None:
    running.add_jobstore("memory", "other")
    add(running, "a", jobstore="other")
    recorder = EventRecorder(running)
    assert running.remove_job("a") is None
    [event] = recorder.events
    assert (event.code, event.job_id, event.jobstore) == (EVENT_JOB_REMOVED, "a", "other")


@pytest.mark.parametrize(("store", "left"), [(None, []), ("other", ["a"]), ("nowhere", ["a", "b"])])
@pytest.mark.parametrize("started", [False, True])
def test_remove_all_jobs_empties_one_store_or_all(
    scheduler: ManualScheduler, started: bool, store: str | None, left: list[str]
) -> None:
    scheduler.add_jobstore("memory", "other")
    add(scheduler, "a")
    add(scheduler, "b", jobstore="other")
    if started:
        scheduler.start()
    recorder = EventRecorder(scheduler)
    assert scheduler.remove_all_jobs(store) is None
    assert sorted(job.id for job in scheduler.get_jobs()) == left
    [event] = recorder.events
    assert (event.code, event.alias) == (EVENT_ALL_JOBS_REMOVED, store)


# Printing


def _printed(scheduler: ManualScheduler, store: str | None = None) -> str:
    out = io.StringIO()
    assert scheduler.print_jobs(store, out) is None
    return out.getvalue()


def test_pending_jobs_are_printed_under_their_heading(scheduler: ManualScheduler) -> None:
    assert _printed(scheduler) == "Pending jobs:\n    No pending jobs\n"
    add(scheduler, "a")
    assert _printed(scheduler) == "Pending jobs:\n    noop (trigger: interval[1:00:00], pending)\n"
    assert _printed(scheduler, "nowhere") == "Pending jobs:\n    No pending jobs\n"


def test_stored_jobs_are_printed_by_store_in_alphabetical_order(running: ManualScheduler) -> None:
    running.add_jobstore("memory", "a_store")
    add(running, "one")
    add(running, "two", name="second", next_run_time=None)
    assert _printed(running) == (
        "Jobstore a_store:\n    No scheduled jobs\n"
        "Jobstore default:\n"
        "    noop (trigger: interval[1:00:00], next run at: 2026-01-01 01:00:00 UTC)\n"
        "    second (trigger: interval[1:00:00], paused)\n"
    )
    assert _printed(running, "a_store") == "Jobstore a_store:\n    No scheduled jobs\n"


def test_jobs_are_printed_to_standard_output_unless_told_otherwise(
    scheduler: ManualScheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    scheduler.print_jobs()
    assert capsys.readouterr().out == "Pending jobs:\n    No pending jobs\n"


# What a listener is told of a run


def test_a_run_is_told_with_its_result_or_its_error(running: ManualScheduler) -> None:
    recorder = EventRecorder(running, EVENT_JOB_EXECUTED | EVENT_JOB_ERROR)
    running.add_job("math:sqrt", "date", args=[9], id="good", run_date=START + HOUR)
    running.add_job("math:sqrt", "date", args=[-1], id="bad", run_date=START + 2 * HOUR)
    running.advance("3h")
    good, bad = recorder.events
    assert (good.code, good.job_id, good.jobstore, good.retval) == (EVENT_JOB_EXECUTED, "good", "default", 3.0)
    assert (good.exception, good.traceback) == (None, None)
    assert (good.scheduled_run_time, bad.scheduled_run_time) == (START + HOUR, START + 2 * HOUR)
    assert (bad.code, bad.job_id, bad.retval) == (EVENT_JOB_ERROR, "bad", None)
    assert isinstance(bad.exception, ValueError)
    assert isinstance(bad.traceback, str)


def test_scheduled_run_times_are_aware_datetimes_in_the_zone_of_the_trigger() -> None:
    with ManualScheduler(timezone="Asia/Tokyo") as scheduler:
        recorder = EventRecorder(scheduler, EVENT_JOB_SUBMITTED | EVENT_JOB_EXECUTED)
        scheduler.add_job(noop, "interval", hours=1, id="a")
        scheduler.advance("1h")
        submitted, executed = recorder.events
    assert submitted.scheduled_run_times == [executed.scheduled_run_time]
    assert isinstance(executed.scheduled_run_time, datetime)
    assert str(executed.scheduled_run_time.tzinfo) == "Asia/Tokyo"
