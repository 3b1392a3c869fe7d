"""The trigger of a job that follows others: which ends are news, and what a cursor keeps."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from rows import each_row

from goscheduler.codec import dumps, loads
from goscheduler.errors import InvalidArgument
from goscheduler.times import to_micros
from goscheduler.triggers.after import KEPT, SLACK, AfterTrigger, Cursor, End
from goscheduler.triggers.calendar import CalendarTrigger
from goscheduler.triggers.combining import AndTrigger
from goscheduler.triggers.interval import IntervalTrigger

NOON = datetime(2026, 6, 1, 12, tzinfo=timezone.utc)


def end(name: str, seconds: float = 0, fence: int = 1) -> End:
    moment = NOON + timedelta(seconds=seconds)
    return End(name, fence, moment, moment)


A, B, LATE = end("a"), end("b", 10), end("late", -30)


@each_row(
    ("upstream", "before", "found", "missing"),
    [
        ("x", {}, {}, ["x"]),  # has not ended yet
        ("x", {}, {"x": [A]}, []),  # has ended
        ("x", {"x": [A]}, {"x": [A]}, ["x"]),  # and was followed
        ("x", {"x": [A]}, {"x": [A, B]}, []),  # has ended again
        ("x", {"x": [A, B]}, {"x": [A, B]}, ["x"]),  # two ends are followed at once
        ("x", {"x": [B]}, {"x": [B, A]}, []),  # by a process whose clock is behind: it is news all the same
        ("x", {"x": [B]}, {"x": [B, end("old", -100)]}, ["x"]),  # beyond what clocks may differ
        ("x", {"x": [A]}, {"x": [A, end("a", 0, fence=2)]}, []),  # redriven at the same moment
        ("xy", {}, {"x": [A]}, ["y"]),  # waits for all
        ("xy", {}, {"x": [A], "y": [B]}, []),
        ("xy", {"x": [A], "y": [A]}, {"x": [A, B], "y": [A]}, ["y"]),
        ("xy", {"x": [A], "y": [A]}, {"x": [A, B], "y": [A, LATE]}, []),
    ],
)  # fmt: skip
def test_a_job_fires_when_each_job_that_it_follows_has_an_end_that_was_not_followed(
    upstream: str, before: dict[str, list[End]], found: dict[str, list[End]], missing: list[str]
) -> None:
    trigger = AfterTrigger(list(upstream)).behind(before)
    assert trigger.missing(found) == missing
    assert trigger.behind(found).missing(found) == list(upstream), "what was followed once is not followed again"
    assert loads(dumps(trigger)).missing(found) == missing
    assert pickle.loads(pickle.dumps(trigger)).missing(found) == missing


def test_a_cursor_knows_no_more_ends_than_it_needs_and_follows_none_twice() -> None:
    ends = [end(f"run-{number}", number / 100) for number in range(3 * KEPT)]
    cursor = Cursor().behind(ends)
    assert len(cursor.followed) < KEPT
    assert cursor.last == ends[-1]
    assert cursor.news(ends) == []
    assert cursor.news([*ends, end("new", 3)]) == [end("new", 3)]
    later = cursor.behind([end("much later", 600)])
    assert later.followed == {"much later:1"}
    assert later.floor == to_micros(NOON + timedelta(seconds=600)) - SLACK


def test_a_trigger_begins_behind_what_has_ended_before_and_resumes_behind_what_ended_meanwhile() -> None:
    now = to_micros(NOON + timedelta(seconds=20))
    begun = AfterTrigger(["x", "y"]).begun({"x": [A, B]}, now)
    assert begun.placed
    assert begun.missing({"x": [A, B], "y": [end("old", -50)]}) == ["x", "y"]
    assert begun.missing({"x": [A, B, end("c", 15)], "y": [A]}) == []
    resumed = begun.from_now(NOON + timedelta(seconds=30))
    assert resumed.missing({"x": [end("meanwhile", 25)], "y": [end("after", 31)]}) == ["x"]


@each_row(
    ("trigger", "words", "text"),
    [
        (AfterTrigger("a"), 'when "a" has succeeded', "after[a]"),
        (AfterTrigger("a", on="failure"), 'when "a" has failed', "after[a, on=failure]"),
        (AfterTrigger(["a", "b", "a"], "end"), 'when "a" and "b" have all ended', "after[a, b, on=end]"),
        (AfterTrigger(["a", "b", "c"], delay="90s"), '0:01:30 after "a", "b" and "c" have all succeeded',
         "after[a, b, c, delay=0:01:30]"),
    ],
)  # fmt: skip
def test_it_tells_in_words_what_it_waits_for(trigger: AfterTrigger, words: str, text: str) -> None:
    assert (trigger.explain(), str(trigger)) == (words, text)
    assert trigger.preview(3) == []
    assert trigger.same_schedule_as(loads(dumps(trigger)).behind({"a": [A]}))
    assert not trigger.same_schedule_as(AfterTrigger("z"))


@each_row(
    ("arguments", "field"),
    [
        ({"after": ""}, "after"), ({"after": []}, "after"), ({"after": [1]}, "after"), ({"after": None}, "after"),
        ({"after": [str(number) for number in range(101)]}, "after"),
        ({"after": "a", "on": "error"}, "on"), ({"after": "a", "on": None}, "on"),
        ({"after": "a", "delay": "soon"}, "delay"), ({"after": "a", "delay": -1}, "delay"),
        ({"after": "a", "delay": "400d"}, "delay"),
    ],
)  # fmt: skip
def test_senseless_arguments_are_refused_with_the_name_of_the_field(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        AfterTrigger(**arguments)
    assert caught.value.field == field


def test_it_has_no_fire_times_so_it_is_not_combined_with_other_triggers() -> None:
    for combine in (
        lambda: AndTrigger([IntervalTrigger(hours=1), AfterTrigger("a")]),
        lambda: CalendarTrigger(AfterTrigger("a"), "holidays"),
    ):
        with pytest.raises(InvalidArgument, match="has no fire times"):
            combine()
