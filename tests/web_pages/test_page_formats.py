"""Values as people read them on a page."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from goscheduler.ops.filters import OUTCOMES
from goscheduler.runs.model import JobState
from goscheduler.times import astimezone
from goscheduler.web.pages.expected import expectations
from goscheduler.web.pages.formats import BADGES, Times, badge_of, brief, distance, duration, percent
from goscheduler.web.pages.tracebacks import own_frames


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"), (0, "0 ms"), (0.0004, "0.4 ms"), (0.038, "38 ms"), (1.2, "1.2 s"), (41, "41 s"), (192, "3 m 12 s"),
        (3600, "1 h"), (3605, "1 h 5 s"), (187_200, "2 d 4 h"), (-3, "-3 s"),
    ],
)  # fmt: skip
def test_a_length_of_time_has_its_two_largest_units(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.3, "now"), (3, "in 3 s"), (72, "in 1 m 12 s"), (-3, "3 s ago"), (44_400, "in 12 h 20 m"), (800_000, "in 9 d")],
)
def test_a_moment_is_so_far_away(seconds, text):
    assert distance(seconds) == text


@pytest.mark.parametrize(
    ("share", "text"), [(None, "–"), (1, "100 %"), (0.99999, "99.9 %"), (0.992, "99.2 %"), (0.5, "50 %"), (0, "0 %")]
)
def test_only_all_of_it_is_a_hundred_per_cent(share, text):
    assert percent(share) == text


def test_every_state_and_every_outcome_has_an_icon_a_word_and_a_colour():
    assert {*OUTCOMES, *(state.value for state in JobState)} <= BADGES.keys()
    assert badge_of("something new") == ("dash", "something new", "quiet")


def test_moments_are_shown_in_the_zone_of_the_page():
    times = Times(datetime(2026, 5, 4, 12, tzinfo=timezone.utc), astimezone("Europe/Berlin"))
    moment = "2026-05-04T12:05:00+00:00"
    assert times.relative(moment) == "in 5 m"
    assert times.absolute(moment) == "Mon 04 May 2026 14:05:00 CEST"
    assert (times.short(moment), times.day(moment), times.hour(moment)) == (
        "04 May 14:05:00", "Mon 04 May 14:05", "14:05",
    )  # fmt: skip
    assert times.short("2025-05-04T12:05:00+00:00") == "04 May 2025 14:05"


def test_a_schedule_is_told_without_the_moment_from_which_it_counts():
    assert brief("every 5 minutes from 2026-11-19 19:30:00 UTC") == "every 5 minutes"


def _run(run_id, at, outcome, *, attempt=1, source="schedule", lateness=0.0):
    return {
        "run_id": run_id, "scheduled_at": f"2026-01-01T{at}:00+00:00", "outcome": outcome, "attempt": attempt,
        "source": source, "lateness": lateness, "reason": "why", "error": "ValueError: x",
    }  # fmt: skip


def test_what_should_have_run_stands_beside_what_did():
    runs = [
        _run("e", "05:00", "succeeded", lateness=31.0), _run("d", "04:00", "succeeded", attempt=2, source="retry"),
        _run("d", "04:00", "failed"), _run("c", "03:00", "failed"), _run("b", "02:00", "skipped"),
        _run("m", "01:30", "succeeded", source="manual"),
    ]  # fmt: skip
    gaps = [
        {"at": "2026-01-01T02:00:00+00:00", "reason": "skipped: why"},
        {"at": "2026-01-01T01:00:00+00:00", "reason": "missed: too late"},
        {"at": "2026-01-01T00:00:00+00:00", "reason": "the history has no record of it"},
    ]
    found = [(each.at[11:16], each.word, each.tone, each.note) for each in expectations(runs, gaps)]
    assert found == [
        ("05:00", "31 s late", "warn", ""),
        ("04:00", "on time", "good", "1 attempt before"),
        ("03:00", "failed", "bad", "ValueError: x"),
        ("02:00", "skipped", "quiet", "why"),
        ("01:00", "missed", "warn", "too late"),
        ("00:00", "did not run", "bad", "the history has no record of it"),
    ]


def test_a_traceback_begins_with_the_frames_of_the_users_own_code():
    own = '  File "/app/orders.py", line 3, in sync\n    raise ValueError\n'
    others = '  File "/venv/lib/python3.11/site-packages/http/x.py", line 9, in get\n    return\n'
    assert own_frames(others + own) == own.strip("\n")
    assert own_frames(others) == others.strip("\n")
    assert own_frames("") == ""
