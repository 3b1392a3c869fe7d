"""What users wrote reaches neither the terminal as a command nor Rich as markup."""

from __future__ import annotations

from datetime import datetime, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goscheduler._text import printable, printable_lines
from goscheduler.cli._print import aligned
from goscheduler.cli._text import cell
from goscheduler.ops.values import plain
from goscheduler.runs.model import OutcomeKind

NOON = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
BERLIN = ZoneInfo("Europe/Berlin")


@given(st.text())
def test_what_is_printed_on_a_line_has_no_control_characters(text: str) -> None:
    assert printable(text).isprintable()


@given(st.text())
def test_printable_text_stays_as_it_is(text: str) -> None:
    if text.isprintable():
        assert printable(text) == text


def test_line_ends_stay_where_lines_are_wanted() -> None:
    assert printable_lines("one\n\ttwo\x1b[31m\r\n") == "one\n    two\\x1b[31m\\r\n"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ""),
        (NOON, "2026-01-05 13:00:00 CET"),
        (OutcomeKind.TIMED_OUT, "timed out"),
        (1.23456, "1.235"),
        (("a", "b\n"), "a, b\\n"),
        ({"to": "'x'"}, "to='x'"),
        (True, "True"),
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
    ],
)
def test_a_value_is_shown_to_people(value: object, expected: str) -> None:
    assert cell(value, BERLIN) == expected


def test_json_has_iso_times_and_plain_values() -> None:
    assert plain({"at": NOON, "kind": OutcomeKind.FAILED, "tags": ("a",), "other": BERLIN}) == {
        "at": "2026-01-05T12:00:00+00:00", "kind": "failed", "tags": ["a"], "other": "Europe/Berlin",
    }  # fmt: skip


def test_columns_stand_below_one_another_also_with_wide_characters() -> None:
    assert aligned([["id", "name"], ["日本", "x"], ["a", ""]]) == ["id    name", "日本  x", "a"]
