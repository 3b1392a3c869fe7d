"""``goscheduler next`` says what a crontab line means and when it fires."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest


def test_a_line_is_explained_and_its_next_ten_times_are_shown(invoke: Callable[..., Any]) -> None:
    result = invoke("next", "0 9 * * 1-5", "--tz", "Europe/Berlin")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert "09:00" in lines[0]
    assert "Monday" in lines[0]
    assert len(lines) == 11
    assert all("09:00:00  +0" in line and line.endswith(("CET", "CEST")) for line in lines[1:])


def test_times_around_a_clock_change_show_their_offsets(invoke: Callable[..., Any]) -> None:
    result = invoke("next", "30 2 * * *", "--tz", "Europe/Berlin", "--after", "2026-03-28", "--count", "3")
    assert result.stdout.splitlines()[1:] == [
        "Sat 2026-03-28 02:30:00  +01:00  CET",
        "Sun 2026-03-29 03:00:00  +02:00  CEST",
        "Mon 2026-03-30 02:30:00  +02:00  CEST",
    ]


def test_a_line_with_seconds_is_understood_when_announced(invoke: Callable[..., Any]) -> None:
    result = invoke("next", "*/20 0 9 * * *", "--seconds", "--tz", "UTC", "--after", "2026-01-01", "-n", "3")
    assert [line[15:23] for line in result.stdout.splitlines()[1:]] == ["09:00:00", "09:00:20", "09:00:40"]


def test_a_macro_is_understood_and_json_has_iso_times(invoke: Callable[..., Any]) -> None:
    result = invoke("next", "@daily", "--tz", "UTC", "--after", "2026-01-01T12:00", "--count", "2", "--json")
    answer = json.loads(result.stdout)
    assert answer["times"] == ["2026-01-02T00:00:00+00:00", "2026-01-03T00:00:00+00:00"]
    assert answer["expression"] == "@daily"
    assert answer["timezone"] == "UTC"
    assert "00:00" in answer["meaning"]


def test_a_schedule_in_words_is_understood(invoke: Callable[..., Any]) -> None:
    result = invoke("next", "every mon-fri at 09:00", "--tz", "Europe/Berlin", "--after", "2026-01-02T10:00", "-n", "2")
    assert result.stdout.splitlines() == [
        "at 09:00 on every Monday to Friday (Europe/Berlin)",
        "Mon 2026-01-05 09:00:00  +01:00  CET",
        "Tue 2026-01-06 09:00:00  +01:00  CET",
    ]
    weeks = invoke("next", "every 2 weeks on mon", "--tz", "UTC", "--after", "2026-01-06", "-n", "1")
    assert "2026-01-12" in weeks.stdout.splitlines()[1]


def test_a_line_with_h_has_the_values_of_the_job_that_is_named(invoke: Callable[..., Any]) -> None:
    def time(*arguments: str) -> str:
        result = invoke("next", "H H * * *", "--tz", "UTC", "--after", "2026-01-01", "-n", "1", *arguments)
        line: str = result.stdout.splitlines()[1]
        return line[15:23]

    assert time("--id", "nightly") == "04:43:00"
    assert time("--id", "other") != "04:43:00"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("61 * * * *",), "minute"),
        (("every mnday",), "monday"),
        (("every day at 25:00",), "at"),
        (("* * * * mon-funday",), "day_of_week"),
        (("* * * *",), "5"),
        (("0 0 31 2 *",), ""),
        (("@daily", "--tz", "Mars/Phobos"), "Mars/Phobos"),
        (("@daily", "--after", "yesterday"), "after"),
        (("@daily", "--dialect", "quartz"), "quartz"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_name_and_exit_code_2(
    invoke: Callable[..., Any], arguments: tuple[str, ...], told: str
) -> None:
    result = invoke("next", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert told in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "Traceback" not in result.stderr


def test_the_traceback_is_shown_on_request(invoke: Callable[..., Any]) -> None:
    result = invoke("next", "61 * * * *", "--debug")
    assert result.exit_code == 2
    assert result.stderr.startswith("Traceback")
    assert result.stderr.splitlines()[-1].startswith("Error: ")


def test_control_characters_of_a_bad_line_do_not_reach_the_terminal(invoke: Callable[..., Any]) -> None:
    result = invoke("next", "\x1b[2J * * * *")
    assert result.exit_code == 2
    assert "\x1b" not in result.stderr
