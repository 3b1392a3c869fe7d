"""The Job that users hold in their hands: attributes, checks, methods, texts, and how it is serialized."""

from __future__ import annotations

import copy
import functools
import pickle
import weakref
from datetime import date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from goscheduler.job import Job
from goscheduler.testing import EventRecorder, ManualScheduler
from goscheduler.testing.clock import START
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.date import DateTrigger
from goscheduler.triggers.interval import IntervalTrigger

HOUR = timedelta(hours=1)


def noop(*args: Any, **kwargs: Any) -> None:
    pass


def strict(first: int, second: int = 2, *, flag: bool = False) -> None:
    pass


class Service:
    def __init__(self, name: str = "x") -> None:
        self.name = name

    def method(self, number: int) -> None:
        pass

    @classmethod
    def by_class(cls, number: int) -> None:
        pass

    @staticmethod
    def static(number: int) -> None:
        pass

    def __call__(self) -> None:
        pass


def add(scheduler: ManualScheduler, func: Any = noop, **options: Any) -> Job:
    return scheduler.add_job(func, "interval", hours=1, **{"id": "a", **options})


# Attributes


def test_a_job_has_the_attributes_of_apschedulers(running: ManualScheduler) -> None:
    job = add(running, args=[1], kwargs={"k": 2})
    assert (job.id, job.name, job.func, job.func_ref) == ("a", "noop", noop, f"{__name__}:noop")
    assert (job.args, job.kwargs, job.executor) == ((1,), {"k": 2}, "default")
    assert isinstance(job.trigger, IntervalTrigger)
    assert job.next_run_time == START + HOUR
    assert not job.pending


def test_a_job_tells_its_store_while_it_waits_and_when_it_is_in_there(scheduler: ManualScheduler) -> None:
    scheduler.add_jobstore("memory", "other")
    job = add(scheduler, jobstore="other")
    assert (job.jobstore, job.pending) == ("other", True)
    scheduler.start()
    assert (job.jobstore, job.pending) == ("other", False)
    with pytest.raises(AttributeError):
        job.jobstore = "default"  # type: ignore[misc]


def test_an_id_that_is_not_given_is_made_up(running: ManualScheduler) -> None:
    first, second = running.add_job(noop, "interval", hours=1), running.add_job(noop, "interval", hours=1)
    assert first.id != second.id
    assert len(first.id) == 32
    assert int(first.id, 16)
    assert first.id[:14] <= second.id[:14], "indexes in the order of ids have jobs together that were added together"


@pytest.mark.parametrize(
    ("func", "name"),
    [
        (noop, "noop"),
        (Service().method, "Service.method"),
        (Service.by_class, "Service.by_class"),
        (Service.static, "Service.static"),
        (Service(), "Service"),
        (functools.partial(noop, 1), "noop"),
        (Service, "Service"),
    ],
)
def test_a_name_that_is_not_given_is_the_callables(running: ManualScheduler, func: Any, name: str) -> None:
    args = [1] if name.startswith("Service.") else []
    assert add(running, func, args=args).name == name


@pytest.mark.parametrize("func", [lambda: None, functools.partial(noop), Service()])
def test_a_callable_without_a_reference_is_fine_in_memory(running: ManualScheduler, func: Any) -> None:
    assert add(running, func).func_ref is None


def test_a_job_can_be_referenced_weakly_and_takes_no_new_attributes(running: ManualScheduler) -> None:
    job = add(running)
    assert weakref.ref(job)() is job
    with pytest.raises(AttributeError):
        job.colour = "red"  # type: ignore[attr-defined]
    del job.next_run_time
    assert not hasattr(job, "next_run_time")


def test_jobs_are_equal_by_id_and_only_to_jobs(scheduler: ManualScheduler) -> None:
    one = Job(scheduler, "a", func=noop, args=(), kwargs={}, name="one", trigger=DateTrigger(START))
    two = Job(scheduler, "a", func=strict, args=(1,), kwargs={}, name="two", trigger=DateTrigger(START))
    other = Job(scheduler, "b", func=noop, args=(), kwargs={}, name="one", trigger=DateTrigger(START))
    assert one == two
    assert one != other
    assert one != "a"
    assert len({one, two, other}) == 2


# What is refused

REFUSALS = [
    ({"func": 5}, TypeError, "func must be a callable or a textual reference to one"),
    ({"func": None}, TypeError, "func must be a callable or a textual reference to one"),
    ({"func": "no_such_module:func"}, LookupError, "Error resolving reference no_such_module:func"),
    ({"func": f"{__name__}:nobody"}, LookupError, f"Error resolving reference {__name__}:nobody"),
    ({"func": "no.colon"}, ValueError, "Invalid reference"),
    ({"args": "text"}, TypeError, "args must be a non-string iterable"),
    ({"args": 5}, TypeError, "args must be a non-string iterable"),
    ({"kwargs": "text"}, TypeError, "kwargs must be a dict-like object"),
    ({"kwargs": [1]}, TypeError, "kwargs must be a dict-like object"),
    ({"name": ""}, TypeError, "name must be a nonempty string"),
    ({"name": 5}, TypeError, "name must be a nonempty string"),
    ({"misfire_grace_time": 0}, TypeError, "misfire_grace_time must be either None or a positive integer"),
    ({"misfire_grace_time": -1}, TypeError, "misfire_grace_time must be either None or a positive integer"),
    ({"misfire_grace_time": "soon"}, TypeError, "misfire_grace_time must be either None or a positive integer"),
    ({"max_instances": 0}, TypeError, "max_instances must be a positive integer"),
    ({"max_instances": 1.5}, TypeError, "max_instances must be a positive integer"),
    ({"max_instances": None}, TypeError, "max_instances must be a positive integer"),
    ({"executor": 5}, TypeError, "executor must be a string"),
    ({"next_run_time": 5}, TypeError, "Unsupported type for next_run_time: int"),
    ({"func": strict}, ValueError, "The following arguments have not been supplied: first"),
    ({"func": strict, "args": (1,), "kwargs": {"first": 1}}, ValueError, "supplied in both args and kwargs: first"),
    ({"func": strict, "args": (1, 2, 3)}, ValueError, "The list of positional arguments is longer than"),
    ({"func": strict, "args": (1,), "kwargs": {"x": 1}}, ValueError, "the following keyword arguments: x"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "error", "text"), REFUSALS)
def test_add_job_refuses_what_apscheduler_refuses(
    running: ManualScheduler, arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        running.add_job(**{"func": noop, "trigger": "interval", "hours": 1, **arguments})
    assert text in str(caught.value)
    assert running.get_jobs() == []


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        *REFUSALS,
        ({"name": None}, TypeError, "name must be a nonempty string"),
        ({"id": "b"}, ValueError, "The job ID may not be changed"),
        ({"trigger": "interval"}, TypeError, "Expected a trigger instance, got str instead"),
        ({"trigger": None}, TypeError, "Expected a trigger instance, got NoneType instead"),
        ({"colour": 1}, AttributeError, "The following are not modifiable attributes of Job: colour"),
        ({"colour": 1, "size": 2}, AttributeError, "The following are not modifiable attributes of Job: colour, size"),
        ({"pending": False}, AttributeError, "The following are not modifiable attributes of Job: pending"),
        ({"func_ref": "a:b"}, AttributeError, "The following are not modifiable attributes of Job: func_ref"),
    ],
)
@pytest.mark.parametrize("started", [False, True])
def test_a_refused_change_leaves_the_job_as_it_was(
    scheduler: ManualScheduler, started: bool, changes: dict[str, Any], error: type[Exception], text: str
) -> None:
    job = add(scheduler)
    if started:
        scheduler.start()
    recorder = EventRecorder(scheduler)
    before = _shown(job)
    good = {name: value for name, value in _GOOD_CHANGES.items() if name not in changes}
    for order in ({**good, **changes}, {**changes, **good}):
        with pytest.raises(error) as caught:
            job.modify(**order)
        assert text in str(caught.value)
    assert _shown(job) == before == _shown(scheduler.get_job("a"))
    assert recorder.events == []


_GOOD_CHANGES = {"name": "better", "coalesce": False, "max_instances": 9, "next_run_time": START + 9 * HOUR}


def _shown(job: Job | None) -> dict[str, Any]:
    names = ["name", "func", "args", "kwargs", "trigger", "options", "next_run_time"]
    return {name: getattr(job, name, "missing") for name in names}


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("name", "other", "other"),
        ("func", Service.static, Service.static),
        ("args", [1, 2], (1, 2)),
        ("args", (n for n in [1]), (1,)),
        ("misfire_grace_time", None, None),
        ("misfire_grace_time", 60, 60),
        ("misfire_grace_time", 2.5, 2.5),
        ("max_instances", 3, 3),
        ("coalesce", 0, False),
        ("coalesce", "yes", True),
        ("executor", "nobody yet", "nobody yet"),
        ("next_run_time", None, None),
        ("next_run_time", START + HOUR, START + HOUR),
        ("next_run_time", datetime(2026, 5, 1, 12), datetime(2026, 5, 1, 12, tzinfo=timezone.utc)),
        ("next_run_time", date(2026, 5, 1), datetime(2026, 5, 1, tzinfo=timezone.utc)),
        ("next_run_time", "2026-05-01 12:00:00", datetime(2026, 5, 1, 12, tzinfo=timezone.utc)),
    ],
)
def test_a_change_is_applied(running: ManualScheduler, field: str, value: Any, expected: Any) -> None:
    job = add(running, args=[1])
    assert job.modify(**{field: value}) is job
    assert getattr(job, field) == expected == getattr(running.get_job("a"), field)


def test_a_naive_next_run_time_is_read_in_the_zone_of_the_scheduler() -> None:
    with ManualScheduler(timezone="Asia/Tokyo") as scheduler:
        job = add(scheduler, next_run_time=datetime(2026, 5, 1, 12))
    assert job.next_run_time == datetime(2026, 5, 1, 12, tzinfo=ZoneInfo("Asia/Tokyo"))


# Methods


def test_the_methods_return_the_job_and_ask_the_scheduler(running: ManualScheduler) -> None:
    job = add(running)
    assert job.modify(name="x") is job
    assert job.reschedule("cron", hour=5) is job
    assert job.pause() is job
    assert job.next_run_time is None
    assert job.resume() is job
    assert job.next_run_time == START + 5 * HOUR
    assert job.remove() is None
    assert running.get_jobs() == []


def test_a_handle_sees_what_happens_to_its_job(running: ManualScheduler) -> None:
    job = add(running)
    running.modify_job("a", name="changed elsewhere")
    assert job.name == "changed elsewhere"
    running.advance("1h")
    assert job.next_run_time == START + 2 * HOUR
    assert running.get_job("a") is job


def test_the_handle_of_a_replacing_job_sees_what_happens_to_it(running: ManualScheduler) -> None:
    add(running)
    job = add(running, name="second", replace_existing=True)
    running.modify_job("a", name="third")
    assert job.name == "third"


def test_a_handle_works_on_the_store_that_its_job_is_in(running: ManualScheduler) -> None:
    running.add_jobstore("memory", "other")
    first = add(running, name="first")
    second = add(running, name="second", jobstore="other")
    second.modify(name="changed")
    assert first.name == "first"
    second.remove()
    assert running.get_jobs() == [first]


# Texts


def test_a_job_shows_its_id_and_name(running: ManualScheduler) -> None:
    assert repr(add(running, name="tick")) == "<Job (id=a name=tick)>"


def test_a_job_says_when_it_runs_next_or_why_not(scheduler: ManualScheduler) -> None:
    job = add(scheduler)
    assert str(job) == "noop (trigger: interval[1:00:00], pending)"
    scheduler.start()
    assert str(job) == "noop (trigger: interval[1:00:00], next run at: 2026-01-01 01:00:00 UTC)"
    job.pause()
    assert str(job) == "noop (trigger: interval[1:00:00], paused)"


def test_the_next_run_is_shown_in_its_own_zone() -> None:
    with ManualScheduler(timezone="Europe/Berlin") as scheduler:
        assert str(add(scheduler)).endswith("next run at: 2026-01-01 02:00:00 CET)")


# Serialization


def test_the_state_has_apschedulers_keys_and_values(running: ManualScheduler) -> None:
    job = add(running, args=[1], kwargs={"k": 2}, misfire_grace_time=7, name="tick")
    state = job.__getstate__()
    assert {
        "version": 1, "id": "a", "func": f"{__name__}:noop", "executor": "default", "args": (1,), "kwargs": {"k": 2},
        "name": "tick", "misfire_grace_time": 7, "coalesce": True, "max_instances": 1, "next_run_time": START + HOUR,
    }.items() <= state.items()  # fmt: skip
    assert state["trigger"] is job.trigger


def test_a_state_gives_the_same_job_back(running: ManualScheduler) -> None:
    job = add(running, args=[1], kwargs={"k": 2}, misfire_grace_time=7, coalesce=False, max_instances=3, name="tick")
    twin = Job.__new__(Job)
    twin.__setstate__(job.__getstate__())
    assert twin == job
    assert twin.__getstate__() == job.__getstate__()
    assert twin.func is noop


def test_a_state_written_by_apscheduler_can_be_read(running: ManualScheduler) -> None:
    state = {
        "version": 1, "id": "old", "func": f"{__name__}:noop", "trigger": CronTrigger(hour=3), "executor": "default",
        "args": (1,), "kwargs": {}, "name": "noop", "misfire_grace_time": 1, "coalesce": True, "max_instances": 1,
        "next_run_time": None, "something_of_a_later_version": 5,
    }  # fmt: skip
    job = Job.__new__(Job)
    job.__setstate__(state)
    assert (job.id, job.args, job.misfire_grace_time, job.next_run_time) == ("old", (1,), 1, None)


def test_a_newer_state_is_refused(running: ManualScheduler) -> None:
    state = add(running).__getstate__() | {"version": 9999}
    with pytest.raises(ValueError, match=r"^Job has version 9999, but only version 1 can be handled$"):
        Job.__new__(Job).__setstate__(state)


@pytest.mark.parametrize("func", [lambda: None, functools.partial(noop), Service()])
def test_a_job_whose_function_cannot_be_found_again_has_no_state(running: ManualScheduler, func: Any) -> None:
    with pytest.raises(ValueError, match="This Job cannot be serialized since the reference to its callable"):
        add(running, func).__getstate__()


def test_a_bound_method_is_stored_with_its_object_as_first_argument(running: ManualScheduler) -> None:
    service = Service("mine")
    job = add(running, service.method, args=[5])
    state = job.__getstate__()
    assert state["func"] == f"{__name__}:Service.method"
    assert state["args"] == (service, 5)


def test_a_class_method_is_stored_without_its_class(running: ManualScheduler) -> None:
    state = add(running, Service.by_class, args=[5]).__getstate__()
    assert (state["func"], state["args"]) == (f"{__name__}:Service.by_class", (5,))


def test_a_job_can_be_copied_and_pickled(running: ManualScheduler) -> None:
    job = add(running, args=[1])
    for twin in (copy.copy(job), pickle.loads(pickle.dumps(job))):
        assert twin == job
        assert (twin.func, twin.args, twin.next_run_time) == (noop, (1,), job.next_run_time)
