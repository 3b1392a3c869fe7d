"""``H`` in a crontab line: a value that follows from the id of the job."""

from __future__ import annotations

import pickle
from collections import Counter
from datetime import datetime, timezone
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import each_row

from goscheduler.codec import CodecError, decode, dumps, encode, loads
from goscheduler.errors import InvalidArgument
from goscheduler.testing import ManualClock, ManualScheduler
from goscheduler.triggers.combining import OrTrigger
from goscheduler.triggers.cron import CronTrigger

NOW = datetime(2026, 5, 6, tzinfo=timezone.utc)


def of(line: str, job_id: str = "nightly", **options: object) -> CronTrigger:
    return CronTrigger.from_crontab(line, "UTC", job_id=job_id, **options)  # type: ignore[arg-type]


def test_the_values_are_the_same_for_ever() -> None:
    """A change of these would move the jobs of everybody who uses them."""
    assert str(of("H H * * *")) == GOLDEN
    assert str(of("H H H H H")) == GOLDEN_ALL


GOLDEN = "cron[month='*', day='*', day_of_week='*', hour='4', minute='43']"
GOLDEN_ALL = "cron[month='4', day='14', day_of_week='sat', hour='4', minute='43']"


@each_row(
    ("line", "field", "allowed"),
    [
        ("H * * * *", "minute", range(60)),
        ("H(10-19) * * * *", "minute", range(10, 20)),
        ("0 H * * *", "hour", range(24)),
        ("0 0 H * *", "day", range(1, 29)),
        ("0 0 H(29-31) * *", "day", range(29, 32)),
        ("0 0 1 H *", "month", range(1, 13)),
    ],
)
def test_every_value_of_the_range_is_chosen_by_some_job_and_no_other(line: str, field: str, allowed: range) -> None:
    chosen = Counter(
        int(str(next(each for each in of(line, f"job-{n}").fields if each.name == field))) for n in range(1000)
    )
    assert sorted(chosen) == list(allowed)
    assert max(chosen.values()) < 3 * 1000 / len(allowed)


@given(st.text(max_size=20), st.integers(1, 60))
def test_a_step_begins_anywhere_and_keeps_its_distance(job_id: str, step: int) -> None:
    minutes = sorted(int(text) for text in str(of(f"H/{step} * * * *", job_id).fields[6]).split(","))
    assert minutes[0] < step
    assert minutes[-1] + step > 59
    assert {late - early for early, late in pairwise(minutes)} <= {step}


def test_weekdays_are_spread_over_the_whole_week() -> None:
    days = {of("0 0 * * H", f"job-{n}").preview(1, NOW)[0].weekday() for n in range(100)}
    assert days == set(range(7))


def test_the_job_that_gets_the_trigger_decides() -> None:
    line = CronTrigger.from_crontab("H H * * *", "UTC")
    with ManualScheduler(clock=ManualClock(NOW)) as scheduler:
        for job_id in ("a", "b"):
            scheduler.add_job(print, line, id=job_id)
            assert scheduler.get_job(job_id).trigger.same_schedule_as(of("H H * * *", job_id))
        scheduler.add_job(print, OrTrigger([line]), id="c")
        assert scheduler.get_job("c").trigger.triggers[0].same_schedule_as(of("H H * * *", "c"))
        scheduler.modify_job("b", trigger=scheduler.get_job("a").trigger)
        assert scheduler.get_job("b").trigger.same_schedule_as(of("H H * * *", "b"))
        before = scheduler.get_job("a").next_run_time
        scheduler.add_job(print, line, id="a", replace_existing=True)
        assert scheduler.get_job("a").next_run_time == before


def test_it_is_explained() -> None:
    assert "the id 'nightly' of the job" in of("H 3 * * *").explain()
    assert "the job that will have it" in of("H 3 * * *", "").explain()
    assert "H" not in of("5 3 * * *").explain()


@pytest.mark.parametrize("again", [lambda trigger: loads(dumps(trigger)), lambda t: pickle.loads(pickle.dumps(t))])
def test_a_stored_trigger_keeps_its_values_and_its_line(again) -> None:  # type: ignore[no-untyped-def]
    trigger = of("H H(1-5) * * mon", seconds=False, jitter=5)
    stored = again(trigger)
    assert stored.same_schedule_as(trigger)
    assert stored.explain() == trigger.explain()
    assert stored.for_job("other").same_schedule_as(of("H H(1-5) * * mon", "other", jitter=5))
    assert "spread" not in of("5 3 * * *").__getstate__()


NO_LINE = {"line": 5, "dialect": "vixie", "seconds": False, "job_id": ""}


@pytest.mark.parametrize("spread", [5, {}, {"line": "H * * * *"}, NO_LINE])
def test_a_stored_line_that_nobody_wrote_is_refused(spread: object) -> None:
    record = encode(of("H 3 * * *"))
    record["value"]["spread"] = spread
    with pytest.raises(CodecError):
        decode(record)


@each_row(
    ("line", "field"),
    [
        ("H(0-60) * * * *", "minute"),
        ("H(9-5) * * * *", "minute"),
        ("H/0 * * * *", "minute"),
        ("H/61 * * * *", "minute"),
        ("* H(0-24) * * *", "hour"),
        ("* * H(0-5) * *", "day"),
        ("* * * H(1-13) *", "month"),
        ("* * * * H(0-7)", "day_of_week"),
        ("HH * * * *", "minute"),
        ("H-5 * * * *", "minute"),
        ("H H", "expr"),
    ],
)
def test_what_makes_no_sense_is_refused_naming_the_field(line: str, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        of(line)
    assert caught.value.field == field


def test_a_line_with_seconds_and_one_in_the_old_reading_are_spread_too() -> None:
    assert len({str(of("H H * * * *", f"{n}", seconds=True)) for n in range(50)}) > 40
    assert len({str(of("H H * * 0-4", f"{n}", dialect="apscheduler")) for n in range(50)}) > 40
    assert str(of("30,H * * * *")).startswith("cron[month='*', day='*', day_of_week='*', hour='*', minute='30,")
