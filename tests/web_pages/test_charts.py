"""Charts: where bars, lines and labels stand."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goscheduler.web.pages.charts import Column, bar_chart, line_chart, nice_maximum, run_chart
from goscheduler.web.pages.formats import Times
from goscheduler.web.pages.run_timeline import LEFT, WIDTH, timeline_of

START = datetime(2026, 5, 4, tzinfo=timezone.utc)
VALUES = st.floats(0, 1e9, allow_nan=False)


@pytest.mark.parametrize(
    ("value", "maximum"),
    [(0, 4), (1, 4), (4, 4), (5, 5), (19, 20), (399, 400), (401, 500), (501, 800), (999, 1000), (1001, 2000)],
)
def test_an_axis_ends_at_a_round_number_whose_quarters_are_round(value, maximum):
    assert nice_maximum(value) == maximum


@given(VALUES)
def test_an_axis_reaches_as_far_as_its_largest_value(value):
    assert nice_maximum(value) >= value * (1 - 1e-6)


@given(st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=80))
def test_bars_stay_in_the_frame_and_stand_on_each_other(values):
    chart = bar_chart([Column(str(n), list(zip("abc", each, strict=True))) for n, each in enumerate(values)], [])
    floor = chart.height - chart.bottom
    for bar in chart.bars:
        assert chart.left - 0.1 <= bar.x
        assert bar.x + bar.width <= chart.width - chart.right + 0.2
        assert chart.top - 0.2 <= bar.y <= floor
        assert bar.y + bar.height <= floor + 0.2
    for title in {bar.title for bar in chart.bars}:
        feet = [bar.y + bar.height for bar in chart.bars if bar.title == title]
        tops = [bar.y for bar in chart.bars if bar.title == title]
        assert all(abs(foot - top) <= 0.21 for foot, top in zip(feet[1:], tops, strict=False))


def test_a_bar_chart_leaves_out_what_is_zero_and_tells_the_rest():
    chart = bar_chart([Column("noon", [("good", 10), ("warn", 0), ("bad", 10)])], [(0.0, "12:00"), (1.0, "13:00")])
    assert [(bar.tone, bar.title) for bar in chart.bars] == [("good", "noon"), ("bad", "noon")]
    assert chart.bars[0].height == chart.bars[1].height
    assert [tick.text for tick in chart.ticks] == ["0", "5", "10", "15", "20"]
    assert [(label.text, label.anchor) for label in chart.labels] == [("12:00", "start"), ("13:00", "end")]


def test_a_chart_of_runs_has_the_newest_at_the_right_and_shows_runs_that_took_no_time():
    chart = run_chart([Column("old", [("good", 0.0)]), Column("new", [("bad", 4.0)], "/runs/1")], "first", "last")
    old, new = chart.bars
    assert old.x < new.x
    assert 0 < old.height < new.height
    assert (new.tone, new.link) == ("bad", "/runs/1")


@given(st.lists(VALUES, max_size=90))
def test_runs_stay_in_the_frame(values):
    chart = run_chart([Column("", [("good", each)]) for each in values], "first", "last")
    for bar in chart.bars:
        assert bar.x + bar.width <= chart.width + 0.2
        assert chart.top - 0.2 <= bar.y
        assert bar.y + bar.height <= chart.height - chart.bottom + 0.2


def test_a_line_is_broken_where_a_value_is_missing():
    chart = line_chart([("p50", "busy", [0.001, None, 0.01, 0.1])], [])
    (line,) = chart.lines
    assert len(line.paths) == 2
    assert line.paths[1].count("L") == 1


def test_larger_times_stand_higher_and_names_do_not_stand_on_each_other():
    chart = line_chart([("p99", "bad", [0.1]), ("p95", "warn", [0.1]), ("p50", "busy", [0.001])], [])
    heights = {line.name: line.label_at for line in chart.lines}
    assert heights["p50"] > heights["p99"]
    assert abs(heights["p99"] - heights["p95"]) >= 11
    assert [tick.text for tick in chart.ticks] == ["1 ms", "10 ms", "100 ms", "1 s"]


@pytest.mark.parametrize("series", [[], [("p50", "busy", [])], [("p50", "busy", [None, None])], [("a", "b", [0.0])]])
def test_nothing_to_draw_is_a_chart_without_lines(series):
    assert all(line.paths == [] or line.name == "a" for line in line_chart(series, []).lines)


def attempt(number, due, started, finished, outcome):
    at = [None if each is None else (START + timedelta(seconds=each)).isoformat() for each in (due, started, finished)]
    return {"attempt": number, "scheduled_at": at[0], "started_at": at[1], "finished_at": at[2], "outcome": outcome}


def test_a_timeline_shows_when_each_attempt_waited_began_and_ended():
    attempts = [attempt(2, 0, 60, 100, "succeeded"), attempt(1, 0, 20, 30, "failed")]
    drawn = timeline_of(attempts, None, Times(START + timedelta(hours=1), timezone.utc))
    told = [(part.tone, part.x, part.width, part.title) for part in drawn.stretches]
    share = (WIDTH - LEFT) / 100
    assert told == [
        ("", LEFT, round(20 * share, 1), "waited 20 s"),
        ("bad", round(LEFT + 20 * share, 1), round(10 * share, 1), "attempt 1: failed after 10 s"),
        ("", round(LEFT + 30 * share, 1), round(30 * share, 1), "waited 30 s"),
        ("good", round(LEFT + 60 * share, 1), round(40 * share, 1), "attempt 2: succeeded after 40 s"),
    ]


def test_a_timeline_has_room_for_what_goes_on_and_for_what_took_no_time():
    times = Times(START + timedelta(seconds=90), timezone.utc)
    live = {**attempt(2, 0, 60, None, ""), "state": "running"}
    drawn = timeline_of([attempt(1, 0, None, 0, "lost")], live, times)
    assert [part.title for part in drawn.stretches] == [
        "attempt 1: lost", "waited 1 m", "attempt 2: running after 30 s",
    ]  # fmt: skip
    assert all(part.x >= LEFT and part.x + part.width <= WIDTH + 0.1 for part in drawn.stretches)
    assert timeline_of([], {**live, "started_at": None}, times) is None
