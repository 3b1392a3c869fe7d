from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goscheduler.executors._pace import AHEAD_SECONDS, MAX_DEPTH, Pace, depth


@pytest.mark.parametrize(
    ("workers", "average", "expected"),
    [
        (10, 3600.0, 10),
        (10, 0.1, 10),
        (10, 0.05, 20),
        (10, 0.001, 1000),
        (10, 0.0001, 5000),
        (10, 0.0, 5000),
        (1, 0.01, 10),
        (8000, 0.0, 8000),
    ],
)
def test_the_shorter_the_runs_the_more_are_taken_ahead(workers, average, expected):
    assert depth(workers, average) == expected


@given(st.integers(1, 10**6), st.floats(0, 1e9))
def test_the_depth_is_never_below_the_number_of_workers_nor_above_its_limit(workers, average):
    assert workers <= depth(workers, average) <= max(workers, MAX_DEPTH)


def test_before_anything_has_run_each_worker_gets_one():
    assert depth(7, Pace(0.0).average_seconds) == 7


def test_the_average_follows_the_durations_down_and_up():
    pace = Pace(0.0)
    pace.observe(finished=1000, seconds=1.0, live=0, now=1.0)
    quick = pace.average_seconds
    pace.observe(finished=1010, seconds=11.0, live=0, now=2.0)

    assert quick == pytest.approx(0.001, abs=0.002)
    assert pace.average_seconds == pytest.approx(0.5, abs=0.01)


def test_what_is_assumed_at_first_weighs_as_one_run():
    pace = Pace(0.0)
    pace.observe(finished=9, seconds=0.0, live=0, now=1.0)

    assert pace.average_seconds == pytest.approx(AHEAD_SECONDS / 10)


def test_later_one_odd_run_moves_the_average_only_a_little():
    pace = Pace(0.0)
    pace.observe(finished=1_000_000, seconds=0.0, live=0, now=1.0)
    pace.observe(finished=1_000_001, seconds=1.1, live=0, now=2.0)

    assert pace.average_seconds == pytest.approx(0.1, abs=0.001)


def test_runs_that_do_not_end_count_as_long_before_they_have_ended():
    pace = Pace(0.0)
    pace.observe(finished=1000, seconds=0.1, live=10, now=1.0)
    assert depth(10, pace.average_seconds) > 10

    pace.observe(finished=1000, seconds=0.1, live=10, now=1.5)

    assert depth(10, pace.average_seconds) == 10


def test_an_idle_pool_does_not_become_slow():
    pace = Pace(0.0)
    pace.observe(finished=1000, seconds=0.1, live=0, now=1.0)
    before = pace.average_seconds

    pace.observe(finished=1000, seconds=0.1, live=0, now=3600.0)
    pace.observe(finished=1000, seconds=0.1, live=1, now=3600.0)

    assert pace.average_seconds == before


def test_runs_that_came_a_moment_ago_are_not_as_long_as_what_the_pool_has_waited_for_them():
    pace = Pace(0.0)
    pace.observe(finished=1000, seconds=0.1, live=0, now=1.0)
    before = pace.average_seconds

    pace.begin(1.19)  # it took a slow store so long to give them
    pace.observe(finished=1000, seconds=0.1, live=500, now=1.2)
    assert pace.average_seconds == before

    pace.observe(finished=1000, seconds=0.1, live=500, now=1.69)
    assert pace.average_seconds == pytest.approx(0.5)


def test_runs_that_began_long_ago_count_as_long_although_nobody_has_looked_since():
    pace = Pace(0.0)
    pace.observe(finished=1000, seconds=0.1, live=0, now=1.0)

    pace.begin(1.0)
    pace.observe(finished=1000, seconds=0.1, live=200, now=11.0)

    assert depth(10, pace.average_seconds) == 10
