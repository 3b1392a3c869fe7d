"""And and or: their children's times, no more and no fewer, and never a search without end."""

from __future__ import annotations

import itertools
import math
import pickle
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goscheduler.errors import InvalidArgument, NeverFires
from goscheduler.times import to_micros
from goscheduler.triggers import combining
from goscheduler.triggers.base import BaseTrigger
from goscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from goscheduler.triggers.combining import AndTrigger, BaseCombiningTrigger, OrTrigger
from goscheduler.triggers.date import DateTrigger
from goscheduler.triggers.interval import IntervalTrigger

UTC = timezone.utc
BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def every(seconds: float, offset: float = 0, **options: Any) -> IntervalTrigger:
    return IntervalTrigger(seconds=seconds, start_date=NOON + offset * SECOND, timezone=UTC, **options)


def at(offset: float) -> DateTrigger:
    return DateTrigger(NOON + offset * SECOND)


def seconds_of(times: list[datetime]) -> list[float]:
    return [(moment - NOON) / SECOND for moment in times]


class Custom(BaseTrigger):
    """As users write them: the first at ``now``, then a step after whatever fired before."""

    def __init__(self, step: float) -> None:
        self.step = step

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        return now if previous_fire_time is None else previous_fire_time + self.step * SECOND


class Even(BaseTrigger):
    """Fires in every even second; counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        self.asked += 1
        since = now if previous_fire_time is None else previous_fire_time + timedelta.resolution
        turns = -((NOON - since) // (2 * SECOND))
        return NOON + turns * 2 * SECOND


class Odd(Even):
    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        found = super().get_next_fire_time(None, now - SECOND)
        return None if found is None else found + SECOND


CHILDREN = st.lists(
    st.one_of(
        st.tuples(st.just("every"), st.integers(1, 30), st.integers(-20, 60), st.none() | st.integers(60, 300)),
        st.tuples(st.just("at"), st.integers(0, 200), st.just(0), st.none()),
    ),
    min_size=1,
    max_size=4,
)
Child = tuple[str, int, int, int | None]


def build(child: Child) -> BaseTrigger:
    kind, number, offset, end = child
    if kind == "at":
        return at(number)
    return every(number, offset, end_date=None if end is None else NOON + end * SECOND)


def fires(child: Child, second: int) -> bool:
    """Tell from the definition alone whether a child fires in a second after noon."""
    kind, number, offset, end = child
    if kind == "at":
        return second == number
    return second >= offset and (second - offset) % number == 0 and (end is None or second <= end)


def walk(trigger: BaseTrigger, until: int) -> list[float]:
    found, moment = [], trigger.get_next_fire_time(None, NOON)
    while moment is not None and moment <= NOON + until * SECOND:
        found.append((moment - NOON) / SECOND)
        moment = trigger.get_next_fire_time(moment, moment)
    return found


@given(CHILDREN)
def test_or_fires_exactly_when_one_of_its_children_does(children: list[Child]) -> None:
    expected = [second for second in range(301) if any(fires(child, second) for child in children)]
    assert walk(OrTrigger([build(child) for child in children]), 300) == expected


@given(CHILDREN)
def test_and_fires_exactly_when_all_of_its_children_do(children: list[Child]) -> None:
    expected = [second for second in range(301) if all(fires(child, second) for child in children)]
    try:
        trigger = AndTrigger([build(child) for child in children])
    except NeverFires:
        assert expected == []
        return
    assert walk(trigger, 300) == expected


@given(CHILDREN, CHILDREN)
def test_combinations_can_be_nested(inner: list[Child], outer: list[Child]) -> None:
    expected = [
        second
        for second in range(301)
        if any(fires(child, second) for child in inner) and all(fires(child, second) for child in outer)
    ]
    try:
        trigger = AndTrigger([OrTrigger([build(child) for child in inner]), *map(build, outer)])
    except NeverFires:
        assert expected == []
        return
    assert walk(trigger, 300) == expected


def test_or_fires_at_both_of_two_dates() -> None:
    assert seconds_of(OrTrigger([at(5), at(3)]).preview(9, NOON)) == [3, 5]


def test_an_interval_is_not_starved_by_a_more_frequent_sibling() -> None:
    trigger = OrTrigger([every(7), every(10)])
    assert seconds_of(trigger.preview(8, NOON)) == [0, 7, 10, 14, 20, 21, 28, 30]


def test_or_ends_when_the_last_of_its_children_ends() -> None:
    assert seconds_of(OrTrigger([every(5, end_date=NOON + 6 * SECOND), at(20)]).preview(9, NOON)) == [0, 5, 20]


def test_a_past_date_fires_at_once_beside_a_sibling_and_makes_no_backlog() -> None:
    trigger = OrTrigger([at(-864_000), IntervalTrigger(seconds=10, start_date=NOON - timedelta(days=30))])
    now = NOON + 3 * SECOND
    assert seconds_of(trigger.preview(3, now)) == [3, 10, 20]


def test_dates_that_are_all_past_are_given_one_by_one() -> None:
    assert seconds_of(OrTrigger([at(-5), at(-9)]).preview(9, NOON)) == [-9, -5]


def test_or_does_not_fall_back_when_the_clock_is_set_back() -> None:
    trigger = OrTrigger([every(10), every(15)])
    assert trigger.get_next_fire_time(NOON + 30 * SECOND, NOON - timedelta(hours=1)) == NOON + 40 * SECOND


def test_or_goes_through_both_passes_of_a_repeated_hour() -> None:
    start = datetime(2026, 10, 25, 2, 0, tzinfo=BERLIN)
    trigger = OrTrigger([IntervalTrigger(minutes=30, start_date=start), IntervalTrigger(minutes=45, start_date=start)])
    found = [moment.strftime("%H:%M%z") for moment in trigger.preview(6, start)]
    assert found == ["02:00+0200", "02:30+0200", "02:45+0200", "02:00+0100", "02:30+0100", "03:00+0100"]


def test_custom_triggers_take_part_in_or() -> None:
    assert seconds_of(OrTrigger([Custom(60), at(90)]).preview(4, NOON)) == [0, 60, 90, 150]


def test_custom_triggers_take_part_in_and() -> None:
    assert seconds_of(AndTrigger([Even(), every(3)]).preview(3, NOON)) == [0, 6, 12]


def test_and_takes_the_zone_of_its_first_child() -> None:
    berlin = IntervalTrigger(seconds=5, start_date=NOON, timezone=BERLIN)
    moment = AndTrigger([berlin, every(7)]).get_next_fire_time(None, NOON + SECOND)
    assert moment == NOON + 35 * SECOND
    assert moment.tzinfo is BERLIN


def test_and_of_calendar_and_elapsed_time_meets_where_both_agree() -> None:
    midnight = CalendarIntervalTrigger(days=1, start_date="2026-03-27", timezone=BERLIN)
    day = IntervalTrigger(hours=24, start_date="2026-03-27", timezone=BERLIN)
    found = AndTrigger([midnight, day]).preview(4, datetime(2026, 3, 1, tzinfo=UTC))
    assert [moment.date().isoformat() for moment in found] == ["2026-03-27", "2026-03-28", "2026-03-29", "2026-10-26"]


@pytest.mark.parametrize(("one", "other"), [(86_399, 86_400), (7919, 7907), (1e-6, 1.000001), (3, 5)])
def test_intervals_of_coprime_length_meet_however_rarely(one: float, other: float) -> None:
    trigger = AndTrigger([every(one), every(other)])
    moment = trigger.get_next_fire_time(NOON, NOON)
    assert moment is not None
    micro = math.lcm(round(one * 1e6), round(other * 1e6))
    assert to_micros(moment) - to_micros(NOON) == micro


@pytest.mark.parametrize(
    "children",
    [
        lambda: [at(1), at(2)],
        lambda: [every(2), every(2, 1)],
        lambda: [every(6, 1), every(4, 2)],
        lambda: [at(7), every(2)],
        lambda: [at(-1), every(1)],
        lambda: [every(7), every(11), at(78)],
        lambda: [every(7, end_date=NOON + 50 * SECOND), every(11, 1)],
        lambda: [at(1), CalendarIntervalTrigger(days=1, start_date="2026-01-01", timezone=UTC)],
    ],
)
def test_triggers_that_can_be_seen_never_to_meet_are_refused(children: Callable[[], list[BaseTrigger]]) -> None:
    with pytest.raises(NeverFires, match="never fire at the same time") as caught:
        AndTrigger(children())
    assert caught.value.field == "triggers"


def test_a_search_without_success_ends_in_none_after_a_bounded_number_of_questions() -> None:
    even, odd = Even(), Odd()
    assert AndTrigger([even, odd]).get_next_fire_time(None, NOON) is None
    assert even.asked + odd.asked <= combining.SEARCH_STEPS + 4


def test_a_search_ends_at_its_horizon() -> None:
    rare = CalendarIntervalTrigger(years=390, start_date="2026-06-01", timezone=UTC)
    rarer = CalendarIntervalTrigger(years=410, start_date="2026-06-01", timezone=UTC)
    trigger = AndTrigger([rare, rarer])
    assert trigger.get_next_fire_time(None, NOON - timedelta(days=1)) == datetime(2026, 6, 1, tzinfo=UTC)
    assert trigger.get_next_fire_time(NOON, NOON) is None


def test_a_search_ends_at_the_end_of_the_calendar() -> None:
    trigger = AndTrigger([CalendarIntervalTrigger(days=1, start_date="9999-12-01", timezone=UTC), every(86_400)])
    assert trigger.get_next_fire_time(None, NOON) is None
    last = datetime(9999, 12, 31, 23, tzinfo=UTC)
    assert trigger.get_next_fire_time(last, last) is None


def test_and_is_finished_when_one_child_is() -> None:
    trigger = AndTrigger([every(2, end_date=NOON + 5 * SECOND), every(1)])
    assert seconds_of(trigger.preview(9, NOON)) == [0, 2, 4]


def test_a_date_that_is_past_still_fires_in_and() -> None:
    assert AndTrigger([at(-60), at(-60)]).get_next_fire_time(None, NOON) == NOON - 60 * SECOND


def test_intervals_without_a_start_count_from_one_moment_and_so_meet() -> None:
    trigger = AndTrigger([IntervalTrigger(seconds=2), IntervalTrigger(seconds=3)])
    first, second = trigger.preview(2)
    assert second - first == 6 * SECOND
    anchored = trigger.anchored(NOON)
    assert seconds_of(anchored.preview(2, NOON)) == [6, 12]


def test_anchoring_reaches_nested_children_and_leaves_fixed_ones_alone() -> None:
    fixed = every(3)
    nested = OrTrigger([AndTrigger([IntervalTrigger(seconds=4)]), fixed], jitter=1)
    anchored = nested.anchored(NOON)
    assert isinstance(anchored, OrTrigger)
    assert anchored.triggers[1] is fixed
    assert anchored.jitter == 1
    assert seconds_of(anchored.preview(3, NOON + SECOND)) == [3, 4, 6]
    only_fixed = OrTrigger([fixed])
    assert only_fixed.anchored(NOON) is only_fixed


@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 40), st.data())
def test_jitter_loses_and_reorders_nothing(one: int, other: int, jitter: int, data: st.DataObject) -> None:
    child_jitter = data.draw(st.floats(0, one, exclude_max=True))
    trigger = OrTrigger([every(one, jitter=child_jitter), every(other)], jitter=jitter)
    nominal = trigger.preview(21, NOON)
    moment: datetime | None = None
    for expected, following in itertools.pairwise(nominal):
        moment = trigger.get_next_fire_time(moment, NOON)
        assert moment is not None
        assert expected <= moment < following


def test_only_the_child_that_fires_brings_its_jitter() -> None:
    trigger = OrTrigger([every(10, jitter=9), every(10, 5)])
    for _ in range(20):
        assert trigger.get_next_fire_time(NOON + SECOND, NOON) == NOON + 5 * SECOND
    delayed = {trigger.get_next_fire_time(NOON + 5 * SECOND, NOON) for _ in range(20)}
    assert len(delayed) > 1


def test_and_meets_in_spite_of_its_childrens_jitter() -> None:
    trigger = AndTrigger([every(10, jitter=2), every(15, jitter=3)], jitter=4)
    for _ in range(20):
        moment = trigger.get_next_fire_time(NOON, NOON)
        assert moment is not None
        assert 30 <= (moment - NOON) / SECOND <= 37


@pytest.mark.parametrize("combination", [AndTrigger, OrTrigger])
class TestBoth:
    def test_an_empty_list_is_refused(self, combination: type[BaseCombiningTrigger]) -> None:
        with pytest.raises(InvalidArgument, match="at least one trigger"):
            combination([])

    @pytest.mark.parametrize("children", [[3], ["interval"], [None], "interval", [IntervalTrigger], 3, None])
    def test_what_is_no_trigger_is_a_type_error(self, combination: type[BaseCombiningTrigger], children: Any) -> None:
        with pytest.raises(TypeError):
            combination(children)

    @pytest.mark.parametrize("jitter", [-1, float("nan"), "soon"])
    def test_jitter_that_makes_no_sense_is_refused(self, combination: type[BaseCombiningTrigger], jitter: Any) -> None:
        with pytest.raises(InvalidArgument, match="jitter"):
            combination([every(1)], jitter)

    def test_a_tuple_and_the_zone_of_a_scheduler_are_accepted(self, combination: type[BaseCombiningTrigger]) -> None:
        trigger = combination((every(1), every(2)), timezone=BERLIN)
        assert len(trigger.triggers) == 2
        assert isinstance(trigger.triggers, list)

    def test_it_survives_pickling(self, combination: type[BaseCombiningTrigger]) -> None:
        inner = CalendarIntervalTrigger(days=1, hour=12, start_date="2026-01-01", timezone=UTC)
        trigger = combination([every(60), OrTrigger([inner, every(180)])], jitter=5)
        copy = pickle.loads(pickle.dumps(trigger))
        assert repr(copy) == repr(trigger)
        assert copy.same_schedule_as(trigger)
        assert copy.preview(3, NOON) == trigger.preview(3, NOON)
        with pytest.raises(ValueError, match=f"version 2 of {combination.__name__}"):
            copy.__setstate__(trigger.__getstate__() | {"version": 2})

    def test_state_holds_children_as_class_reference_and_state(self, combination: type[BaseCombiningTrigger]) -> None:
        state = combination([at(0)]).__getstate__()
        assert state == {
            "version": 1,
            "triggers": [("goscheduler.triggers.date:DateTrigger", {"version": 1, "run_date": NOON})],
            "jitter": None,
        }

    def test_state_of_apscheduler_is_read(self, combination: type[BaseCombiningTrigger]) -> None:
        trigger = combination.__new__(combination)
        child = ("apscheduler.triggers.date:DateTrigger", {"version": 1, "run_date": NOON})
        trigger.__setstate__({"version": 1, "triggers": [child], "jitter": 3})
        assert isinstance(trigger.triggers[0], DateTrigger)
        assert trigger.jitter == 3

    @pytest.mark.parametrize("reference", ["os:system", "antigravity:fly", "goscheduler.clock:SystemClock", "x", "x:y"])
    def test_stored_state_cannot_name_what_is_no_trigger(
        self, combination: type[BaseCombiningTrigger], reference: str
    ) -> None:
        trigger = combination.__new__(combination)
        with pytest.raises(InvalidArgument, match="No trigger class"):
            trigger.__setstate__({"version": 1, "triggers": [(reference, {})], "jitter": None})
        assert "antigravity" not in sys.modules

    def test_the_same_schedule_has_the_same_children(self, combination: type[BaseCombiningTrigger]) -> None:
        def build_one() -> BaseCombiningTrigger:
            return combination([IntervalTrigger(seconds=5), every(10)])

        assert build_one().same_schedule_as(build_one().anchored(NOON))
        assert not build_one().same_schedule_as(combination([IntervalTrigger(seconds=5), every(20)]))
        assert not build_one().same_schedule_as(combination([IntervalTrigger(seconds=5)]))
        assert not build_one().same_schedule_as(combination([IntervalTrigger(seconds=5), every(10)], jitter=1))
        assert not AndTrigger([every(10)]).same_schedule_as(OrTrigger([every(10)]))

    def test_it_has_no_dict(self, combination: type[BaseCombiningTrigger]) -> None:
        assert not hasattr(combination([every(1)]), "__dict__")


def test_custom_children_without_state_methods_survive_pickling() -> None:
    trigger = OrTrigger([Custom(30), every(60)])
    copy = pickle.loads(pickle.dumps(trigger))
    assert copy.preview(3, NOON) == trigger.preview(3, NOON)


def test_they_print_as_in_apscheduler_and_explain_themselves() -> None:
    date, interval = at(0), every(5)
    both = AndTrigger([date, interval], jitter=5)
    assert str(both) == "and[date[2026-06-01 12:00:00 UTC], interval[0:00:05]]"
    assert repr(both) == f"<AndTrigger([{date!r}, {interval!r}], jitter=5)>"
    assert both.explain() == (
        "whenever both once at 2026-06-01 12:00:00 UTC and every 5 seconds from 2026-06-01 12:00:00 UTC"
    )
    assert AndTrigger([interval] * 3).explain().startswith("whenever all of every 5 seconds from")
    either = OrTrigger([date, interval])
    assert str(either) == "or[date[2026-06-01 12:00:00 UTC], interval[0:00:05]]"
    assert repr(either) == f"<OrTrigger([{date!r}, {interval!r}])>"
    assert either.explain() == ("once at 2026-06-01 12:00:00 UTC or every 5 seconds from 2026-06-01 12:00:00 UTC")
    assert AndTrigger([interval]).explain() == interval.explain()
