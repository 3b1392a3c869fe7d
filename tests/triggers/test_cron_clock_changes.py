"""The cron trigger against the minute-by-minute oracle, at the clock changes of all zones."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from oracle import WallRule, clock_changes, fire_times, minutes_shown, zones_by_behaviour

from goscheduler.triggers.cron import CronTrigger

FIRST_YEAR, LAST_YEAR = 2020, 2037
HOUR = timedelta(hours=1)

#: Minutes and hours of schedules that meet clock changes in different ways.
RULES = (
    WallRule(frozenset({0, 30}), frozenset(range(24))),
    WallRule(frozenset({17}), frozenset(range(24))),
    WallRule(frozenset({0}), frozenset({0})),
    WallRule(frozenset({30}), frozenset({2})),
    WallRule(frozenset({0}), frozenset({1, 3})),
    WallRule(frozenset(range(0, 60, 10)), frozenset(range(23))),
    WallRule(frozenset({59}), frozenset({23, 1})),
)

#: Zones whose changes are out of the ordinary, with the years to look at.
ODD_ZONES = {
    "Pacific/Apia": (2009, 2012),
    "Pacific/Kwajalein": (1993, 1993),
    "Pacific/Kiritimati": (1994, 1995),
    "Australia/Lord_Howe": (2025, 2025),
    "Antarctica/Troll": (2025, 2025),
    "Antarctica/Casey": (2018, 2020),
    "Africa/Casablanca": (2025, 2025),
    "Africa/Cairo": (2025, 2025),
    "America/Havana": (2025, 2025),
    "America/Santiago": (2025, 2025),
    "America/Sao_Paulo": (2018, 2018),
    "America/Caracas": (2007, 2016),
    "America/Noronha": (2000, 2000),
    "Asia/Beirut": (2025, 2025),
    "Asia/Gaza": (2025, 2025),
    "Asia/Kathmandu": (1986, 1986),
    "Asia/Pyongyang": (2015, 2018),
    "Asia/Tehran": (2021, 2021),
    "Atlantic/Azores": (2025, 2025),
    "Europe/Dublin": (2025, 2025),
    "Europe/London": (1971, 1972),
    "Europe/Volgograd": (2018, 2020),
    "America/New_York": (2025, 2025),
}
ODD_CHANGES = [(name, change) for name, years in ODD_ZONES.items() for change in clock_changes(ZoneInfo(name), *years)]


def _trigger(rule: WallRule, zone: ZoneInfo) -> CronTrigger:
    return CronTrigger(
        minute=",".join(map(str, sorted(rule.minutes))),
        hour=",".join(map(str, sorted(rule.hours))),
        day_of_week=",".join(map(str, sorted(rule.weekdays))),
        timezone=zone,
    )


def _walk(trigger: CronTrigger, after: datetime, until: datetime) -> list[datetime]:
    """Return the fire times of the trigger after one moment and before another, in UTC."""
    found = []
    moment: datetime | None = after
    while (moment := trigger.get_next_fire_time(moment, after)) is not None and moment.astimezone(timezone.utc) < until:
        found.append(moment.astimezone(timezone.utc))
    return found


def test_every_zone_fires_as_the_rules_say_at_every_clock_change() -> None:
    differences = []
    checked = 0
    years = (FIRST_YEAR, LAST_YEAR) if os.environ.get("GOSCHEDULER_FULL") else (2024, 2027)
    for name, changes in zones_by_behaviour(*years).items():
        zone = ZoneInfo(name)
        triggers = [(rule, _trigger(rule, zone)) for rule in RULES]
        for change in changes:
            start, end = change - 2 * HOUR, change + 4 * HOUR
            shown = minutes_shown(zone, start, end)
            for rule, trigger in triggers:
                checked += 1
                if _walk(trigger, start, end) != fire_times(rule, shown):
                    differences.append((name, change, rule))
    assert differences == []
    assert checked > 1_000


@pytest.mark.parametrize(("name", "change"), ODD_CHANGES, ids=lambda value: str(value))
def test_an_odd_clock_change_is_met_as_the_rules_say(name: str, change: datetime) -> None:
    zone = ZoneInfo(name)
    start, end = change - 26 * HOUR, change + 26 * HOUR
    shown = minutes_shown(zone, start, end)
    for rule in RULES:
        trigger = _trigger(rule, zone)
        expected = fire_times(rule, shown)
        assert _walk(trigger, start, end) == expected
        assert _walk(trigger, start.astimezone(zone), end) == expected


@pytest.mark.parametrize(("name", "change"), ODD_CHANGES, ids=lambda value: str(value))
def test_the_next_fire_time_does_not_depend_on_what_was_asked_before(name: str, change: datetime) -> None:
    zone = ZoneInfo(name)
    shown = minutes_shown(zone, change - 28 * HOUR, change + 30 * HOUR)
    for rule in RULES:
        trigger = _trigger(rule, zone)
        expected = fire_times(rule, shown)
        # Backwards and in leaps, so that what was remembered of the last step is of no use for the next.
        for minutes in (*range(180, -180, -7), 90, -90, 30, -30, 170, -10):
            moment = change + timedelta(minutes=minutes)
            following = trigger.get_next_fire_time(moment.astimezone(zone), moment)
            assert following is not None
            assert following.astimezone(timezone.utc) == next(time for time in expected if time > moment)


@pytest.mark.parametrize(("name", "change"), ODD_CHANGES, ids=lambda value: str(value))
def test_counting_across_an_odd_clock_change_agrees_with_walking(name: str, change: datetime) -> None:
    zone = ZoneInfo(name)
    shown = minutes_shown(zone, change - 28 * HOUR, change + 26 * HOUR)
    for rule in RULES:
        trigger = _trigger(rule, zone)
        expected = fire_times(rule, shown)
        for now in (change - timedelta(minutes=1), change, change + HOUR / 2, change + HOUR, change + 25 * HOUR):
            due = [moment for moment in expected if moment <= now]
            backlog = trigger.backlog(expected[0], now, 3)
            assert backlog.count == len(due)
            # Not compared across zones: a time in a repeated hour is never equal to one of another zone.
            assert [moment.astimezone(timezone.utc) for moment in backlog.latest] == due[-3:]


def test_a_repeated_hour_at_the_end_of_a_day_belongs_to_that_day_twice() -> None:
    beirut = ZoneInfo("Asia/Beirut")
    rule = WallRule(frozenset({59}), frozenset(range(24)), frozenset({5}))
    start, end = datetime(2026, 10, 24, 18, tzinfo=timezone.utc), datetime(2026, 10, 25, 18, tzinfo=timezone.utc)
    found = _walk(_trigger(rule, beirut), start, end)
    assert found == fire_times(rule, minutes_shown(beirut, start, end))
    assert [moment.astimezone(beirut).hour for moment in found] == [21, 22, 23, 23]


@st.composite
def _rules(draw: st.DrawFn) -> WallRule:
    minutes = draw(st.frozensets(st.integers(0, 59), min_size=1, max_size=8))
    hours = draw(st.one_of(st.just(frozenset(range(24))), st.frozensets(st.integers(0, 23), min_size=1)))
    weekdays = draw(st.one_of(st.just(frozenset(range(7))), st.frozensets(st.integers(0, 6), min_size=1)))
    return WallRule(minutes, hours, weekdays)


@given(rule=_rules(), place=st.sampled_from(ODD_CHANGES), offset=st.integers(-300, 300), keep=st.integers(0, 5))
@example(
    rule=WallRule(frozenset({30}), frozenset({1}), frozenset({6})),
    place=("America/New_York", datetime(2025, 11, 2, 6, tzinfo=timezone.utc)),
    offset=45,
    keep=1,
)
def test_walking_and_counting_agree_with_the_oracle_from_any_minute_around_a_clock_change(
    rule: WallRule, place: tuple[str, datetime], offset: int, keep: int
) -> None:
    name, change = place
    zone = ZoneInfo(name)
    # The oracle must have seen the clock for a day before it can know what is shown again.
    seen_from, end = change - 32 * HOUR, change + 28 * HOUR
    start = change + timedelta(minutes=offset)
    expected = [moment for moment in fire_times(rule, minutes_shown(zone, seen_from, end)) if moment > start]
    trigger = _trigger(rule, zone)
    assert _walk(trigger, start, end) == expected
    if not expected:
        return
    until = end - timedelta(seconds=30)
    backlog = trigger.backlog(expected[0].astimezone(zone), until, keep)
    assert backlog.count == len(expected)
    assert [moment.astimezone(timezone.utc) for moment in backlog.latest] == expected[-keep:] * (keep > 0)


@given(place=st.sampled_from(ODD_CHANGES), rule=_rules(), data=st.data())
def test_every_fire_time_follows_the_one_before_and_shows_a_wall_time_that_exists(
    place: tuple[str, datetime], rule: WallRule, data: st.DataObject
) -> None:
    zone = ZoneInfo(place[0])
    trigger = _trigger(rule, zone)
    moment = place[1] + timedelta(seconds=data.draw(st.integers(-100_000, 100_000)))
    for _ in range(20):
        following = trigger.get_next_fire_time(moment, moment)
        assert following is not None
        assert following.astimezone(timezone.utc) > moment.astimezone(timezone.utc)
        assert following.tzinfo is zone
        again = following.astimezone(timezone.utc).astimezone(zone)
        assert (again, again.fold) == (following, following.fold)
        moment = following
