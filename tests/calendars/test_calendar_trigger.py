"""A trigger on a calendar: what falls into closed time is left out or moved, and asked again when it fires."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import each_row

from goscheduler.calendars import Calendar, Dates, Hours, Named, UnknownCalendar, Weekdays
from goscheduler.calendars.named import forget_calendar
from goscheduler.codec import CodecError, decode, dumps, encode, loads
from goscheduler.errors import InvalidArgument, NeverFires, UnknownOption
from goscheduler.runs.model import OutcomeKind
from goscheduler.schedulers._requested_trigger import trigger_of
from goscheduler.testing import ManualClock, ManualScheduler
from goscheduler.times import to_micros
from goscheduler.triggers._moving import time_for
from goscheduler.triggers.base import BaseTrigger
from goscheduler.triggers.calendar import ON_CLOSED, CalendarTrigger
from goscheduler.triggers.combining import OrTrigger
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.date import DateTrigger
from goscheduler.triggers.every import every
from goscheduler.triggers.interval import IntervalTrigger

UTC = timezone.utc
BERLIN = ZoneInfo("Europe/Berlin")
WORK = Weekdays("mon-fri") - Dates("12-25", "01-01", "2026-05-01")
OFFICE = Hours("09:00-12:00", "13:00-17:30") & WORK
NOW = datetime(2026, 4, 20, tzinfo=UTC)


def shown(trigger: BaseTrigger, n: int = 3, after: datetime = NOW) -> list[str]:
    return [f"{moment:%a %m-%d %H:%M}" for moment in trigger.preview(n, after)]


@each_row(
    ("trigger", "calendar", "on_closed", "expected"),
    [
        (every("day", at="9:00", timezone=BERLIN), WORK, "skip",
         ["Wed 04-29 09:00", "Thu 04-30 09:00", "Mon 05-04 09:00"]),
        (CronTrigger(day=25, hour=9, timezone=BERLIN), WORK, "skip", ["Mon 05-25 09:00", "Thu 06-25 09:00"]),
        (CronTrigger(day=25, hour=9, timezone=BERLIN), WORK, "after", ["Mon 04-27 09:00", "Mon 05-25 09:00"]),
        (CronTrigger(day=25, hour=9, timezone=BERLIN), WORK, "before", ["Fri 04-24 09:00", "Mon 05-25 09:00"]),
        (CronTrigger(day=1, hour=9, timezone=BERLIN), WORK, "before", ["Thu 04-30 09:00", "Mon 06-01 09:00"]),
        (CronTrigger(day=1, hour=20, timezone=BERLIN), OFFICE, "after", ["Mon 05-04 09:00", "Tue 06-02 09:00"]),
        (CronTrigger(day=1, hour=20, timezone=BERLIN), OFFICE, "before", ["Thu 04-30 17:29", "Mon 06-01 17:29"]),
        (CronTrigger(day=1, hour=10, timezone=BERLIN), OFFICE, "before", ["Thu 04-30 10:00", "Mon 06-01 10:00"]),
        (CronTrigger(hour=9, day_of_week="sat,sun,mon", timezone=BERLIN), WORK, "after",
         ["Mon 05-04 09:00", "Mon 05-11 09:00"]),
        (CronTrigger(hour="8-9", minute="*/30", timezone=BERLIN), OFFICE, "skip",
         ["Wed 04-29 09:00", "Wed 04-29 09:30"]),
        (IntervalTrigger(hours=5, start_date="2026-04-29", timezone=BERLIN), OFFICE, "skip",
         ["Wed 04-29 10:00", "Wed 04-29 15:00"]),
        (DateTrigger("2026-05-01 09:00", BERLIN), WORK, "after", ["Mon 05-04 09:00"]),
        (DateTrigger("2026-05-01 09:00", BERLIN), WORK, "skip", []),
    ],
)  # fmt: skip
def test_what_falls_into_closed_time_is_left_out_or_moved(
    trigger: BaseTrigger, calendar: Calendar, on_closed: str, expected: list[str]
) -> None:
    after = datetime(2026, 4, 24 if "25" in str(trigger) else 29, tzinfo=BERLIN)
    assert shown(CalendarTrigger(trigger, calendar, on_closed), len(expected) or 1, after) == expected


def test_a_calendar_that_never_opens_is_refused_at_once() -> None:
    daily = CronTrigger(hour=9, timezone=BERLIN)
    never = Weekdays("mon-fri") & Weekdays("sat"), Dates("2001-01-01"), Hours("9:00-10:00") - Hours("8:00-11:00")
    for calendar in never:
        with pytest.raises(NeverFires) as caught:
            CalendarTrigger(daily, calendar)
        assert caught.value.field == "calendar"
    with ManualScheduler(clock=ManualClock(NOW)) as scheduler, pytest.raises(NeverFires):
        scheduler.add_job(print, CalendarTrigger(CronTrigger(hour=20, timezone=BERLIN), OFFICE))


@each_row(
    ("options", "field"),
    [
        ({"calendar": 5}, "calendar"),
        ({"calendar": ""}, "name"),
        ({"calendar": WORK, "on_closed": "later"}, "on_closed"),
        ({"on_closed": "after"}, "on_closed"),
    ],
)
def test_options_that_make_no_sense_are_named(options: dict[str, Any], field: str) -> None:
    with ManualScheduler() as scheduler, pytest.raises(InvalidArgument) as caught:
        scheduler.add_job(print, "cron", hour=9, **options)
    assert caught.value.field == field


def test_every_way_to_give_a_trigger_takes_a_calendar() -> None:
    with ManualScheduler(clock=ManualClock(NOW)) as scheduler:
        scheduler.add_calendar("work", WORK)
        expected = CalendarTrigger(CronTrigger(hour=9, timezone=UTC), WORK, "after")
        scheduler.add_job(print, "cron", hour=9, calendar=WORK, on_closed="after", id="a")
        scheduler.add_job(print, CronTrigger(hour=9, timezone=UTC), calendar=WORK, on_closed="after", id="b")
        scheduler.add_job(print, "every day at 9:00", calendar=WORK, on_closed="after", id="c")
        for job_id in "abc":
            assert scheduler.get_job(job_id).trigger.same_schedule_as(expected)

        @scheduler.every("day", at="9:00", id="d", calendar="work")
        def work() -> None:
            pass

        scheduler.reschedule_job("a", trigger="cron", hour=9, calendar="work")
        assert scheduler.get_job("a").trigger.calendar == Named("work")
        with pytest.raises(UnknownOption, match="did you mean 'calendar'"):
            scheduler.add_job(print, "cron", hour=9, calender=WORK)
    asked = [
        {"type": "cron", "hour": 9, "calendar": "work", "on_closed": "after"},
        {"type": "crontab", "line": "0 9 * * *", "calendar": "work", "on_closed": "after"},
    ]
    for request in asked:
        assert trigger_of(request, UTC).explain() == 'at 09:00 every day (UTC), later if closed; open: "work"'


def test_jitter_delays_no_firing_into_closed_time() -> None:
    trigger = CalendarTrigger(CronTrigger(hour=11, minute=59, jitter=3600, timezone=BERLIN), OFFICE)
    for _ in range(50):
        fire_time = trigger.get_next_fire_time(None, NOW)
        assert fire_time is not None
        assert (fire_time.hour, fire_time.minute) == (11, 59)


def test_the_rest_of_a_trigger_goes_on_inside() -> None:
    trigger = CalendarTrigger(every("2h", timezone=UTC), OFFICE)
    assert trigger.anchored(NOW).triggers[0].start_date == NOW + timedelta(hours=2)
    first = NOW + timedelta(minutes=30)
    assert trigger.starting_at(first).triggers[0].start_date == first
    spread = CalendarTrigger(CronTrigger.from_crontab("H H * * *", "UTC"), OFFICE)
    assert "'nightly'" in spread.for_job("nightly").explain()
    assert OrTrigger([spread, CalendarTrigger(spread, Named("x"))]).calendar_names == ("x",)


@pytest.mark.parametrize("on_closed", ON_CLOSED)
def test_it_comes_out_of_a_store_as_it_went_in(on_closed: str) -> None:
    trigger = CalendarTrigger(every("30m", start_date=NOW, timezone=UTC), OFFICE - Named("x"), on_closed)
    stored = loads(dumps(trigger))
    assert stored.same_schedule_as(trigger)
    assert (str(stored), stored.explain()) == (str(trigger), trigger.explain())
    assert not stored.same_schedule_as(CalendarTrigger(trigger.triggers[0], OFFICE, on_closed))


@each_row(("key", "value"), [("calendar", None), ("calendar", 5), ("on_closed", "x"), ("triggers", []), ("jitter", -1)])
def test_a_stored_trigger_that_could_not_have_been_made_is_refused(key: str, value: object) -> None:
    record = encode(CalendarTrigger(CronTrigger(hour=9, timezone=UTC), WORK))
    record["value"][key] = value
    with pytest.raises(CodecError):
        decode(record)


@settings(max_examples=60)
@given(
    st.sampled_from([
        WORK, OFFICE, Hours("22:00-24:00", "00:00-06:00"), Weekdays("mon,thu"), OFFICE | Weekdays("sun"),
        Hours("09:00-17:00", timezone="Asia/Tokyo"),
    ]),
    st.sampled_from([
        CronTrigger(hour="*/7", timezone=BERLIN), CronTrigger(hour="3,10,12,20", minute=30, timezone=BERLIN),
        CronTrigger(day="*/3", hour="8,14", timezone=BERLIN),
        IntervalTrigger(hours=11, start_date=NOW, timezone=BERLIN),
        OrTrigger([CronTrigger(day_of_week="sat", hour=10, timezone=BERLIN), CronTrigger(hour=14, timezone=BERLIN)]),
    ]),
    st.booleans(),
    st.datetimes(datetime(2020, 1, 1), datetime(2037, 12, 1)),
)  # fmt: skip
def test_moved_times_are_those_of_a_walk_over_all_nominal_times(
    calendar: Calendar, trigger: BaseTrigger, later: bool, start: datetime
) -> None:
    begin = start.replace(tzinfo=BERLIN)
    nominal = trigger.between(begin - timedelta(days=20), begin + timedelta(days=30), 10_000)
    by_stretch: dict[datetime, datetime] = {}
    wanted = {to_micros(at): at for at in nominal if calendar.is_open(at)}
    for at in nominal:
        if not calendar.is_open(at):
            since = calendar.closed_since(at)
            assert since is not None
            moved = time_for(calendar, by_stretch.setdefault(since, at), later)
            assert moved is not None
            wanted[to_micros(moved)] = moved
    window = sorted(at for at in wanted if to_micros(begin) <= at < to_micros(begin + timedelta(days=10)))
    found = CalendarTrigger(trigger, calendar, "after" if later else "before").preview(len(window) + 1, begin)
    assert [to_micros(at) for at in found][: len(window)] == window


# In a scheduler


def test_a_holiday_that_is_decreed_meanwhile_makes_the_firing_skipped() -> None:
    with ManualScheduler(clock=ManualClock(NOW)) as scheduler:
        scheduler.add_calendar("extra", Dates("2001-01-01"))
        scheduler.add_job(len, "cron", hour=9, args=["x"], id="a", calendar=WORK - Named("extra"), on_closed="skip")
        scheduler.advance("10h")
        scheduler.add_calendar("extra", Dates("2026-04-21", name="Reformation Day"))
        scheduler.advance("1d")
        (skipped, ran) = scheduler.runs("a")
        assert (skipped.outcome, skipped.reason) == (OutcomeKind.SKIPPED, 'closed: Reformation Day ("extra")')
        assert ran.outcome is OutcomeKind.SUCCEEDED
        assert scheduler.get_job("a").next_run_time.day == 22
        assert scheduler.why("a").endswith('; its calendar is closed now: Reformation Day ("extra").')


def test_a_moved_firing_that_is_closed_meanwhile_is_moved_again() -> None:
    with ManualScheduler(clock=ManualClock(datetime(2026, 4, 25, tzinfo=UTC))) as scheduler:
        scheduler.add_calendar("extra", Dates("2001-01-01"))
        scheduler.add_job(
            len, "cron", day=25, hour=9, args=["x"], id="pay", calendar=WORK - Named("extra"), on_closed="after"
        )
        assert scheduler.get_job("pay").next_run_time == datetime(2026, 4, 27, 9, tzinfo=UTC)
        scheduler.add_calendar("extra", Dates("2026-04-27"))
        scheduler.advance("2d10h")
        assert scheduler.runs("pay")[0].outcome is OutcomeKind.SKIPPED
        assert scheduler.get_job("pay").next_run_time == datetime(2026, 4, 28, 9, tzinfo=UTC)


def test_an_unknown_name_suspends_the_job_until_somebody_adds_the_calendar() -> None:
    with ManualScheduler(clock=ManualClock(NOW)) as scheduler:
        with pytest.raises(UnknownCalendar):
            scheduler.add_job(len, "cron", hour=9, args=["x"], calendar="work")
        scheduler.add_calendar("work", WORK)
        scheduler.add_job(len, "cron", hour=9, args=["x"], id="a", calendar="work")
        scheduler.remove_calendar("work")
        scheduler.advance("10h")
        assert "there is no calendar by the name 'work'" in scheduler.get_job("a").suspended
        assert "It is suspended" in scheduler.why("a")
        assert scheduler.runs("a") == []
        scheduler.add_calendar("work", WORK)
        scheduler.run_due()
        assert scheduler.get_job("a").suspended is None
        assert len(scheduler.runs("a")) == 1


def test_a_process_that_does_not_know_a_calendar_finds_it_in_the_store(tmp_path: Any) -> None:
    options: dict[str, Any] = {"jobstores": {"default": f"sqlite:///{tmp_path / 'jobs.db'}"}, "lease": 7200}
    with ManualScheduler(clock=ManualClock(NOW), **options) as scheduler:
        scheduler.add_job(print, CronTrigger(hour=9, timezone=UTC), id="a", args=["x"], calendar=WORK)
    before = ManualScheduler(clock=ManualClock(NOW), **options)
    before.add_calendar("work", Dates("2026-04-21", name="shutdown"))
    with before as scheduler:
        scheduler.add_job(
            print, CronTrigger(hour=9, timezone=UTC), id="b", args=["x"], calendar=Weekdays("mon-fri") - Named("work")
        )
    forget_calendar("work")
    with ManualScheduler(clock=ManualClock(NOW), **options) as scheduler:
        assert scheduler.get_job("b").trigger.preview(1, NOW + timedelta(days=1))[0].day == 22
    forget_calendar("work")
    with ManualScheduler(clock=ManualClock(NOW + timedelta(hours=9)), **options) as scheduler:
        scheduler.run_due()
        assert [record.outcome for record in scheduler.runs("b")] == [OutcomeKind.SUCCEEDED]
        assert scheduler.get_job("b").next_run_time == datetime(2026, 4, 22, 9, tzinfo=UTC)
        assert scheduler.calendars() == {"work": Dates("2026-04-21", name="shutdown")}


def test_a_calendar_of_another_library_stays_in_its_process() -> None:
    class Exchange:
        def is_session(self, day: Any) -> bool:
            return bool(day.day % 2)

    with ManualScheduler(clock=ManualClock(NOW)) as scheduler:
        scheduler.add_calendar("exchange", Exchange())
        scheduler.add_job(len, "cron", hour=9, id="a", args=["x"], calendar="exchange")
        assert scheduler.get_job("a").next_run_time.day == 21
        with pytest.raises(InvalidArgument, match="is_session"):
            scheduler.add_calendar("exchange", object())
        with pytest.raises(InvalidArgument, match="cannot be stored"):
            dumps(scheduler.calendars()["exchange"])
