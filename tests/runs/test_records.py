"""What is kept of an attempt, how it is asked for, and for how long it is kept."""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goscheduler.errors import InvalidArgument, UnknownOption
from goscheduler.executors._failures import RemoteError
from goscheduler.options import JobOptions
from goscheduler.runs.filters import MOST_AT_ONCE, Filters, history_query
from goscheduler.runs.model import Attempt, DeadLetter, Outcome, OutcomeKind, Progress, Run, Source
from goscheduler.runs.records import HistoryQuery, Position, Record, Retention, record_of, type_name

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
BERLIN = ZoneInfo("Europe/Berlin")
JOB = SimpleNamespace(
    id="job", name="the job", func_ref="shop:bill", options=JobOptions(tags=("shop",), executor="heavy")
)
RUN = Run("run", JOB, NOW, NOW, "owner", 7, 2, Source.RETRY, 3, 1)


def at(seconds):
    return NOW + timedelta(seconds=seconds)


def ended(kind=OutcomeKind.SUCCEEDED, **outcome):
    return record_of(Attempt(RUN, Outcome(kind, **outcome), at(9)))


def a_record(finished=0.0, run_id="run", fence=0, kind=OutcomeKind.SUCCEEDED, job_id="job"):
    return ended(kind)._replace(run_id=run_id, finished_at=at(finished), fence=fence, job_id=job_id)


# The record


def test_a_record_has_everything_that_is_known_of_an_attempt():
    outcome = Outcome(OutcomeKind.FAILED, None, KeyError("gone"), "frames\n", at(2), 1.5, "because")
    assert record_of(Attempt(RUN, outcome, at(4), 5, Progress(0.25, "a quarter"), "machine")) == Record(
        run_id="run", job_id="job", job_name="the job", task="shop:bill", tags=("shop",), executor="heavy",
        source=Source.RETRY, attempt=2, scheduled_at=NOW, started_at=at(2), finished_at=at(4), seconds=1.5,
        outcome=OutcomeKind.FAILED, reason="because", error_type="KeyError", error_message="'gone'",
        traceback="frames\n", result=None, progress=0.25, progress_note="a quarter", owner="owner", host="machine",
        fence=7, coalesced=3, fire_times=5, crashes=1,
    )  # fmt: skip


def test_a_record_of_what_was_never_started_says_so():
    run = Run("run", JOB, NOW, NOW)
    record = record_of(Attempt(run, Outcome(OutcomeKind.MISSED, reason="missed by 9 s"), at(9)))
    assert (record.started_at, record.owner, record.host, record.progress) == (None, None, "", None)
    assert (record.error_type, record.error_message, record.result, record.lateness) == (None, "", None, 0.0)


def test_the_machine_is_the_one_that_the_attempt_tells_or_else_the_one_given():
    attempt = Attempt(RUN, Outcome(OutcomeKind.SUCCEEDED), NOW)
    assert record_of(attempt, "given").host == "given"
    assert record_of(attempt._replace(host="told"), "given").host == "told"


def test_lateness_is_counted_from_the_fire_time_to_the_start_also_in_a_repeated_hour():
    assert ended(started_at=at(2)).lateness == 2.0
    first = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)
    record = ended(started_at=first.replace(fold=1))._replace(scheduled_at=first)
    assert record.lateness == 3600.0


def test_the_end_is_told_in_utc_whatever_the_clock_tells():
    second_pass = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1)
    finished_at = record_of(Attempt(RUN, Outcome(OutcomeKind.SUCCEEDED), second_pass)).finished_at
    assert (finished_at, finished_at.tzinfo) == (datetime(2026, 10, 25, 1, 30, tzinfo=timezone.utc), timezone.utc)


def test_the_fire_id_is_that_of_the_run():
    assert ended().fire_id == RUN.fire_id


class Mute:
    def __repr__(self):
        raise RuntimeError("no words")


class LoudText(str):
    __slots__ = ()

    def __str__(self):
        raise RuntimeError("no words")

    __repr__ = __len__ = __str__


@pytest.mark.parametrize(("result", "text"), [
    (None, None),
    (42, "42"),
    (0, "0"),
    (False, "False"),
    ("", ""),
    ("text ✓", "text ✓"),
    (["a", 1], "['a', 1]"),
    ("nul \0 and half \ud800", "nul \\x00 and half \\ud800"),
    ("x" * 1000, "x" * 1000),
    ("x" * 10_000_000, "x" * 1000 + "... (10000000 characters)"),
    (b"y" * 5000, "b'" + "y" * 998 + "... (5003 characters)"),
    (Mute(), "<test_records.Mute whose repr() raises RuntimeError>"),
    (LoudText("loud"), "loud"),
], ids=lambda value: type(value).__name__)
def test_a_result_is_kept_as_text_of_bounded_length(result, text):
    kept = ended(result=result).result
    assert type(kept) in (str, type(None))
    if "Mute" in str(kept):
        kept = kept.replace(f"{Mute.__module__}.", "test_records.")
    assert kept == text


def test_reasons_messages_and_frames_are_cut_with_a_note():
    record = ended(error=ValueError("m" * 10_000_000), reason="r" * 5000, traceback="t" * 10_000_000)
    assert record.error_message == "m" * 2000 + "... (10000000 characters)"
    assert record.reason == "r" * 2000 + "... (5000 characters)"
    assert record.traceback == "t" * 8192 + "... (10000000 characters)"


class Speechless(Exception):
    def __str__(self):
        raise SystemExit("not on the thread of a scheduler")

    __repr__ = __str__


class Namelessness(type):
    def __getattribute__(cls, name):
        raise RuntimeError("no name")


Nameless = Namelessness("Nameless", (Exception,), {"__module__": "shop"})


@pytest.mark.parametrize(("error", "name"), [
    (ValueError("no"), "ValueError"),
    (InvalidArgument("no"), "goscheduler.errors.InvalidArgument"),
    (Nameless(), "shop.Nameless"),
    (type("", (Exception,), {"__module__": "shop"})(), "shop.(unnamed)"),
    (type("Odd", (Exception,), {"__module__": None})(), "Odd"),
    (type("L" * 999, (Exception,), {"__module__": "shop"})(), "shop." + "L" * 250),
    (RemoteError("Gone", "far away", ("shop.Gone", "builtins.Exception")), "shop.Gone"),
    (RemoteError("KeyError", "far away", ("builtins.KeyError",)), "KeyError"),
    (RemoteError("Gone", "far away"), "goscheduler.executors._failures.RemoteError"),
    (SystemExit(3), "SystemExit"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_the_type_of_an_error_is_told_by_its_full_name(error, name):
    assert ended(OutcomeKind.FAILED, error=error).error_type == name


def test_an_error_without_words_is_an_outcome_like_any_other():
    class Wordless(Exception):
        def __str__(self):
            raise ZeroDivisionError

    message = ended(OutcomeKind.FAILED, error=Wordless()).error_message
    assert message == f"<{type_name(Wordless)} whose str() raises ZeroDivisionError>"


def test_an_error_whose_words_would_end_the_program_does_not_end_a_thread():
    with ThreadPoolExecutor(1) as thread:
        record = thread.submit(ended, OutcomeKind.FAILED, error=Speechless()).result()
    assert record.error_message == f"<{__name__}.Speechless whose str() raises SystemExit>"


# Cursors

POSITIONS = st.builds(
    Position, st.datetimes(timezones=st.just(timezone.utc)), st.text(st.characters(codec="utf-8")), st.integers(0)
)


@given(POSITIONS)
def test_a_cursor_is_a_word_for_urls_and_leads_back_to_its_position(position):
    assert set(position.cursor) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    assert Position.of_cursor(position.cursor) == position


@given(POSITIONS, POSITIONS)
def test_different_positions_have_different_cursors(one, other):
    assert (one == other) == (one.cursor == other.cursor)


# Queries


def query(**filters):
    return history_query(Filters(**filters), NOW, BERLIN)


def test_a_query_without_filters_asks_for_the_newest_hundred():
    assert query() == HistoryQuery() == HistoryQuery(None, None, None, None, None, None, None, 100)


@pytest.mark.parametrize(("given_", "expected"), [
    (OutcomeKind.FAILED, {OutcomeKind.FAILED}),
    ("failed", {OutcomeKind.FAILED}),
    ("timed out", {OutcomeKind.TIMED_OUT}),
    ("timed_out", {OutcomeKind.TIMED_OUT}),
    (["failed", OutcomeKind.LOST], {OutcomeKind.FAILED, OutcomeKind.LOST}),
    (iter(("missed", "missed")), {OutcomeKind.MISSED}),
    ((), set()),
])
def test_outcomes_are_asked_for_one_or_several_by_member_or_text(given_, expected):
    assert query(outcome=given_).outcomes == expected


@pytest.mark.parametrize("field", ["since", "until"])
@pytest.mark.parametrize(("given_", "expected"), [
    (at(5), at(5)),
    (datetime(2026, 1, 1, 13), NOW),
    ("2026-01-01T12:00:00Z", NOW),
    ("2026-01-01 13:00", NOW),
    ("2026-01-01", NOW - timedelta(hours=13)),
    (datetime(2026, 1, 1).date(), NOW - timedelta(hours=13)),
    (timedelta(hours=2), NOW - timedelta(hours=2)),
    ("2h", NOW - timedelta(hours=2)),
    ("1h30m", NOW - timedelta(minutes=90)),
    ("0s", NOW),
])
def test_a_time_is_a_moment_or_how_long_ago(field, given_, expected):
    assert getattr(query(**{field: given_}), field) == expected


@pytest.mark.parametrize(("given_", "expected"), [
    ("ValueError", "ValueError"),
    ("builtins.ValueError", "ValueError"),
    ("shop.Gone", "shop.Gone"),
    (ValueError, "ValueError"),
    (Speechless, f"{__name__}.Speechless"),
])
def test_an_error_type_is_a_class_or_its_name(given_, expected):
    assert query(error_type=given_).error_type == expected


def test_a_page_goes_on_after_a_record_its_cursor_or_a_dead_letter():
    record = a_record(3)
    for before in (record, record.cursor, DeadLetter(RUN, record, "dead")):
        assert query(before=before).before == record.position


def cursor_of(text):
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(("field", "value"), [
    ("job_id", 5),
    ("job_id", b"job"),
    ("outcome", "good"),
    ("outcome", ["failed", "good"]),
    ("outcome", 5),
    ("outcome", [None]),
    ("outcome", [["failed"]]),
    *((field, value) for field in ("since", "until") for value in (
        5, True, "yesterday", "", "2026-13-01", "2026-02-30", "-2h", timedelta(days=-1), timedelta.max, "9999999999d",
        float("nan"), [], b"2h",
    )),
    ("tag", 5),
    ("tag", ["a"]),
    ("error_type", ""),
    ("error_type", int),
    ("error_type", ValueError("no")),
    ("error_type", 5),
    ("before", 5),
    ("before", ""),
    ("before", "nonsense"),
    ("before", "ü"),
    ("before", a_record().cursor + "="),
    ("before", a_record().cursor[:-1]),
    ("before", cursor_of("1.2")),
    ("before", cursor_of("01.2.run")),
    ("before", cursor_of("\u0661.2.run")),
    ("before", cursor_of("9" * 30 + ".2.run")),
    ("before", "A" * 100_000),
    ("before", at(0)),
    ("limit", 0),
    ("limit", -1),
    ("limit", True),
    ("limit", 1.5),
    ("limit", "5"),
    ("limit", None),
    ("limit", MOST_AT_ONCE + 1),
])  # fmt: skip
def test_a_filter_that_makes_no_sense_is_refused_by_name(field, value):
    with pytest.raises(InvalidArgument, match=rf"^{field} must be .*, got ") as caught:
        query(**{field: value})
    assert caught.value.field == field
    assert len(str(caught.value)) < 400


KEYS = st.tuples(st.integers(0, 3), st.sampled_from("abcd"), st.integers(0, 3))


@given(st.sets(KEYS), st.integers(1, 5), st.randoms())
def test_pages_of_any_size_are_together_what_a_sort_gives(keys, limit, random):
    records = [a_record(*key) for key in keys]
    expected = [key for key in sorted(keys, reverse=True) if key[1] != "b"]
    records = [record._replace(tags=() if record.run_id == "b" else ("shop",)) for record in records]
    asked = HistoryQuery(tag="shop", limit=limit)
    found = []
    while True:
        random.shuffle(records)
        page = asked.page(records)
        found += page
        if len(page) < limit:
            break
        asked = asked._replace(before=Position.of_cursor(page[-1].cursor))
    assert found == [a_record(*key) for key in expected]


# Retention


def days(number):
    return timedelta(days=number)


FAILED, SUCCEEDED = OutcomeKind.FAILED, OutcomeKind.SUCCEEDED


@pytest.mark.parametrize(("kind", "age", "kept"), [
    (SUCCEEDED, days(7), True),
    (SUCCEEDED, days(7) + timedelta(microseconds=1), False),
    (FAILED, days(7.5), True),
    *((kind, days(30), True) for kind in OutcomeKind if kind is not SUCCEEDED),
    *((kind, days(30) + timedelta(microseconds=1), False) for kind in OutcomeKind),
    (SUCCEEDED, days(-1), True),
])
def test_successes_are_kept_for_a_week_and_all_else_for_a_month(kind, age, kept):
    record = a_record(-age.total_seconds(), kind=kind)
    assert Retention().outlived([record], NOW, 10) == ([] if kept else [record])


def test_of_each_job_the_newest_successes_are_kept():
    records = [a_record(number, f"{job_id}{number}", job_id=job_id) for number in range(5) for job_id in "ab"]
    records += [a_record(-1, "f", kind=FAILED, job_id="a")]
    outlived = Retention(succeeded_per_job=3).outlived(records, at(5), 10)
    assert sorted(record.run_id for record in outlived) == ["a0", "a1", "b0", "b1"]
    none = Retention(succeeded_per_job=0).outlived(records, at(5), 2)
    assert sorted(record.run_id for record in none) == ["a0", "b0"]


@given(st.lists(st.tuples(st.integers(0, 20), st.sampled_from("ab"), st.sampled_from([FAILED, SUCCEEDED]))),
       st.integers(0, 4), st.integers(1, 4))  # fmt: skip
def test_batches_forget_together_what_one_look_would_and_oldest_first(attempts, per_job, limit):
    retention = Retention(timedelta(seconds=8), per_job, timedelta(seconds=15))
    records = [a_record(age, str(number), 0, kind, job) for number, (age, job, kind) in enumerate(attempts)]
    all_at_once = retention.outlived(records, at(20), 1000)
    assert [record.finished_at for record in all_at_once] == sorted(record.finished_at for record in all_at_once)
    forgotten = []
    while batch := retention.outlived([record for record in records if record not in forgotten], at(20), limit):
        assert len(batch) <= limit
        forgotten += batch
    assert forgotten == all_at_once


def test_a_retention_without_an_end_keeps_everything():
    for_ever = Retention(timedelta.max, 10**9, timedelta.max)
    ages = [datetime.min.replace(tzinfo=timezone.utc), NOW, datetime.max.replace(tzinfo=timezone.utc)]
    assert for_ever.outlived([a_record()._replace(finished_at=age) for age in ages], NOW, 10) == []


def test_a_retention_is_read_from_text_and_numbers():
    assert Retention("3d", "50", 3600) == Retention(days(3), 50, timedelta(hours=1))
    assert Retention.of({"others": "90d"}) == Retention(others=days(90))
    assert Retention.of({}) == Retention.of(Retention()) == Retention(days(7), 1000, days(30))


@pytest.mark.parametrize(("field", "value"), [
    *((field, value) for field in ("succeeded", "others") for value in (None, -1, "soon", timedelta(-1), True, [])),
    *(("succeeded_per_job", value) for value in (None, -1, 1.5, "many", True, [])),
])
def test_a_retention_that_makes_no_sense_is_refused_by_name(field, value):
    with pytest.raises(InvalidArgument, match=rf"^{field} must be .*, got ") as caught:
        Retention(**{field: value})
    assert caught.value.field == field


def test_a_field_that_a_retention_does_not_have_is_refused_with_what_was_meant():
    with pytest.raises(UnknownOption, match="did you mean 'succeeded'"):
        Retention.of({"suceeded": "1d"})


@pytest.mark.parametrize("value", [None, 5, "7d", ["7d"]])
def test_only_a_retention_or_its_fields_make_one(value):
    with pytest.raises(TypeError, match="retention must be"):
        Retention.of(value)
