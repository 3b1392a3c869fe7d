"""What becomes of a document that was processed, as a table."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goscheduler.documents._rules import PARKED, REMOVED, NextState, after_processing
from goscheduler.documents.model import Document, Fields
from goscheduler.errors import InvalidArgument, NeverFires

UTC = timezone.utc
BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 5, 4, 12, 0, 30, tzinfo=UTC)
NONE = timedelta(0)


def at(text):
    return datetime.fromisoformat(f"2026-05-04T{text}+00:00")


def document(sleep_until="12:00:00", interval=None, repeat_until=None, auto_remove=None):
    due = at(sleep_until)
    return Document("id", {}, due, due + timedelta(minutes=10), interval, repeat_until, auto_remove)


@pytest.mark.parametrize(
    ("fields", "delay", "ending"),
    [
        ({}, NONE, PARKED),
        ({"interval": ""}, NONE, PARKED),
        ({"auto_remove": True}, NONE, REMOVED),
        ({"interval": "", "auto_remove": "yes"}, NONE, REMOVED),
        ({"interval": "* * * * *"}, NONE, NextState(at("12:01:00"))),
        ({"interval": "* * * * *", "auto_remove": True}, NONE, NextState(at("12:01:00"))),
        ({"interval": "*/15 * * * *"}, NONE, NextState(at("12:15:00"))),
        ({"interval": "*/20 * * * * *", "sleep_until": "12:00:20"}, NONE, NextState(at("12:00:40"))),
        ({"interval": "@hourly"}, NONE, NextState(at("13:00:00"))),
        # The delay comes before the search.
        ({"interval": "* * * * *"}, timedelta(seconds=59), NextState(at("12:01:00"))),
        ({"interval": "* * * * *"}, timedelta(seconds=60), NextState(at("12:02:00"))),
        # Old firings are not made up for one by one.
        ({"interval": "* * * * *", "sleep_until": "09:00:00"}, NONE, NextState(NOW)),
        ({"interval": "*/10 * * * * *", "sleep_until": "12:00:20"}, NONE, NextState(at("12:00:30"))),
        # The end is included, and is compared with the time of the schedule, not with now.
        ({"interval": "* * * * *", "repeat_until": at("12:01:00")}, NONE, NextState(at("12:01:00"))),
        ({"interval": "* * * * *", "repeat_until": at("12:00:59")}, NONE, PARKED),
        ({"interval": "* * * * *", "repeat_until": at("12:00:59"), "auto_remove": True}, NONE, REMOVED),
        ({"interval": "* * * * *", "repeat_until": at("10:00:00"), "sleep_until": "09:00:00"}, NONE, NextState(NOW)),
        ({"interval": "* * * * *", "repeat_until": datetime(2026, 5, 4, 12, 1)}, NONE, NextState(at("12:01:00"))),
        ({"interval": "* * * * *", "repeat_until": datetime(2026, 5, 4, 14, 1, tzinfo=BERLIN)}, NONE,
         NextState(at("12:01:00"))),
        # Who says neither true nor false loses nothing.
        *[({"auto_remove": value}, NONE, PARKED) for value in (None, False, 0, "", "0", "false", "maybe", [])],
        *[({"auto_remove": value}, NONE, REMOVED) for value in (1, "1", "true", "TRUE", "on")],
    ],
)  # fmt: skip
def test_a_processed_document_goes_on_as_its_fields_say(fields, delay, ending):
    assert after_processing(document(**fields), NOW, delay, UTC) == ending


def test_crontab_lines_are_read_in_the_zone_that_was_given():
    ending = after_processing(document(interval="0 18 * * *"), NOW, NONE, BERLIN)
    assert ending.sleep_until == at("16:00:00")
    assert ending.sleep_until.tzinfo is UTC


@pytest.mark.parametrize(
    "fields",
    [
        {"interval": "every day"},
        {"interval": "61 * * * *"},
        {"interval": "* * *"},
        {"interval": "* * * * * * *"},
        {"interval": 5},
        {"interval": ["* * * * *"]},
        {"interval": {"every": 5}},
        {"interval": "* * * * *", "repeat_until": "tomorrow"},
        {"interval": "* * * * *", "repeat_until": 7},
        {"interval": "x" * 100_000},
        {"interval": "*\x00 * * * *"},
    ],
)
def test_fields_that_make_no_sense_are_refused(fields):
    with pytest.raises(InvalidArgument):
        after_processing(document(**fields, auto_remove=True), NOW, NONE, UTC)


def test_a_schedule_without_any_time_is_refused():
    with pytest.raises(NeverFires):
        after_processing(document(interval="0 0 31 2 *"), NOW, NONE, UTC)


@given(
    st.datetimes(datetime(1971, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),
    st.integers(0, 10**9),
    st.integers(0, 10**6),
    st.sampled_from(["* * * * *", "*/7 3 * * mon", "0 0 29 2 *", "30 */5 * * * *"]),
)
def test_the_next_time_is_never_in_the_past_and_never_before_the_delay_is_over(due, late, delay, interval):
    now, pause = due + timedelta(seconds=late), timedelta(seconds=delay)
    made = Document("id", {}, due, due, interval)
    following = after_processing(made, now, pause, UTC).sleep_until
    assert following >= now
    assert following > due + pause or following == now


@pytest.mark.parametrize("path", ["", ".", "a..b", "$where", "a.$b", "a\nb", "x" * 300])
def test_a_path_that_cannot_be_one_is_refused(path):
    with pytest.raises(InvalidArgument, match="sleep_until"):
        Fields(sleep_until=path)


@pytest.mark.parametrize("path", [None, 5, b"sleepUntil"])
def test_a_path_that_is_no_text_is_refused(path):
    with pytest.raises(TypeError, match="sleep_until"):
        Fields(sleep_until=path)


@pytest.mark.parametrize(("one", "other"), [("a", "a"), ("cron", "cron.interval"), ("cron.at.interval", "cron.at")])
def test_fields_that_lie_in_each_other_are_refused(one, other):
    with pytest.raises(InvalidArgument, match="neither inside the other"):
        Fields(sleep_until=one, interval=other)


def test_fields_whose_names_only_begin_alike_are_accepted():
    assert Fields(sleep_until="cron", interval="cronline").interval == "cronline"
