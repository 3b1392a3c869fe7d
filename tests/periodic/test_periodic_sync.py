"""A store is brought in line with what the code declares, and nothing else in it is touched."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goscheduler.errors import (
    ConflictingIdError,
    InvalidArgument,
    JobLookupError,
    ScheduleConflict,
    SchedulerNotRunningError,
)
from goscheduler.events import EVENT_JOB_ADDED, EVENT_JOB_MODIFIED, EVENT_JOB_REMOVED
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.periodic import (
    FieldChange,
    ListedSchedule,
    Schedule,
    ScheduleChange,
    ScheduleDiff,
    ScheduleRegistry,
    SyncPlan,
    diff_schedules,
    list_schedules,
)
from goscheduler.runs.model import JobState
from goscheduler.testing import EventRecorder, ManualScheduler

UTC = timezone.utc
HOUR = timedelta(hours=1)


@pytest.fixture
def scheduler():
    with ManualScheduler() as scheduler:
        scheduler.register("work", lambda **payload: None)
        scheduler.advance(60)
        yield scheduler


def registry_of(*schedules, name="default"):
    registry = ScheduleRegistry(name)
    for schedule in schedules:
        registry.register(schedule)
    return registry


def hourly(id="hourly", **changes):
    return Schedule(**{"id": id, "cron": "0 * * * *", "job": "work", **changes})


def test_new_schedules_become_jobs(scheduler):
    plan = scheduler.sync(registry_of(hourly(payload={"a": 1}, priority="high", description="d"), hourly("other")))
    assert plan == SyncPlan(
        added=("hourly", "other"), details={"hourly": "every hour (UTC)", "other": "every hour (UTC)"}
    )
    job = scheduler.get_job("hourly")
    assert (job.task, job.kwargs, job.priority, job.description, job.name) == ("work", {"a": 1}, 2, "d", "hourly")
    assert job.tags == ("goscheduler.periodic:default",)
    assert job.next_run_time == datetime(2026, 1, 1, 1, tzinfo=UTC)


def test_an_unchanged_schedule_is_not_written_and_keeps_its_next_run(scheduler):
    scheduler.sync(registry_of(hourly()))
    scheduler.modify_job("hourly", next_run_time=scheduler.clock.now() + timedelta(minutes=7))
    events = EventRecorder(scheduler)
    plan = scheduler.sync(registry_of(hourly(cron="@hourly")))
    assert plan == SyncPlan(unchanged=("hourly",))
    assert plan.is_empty
    assert events.events == []
    assert scheduler.get_job("hourly").next_run_time == scheduler.clock.now() + timedelta(minutes=7)


#: What is changed → what the plan says, and whether the next run is another one.
CHANGES = {
    "cron": ({"cron": "30 * * * *"}, "cron: every hour (UTC) → at minute 30 of every hour (UTC)", True),
    "zone": ({"timezone": "Asia/Kolkata"}, "cron: every hour (UTC) → every hour (Asia/Kolkata)", True),
    "payload": ({"payload": {"n": True}}, "payload", False),
    "task": ({"job": "other"}, "job: work → other", False),
    "priority": ({"priority": 1}, "priority", False),
    "description": ({"description": "new"}, "description", False),
    "options": ({"options": {"timeout": 5, "tags": ["a"]}}, "timeout, tags", False),
}


@pytest.mark.parametrize(("changes", "told", "moved"), CHANGES.values(), ids=CHANGES)
def test_a_changed_schedule_keeps_its_state(scheduler, changes, told, moved):
    scheduler.register("other", lambda **payload: None)
    scheduler.sync(registry_of(hourly(payload={"n": 1})))
    scheduler.advance(3 * HOUR)
    before = scheduler.schedule_state("hourly")
    assert before.run_count == 3
    plan = scheduler.sync(registry_of(hourly(**{"payload": {"n": 1}, **changes})))
    assert (plan.changed, dict(plan.details)) == (("hourly",), {"hourly": told})
    after = scheduler.schedule_state("hourly")
    assert (after.next_run != before.next_run) is moved
    assert dataclasses.replace(after, next_run=before.next_run) == before
    assert scheduler.sync(registry_of(hourly(**{"payload": {"n": 1}, **changes}))).is_empty


def test_what_is_no_longer_declared_is_removed_or_told(scheduler):
    both = registry_of(hourly(), hourly("other"))
    scheduler.sync(both)
    both.unregister("other")
    assert scheduler.sync(both, prune=False) == SyncPlan(unchanged=("hourly",), orphaned=("other",))
    assert scheduler.get_job("other") is not None
    events = EventRecorder(scheduler)
    assert scheduler.sync(both) == SyncPlan(unchanged=("hourly",), removed=("other",))
    assert scheduler.get_job("other") is None
    assert [(event.code, event.job_id) for event in events.events] == [(EVENT_JOB_REMOVED, "other")]


def test_a_dry_run_tells_and_writes_nothing(scheduler):
    scheduler.sync(registry_of(hourly(), hourly("gone")))
    events = EventRecorder(scheduler)
    wanted = registry_of(hourly(priority="low"), hourly("new"))
    plan = scheduler.sync(wanted, dry_run=True, dispatch=print)
    assert (plan.added, plan.changed, plan.removed) == (("new",), ("hourly",), ("gone",))
    assert not plan.is_empty
    assert events.events == []
    assert scheduler.sync(wanted, dry_run=True) == scheduler.sync(wanted)
    assert {event.code for event in events.events} == {EVENT_JOB_ADDED, EVENT_JOB_MODIFIED, EVENT_JOB_REMOVED}


def test_a_plan_is_printed_line_by_line_without_payloads(scheduler):
    scheduler.sync(registry_of(hourly(payload={"password": "hunter2"}), hourly("gone"), hourly("same")))
    wanted = registry_of(hourly(payload={"password": "hunter3"}), hourly("same"), hourly("brand-new", cron="@daily"))
    assert str(scheduler.sync(wanted, dry_run=True)) == (
        "added     brand-new  at 00:00 every day (UTC)\n"
        "changed   hourly     payload\n"
        "removed   gone\n"
        "1 added, 1 changed, 1 unchanged, 1 removed"
    )


def test_a_difference_names_every_field_with_what_is_there_and_what_is_declared(scheduler):
    scheduler.sync(registry_of(hourly(payload={"password": "hunter2"}), hourly("gone"), hourly("same"), name="r"))
    options = {"timeout": 5, "tags": ["a"], "executor": "other"}
    scheduler.add_executor("threadpool", "other")
    changed = hourly(
        cron="@daily", payload={"password": "hunter3"}, priority=1, description="d", options=options, enabled=False
    )
    wanted = registry_of(changed, hourly("same"), hourly("new", enabled=False), name="r")
    events = EventRecorder(scheduler)
    diff = diff_schedules(scheduler, wanted)
    whole, hours = ("cron", "job", "enabled"), "every hour (UTC)"
    assert diff == ScheduleDiff(
        "r",
        added=(ScheduleChange("new", tuple(map(FieldChange, whole, [None] * 3, (hours, "work", "False")))),),
        changed=(diff.changed[0],),
        unchanged=("same",),
        removed=(ScheduleChange("gone", tuple(map(FieldChange, whole, (hours, "work")))),),
    )
    assert diff.changed[0].id == "hourly"
    assert {each.field: (each.before, each.after) for each in diff.changed[0].fields} == {
        "cron": ("every hour (UTC)", "at 00:00 every day (UTC)"), "payload": (None, None), "priority": ("5", "1"),
        "description": ("", "d"), "timeout": (None, "5"), "tags": ("", "a"), "executor": ("default", "other"),
        "enabled": ("True", "False"),
    }  # fmt: skip
    assert "hunter" not in repr(diff)
    assert not diff.is_empty
    assert diff_schedules(scheduler, wanted, prune=False).orphaned == diff.removed
    assert events.events == []
    assert set(scheduler.sync(wanted).changed) == {"hourly"}
    assert diff_schedules(scheduler, wanted) == ScheduleDiff("r", unchanged=("hourly", "same", "new"))
    assert diff_schedules(scheduler, wanted).is_empty


def test_a_difference_is_refused_where_a_sync_would_be(scheduler):
    with pytest.raises(SchedulerNotRunningError):
        diff_schedules(ManualScheduler(), registry_of(hourly()))
    scheduler.add_job("work", "interval", hours=1, id="hourly")
    with pytest.raises(ScheduleConflict):
        diff_schedules(scheduler, registry_of(hourly()))
    with pytest.raises(ScheduleConflict):
        diff_schedules(scheduler, registry_of(*(hourly(f"s{number}") for number in range(20)), hourly()))
    with pytest.raises(TypeError, match="dispatch"):
        diff_schedules(scheduler, registry_of(), dispatch=3)


def test_all_schedules_are_listed_with_what_has_become_of_them(scheduler):
    registry = registry_of(hourly(), hourly("gone"), hourly("off", enabled=False))
    scheduler.sync(registry)
    scheduler.add_job("work", "interval", hours=1, id="by-hand")
    scheduler.sync(registry_of(hourly("of-another"), name="another"))
    scheduler.advance(2 * HOUR)
    registry.unregister("gone")
    late = registry.register(hourly("late"))
    assert list_schedules(scheduler, registry) == [
        ListedSchedule("hourly", registry.get("hourly"), scheduler.schedule_state("hourly")),
        ListedSchedule("off", registry.get("off"), scheduler.schedule_state("off")),
        ListedSchedule("late", late, None),
        ListedSchedule("gone", None, scheduler.schedule_state("gone")),
    ]
    assert list_schedules(scheduler, registry)[0].state.run_count == 2
    assert list_schedules(scheduler, registry)[1].state.enabled is False
    assert list_schedules(scheduler, registry, jobstore="elsewhere") == [
        ListedSchedule(one.id, one, None) for one in registry.list()
    ]


def test_before_the_start_there_are_declared_schedules_without_jobs():
    registry = registry_of(hourly())
    assert list_schedules(ManualScheduler(), registry) == [ListedSchedule("hourly", registry.get("hourly"), None)]


def test_jobs_made_by_hand_are_never_touched(scheduler):
    by_hand = scheduler.add_job("work", "interval", hours=1, id="by-hand", tags=["periodic"])
    scheduler.sync(registry_of(hourly()))
    scheduler.sync(ScheduleRegistry())
    assert scheduler.get_jobs() == [by_hand]


def test_an_id_that_a_job_made_by_hand_has_is_an_error_and_nothing_is_written(scheduler):
    scheduler.add_job("work", "interval", hours=1, id="other")
    scheduler.sync(registry_of(hourly("gone")))
    with pytest.raises(ScheduleConflict, match=r"Schedule \(other\) conflicts with a job .* made by hand") as error:
        scheduler.sync(registry_of(hourly(), hourly("other")))
    assert isinstance(error.value, ConflictingIdError)
    assert (error.value.job_id, error.value.made_by) == ("other", "hand")
    assert {job.id for job in scheduler.get_jobs()} == {"other", "gone"}


def test_registries_of_different_names_do_not_touch_each_other(scheduler):
    scheduler.sync(registry_of(hourly("a"), name="billing"))
    scheduler.sync(registry_of(hourly("b"), name="mail"))
    assert scheduler.sync(registry_of(name="mail")).removed == ("b",)
    with pytest.raises(ScheduleConflict, match="made by the schedule registry 'billing'"):
        scheduler.sync(registry_of(hourly("a"), name="mail"))


def test_a_disabled_schedule_is_a_paused_job_that_says_so(scheduler):
    scheduler.sync(registry_of(hourly(enabled=False)))
    state = scheduler.schedule_state("hourly")
    assert (state.enabled, state.next_run, state.run_count) == (False, None, 0)
    assert scheduler.why("hourly") == "It was paused by the schedule registry 'default', where it is disabled."
    assert scheduler.get_job("hourly").state is JobState.PAUSED
    assert scheduler.sync(registry_of(hourly(enabled=False))).is_empty


def test_a_schedule_that_is_disabled_and_enabled_again_keeps_its_state(scheduler):
    scheduler.sync(registry_of(hourly()))
    scheduler.advance(2 * HOUR)
    plan = scheduler.sync(registry_of(hourly(enabled=False)))
    assert dict(plan.details) == {"hourly": "enabled: True → False"}
    scheduler.advance(5 * HOUR)
    assert scheduler.schedule_state("hourly").run_count == 2
    plan = scheduler.sync(registry_of(hourly()))
    assert dict(plan.details) == {"hourly": "enabled: False → True"}
    state = scheduler.schedule_state("hourly")
    assert (state.enabled, state.paused_by, state.run_count) == (True, None, 2)
    assert state.next_run == datetime(2026, 1, 1, 8, tzinfo=UTC)


@pytest.mark.parametrize("changes", [{}, {"cron": "30 * * * *"}, {"enabled": False}])
def test_a_schedule_that_somebody_has_paused_stays_paused(scheduler, changes):
    scheduler.sync(registry_of(hourly()))
    scheduler.pause_job("hourly", by="Ada")
    scheduler.sync(registry_of(hourly(**changes)))
    scheduler.sync(registry_of(hourly()))
    state = scheduler.schedule_state("hourly")
    assert (state.enabled, state.next_run, state.paused_by) == (False, None, "Ada")


def test_a_disabled_schedule_that_somebody_has_resumed_is_paused_by_the_next_sync(scheduler):
    disabled = registry_of(hourly(enabled=False))
    scheduler.sync(disabled)
    scheduler.resume_job("hourly")
    assert scheduler.sync(disabled).changed == ("hourly",)
    assert scheduler.schedule_state("hourly").next_run is None


def test_what_somebody_has_changed_by_hand_is_changed_back(scheduler):
    scheduler.sync(registry_of(hourly(payload={"n": 1})))
    scheduler.modify_job("hourly", kwargs={"n": object()}, priority=9)
    assert dict(scheduler.sync(registry_of(hourly(payload={"n": 1}))).details) == {"hourly": "payload, priority"}
    assert scheduler.get_job("hourly").kwargs == {"n": 1}


def test_the_defaults_of_the_scheduler_hold_for_schedules(scheduler):
    with ManualScheduler(job_defaults={"max_instances": 3}) as other:
        other.register("work", lambda: None)
        other.sync(registry_of(hourly()))
        assert other.get_job("hourly").max_instances == 3
        assert other.sync(registry_of(hourly())).is_empty
        assert other.sync(registry_of(hourly(options={"max_instances": 1}))).changed == ("hourly",)


def test_decorated_functions_are_called_by_the_scheduler_that_syncs(scheduler):
    registry, calls = ScheduleRegistry(), []

    @registry.every("0 * * * *", payload={"to": "Ada"})
    def greet(to):
        calls.append(to)

    scheduler.sync(registry)
    scheduler.advance(2 * HOUR)
    assert calls == ["Ada", "Ada"]
    assert scheduler.sync(registry).is_empty


def test_a_reference_or_a_name_with_dots_can_be_the_task(scheduler):
    scheduler.register("app.tasks.clean", lambda: None)
    scheduler.sync(registry_of(hourly("dots", job="app.tasks.clean"), hourly("reference", job="gc:collect")))
    scheduler.advance(HOUR)
    assert scheduler.schedule_state("dots").last_success is not None
    assert scheduler.schedule_state("reference").last_success is not None


def test_a_payload_that_does_not_fit_the_function_is_an_error_that_names_the_schedule(scheduler):
    scheduler.register("strict", lambda one: None)
    with pytest.raises(InvalidArgument, match=r"schedule 'hourly' cannot be made a job: .*one"):
        scheduler.sync(registry_of(hourly("first"), hourly(job="strict", payload={"two": 2})))
    assert scheduler.get_jobs() == []


def test_a_schedule_of_an_unknown_task_waits_until_it_is_known(scheduler):
    scheduler.sync(registry_of(hourly(job="later")))
    scheduler.advance(2 * HOUR)
    assert scheduler.schedule_state("hourly").suspended == 'no task named "later" is registered here'
    scheduler.register("later", lambda: None)
    scheduler.run_due()
    state = scheduler.schedule_state("hourly")
    assert (state.run_count, state.suspended) == (1, None)


def test_the_state_tells_of_errors_and_successes(scheduler):
    answers = [ValueError("no luck"), None]

    @scheduler.register("luck")
    def luck():
        answer = answers.pop(0)
        if answer:
            raise answer

    scheduler.sync(registry_of(hourly(job="luck")))
    scheduler.advance(HOUR)
    state = scheduler.schedule_state("hourly")
    one = datetime(2026, 1, 1, 1, tzinfo=UTC)
    assert (state.last_run, state.last_success, state.last_error) == (one, None, "ValueError: no luck")
    scheduler.advance(HOUR)
    state = scheduler.schedule_state("hourly")
    assert (state.run_count, state.last_success) == (2, one + HOUR)
    assert (state.next_run, state.last_error) == (one + 2 * HOUR, "ValueError: no luck")


def test_only_schedules_have_a_state_of_schedules(scheduler):
    scheduler.add_job("work", "interval", hours=1, id="by-hand")
    for schedule_id in ("by-hand", "nobody"):
        with pytest.raises(JobLookupError, match=schedule_id):
            scheduler.schedule_state(schedule_id)


def test_before_the_start_a_sync_waits_for_it():
    scheduler = ManualScheduler(jobstores={"default": MemoryJobStore()})
    scheduler.register("work", lambda: None)
    registry = registry_of(hourly())
    plan = scheduler.sync(registry)
    assert plan == SyncPlan(pending=("hourly",))
    assert not plan.is_empty
    with pytest.raises(SchedulerNotRunningError):
        scheduler.sync(registry, dry_run=True)
    with scheduler:
        assert scheduler.sync(registry) == SyncPlan(unchanged=("hourly",))


def test_what_is_wrong_with_a_schedule_is_told_before_the_start():
    scheduler = ManualScheduler()
    scheduler.register("strict", lambda one: None)
    with pytest.raises(InvalidArgument, match="schedule 'hourly'"):
        scheduler.sync(registry_of(hourly(job="strict")))
    with scheduler:
        assert scheduler.get_jobs() == []


def test_a_sync_that_fails_at_the_start_keeps_the_scheduler_from_starting():
    scheduler = ManualScheduler()
    scheduler.register("work", lambda: None)
    scheduler.add_job("work", "interval", hours=1, id="hourly")
    scheduler.sync(registry_of(hourly()))
    with pytest.raises(ScheduleConflict):
        scheduler.start()
    assert not scheduler.running


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        ({"registry": {}}, TypeError, "registry must be a ScheduleRegistry"),
        ({"dispatch": "celery"}, TypeError, "dispatch must be a CeleryDispatch"),
        ({"jobstore": "nowhere"}, KeyError, "No such job store: nowhere"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(scheduler, arguments, error, told):
    with pytest.raises(error, match=told):
        scheduler.sync(**{"registry": registry_of(hourly()), **arguments})
    assert scheduler.get_jobs() == []


class Meddler(MemoryJobStore):
    """A store in which something happens between the reading of the jobs and what is written next."""

    meddle = None

    def find_jobs(self, query):
        found = super().find_jobs(query)
        meddle, self.meddle = self.meddle, None
        if meddle is not None:
            meddle()
        return found


@pytest.fixture
def contested():
    store = Meddler()
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        scheduler.register("work", lambda **payload: None)
        yield scheduler, store


def test_what_another_process_has_added_meanwhile_is_unchanged(contested):
    scheduler, store = contested
    registry = registry_of(hourly("a"), hourly("b"))
    store.meddle = lambda: scheduler.sync(registry_of(hourly("a")))
    assert scheduler.sync(registry) == SyncPlan(
        added=("b",), unchanged=("a",), details={"b": "every hour (UTC)"}
    )


def test_what_another_process_has_removed_meanwhile_is_added_again(contested):
    scheduler, store = contested
    scheduler.sync(registry_of(hourly("a"), hourly("b")))
    store.meddle = lambda: scheduler.sync(registry_of(hourly("a")))
    plan = scheduler.sync(registry_of(hourly("a", priority=1), hourly("b", priority=1), hourly("c")))
    assert plan.changed == ("a",)
    assert plan.added == ("b", "c")
    assert {job.priority for job in scheduler.get_jobs()} == {1, 5}


def test_what_another_process_has_pruned_meanwhile_is_not_told_twice(contested):
    scheduler, store = contested
    scheduler.sync(registry_of(hourly("a")))
    store.meddle = lambda: scheduler.sync(registry_of())
    assert scheduler.sync(registry_of()) == SyncPlan()


def test_a_job_made_by_hand_meanwhile_is_not_overwritten(contested):
    scheduler, store = contested
    scheduler.sync(registry_of(hourly("a")))

    def replace_by_hand():
        scheduler.remove_job("a")
        scheduler.add_job("work", "interval", hours=5, id="a")

    store.meddle = replace_by_hand
    with pytest.raises(ScheduleConflict):
        scheduler.sync(registry_of(hourly("a", priority=1)))
    assert scheduler.get_job("a").tags == ()


IDS = st.sampled_from("abcde")
SCHEDULES = st.builds(
    hourly,
    id=IDS,
    cron=st.sampled_from(["0 * * * *", "@hourly", "*/20 * * * *"]),
    priority=st.sampled_from(["high", "normal"]),
    enabled=st.booleans(),
    payload=st.dictionaries(st.just("n"), st.sampled_from([1, True, None])),
)


@given(st.lists(st.lists(SCHEDULES, max_size=5, unique_by=lambda one: one.id), max_size=6), st.sets(IDS, max_size=2))
def test_after_any_syncs_the_store_has_what_was_declared_last_and_what_was_made_by_hand(declarations, by_hand):
    with ManualScheduler() as scheduler:
        scheduler.register("work", lambda **payload: None)
        for job_id in by_hand:
            scheduler.add_job("work", "interval", hours=7, id=job_id)
        runs, declared = {}, {}
        for schedules in declarations:
            wanted = {one.id: one for one in schedules if one.id not in by_hand}
            plan = scheduler.sync(registry_of(*wanted.values()))
            assert sorted(plan.added) == sorted(wanted.keys() - declared.keys())
            assert sorted(plan.removed) == sorted(declared.keys() - wanted.keys())
            assert sorted((*plan.changed, *plan.unchanged)) == sorted(wanted.keys() & declared.keys())
            assert scheduler.sync(registry_of(*wanted.values())).is_empty
            runs = {job_id: runs.get(job_id, 0) for job_id in wanted}
            for job_id, one in wanted.items():
                state = scheduler.schedule_state(job_id)
                assert (state.run_count, state.enabled) == (runs[job_id], one.enabled)
            before = {job_id: scheduler.schedule_state(job_id).next_run for job_id in wanted}
            scheduler.advance(20 * 60)
            for job_id in wanted:
                fired = before[job_id] is not None and before[job_id] <= scheduler.clock.now()
                counted = scheduler.schedule_state(job_id).run_count
                assert counted > runs[job_id] if fired else counted == runs[job_id]
                runs[job_id] = counted
            declared = wanted
        assert {job.id for job in scheduler.get_jobs()} == declared.keys() | by_hand
