"""Crontab lines: Vixie's reading, APScheduler's reading, and what neither can read."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timezone

import pytest
from rows import each_row
from work import calls_of

from goscheduler.errors import InvalidArgument, NeverFires
from goscheduler.triggers.cron import CronTrigger

UTC = timezone.utc
START = datetime(2026, 1, 1, tzinfo=UTC)


def _dates(line: str, n: int = 3, **options: str) -> list[str]:
    return [f"{moment:%m-%d}" for moment in CronTrigger.from_crontab(line, UTC, **options).preview(n, START)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("* * * * *", "month='*', day='*', day_of_week='*', hour='*', minute='*'"),
        (
            "0-14 * 14-28 jul fri",
            "month='jul', day='14-28', day_of_week='fri', hour='*', minute='0-14', either_day=True",
        ),
        (" 0-14\t* *   jul       fri\n", "month='jul', day='*', day_of_week='fri', hour='*', minute='0-14'"),
        ("0 0 * * 1-5", "month='*', day='*', day_of_week='mon-fri', hour='0', minute='0'"),
        ("0 0 * * 0", "month='*', day='*', day_of_week='sun', hour='0', minute='0'"),
        ("0 0 * * 7", "month='*', day='*', day_of_week='sun', hour='0', minute='0'"),
        ("0 0 * * 5-7", "month='*', day='*', day_of_week='fri-sun', hour='0', minute='0'"),
        ("0 0 * * 0-7", "month='*', day='*', day_of_week='mon-sun', hour='0', minute='0'"),
        ("0 0 * * */2", "month='*', day='*', day_of_week='tue,thu,sat,sun', hour='0', minute='0'"),
        ("0 0 * * fri-mon", "month='*', day='*', day_of_week='mon,fri-sun', hour='0', minute='0'"),
        ("0 0 * * fri-mon/2", "month='*', day='*', day_of_week='fri,sun', hour='0', minute='0'"),
        ("0 0 * * sun-sat", "month='*', day='*', day_of_week='mon-sun', hour='0', minute='0'"),
        ("0 0 * * mon-mon", "month='*', day='*', day_of_week='mon', hour='0', minute='0'"),
        ("0 0 * * Monday,SAT", "month='*', day='*', day_of_week='mon,sat', hour='0', minute='0'"),
        ("0 0 * * 3/2", "month='*', day='*', day_of_week='wed,fri,sun', hour='0', minute='0'"),
        ("0 0 ? JAN ?", "month='jan', day='*', day_of_week='*', hour='0', minute='0'"),
        ("0 0 L nov-feb *", "month='nov-feb', day='last', day_of_week='*', hour='0', minute='0'"),
        ("0 0 * * 1#2,3", "month='*', day='*', day_of_week='wed,2nd mon', hour='0', minute='0'"),
        ("0 0 * * L5", "month='*', day='*', day_of_week='last fri', hour='0', minute='0'"),
        ("0 0 * * 5l,Lsun", "month='*', day='*', day_of_week='last fri,last sun', hour='0', minute='0'"),
        ("@yearly", "month='1', day='1', day_of_week='*', hour='0', minute='0'"),
        ("@annually", "month='1', day='1', day_of_week='*', hour='0', minute='0'"),
        ("@monthly", "month='*', day='1', day_of_week='*', hour='0', minute='0'"),
        ("@weekly", "month='*', day='*', day_of_week='sun', hour='0', minute='0'"),
        ("@Daily", "month='*', day='*', day_of_week='*', hour='0', minute='0'"),
        ("@midnight", "month='*', day='*', day_of_week='*', hour='0', minute='0'"),
        (" @hourly\n", "month='*', day='*', day_of_week='*', hour='*', minute='0'"),
    ],
)
def test_a_crontab_line_is_read_as_vixie_cron_reads_it(line: str, fields: str) -> None:
    assert (
        repr(CronTrigger.from_crontab(line, "Europe/Berlin")) == f"<CronTrigger ({fields}, timezone='Europe/Berlin')>"
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("0 0 13 * fri", ["01-02", "01-09", "01-13"]),
        ("0 0 29 2 1", ["02-02", "02-09", "02-16"]),
        ("0 0 */2 * 1", ["01-05", "01-19", "02-09"]),
        ("0 0 13 * */2", ["01-13", "06-13", "08-13"]),
        ("0 0 ? * 1", ["01-05", "01-12", "01-19"]),
        ("0 0 L * 1#1", ["01-05", "01-31", "02-02"]),
        ("0 0 31 2 1", ["02-02", "02-09", "02-16"]),
        ("0 0 1-5 * sun", ["01-01", "01-02", "01-03"]),
    ],
)
def test_either_day_field_may_match_unless_one_begins_with_a_star(line: str, expected: list[str]) -> None:
    assert _dates(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("0 0 13 * fri", ["02-13", "03-13", "11-13"]),
        ("0 0 * * 0", ["01-05", "01-12", "01-19"]),
        ("0 0 * * 1-5", ["01-01", "01-02", "01-03"]),
        ("0 0 last * *", ["01-31", "02-28", "03-31"]),
    ],
)
def test_the_apscheduler_dialect_counts_from_monday_and_wants_both_days(line: str, expected: list[str]) -> None:
    assert _dates(line, dialect="apscheduler") == expected


def test_weekday_numbers_mean_other_days_in_the_two_dialects() -> None:
    assert _dates("0 0 * * 1-5") == ["01-01", "01-02", "01-05"]


def test_six_fields_put_the_seconds_first() -> None:
    trigger = CronTrigger.from_crontab("*/20 30 9 * * *", UTC, seconds=True)
    assert [f"{moment:%H:%M:%S}" for moment in trigger.preview(3, START)] == ["09:30:00", "09:30:20", "09:30:40"]
    assert CronTrigger.from_crontab("@hourly", UTC, seconds=True).same_schedule_as(
        CronTrigger.from_crontab("@hourly", UTC)
    )


@pytest.mark.parametrize("line", ["0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6 *", "0 0 30-31 feb *"])
def test_a_line_without_a_single_date_is_refused_quickly(line: str) -> None:
    def read() -> None:
        with pytest.raises(NeverFires, match="never fires"):
            CronTrigger.from_crontab(line, UTC)

    assert calls_of(read)[1] < 200_000


def test_the_29th_of_february_is_accepted() -> None:
    first = CronTrigger.from_crontab("0 0 29 2 *", UTC).get_next_fire_time(None, START)
    assert first == datetime(2028, 2, 29, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "Wrong number of fields; got 0, expected 5"),
        ("   ", "Wrong number of fields; got 0, expected 5"),
        ("*", "Wrong number of fields; got 1, expected 5"),
        ("* * * *", "Wrong number of fields; got 4, expected 5"),
        ("* * * * * *", "Wrong number of fields; got 6, expected 5; a sixth field, seconds first, needs seconds=True"),
        ("* * * * * * *", "Wrong number of fields; got 7, expected 5"),
        ("* * * * *\n* * * * *", "more than one line"),
        ("@reboot", "has no time"),
        ("@every 5m", "interval trigger"),
        ("@fortnightly", "is unknown; expected one of @yearly"),
        ("x" * 100_000, "is too long: 100000 characters"),
        ("*/5 " * 200, "is too long"),
        ("* * * * " + ",".join("1" * 65), "at most 64 items"),
        (",".join("1" * 65) + " * * * *", "is too long"),
    ],
)
def test_a_line_that_is_none_is_refused(line: str, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        CronTrigger.from_crontab(line, UTC)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("line", "field", "message"),
    [
        ("60 * * * *", "minute", "higher than the maximum value (59)"),
        ("* 24 * * *", "hour", "higher than the maximum value (23)"),
        ("* * 0 * *", "day", "lower than the minimum value (1)"),
        ("* * 32 * *", "day", "higher than the maximum value (31)"),
        ("* * * 0 *", "month", "lower than the minimum value (1)"),
        ("* * * 13 *", "month", "higher than the maximum value (12)"),
        ("* * * * 8", "day_of_week", "higher than the maximum value (7)"),
        ("* * * * 1-8", "day_of_week", "higher than the maximum value (7)"),
        ("* * * * " + "9" * 400, "day_of_week", "higher than the maximum value (7)"),
        ("*/0 * * * *", "minute", "Increment must be higher than 0"),
        ("*/60 * * * *", "minute", "the step value (60)"),
        ("*/1000000 * * * *", "minute", "the step value (1000000)"),
        ("*/" + "9" * 400 + " * * * *", "minute", "the step value"),
        ("* * * * */7", "day_of_week", "the step value must be from 1 to the total range of the expression (6)"),
        ("* * * * 1-3/3", "day_of_week", "the step value"),
        ("* * * * */0", "day_of_week", "the step value"),
        ("* * * * mon-mon/2", "day_of_week", "the step value"),
        ("* * * * 1-1/1", "day_of_week", "the step value"),
        ("30-10 * * * *", "minute", "write 30-59,0-10"),
        ("* 22-2 * * *", "hour", "write 22-23,0-2"),
        ("* * * * 5-1", "day_of_week", "write 5-6,0-1"),
        ("* * * * 6-0", "day_of_week", "write 6,0"),
        ("* * * * mon-5", "day_of_week", "two numbers or with two names"),
        ("* * * * 1#6", "day_of_week", "1st to the 5th"),
        ("* * * * 1#0", "day_of_week", "1st to the 5th"),
        ("* * * * #2", "day_of_week", "Unrecognized expression"),
        ("* * * * L", "day_of_week", "Unrecognized expression"),
        ("* * * * L5L", "day_of_week", "Unrecognized expression"),
        ("* * * * 1-5#2", "day_of_week", "Unrecognized expression"),
        ("* * * * jan", "day_of_week", "Unrecognized expression"),
        ("* * * * ²", "day_of_week", "Unrecognized expression"),
        ("* * * * 1\x00", "day_of_week", r"1\x00"),
        ("jan * * * *", "minute", "Unrecognized expression"),
        ("* * mon * *", "day", "Unrecognized expression"),
        ("* * last * *", "day", "write L"),
        ("* * 15W * *", "day", "Unrecognized expression"),
        ("* * L-3 * *", "day", "Unrecognized expression"),
        ("? * * * *", "minute", "Unrecognized expression"),
        ("* * 1,? * *", "day", "Unrecognized expression"),
        ("HH * * * *", "minute", "Unrecognized expression"),
        ("R * * * *", "minute", "Unrecognized expression"),
        ("(a+)+$ * * * *", "minute", "Unrecognized expression"),
    ],
)
def test_a_field_of_a_line_that_makes_no_sense_is_named(line: str, field: str, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        CronTrigger.from_crontab(line, UTC)
    assert message in str(caught.value)
    assert caught.value.field == field
    assert f'"{field}"' in str(caught.value)
    assert "\x00" not in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "text",
    [
        "*/-1",
        "+5",
        "1.5",
        "1e1",
        "0x10",
        "²",
        "1\x00",
        "1,,2",
        ",1",
        "1,",
        "1-2-3",
        "1/2/3",
        "*/",
        "/5",
        "-",
        "1-",
        "-1",
    ],
)
@each_row(["place"], [(place,) for place in range(5)])
def test_a_malformed_item_is_refused_in_every_field(place: int, text: str) -> None:
    fields = ["*"] * 5
    fields[place] = text
    with pytest.raises(InvalidArgument, match="Unrecognized expression"):
        CronTrigger.from_crontab(" ".join(fields), UTC)


@pytest.mark.parametrize("line", [b"* * * * *", None, 5, ["*"] * 5])
def test_a_line_that_is_no_text_is_a_type_error(line: object) -> None:
    with pytest.raises(TypeError, match="crontab expression as text"):
        CronTrigger.from_crontab(line, UTC)  # type: ignore[arg-type]


def test_an_unknown_dialect_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="'quartz'; expected one of vixie, apscheduler") as caught:
        CronTrigger.from_crontab("* * * * *", UTC, dialect="quartz")
    assert caught.value.field == "dialect"


def test_start_end_and_jitter_are_taken_over() -> None:
    trigger = CronTrigger.from_crontab("0 0 * * *", "UTC", start_date="2026-03-01", end_date="2026-03-02", jitter=5)
    assert trigger.jitter == 5
    first = trigger.get_next_fire_time(None, START)
    assert first is not None
    assert first.date().isoformat() == "2026-03-01"
    assert trigger.get_next_fire_time(datetime(2026, 3, 2, tzinfo=UTC), START) is None


def test_importing_the_trigger_does_not_import_croniter() -> None:
    code = (
        "import sys; from goscheduler.triggers.cron import CronTrigger; CronTrigger(hour=1, timezone='UTC');"
        "print('croniter' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
