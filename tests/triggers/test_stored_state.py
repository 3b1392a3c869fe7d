"""Triggers that come out of a store are checked as those that a user makes, and none of them can search for ever."""

from __future__ import annotations

import json
import sys
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goscheduler.codec import CodecError, dumps, encode, loads
from goscheduler.runs.limits import Ledger
from goscheduler.runs.plan import ConcurrencyState, FiringPlanner
from goscheduler.testing import ManualScheduler
from goscheduler.testing.contract import nothing
from goscheduler.times import UTC
from goscheduler.triggers import _steps
from goscheduler.triggers._steps import MOST_STEPS, TooManySteps
from goscheduler.triggers.base import BaseTrigger
from goscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from goscheduler.triggers.combining import AndTrigger, OrTrigger
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.date import DateTrigger
from goscheduler.triggers.interval import IntervalTrigger

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TRIGGERS: dict[str, BaseTrigger] = {
    "date": DateTrigger(NOW),
    "interval": IntervalTrigger(minutes=5, start_date=NOW, jitter=10, timezone="UTC"),
    "cron": CronTrigger(minute="*/5", timezone="Europe/Berlin", jitter=10),
    "calendarinterval": CalendarIntervalTrigger(months=1, start_date=date(2026, 1, 31), timezone="UTC", jitter=10),
    "and": AndTrigger([CronTrigger(hour=5, timezone="UTC"), CronTrigger(day=1, timezone="UTC")]),
    "or": OrTrigger([CronTrigger(hour=5, timezone="UTC"), DateTrigger(NOW)], jitter=5),
}
NAIVE = datetime(2026, 1, 1)
#: Name of the trigger, key of its state → what no trigger writes there.
POISON: list[tuple[str, str, Any]] = [
    *[("date", "run_date", value) for value in (None, 5, "soon", date(2026, 1, 1), NAIVE)],
    ("date", "floating", "yes"),
    *[("interval", "interval", value) for value in (timedelta(0), timedelta(-1), 5, None, "5")],
    *[("interval", "start_date", value) for value in (None, 5, NAIVE, date(2026, 1, 1))],
    *[("interval", "end_date", value) for value in (5, NAIVE, NOW - timedelta(days=1))],
    *[("interval", "jitter", value) for value in (-1, float("nan"), float("inf"), 1e9, [], 300)],
    ("interval", "timezone", 5),
    ("interval", "floating", 1),
    *[("calendarinterval", "interval", value) for value in ([0] * 4, [-1, 0, 0, 0], [0.5] * 4, [1, 1], 5, [1e300] * 4)],
    *[("calendarinterval", "time", value) for value in ([25, 0, 0], [0, 0], [0.5, 0, 0], [-1, 0, 0])],
    *[("calendarinterval", "start_date", value) for value in (None, 5, "soon")],
    *[("calendarinterval", "end_date", value) for value in (5, date(2020, 1, 1))],
    *[("calendarinterval", "jitter", value) for value in (-1, float("inf"), 1e9)],
    ("calendarinterval", "floating", None),
    *[("cron", "fields", value) for value in ({"minute": "*/0"}, {"minute": []}, {"minutes": "5"}, {"day": "0"}, 5)],
    *[("cron", "start_date", value) for value in (5, [])],
    *[("cron", "jitter", value) for value in (-1, float("nan"), 1e9)],
    *[("cron", "either_day", value) for value in (1, "yes", None)],
    *[(name, "triggers", value) for name in ("and", "or") for value in ([], 5, [5], ["or"], [None])],
    *[(name, "jitter", value) for name in ("and", "or") for value in (-1, float("nan"), 1e9, "x")],
]  # fmt: skip


@pytest.mark.parametrize(("name", "key", "value"), POISON, ids=repr)
def test_a_stored_trigger_that_could_not_have_been_made_is_refused(name: str, key: str, value: Any) -> None:
    record = encode(TRIGGERS[name])
    record["value"][key] = encode(value)
    with pytest.raises(CodecError):
        loads(json.dumps(record))
    if name not in ("and", "or"):
        trigger = type(TRIGGERS[name]).__new__(type(TRIGGERS[name]))
        with pytest.raises((ValueError, TypeError, OverflowError, AttributeError)):
            trigger.__setstate__({**TRIGGERS[name].__getstate__(), key: value})  # type: ignore[attr-defined]


def test_the_state_of_every_built_in_trigger_is_poisoned_here() -> None:
    assert {name for name, _, _ in POISON} == set(TRIGGERS)


def winding(*seconds: int) -> BaseTrigger:
    """Return a trigger that takes as many steps as the product of ``seconds`` to find its next fire time."""
    found: BaseTrigger = wrapped(seconds[0])
    for number in seconds[1:]:
        found = AndTrigger([found, wrapped(number)])
    return found


def wrapped(seconds: int) -> BaseTrigger:
    # Inside of an OrTrigger, an interval is found by searching and not by arithmetic.
    start = NOW + timedelta(seconds=seconds // 2)
    return OrTrigger([IntervalTrigger(seconds=seconds, start_date=start, timezone="UTC")])


def test_a_search_in_combinations_of_combinations_ends_after_so_many_steps() -> None:
    with pytest.raises(TooManySteps, match=str(MOST_STEPS)):
        winding(97, 101, 103, 107, 109).get_next_fire_time(None, NOW)
    with pytest.raises(TooManySteps):
        winding(97, 101, 103, 107, 109).preview(1, NOW)


def test_a_search_that_stays_within_the_steps_finds_what_it_found() -> None:
    found = winding(97, 101).get_next_fire_time(None, NOW)
    assert found is not None
    assert (found - NOW - timedelta(seconds=48)) % timedelta(seconds=97) == timedelta(0)


def test_each_question_has_all_of_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_steps, "MOST_STEPS", 1000)
    trigger = winding(97, 101)
    first = trigger.get_next_fire_time(None, NOW)
    times = [first]
    for _ in range(20):  # which take more steps together than one may
        times.append(trigger.get_next_fire_time(times[-1], NOW))
    assert times == sorted(set(times))  # type: ignore[type-var]


def test_a_trigger_that_takes_too_many_steps_suspends_its_job_with_the_reason() -> None:
    scheduler = ManualScheduler()
    scheduler.start()
    job = scheduler.add_job(nothing, "interval", minutes=1)
    job.trigger = winding(97, 101, 103, 107, 109)
    planner = FiringPlanner("me", lambda _: None, lambda: "id")
    plan = planner(job, ConcurrencyState(0, 0, 1, Ledger({})), job.next_run_time)
    scheduler.shutdown()
    assert plan.suspended is not None
    assert f"within {MOST_STEPS} steps" in plan.suspended


class Second(BaseTrigger):
    """Fires every second, and counts how often it was asked."""

    asked = 0

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        self.asked += 1
        return now if previous_fire_time is None else previous_fire_time + timedelta(seconds=1)


def test_what_has_gathered_of_a_trigger_is_counted_within_the_steps_and_suspends_nothing() -> None:
    trigger = Second()
    backlog = trigger.backlog(NOW - timedelta(days=900), NOW, 1000)
    assert not backlog.exact
    assert trigger.asked <= MOST_STEPS + 1
    combined = AndTrigger([CronTrigger(second="*/7", timezone="UTC"), CronTrigger(second="*/5", timezone="UTC")])
    gathered = combined.backlog(NOW - timedelta(days=900), NOW, 3)
    assert gathered.latest[-1] == NOW


def test_a_calendar_interval_from_the_year_one_is_counted_within_the_steps() -> None:
    trigger = CalendarIntervalTrigger(months=1, days=1, start_date=date(1, 1, 1), timezone="UTC")
    backlog = trigger.backlog(datetime(1900, 1, 1, tzinfo=UTC), NOW, 1)
    assert not backlog.exact
    assert trigger.get_next_fire_time(backlog.latest[-1], NOW) is not None


RECORDS = [dumps(trigger) for trigger in TRIGGERS.values()]
SCRAPS = st.sampled_from([
    "0", "-1", "1e308", "null", "true", '"x"', "[]", "{}", "99999999999999999999", '""', "[0,0,0,0]",
    *[f'{{"@type":"{name}","value":{value}}}' for name, value in (
        ("int", '"-ffffffffffffffffffff"'), ("decimal", '"1E999999"'), ("timedelta", "[0,0,0]"), ("float", '"nan"'),
        ("timedelta", "[999999999,0,0]"), ("date", '"0001-01-01"'), ("date", '"9999-12-31"'), ("set", "[1,2]"),
        ("zone", '"Europe/Berlin"'), ("dict", "[[1,2]]"),
    )],
    *[f'{{"@type":"datetime","value":"{moment}","zone":"{zone}"}}'
      for moment in ("0001-01-01T00:00:00", "9999-12-31T23:59:59") for zone in ("Z", "+23:59", "-23:59")],
])  # fmt: skip

CHARACTERS = st.sampled_from('0123456789-.eE{}[]",:@abnrstu')


@st.composite
def mutations(draw: st.DrawFn) -> str:
    """Return a valid record in which some values, or some characters, are others."""
    text = draw(st.sampled_from(RECORDS))
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            start = draw(st.integers(0, len(text)))
            end = min(len(text), start + draw(st.integers(0, 12)))
            text = text[:start] + draw(st.text(CHARACTERS, max_size=6)) + text[end:]
        else:
            text = with_another_value(text, draw(st.integers(0, 30)), draw(SCRAPS))
    return text


def with_another_value(text: str, place: int, scrap: str) -> str:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return text
    holders = [(holder, key) for holder in walk(data) for key in keys_of(holder)]
    if holders:
        holder, key = holders[place % len(holders)]
        holder[key] = json.loads(scrap)
    return json.dumps(data)


def keys_of(holder: Any) -> list[Any]:
    return list(holder if isinstance(holder, dict) else range(len(holder)))


def walk(data: Any) -> list[Any]:
    inner = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return ([data] if isinstance(data, (dict, list)) else []) + [found for part in inner for found in walk(part)]


class Lines:
    """Counts the lines of Python that are run in a block, and ends what runs too many."""

    def __init__(self, most: int) -> None:
        self.left = most

    def __enter__(self) -> Lines:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, _frame: object, _event: str, _argument: object) -> Any:
        self.left -= 1
        if self.left < 0:
            raise AssertionError("too many lines were run")
        return self._trace


@given(mutations())
def test_any_mutation_of_a_record_is_read_and_asked_within_bounds_or_refused(text: str) -> None:
    ZoneInfo("Europe/Berlin")
    with Lines(3_000_000):
        try:
            trigger = loads(text)
        except CodecError:
            return
        if isinstance(trigger, BaseTrigger):
            ask(trigger)


def ask(trigger: BaseTrigger) -> None:
    try:
        first = trigger.get_next_fire_time(None, NOW)
        if first is not None and first <= NOW:
            trigger.backlog(first, NOW, 1000)
    except (TooManySteps, OverflowError):
        pass  # which suspend a job
