"""Schedules are checked when they are made, and registries keep them."""

from __future__ import annotations

import dataclasses
import pickle
import threading
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goscheduler import task
from goscheduler.errors import DuplicateSchedule, InvalidArgument, NeverFires, ScheduleLookupError, UnknownOption
from goscheduler.periodic import Schedule, ScheduleRegistry
from goscheduler.testing.clock import ManualClock

UTC = timezone.utc
NEW_YORK = ZoneInfo("America/New_York")


def schedule(**changes):
    return Schedule(**{"id": "cleanup", "cron": "0 * * * *", "job": "clean", **changes})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", ""),
        ("id", "two words"),
        ("id", "line\n"),
        ("id", "../etc"),
        ("id", "naïve"),
        ("id", "\udcff"),
        ("id", "x" * 256),
        ("cron", ""),
        ("cron", "* * * *"),
        ("cron", "0 0 * * * *"),
        ("cron", "61 * * * *"),
        ("cron", "@reboot"),
        ("cron", "every hour"),
        ("job", ""),
        ("job", "   "),
        ("job", "a\nb"),
        ("job", "x" * 256),
        ("timezone", ""),
        ("timezone", "Mars/Olympus"),
        ("timezone", "../etc/passwd"),
        ("priority", "urgent"),
        ("priority", 10),
        ("priority", -1),
        ("priority", True),
        ("priority", 2.5),
        ("description", "\x1b[31m"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_and_the_field_is_named(field, value):
    with pytest.raises(InvalidArgument) as error:
        schedule(**{field: value})
    assert error.value.field == field
    assert field in str(error.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", 7),
        ("cron", None),
        ("job", print),
        ("timezone", UTC),
        ("enabled", "yes"),
        ("payload", [1, 2]),
        ("payload", {1: 2}),
        ("options", "timeout"),
    ],
)
def test_a_value_of_a_wrong_type_is_a_type_error_that_names_the_field(field, value):
    with pytest.raises(TypeError, match=field):
        schedule(**{field: value})


def test_a_schedule_that_no_date_matches_is_refused():
    with pytest.raises(NeverFires, match="0 0 31 2") as error:
        schedule(cron="0 0 31 2 *")
    assert error.value.field == "cron"


@pytest.mark.parametrize("cron", ["@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"])
def test_the_words_of_crontab_are_known(cron):
    assert schedule(cron=cron).next_run(datetime(2026, 1, 1, tzinfo=UTC)) is not None


def test_a_payload_that_cannot_be_stored_or_is_too_large_is_refused():
    with pytest.raises(InvalidArgument, match=r"payload\['file'\] cannot be stored"):
        schedule(payload={"file": object()})
    with pytest.raises(InvalidArgument, match=r"payload takes 10000\d+ bytes when stored, the limit is 1000000"):
        schedule(payload={"blob": "x" * 10_000_000})


def test_options_of_jobs_are_checked_with_the_schedule():
    assert schedule(options={"timeout": 30, "tags": ["a"]}).options == {"timeout": 30, "tags": ("a",)}
    with pytest.raises(UnknownOption, match="did you mean 'timeout'"):
        schedule(options={"timeuot": 30})
    with pytest.raises(InvalidArgument, match="timeout") as error:
        schedule(options={"timeout": -1})
    assert error.value.field == "timeout"
    with pytest.raises(InvalidArgument, match="priority is a field of the schedule"):
        schedule(options={"priority": 1})


def test_a_schedule_does_not_change_with_the_payload_that_it_was_given():
    payload = {"ids": [1]}
    made = schedule(payload=payload)
    payload["ids"].append(2)
    assert made.payload == {"ids": [1]}
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.cron = "@daily"


def test_the_payload_is_not_shown_because_it_may_be_secret():
    assert "hunter2" not in repr(schedule(payload={"password": "hunter2"}))


def test_a_schedule_can_be_copied_hashed_and_pickled():
    made = schedule(payload={"a": 1}, options={"timeout": 5})
    assert pickle.loads(pickle.dumps(made)) == made == dataclasses.replace(made)
    assert len({made, dataclasses.replace(made), dataclasses.replace(made, enabled=False)}) == 2


@pytest.mark.parametrize(("word", "number"), [("high", 2), ("normal", 5), ("low", 8), (0, 0), (9, 9)])
def test_priorities_are_words_or_numbers(word, number):
    assert schedule(priority=word).urgency == number


def test_the_next_run_is_after_the_moment_and_in_the_zone_of_the_schedule():
    registry = ScheduleRegistry()
    registry.register(schedule(cron="30 2 * * *", timezone="America/New_York"))
    nine = datetime(2026, 1, 5, 9, tzinfo=UTC)
    assert registry.next_run("cleanup", after=nine) == datetime(2026, 1, 6, 2, 30, tzinfo=NEW_YORK)
    exactly = datetime(2026, 1, 6, 2, 30, tzinfo=NEW_YORK)
    assert registry.next_run("cleanup", after=exactly) == exactly + timedelta(days=1)
    assert registry.next_run("cleanup", after="2026-01-06 02:29:00") == exactly
    in_the_gap = registry.next_run("cleanup", after=datetime(2026, 3, 8, 0, tzinfo=NEW_YORK))
    assert in_the_gap == datetime(2026, 3, 8, 3, tzinfo=NEW_YORK)


def test_without_a_moment_the_next_run_is_counted_from_now():
    clock = ManualClock(datetime(2026, 1, 1, 0, 30, tzinfo=UTC))
    registry = ScheduleRegistry(clock=clock)
    registry.register(schedule())
    assert registry.next_run("cleanup") == datetime(2026, 1, 1, 1, tzinfo=UTC)


@given(st.integers(0, 59), st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)))
def test_an_hourly_schedule_fires_at_most_an_hour_later_and_never_before(minute, moment):
    moment = moment.replace(tzinfo=UTC)
    following = schedule(cron=f"{minute} * * * *").next_run(moment)
    assert timedelta(0) < following - moment <= timedelta(hours=1)
    assert (following.minute, following.second, following.microsecond) == (minute, 0, 0)


def test_schedules_are_listed_in_the_order_of_their_registration():
    registry = ScheduleRegistry()
    made = [registry.register(schedule(id=name)) for name in ("b", "a", "c")]
    assert registry.list() == made == list(registry)
    assert registry.get("a") is made[1]
    assert registry.get("d") is None
    assert "c" in registry
    assert len(registry) == 3
    assert registry.unregister("a") is made[1]
    assert registry.list() == [made[0], made[2]]


def test_an_id_that_is_registered_already_is_refused_and_the_first_stays():
    registry = ScheduleRegistry()
    first = registry.register(schedule())
    with pytest.raises(DuplicateSchedule, match="cleanup is registered already") as error:
        registry.register(schedule(cron="@daily"))
    assert isinstance(error.value, ValueError)
    assert error.value.field == "id"
    assert str(pickle.loads(pickle.dumps(error.value.__class__("cleanup")))) == str(error.value)
    assert registry.list() == [first]


def test_an_id_that_is_not_registered_is_a_key_error():
    registry = ScheduleRegistry()
    for ask in (registry.next_run, registry.unregister):
        with pytest.raises(ScheduleLookupError, match="nobody") as error:
            ask("nobody")
        assert isinstance(error.value, KeyError)


def test_only_schedules_can_be_registered_and_a_registry_has_a_plain_name():
    with pytest.raises(TypeError, match="expected a Schedule"):
        ScheduleRegistry().register({"id": "cleanup"})
    with pytest.raises(InvalidArgument, match="name must be") as error:
        ScheduleRegistry("my app")
    assert error.value.field == "name"


def test_of_many_threads_that_register_one_id_one_succeeds():
    registry, refused, barrier = ScheduleRegistry(), [], threading.Barrier(8)

    def register():
        barrier.wait()
        for number in range(50):
            try:
                registry.register(schedule(id=f"s{number}"))
            except DuplicateSchedule as error:
                refused.append(error.value)

    threads = [threading.Thread(target=register) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(registry) == 50
    assert len(refused) == 350


def test_the_decorator_takes_name_and_description_from_the_function():
    registry = ScheduleRegistry()

    @registry.every("*/5 * * * *", payload={"x": 1}, timezone="Europe/Berlin", priority="low")
    def refresh(x):
        """Refresh the cache.

        In detail.
        """
        return x

    assert refresh(3) == 3
    made = registry.get("refresh")
    assert (made.cron, made.payload, made.timezone, made.priority) == ("*/5 * * * *", {"x": 1}, "Europe/Berlin", "low")
    assert made.description == "Refresh the cache."
    assert made.job.endswith(".refresh")
    assert registry.functions() == {made.job: refresh}


def test_the_decorator_knows_a_function_by_the_name_that_it_has_as_a_task():
    registry = ScheduleRegistry()

    @registry.every("@daily", id="nightly")
    @task("reports.nightly")
    def report():
        return None

    assert registry.get("nightly").job == "reports.nightly"
    assert report() is None


def test_two_functions_of_one_name_are_not_mistaken_for_each_other():
    registry = ScheduleRegistry()

    def declare(name, **more):
        @registry.every("@daily", id=name, **more)
        def same():
            return name

    declare("first")
    with pytest.raises(InvalidArgument, match="job must be given"):
        declare("second")
    assert "second" not in registry
    declare("second", job="second")
    assert len(registry) == 2


def test_a_generator_function_cannot_be_scheduled():
    def numbers():
        yield 1

    with pytest.raises(TypeError, match="generator function"):
        ScheduleRegistry().every("@daily")(numbers)
