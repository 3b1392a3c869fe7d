"""Recurrence rules: the examples of RFC 5545, clock changes, and what is refused."""

from __future__ import annotations

import pickle
from datetime import datetime, time, timedelta, timezone
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import each_row

from goscheduler import RRuleTrigger
from goscheduler.codec import CodecError, decode, dumps, encode, loads
from goscheduler.errors import InvalidArgument, NeverFires
from goscheduler.schedulers._requested_trigger import trigger_of
from goscheduler.testing import ManualClock, ManualScheduler

UTC = timezone.utc
NEW_YORK = "America/New_York"
START = datetime(1997, 9, 2, 9)
BEFORE = datetime(1990, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@each_row(
    ("rule", "start", "expected"),
    [
        # From section 3.8.5.3, where the start is 2 September 1997 at nine in New York unless it is given.
        ("FREQ=DAILY;COUNT=10", START, "0902 0903 0904 0905 0906 0907 0908 0909 0910 0911 end"),
        ("FREQ=DAILY;UNTIL=19970905T000000Z", START, "0902 0903 0904 end"),
        ("FREQ=DAILY;INTERVAL=2", START, "0902 0904 0906 0908"),
        ("FREQ=DAILY;INTERVAL=10;COUNT=5", START, "0902 0912 0922 1002 1012 end"),
        ("FREQ=DAILY;UNTIL=20000131T140000Z;BYMONTH=1", datetime(1998, 1, 1, 9), "0101 0102 0103"),
        ("FREQ=WEEKLY;COUNT=10", START, "0902 0909 0916 0923 0930 1007 1014 1021 1028 1104 end"),
        ("FREQ=WEEKLY;INTERVAL=2;WKST=SU", START, "0902 0916 0930 1014 1028 1111"),
        ("FREQ=WEEKLY;COUNT=10;WKST=SU;BYDAY=TU,TH", START, "0902 0904 0909 0911 0916 0918 0923 0925 0930 1002 end"),
        ("FREQ=WEEKLY;INTERVAL=2;UNTIL=19971224T000000Z;WKST=SU;BYDAY=MO,WE,FR", datetime(1997, 9, 1, 9),
         "0901 0903 0905 0915 0917 0919 0929"),
        ("FREQ=WEEKLY;INTERVAL=2;COUNT=8;WKST=SU;BYDAY=TU,TH", START, "0902 0904 0916 0918 0930 1002 1014 1016 end"),
        ("FREQ=MONTHLY;COUNT=10;BYDAY=1FR", datetime(1997, 9, 5, 9), "0905 1003 1107 1205 0102 0206"),
        ("FREQ=MONTHLY;INTERVAL=2;COUNT=10;BYDAY=1SU,-1SU", datetime(1997, 9, 7, 9), "0907 0928 1102 1130 0104 0125"),
        ("FREQ=MONTHLY;COUNT=6;BYDAY=-2MO", datetime(1997, 9, 22, 9), "0922 1020 1117 1222 0119 0216 end"),
        ("FREQ=MONTHLY;BYMONTHDAY=-3", datetime(1997, 9, 28, 9), "0928 1029 1128 1229 0129 0226"),
        ("FREQ=MONTHLY;COUNT=10;BYMONTHDAY=1,-1", datetime(1997, 9, 30, 9), "0930 1001 1031 1101 1130 1201"),
        ("FREQ=MONTHLY;INTERVAL=18;COUNT=10;BYMONTHDAY=10,11,12,13,14,15", datetime(1997, 9, 10, 9),
         "0910 0911 0912 0913 0914 0915 0310"),
        ("FREQ=MONTHLY;INTERVAL=2;BYDAY=TU", START, "0902 0909 0916 0923 0930 1104 1111"),
        ("FREQ=YEARLY;COUNT=10;BYMONTH=6,7", datetime(1997, 6, 10, 9), "0610 0710 0610 0710"),
        ("FREQ=YEARLY;INTERVAL=3;COUNT=10;BYYEARDAY=1,100,200", datetime(1997, 1, 1, 9),
         "0101 0410 0719 0101 0409 0718"),
        ("FREQ=YEARLY;BYDAY=20MO", datetime(1997, 5, 19, 9), "0519 0518 0517"),
        ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", datetime(1997, 5, 12, 9), "0512 0511 0517"),
        ("FREQ=YEARLY;BYMONTH=3;BYDAY=TH", datetime(1997, 3, 13, 9), "0313 0320 0327 0305"),
        ("FREQ=YEARLY;BYDAY=TH;BYMONTH=6,7,8", datetime(1997, 6, 5, 9), "0605 0612 0619 0626 0703"),
        ("FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", START, "0213 0313 1113 0813 1013"),
        ("FREQ=MONTHLY;BYDAY=SA;BYMONTHDAY=7,8,9,10,11,12,13", datetime(1997, 9, 13, 9), "0913 1011 1108 1213"),
        ("FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8", datetime(1996, 11, 5, 9),
         "1105 1107 1102"),
        ("FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3", datetime(1997, 9, 4, 9), "0904 1007 1106 end"),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2", datetime(1997, 9, 29, 9), "0929 1030 1127 1230"),
        ("FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO", datetime(1997, 8, 5, 9), "0805 0810 0819 0824 end"),
        ("FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU", datetime(1997, 8, 5, 9), "0805 0817 0819 0831 end"),
        ("FREQ=MONTHLY;BYMONTHDAY=15,30;COUNT=5", datetime(2007, 1, 15, 9), "0115 0130 0215 0315 0330 end"),
        ("FREQ=YEARLY", datetime(2024, 2, 29, 9), "0229 0229"),
    ],
)  # fmt: skip
def test_the_examples_of_the_rfc_are_as_it_says(rule: str, start: datetime, expected: str) -> None:
    trigger = RRuleTrigger(rule, dtstart=start, timezone=NEW_YORK)
    wanted = [each for each in expected.split() if each != "end"]
    found = trigger.preview(len(wanted) + 1, BEFORE)
    assert [f"{moment:%m%d}" for moment in found[: len(wanted)]] == wanted
    assert {moment.time() for moment in found} == {time(9)}
    assert (len(found) == len(wanted)) == expected.endswith("end")
    # Asked from each of them, it goes on with the next one.
    for previous, following in pairwise(found):
        assert trigger.get_next_fire_time(previous, previous) == following


@each_row(
    ("rule", "expected"),
    [
        ("FREQ=HOURLY;INTERVAL=3;UNTIL=19970902T210000Z", "09:00 12:00 15:00"),
        ("FREQ=MINUTELY;INTERVAL=15;COUNT=6;BYDAY=TU", "09:00 09:15 09:30 09:45 10:00 10:15"),
        ("FREQ=MINUTELY;INTERVAL=90;COUNT=4;BYMONTH=9", "09:00 10:30 12:00 13:30"),
        ("FREQ=DAILY;BYHOUR=9,10;BYMINUTE=0,20,40;COUNT=5", "09:00 09:20 09:40 10:00 10:20"),
        ("FREQ=MINUTELY;INTERVAL=20;BYHOUR=9,10;COUNT=5", "09:00 09:20 09:40 10:00 10:20"),
    ],
)
def test_the_examples_of_the_rfc_within_a_day(rule: str, expected: str) -> None:
    trigger = RRuleTrigger(rule, dtstart=START, timezone=NEW_YORK)
    assert " ".join(f"{moment:%H:%M}" for moment in trigger.preview(20, BEFORE)) == expected


def test_an_event_has_its_start_its_zone_and_its_dates_in_lines() -> None:
    event = (
        "DTSTART;TZID=America/New_York:19970902T090000\nRRULE:FREQ=DAILY;\n COUNT=4\n"
        "EXDATE;TZID=America/New_York:19970903T090000\nEXDATE:19970904T130000Z\nRDATE:19971224T190000Z,19970101T120000Z"
    )
    trigger = RRuleTrigger(event)
    assert trigger.timezone == ZoneInfo(NEW_YORK)
    found = [f"{moment:%Y-%m-%d %H:%M}" for moment in trigger.preview(9, BEFORE)]
    assert found == ["1997-01-01 07:00", "1997-09-02 09:00", "1997-09-05 09:00", "1997-12-24 14:00"]
    same = RRuleTrigger(
        "FREQ=DAILY;COUNT=4", START, NEW_YORK, rdates=["19971224T190000Z", datetime(1997, 1, 1, 12, tzinfo=UTC)],
        exdates=["1997-09-03 09:00", datetime(1997, 9, 4, 9)],
    )  # fmt: skip
    assert trigger.same_schedule_as(same)
    assert trigger.explain().endswith("at 09:00 4 times from 1997-09-02, with 2 more, without 2 (America/New_York)")


@each_row(
    ("zone", "wall", "around", "expected"),
    [
        ("Europe/Berlin", time(2, 30), datetime(2026, 3, 28, tzinfo=UTC), "28 02:30+0100 29 03:00+0200 30 02:30+0200"),
        ("Europe/Berlin", time(2, 30), datetime(2026, 10, 24, tzinfo=UTC), "24 02:30+0200 25 02:30+0200 26 02:30+0100"),
        ("Africa/Cairo", time(0, 0), datetime(2026, 4, 23, tzinfo=UTC), "24 01:00+0300 25 00:00+0300 26 00:00+0300"),
        ("Pacific/Apia", time(9, 0), datetime(2011, 12, 29, tzinfo=UTC), "29 09:00-1000 31 09:00+1400 01 09:00+1400"),
    ],
)
def test_clock_changes_are_as_for_all_triggers(zone: str, wall: time, around: datetime, expected: str) -> None:
    trigger = RRuleTrigger("FREQ=DAILY", datetime.combine(datetime(2000, 1, 1), wall), zone)
    found = trigger.preview(3, around)
    assert " ".join(f"{moment:%d %H:%M%z}" for moment in found) == expected
    stepped = [trigger.get_next_fire_time(moment, moment) for moment in found[:2]]
    assert stepped == found[1:]


@settings(max_examples=40)
@given(
    st.sampled_from(["DAILY", "WEEKLY", "MONTHLY", "YEARLY"]),
    st.integers(1, 5),
    st.sets(st.sampled_from(["MO", "TU", "WE", "TH", "FR", "SA", "SU"])),
    st.sets(st.integers(1, 12), max_size=3),
    st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)).map(lambda at: at.replace(microsecond=0)),
    st.integers(0, 3000),
)
def test_it_fires_on_the_days_that_a_walk_day_by_day_says(
    freq: str, interval: int, days: set[str], months: set[int], start: datetime, later: int
) -> None:
    rule = f"FREQ={freq};INTERVAL={interval}"
    rule += f";BYDAY={','.join(sorted(days))}" if days else ""
    rule += f";BYMONTH={','.join(map(str, sorted(months)))}" if months else ""
    walk = (start + DAY * number for number in range(later, later + 3000))
    expected = [day for day in walk if _fits(freq, interval, days, months, start, day)][:5]
    try:
        trigger = RRuleTrigger(rule, start, UTC)
    except NeverFires:
        assert expected == []
        return
    found = trigger.preview(5, (start + DAY * later).replace(tzinfo=UTC))
    assert [moment.replace(tzinfo=None) for moment in found][: len(expected)] == expected


def _fits(freq: str, interval: int, days: set[str], months: set[int], start: datetime, day: datetime) -> bool:
    """Tell literally whether a rule has a day."""
    monday, first = (each.date() - DAY * each.weekday() for each in (day, start))
    passed = {
        "DAILY": (day.date() - start.date()).days, "WEEKLY": (monday - first).days // 7,
        "MONTHLY": (day.year - start.year) * 12 + day.month - start.month, "YEARLY": day.year - start.year,
    }[freq]  # fmt: skip
    if passed % interval or (months and day.month not in months):
        return False
    if days:
        return ["MO", "TU", "WE", "TH", "FR", "SA", "SU"][day.weekday()] in days
    if freq == "WEEKLY":
        return day.weekday() == start.weekday()
    same_day = freq == "DAILY" or day.day == start.day
    return same_day and (freq != "YEARLY" or bool(months) or day.month == start.month)


@each_row(
    ("rule", "field", "told"),
    [
        ("FREQ=DAYLY", "FREQ", 'did you mean "DAILY"'),
        ("INTERVAL=2", "FREQ", "one of"),
        ("FREQ=DAILY;BYDAI=MO", "rule", 'did you mean "BYDAY"'),
        ("FREQ=DAILY;FREQ=WEEKLY", "FREQ", "once"),
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL", "1 to"),
        ("FREQ=DAILY;COUNT=10001", "COUNT", "10000"),
        ("FREQ=DAILY;COUNT=5;UNTIL=20260101", "UNTIL", "COUNT"),
        ("FREQ=DAILY;UNTIL=soon", "UNTIL", "date"),
        ("FREQ=DAILY;UNTIL=20261301", "UNTIL", "month"),
        ("FREQ=DAILY;BYHOUR=24", "BYHOUR", "0 to 23"),
        ("FREQ=DAILY;BYHOUR=-1", "BYHOUR", "0 to 23"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", "BYMONTHDAY", "-31"),
        ("FREQ=MONTHLY;BYDAY=0MO", "BYDAY", "2TU"),
        ("FREQ=MONTHLY;BYDAY=XX", "BYDAY", "2TU"),
        ("FREQ=DAILY;BYDAY=2MO", "BYDAY", "MONTHLY or YEARLY"),
        ("FREQ=YEARLY;BYWEEKNO=5;BYDAY=2MO", "BYDAY", "number"),
        ("FREQ=MONTHLY;BYWEEKNO=5", "BYWEEKNO", "FREQ=MONTHLY"),
        ("FREQ=WEEKLY;BYMONTHDAY=5", "BYMONTHDAY", "FREQ=WEEKLY"),
        ("FREQ=DAILY;BYYEARDAY=5", "BYYEARDAY", "FREQ=DAILY"),
        ("FREQ=MONTHLY;BYSETPOS=1", "BYSETPOS", "another part"),
        ("FREQ=SECONDLY;BYSECOND=1;BYSETPOS=2", "BYSETPOS", "FREQ=SECONDLY"),
        ("FREQ=DAILY;WKST=XX", "WKST", "MO"),
        ("FREQ=MINUTELY;INTERVAL=5", "FREQ", "IntervalTrigger(minutes=5)"),
        ("FREQ=SECONDLY", "FREQ", "IntervalTrigger(seconds=1)"),
        ("", "rule", "text"),
        (None, "rule", "text"),
        ("FREQ=DAILY;" + "BYHOUR=" + "1," * 600 + "1", "rule", "1000"),
        ("RRULE:FREQ=DAILY\nRRULE:FREQ=WEEKLY", "rule", "one RRULE"),
        ("RRULE:FREQ=DAILY\nEXRULE:FREQ=WEEKLY", "rule", "EXDATE"),
        ("DTSTART;TZID=Mars/Phobos:20260101T090000\nRRULE:FREQ=DAILY", "timezone", "Mars"),
    ],
)
def test_what_is_no_rule_is_refused_naming_the_part(rule: Any, field: str, told: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        RRuleTrigger(rule, START, "UTC") if "TZID" not in str(rule) else RRuleTrigger(rule)
    assert caught.value.field == field
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=HOURLY;INTERVAL=2;BYHOUR=4", "FREQ=DAILY;INTERVAL=7;BYDAY=WE",
        "FREQ=DAILY;UNTIL=19900101", "FREQ=MONTHLY;INTERVAL=12;BYMONTH=3",
    ],
)  # fmt: skip
def test_a_rule_without_a_single_time_is_refused_and_does_not_search_for_ever(rule: str) -> None:
    with pytest.raises(NeverFires):
        RRuleTrigger(rule, START, "UTC")


@each_row(
    ("options", "field"),
    [
        ({"dtstart": "soon"}, "dtstart"),
        ({"dtstart": 5}, "dtstart"),
        ({"rdates": "2026-01-01"}, "rdates"),
        ({"exdates": [None]}, "exdates"),
        ({"exdates": [START + DAY * n for n in range(1001)]}, "exdates"),
        ({"timezone": "Mars/Phobos"}, "timezone"),
    ],
)
def test_an_argument_that_makes_no_sense_is_named(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        RRuleTrigger("FREQ=DAILY", **options)
    assert caught.value.field == field


def test_it_comes_out_of_a_store_as_it_went_in() -> None:
    trigger = RRuleTrigger("FREQ=MONTHLY;BYDAY=-1FR", START, NEW_YORK, exdates=["1997-09-26 09:00"], rdates=[START])
    for stored in (loads(dumps(trigger)), pickle.loads(pickle.dumps(trigger))):
        assert stored.same_schedule_as(trigger)
        assert stored.preview(5, BEFORE) == trigger.preview(5, BEFORE)
        assert (str(stored), repr(stored), stored.explain()) == (str(trigger), repr(trigger), trigger.explain())


@each_row(
    ("key", "value"),
    [
        ("rule", None), ("rule", "FREQ=X"), ("dtstart", None), ("dtstart", "1997-09-02"), ("dtstart", BEFORE),
        ("rdates", 5), ("exdates", ["x"]), ("floating", 1), ("timezone", 5), ("version", 9),
    ],
)  # fmt: skip
def test_a_stored_rule_that_could_not_have_been_made_is_refused(key: str, value: Any) -> None:
    record = encode(RRuleTrigger("FREQ=DAILY", START, "UTC"))
    record["value"][key] = encode(value)
    with pytest.raises(CodecError):
        decode(record)


def test_a_job_takes_a_rule_by_name_and_begins_with_the_day_on_which_it_is_added() -> None:
    with ManualScheduler(clock=ManualClock(datetime(2026, 5, 6, 12, tzinfo=UTC))) as scheduler:
        job = scheduler.add_job(print, "rrule", rule="FREQ=DAILY;INTERVAL=2;BYHOUR=9", id="a")
        assert job.next_run_time == datetime(2026, 5, 8, 9, tzinfo=UTC)
        assert job.trigger.explain() == "every 2 days at 09:00 from 2026-05-06 (UTC)"
        scheduler.clock.advance("1d")
        scheduler.add_job(print, "rrule", rule="FREQ=DAILY;INTERVAL=2;BYHOUR=9", id="a", replace_existing=True)
        assert scheduler.get_job("a").next_run_time == job.next_run_time
    asked = trigger_of({"type": "rrule", "rule": "FREQ=WEEKLY;BYDAY=MO", "dtstart": "2026-01-01 09:00"}, UTC)
    assert asked.explain() == "every week on Monday at 09:00 from 2026-01-01 (UTC)"
