"""Whatever values are handed in, in any combination: taken, or refused with an ordinary error, and never half done."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta, timezone
from datetime import time as wall_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goscheduler.schedulers.background import BackgroundScheduler
from goscheduler.testing import ManualScheduler
from goscheduler.triggers.interval import IntervalTrigger


def anything(*args: Any, **kwargs: Any) -> None:
    pass


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.integers(),
    st.floats(),
    st.text(max_size=30),
    st.text("0123456789*/-,. LW#?:+TZ", max_size=20),
    st.binary(max_size=5),
    st.sampled_from([
        10**400, math.nan, "x" * 300, "\0", "\ud800", "2026-02-30", "2026-13-45 99:99", "nan", "mon-", "last", "UTC",
        "Mars/X", timedelta(days=-1), timedelta.max, datetime.max, datetime.min, datetime(2026, 3, 29, 2, 30), date.min,
        wall_time(3), timezone.utc, timezone(timedelta(hours=23)), object(), anything, int, ...,
        IntervalTrigger(hours=1),
    ]),
    st.lists(st.integers(0, 3), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)  # fmt: skip

COMMON = ["id", "name", "misfire_grace_time", "coalesce", "max_instances", "next_run_time", "executor", "tags", "args",
          "description", "kwargs", "if_exists", "replace_existing", "jobstore"]  # fmt: skip
OF_TRIGGERS = {
    "interval": ["weeks", "days", "hours", "minutes", "seconds", "start_date", "end_date", "timezone", "jitter"],
    "cron": ["year", "month", "day", "week", "day_of_week", "hour", "minute", "second", "start_date", "end_date",
             "timezone", "jitter"],
    "date": ["run_date", "timezone"],
    "calendarinterval": ["years", "months", "weeks", "days", "hour", "minute", "second", "start_date", "end_date",
                         "timezone", "jitter"],
    "and": ["triggers", "jitter"],
    "or": ["triggers", "jitter"],
}  # fmt: skip


@st.composite
def calls(draw: st.DrawFn) -> dict[str, Any]:
    trigger = draw(st.sampled_from(sorted(OF_TRIGGERS)))
    names = draw(st.lists(st.sampled_from(COMMON + OF_TRIGGERS[trigger] * 2), max_size=3, unique=True))
    return {"trigger": trigger, **{name: draw(JUNK) for name in names}}


@given(calls(), st.booleans())
def test_a_call_of_add_job_is_taken_whole_or_refused_whole(call: dict[str, Any], started: bool) -> None:
    scheduler = ManualScheduler()
    if started:
        scheduler.start()
    try:
        job = scheduler.add_job(anything, **call)
    except (ValueError, TypeError, LookupError) as error:
        assert scheduler.get_jobs() == []
        _check_text(error)
    else:
        assert scheduler.get_jobs() == [job]
        assert str(job)
    finally:
        if started:
            scheduler.shutdown()


@given(st.lists(calls(), min_size=1, max_size=3))
def test_whatever_was_taken_lets_the_others_fire(jobs: list[dict[str, Any]]) -> None:
    fired = []
    with ManualScheduler() as scheduler:
        for call in jobs:
            _try_to_add(scheduler, call)
        scheduler.add_job(lambda: fired.append(1), "date", run_date="2026-01-01 00:00:00.5")
        scheduler._move_to(scheduler.clock.now() + timedelta(seconds=1))
        scheduler._process_jobs()
    assert fired == [1]


@given(st.lists(calls(), min_size=1, max_size=3))
def test_whatever_was_taken_before_the_start_lets_the_scheduler_start(jobs: list[dict[str, Any]]) -> None:
    fired = []
    scheduler = ManualScheduler()
    for call in jobs:
        _try_to_add(scheduler, {**call, "jobstore": "default"})
    scheduler.add_job(lambda: fired.append(1), "date", run_date="2026-01-01 00:00:00.5")
    with scheduler:
        scheduler._move_to(scheduler.clock.now() + timedelta(seconds=1))
        scheduler._process_jobs()
    assert fired == [1]


def _try_to_add(scheduler: ManualScheduler, call: dict[str, Any]) -> None:
    try:
        scheduler.add_job(anything, **call)
    except (ValueError, TypeError, LookupError) as error:
        _check_text(error)


@given(st.dictionaries(st.sampled_from([*COMMON, "func", "trigger", "colour"]), JUNK, max_size=3))
def test_a_change_is_made_whole_or_refused_whole(changes: dict[str, Any]) -> None:
    with ManualScheduler() as scheduler:
        job = scheduler.add_job(anything, "interval", hours=1, id="a", name="before")
        before = job.__getstate__()
        try:
            job.modify(**changes)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            assert job.__getstate__() == before
            _check_text(error)
        assert scheduler.get_jobs() == [job]


SETTINGS = ["timezone", "logger", "jobstore_retry_interval", "job_defaults", "executors", "jobstores", "daemon",
            "event_dispatch", "job_defaults.coalesce", "executors.default", "executors.default.type",
            "executors.x.class", "colour"]  # fmt: skip
KEYS = [f"{root}.{name}" for name in SETTINGS for root in ("apscheduler", "goscheduler")]


@given(st.dictionaries(st.sampled_from(KEYS), JUNK, max_size=4))
def test_a_configuration_is_taken_or_refused(gconfig: dict[str, Any]) -> None:
    try:
        BackgroundScheduler(gconfig)
    except (ValueError, TypeError, LookupError) as error:
        _check_text(error, longest=3000)  # several errors are told together


def _check_text(error: Exception, longest: int = 700) -> None:
    text = str(error)
    assert text
    assert "\0" not in text
    assert len(text) < longest
    assert "NoneType' object" not in text, "the error is our own fault"


@pytest.mark.parametrize("name", ["id", "name"])
def test_the_junk_contains_what_is_refused(name: str) -> None:
    """Guards the tests above: a strategy of nothing but good values would prove nothing."""
    with ManualScheduler() as scheduler, pytest.raises(ValueError, match=name):
        scheduler.add_job(anything, "interval", hours=1, **{name: "\ud800"})
