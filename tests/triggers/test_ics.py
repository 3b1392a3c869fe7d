"""Calendar files as jobs: what is read of them, and what is told of those that cannot be understood."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import each_row

from goscheduler.errors import ConflictingIdError, InvalidArgument
from goscheduler.observer import Observer
from goscheduler.testing import ManualClock, ManualScheduler
from goscheduler.times import astimezone
from goscheduler.triggers.ics import MAX_BYTES, read_ics

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
BERLIN = astimezone("Europe/Berlin")

FILE = """\ufeffBEGIN:VCALENDAR\r
VERSION:2.0\r
X-WR-CALNAME;X-ODD="a:b;c":Team\r
BEGIN:VTIMEZONE\r
TZID:Europe/Berlin\r
BEGIN:STANDARD\r
DTSTART:19701025T030000\r
RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU\r
END:STANDARD\r
END:VTIMEZONE\r
BEGIN:VEVENT\r
UID:standup@example.org\r
SUMMARY:Stand-up\\, all of us\\n(in\r
 \x20the kitchen)\r
DTSTART;TZID="Europe/Berlin":20260105T093000\r
DURATION:PT15M\r
RRULE:FREQ=WEEKLY;BYDAY=MO,WE\r
EXDATE;TZID=Europe/Berlin:20260107T093000\r
BEGIN:VALARM\r
TRIGGER:-PT5M\r
DTSTART:garbage\r
END:VALARM\r
END:VEVENT\r
BEGIN:VEVENT\r
UID:launch\r
DTSTART:20260301T170000Z\r
RDATE:20260401T170000Z\r
END:VEVENT\r
BEGIN:VEVENT\r
UID:holiday\r
SUMMARY:Day off\r
DTSTART;VALUE=DATE:20260110\r
END:VEVENT\r
BEGIN:VEVENT\r
UID:past\r
DTSTART:20200101T000000Z\r
END:VEVENT\r
BEGIN:VEVENT\r
UID:cancelled\r
STATUS:CANCELLED\r
DTSTART:20270101T000000Z\r
END:VEVENT\r
END:VCALENDAR\r
"""


def event(*lines):
    return "\n".join(["BEGIN:VCALENDAR", "BEGIN:VEVENT", "UID:a", *lines, "END:VEVENT", "END:VCALENDAR"])


def test_events_are_read_with_their_zones_exceptions_and_dates():
    standup, launch, holiday, past, cancelled = read_ics(FILE.encode(), BERLIN)
    assert (standup.uid, standup.summary) == ("standup@example.org", "Stand-up, all of us\n(in the kitchen)")
    assert (standup.duration, standup.line) == (timedelta(minutes=15), 11)
    assert [f"{time:%d %H:%M %z}" for time in standup.trigger.preview(2, NOW)] == ["05 09:30 +0100", "12 09:30 +0100"]
    assert f"{standup.trigger.preview(1, NOW + timedelta(days=120))[0]:%H:%M %z}" == "09:30 +0200"
    assert launch.trigger.preview(9, NOW) == [datetime(2026, month, 1, 17, tzinfo=timezone.utc) for month in (3, 4)]
    assert holiday.trigger.preview(9, NOW) == [datetime(2026, 1, 10, tzinfo=BERLIN)]
    assert (past.cancelled, cancelled.cancelled) == (False, True)


def test_a_file_becomes_jobs_of_one_task_all_of_them_or_none(tmp_path):
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    ran = []
    with ManualScheduler(clock=ManualClock(NOW), jobstores={"default": url}, lease=2_592_000) as scheduler:
        scheduler.register("remind", lambda: ran.append(1))
        planned = scheduler.import_ics(FILE, "remind", dry_run=True)
        assert scheduler.get_jobs() == []
        assert scheduler.import_ics(FILE, "remind", tags=["team"]) == planned
        assert [(each.job_id, each.why) for each in planned] == [
            ("standup@example.org", ""), ("launch", ""), ("holiday", ""), (None, "it is over"),
            (None, "it is cancelled"),
        ]  # fmt: skip
        job = scheduler.get_job("standup@example.org")
        assert (job.name, job.metadata, job.tags) == (
            "Stand-up, all of us (in the kitchen)", {"duration": "900"}, ("team",),
        )  # fmt: skip
        scheduler.advance("10d")
        assert len(ran) == 2
        other = FILE.replace("UID:launch", "UID:other")
        with pytest.raises(ConflictingIdError):
            scheduler.import_ics(other, "remind")
        assert scheduler.get_job("other") is None
        with Observer(url, clock=scheduler.clock) as observer:
            assert len(observer.import_ics(other, "remind", if_exists="replace")) == 5
        assert scheduler.get_job("other").task == "remind"


@each_row(
    ("source", "told"),
    [
        ("", "line 1: expected BEGIN:VCALENDAR"),
        (b"BEGIN:VCALENDAR\nSUMMARY:\xff\nEND:VCALENDAR", "not UTF-8: see line 2"),
        ("SUMMARY:x", "line 1: SUMMARY stands outside"),
        ("BEGIN:VCALENDAR\nnonsense\nEND:VCALENDAR", "line 2: expected NAME:VALUE"),
        ("BEGIN:VCALENDAR\nBEGIN:VEVENT\nEND:VCALENDAR", "line 3: END:VCALENDAR without"),
        ("BEGIN:VCALENDAR\nBEGIN:VEVENT", "line 2: BEGIN:VEVENT has no END"),
        (event(), "line 2: this event has no DTSTART"),
        (event("DTSTART:20260101T000000Z", "UID:b"), "line 5: UID stands in this event twice"),
        (event("DTSTART:2026-01-01"), "line 4: .*DTSTART"),
        (event("DTSTART;TZID=W. Europe Standard Time:20260101T090000"), "line 4"),
        (event("DTSTART:20260101T000000Z", "DURATION:an hour"), "line 5: DURATION must be"),
        (event("DTSTART:20260101T000000Z", "DURATION:P"), "line 5: DURATION must be"),
        (event("DTSTART:20260101T000000Z", "RRULE:FREQ=SOMETIMES"), "line 5: .*FREQ"),
        (event("DTSTART:20260101T000000Z", "RRULE:FREQ=SECONDLY"), "line 5"),
        (event("DTSTART:20260101T000000Z", "RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"), "line 5"),
        (event("DTSTART:20260101T000000Z", "EXDATE:soon"), "line 5: .*EXDATE"),
        (event("DTSTART:20260101T000000Z", "RECURRENCE-ID:20260101T000000Z"), "line 5: RECURRENCE-ID"),
        (event("DTSTART:20260101T000000Z") + "\n" + event("DTSTART:20260101T000000Z"), "stands at line 2 too"),
        ("BEGIN:VCALENDAR\n" + "X:y\n" * (MAX_BYTES // 4) + "END:VCALENDAR", "the limit is 5,000,000; split it"),
        ("X;A=" + "," * 50_000, "line 1: expected NAME:VALUE"),
    ],
)  # fmt: skip
def test_what_cannot_be_understood_is_told_with_its_line(source, told):
    with ManualScheduler(clock=ManualClock(NOW)) as scheduler:
        with pytest.raises(InvalidArgument, match=told):
            scheduler.import_ics(source, "remind")
        assert scheduler.get_jobs() == []


def test_all_mistakes_are_told_at_once_and_too_many_events_are_refused():
    many = "\n".join(f"BEGIN:VEVENT\nUID:{number}\nEND:VEVENT" for number in range(30))
    with pytest.raises(InvalidArgument, match=r"line 2: .*line 59: .*; and 10 more"):
        read_ics(f"BEGIN:VCALENDAR\n{many}\nEND:VCALENDAR")


@given(st.text("BEGIND:VTU\r\n\\;,=\"'20260105TZRL- äP", max_size=400))
def test_no_text_does_anything_but_be_read_or_refused(text):
    for source in (text, event(*text.splitlines()), event("DTSTART:20260105T093000Z", "RRULE:" + text)):
        with suppress(InvalidArgument):
            read_ics(source)
