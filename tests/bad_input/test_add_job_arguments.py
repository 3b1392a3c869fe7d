"""Everything wrong that can be handed to ``add_job``: refused at the call, by name, quickly, and nothing half done."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from datetime import time as wall_time
from typing import Any

import pytest
from rows import each_row

from goscheduler.jobstores.base import ConflictingIdError
from goscheduler.testing import ManualScheduler
from goscheduler.triggers.combining import AndTrigger, OrTrigger
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.interval import IntervalTrigger

NAN, INF = math.nan, math.inf
HUGE = 10**400

#: CPU seconds within which anything is refused: a hundred times the aim, which only a search that explodes exceeds.
AT_ONCE = 5


def anything(*args: Any, **kwargs: Any) -> None:
    pass


def strict(first: int, second: int = 2, /, third: int = 3, *, flag: bool, other: bool = False) -> None:
    pass


def generates() -> Iterator[int]:
    yield 1


async def generates_later() -> Any:
    yield 1


async def coroutine() -> None:
    pass


class NotCallable:
    def __repr__(self) -> str:
        raise RuntimeError("even its repr fails")


def refused(field: str, value: Any, error: type[Exception], *words: str, **others: Any) -> Any:
    """Return a case: ``field=value`` beside an hourly interval must raise ``error`` with ``words`` in its text."""
    arguments = {"trigger": "interval", "hours": 1, **others, field: value}
    return pytest.param(arguments, error, words, id=f"{field}={_name(value)}")


def _name(value: Any) -> str:
    """Return a name that is the same in every run: no addresses."""
    plain = isinstance(value, (str, bytes, int, float, list, dict, tuple, timedelta, wall_time)) or value is None
    return repr(value)[:30] if plain else getattr(value, "__name__", type(value).__name__)


def each(field: str, values: list[Any], error: type[Exception], *words: str, **others: Any) -> list[Any]:
    return [refused(field, value, error, *words, **others) for value in values]


IDS = [
    *each("id", ["", 5, 0, False, True, b"x", ["x"], {}, (), 1.5], TypeError, "id must be a nonempty string"),
    *each("id", ["", "x" * 256, "x" * 100_000], ValueError, "id must be"),
    refused("id", "x" * 256, ValueError, "id", "255", "256"),
    *each("id", ["a\0b", "\n", "a\tb", "a\r\nb", "\x1b[31m", "\x7f", "\x85", "\u2028", "\u202eabc", "\u2066", "\ud800"],
          ValueError, "id must not contain control characters"),
]  # fmt: skip
NAMES = [
    *each("name", ["", 5, 0, False, b"x", ["x"], {"x": 1}], TypeError, "name must be a nonempty string"),
    refused("name", "x" * 256, ValueError, "name", "255"),
    *each("name", ["a\0b", "a\nb", "\x1b[2J", "\ud800"], ValueError, "name must not contain control characters"),
]
TAGS = [
    *each("tags", ["red", 5, None], TypeError, "tags must be a collection of strings"),
    *each("tags", [[""], [5], [None], [["x"]], b"red"], TypeError, "tags must be nonempty strings"),
    *each("tags", [["a\0b"], ["fine", "a\nb"]], ValueError, "tags must not contain control characters"),
    refused("tags", ["x" * 256], ValueError, "tags", "255"),
]
DESCRIPTIONS = [
    *each("description", [5, None, b"x", ["x"]], TypeError, "description must be a string"),
    *each("description", ["a\0b", "\ud800"], ValueError, "description"),
]
NUMBERS = [
    *each("misfire_grace_time", [0, -1, -0.5, NAN, INF, -INF, HUGE, [], {}, b"5", False, timedelta(seconds=5)],
          ValueError, "misfire_grace_time must be either None"),
    *each("misfire_grace_time", ["nan", "-5", "inf", "soon", "", "0", "9" * 4000],
          ValueError, "misfire_grace_time must be either None"),
    *each("max_instances", [0, -1, 1.5, NAN, INF, HUGE, None, [], {}, b"5", False],
          ValueError, "max_instances must be a positive integer"),
    *each("max_instances", ["nan", "-5", "many", "", "1.5", "9" * 4000],
          ValueError, "max_instances must be a positive integer"),
    *each("coalesce", ["perhaps", "", "2"], ValueError, "coalesce must be a boolean"),
]  # fmt: skip
ALIASES = [
    *each("executor", [5, None, "", [], {}, b"default"], TypeError, "executor must be a string"),
    *each("executor", ["a\0b", "a\nb"], ValueError, "executor"),
    *each("jobstore", [5, None, [], {}, b"default"], TypeError, "jobstore must be a string"),
]
TIMES = [
    *each("next_run_time", ["tomorrow", "", "2026-13-01", "2026-02-30", "2026-01-01 25:00", "0000-01-01", "99999-01-01",
                            "2026-01-01\0", "2026-01-01T00:00:00+99:00",
                            "\u0662\u0660\u0662\u0666-\u0660\u0661-\u0660\u0661"], ValueError, "next_run_time"),
    *each("next_run_time", [5, 1.5, True, b"2026-01-01", [], wall_time(3), timedelta(1)], TypeError, "next_run_time"),
    *each("start_date", ["tomorrow", "", "2026-02-30", "2026-01-01 00:00:60", "NaT"], ValueError, "start_date"),
    *each("start_date", [5, 0, NAN, [], b"2026-01-01"], TypeError, "start_date"),
    *each("end_date", ["tomorrow", "", "2026-02-30", "2026-01-01 00:00 Europe/Berlin"], ValueError, "end_date"),
    *each("end_date", [5, [], wall_time(3)], TypeError, "end_date"),
    refused("end_date", "2026-06-01", ValueError, "end_date", "start_date", start_date="2027-01-01"),
    *each("run_date", ["", "tomorrow", "2026-02-30"], ValueError, "run_date", trigger="date", hours=...),
    *each("run_date", [0, 5, [], NAN], TypeError, "run_date", trigger="date", hours=...),
]  # fmt: skip
ZONES = [
    *each("timezone", ["Mars/Phobos", "", "../../etc/passwd", "/etc/passwd", "a\0b", "x" * 10_000, "local", "UTC "],
          ValueError, "timezone"),
    *each("timezone", [5, b"UTC", [], timedelta(1), NAN], TypeError, "Expected tzinfo"),
]  # fmt: skip
INTERVALS = [
    *each("seconds", [0, -5, 1e-7, "-5"], ValueError, "interval must be positive", hours=...),
    *each("seconds", [NAN, INF, "nan"], ValueError, "seconds must be a finite number", hours=...),
    *each("seconds", [1e300, HUGE], ValueError, "interval is too long", hours=...),
    *each("seconds", [None, [], True, b"5", timedelta(1)], TypeError, "seconds", hours=...),
    refused("weeks", 1e9, ValueError, "too long", hours=...),
    refused("hours", -1, ValueError, "positive", minutes=60),
    refused("hours", "often", ValueError, "hours must be a number"),
    *each("jitter", [-1, NAN, INF, "lots", HUGE, 1e300, 7200], ValueError, "jitter"),
    *each("jitter", [[], {}, True], TypeError, "jitter"),
]
CRONS = [
    *each("hour", ["*/0", "24", "-1", "x", "", "1-", "5-1", "²", "1\0", "*/-1", "1e1", "0x10", ",", "1,,2", "*/1000000",
                   "x" * 100_000, -1], ValueError, "hour", trigger="cron", hours=...),
    *each("hour", [NAN, 1.5, [], b"1", True, {}], TypeError, "hour", trigger="cron", hours=...),
    refused("day", 30, ValueError, "cron[month='2', day='30']", trigger="cron", month=2, hours=...),
    refused("year", 2020, ValueError, "year='2020'", trigger="cron", hours=...),
    refused("minuet", 5, TypeError, "did you mean 'minute'", trigger="cron", hours=...),
]  # fmt: skip
CALENDARS = [
    *each("days", [0, -1, 1.5, NAN, INF, HUGE], ValueError, "", trigger="calendarinterval", hours=...),
    refused("hour", 25, ValueError, "hour must be in 0..23", trigger="calendarinterval", days=1, hours=...),
    refused("months", 10**9, ValueError, "months", trigger="calendarinterval", hours=...),
]
COMBINED = [
    refused("triggers", [], ValueError, "triggers", trigger="and", hours=...),
    refused("triggers", 5, TypeError, "triggers", trigger="and", hours=...),
    refused("triggers", ["cron"], TypeError, "triggers", trigger="or", hours=...),
    refused("trigger", "and", TypeError, "triggers", hours=...),
    refused("trigger", AndTrigger([CronTrigger(hour=1), CronTrigger(hour=2)]), ValueError, "and[cron", hours=...),
    refused("trigger", OrTrigger([CronTrigger(year=2020)]), ValueError, "or[cron[year='2020']]", hours=...),
]
TRIGGERS = [
    *each("trigger", [5, True, b"interval", [], {}, IntervalTrigger, anything], TypeError,
          "Expected a trigger instance or string", hours=...),
    *each("trigger", ["", "nope", "INTERVAL ", "a\0b", "x" * 5000], LookupError, "No trigger by the name", hours=...),
    refused("trigger", "intervall", LookupError, 'did you mean "interval"?', hours=...),
    refused("trigger", "cronn", LookupError, 'did you mean "cron"?', hours=...),
    refused("minutess", 1, TypeError, "'minutess'", "did you mean 'minutes'"),
    refused("coalese", True, TypeError, "'coalese'", "did you mean 'coalesce'"),
    refused("max_instance", 1, TypeError, "did you mean 'max_instances'"),
    refused("misfire_gracetime", 1, TypeError, "did you mean 'misfire_grace_time'"),
    refused("misfire", 1, TypeError, "did you mean 'misfire_grace_time'"),
    refused("max", 1, TypeError, "known options: "),
    refused("replace_exsting", True, TypeError, "did you mean 'replace_existing'"),
    refused("minutes", 5, TypeError, "'minutes'", trigger=None, hours=...),
    refused("minutes", 5, TypeError, "'minutes'", "trigger", trigger=IntervalTrigger(hours=1), hours=...),
    refused("coalese", True, TypeError, "'coalese'", "coalesce", trigger=IntervalTrigger(hours=1), hours=...),
    *each("if_exists", ["maybe", "", "Replace", 5, []], ValueError, "if_exists must be one of error, replace, keep"),
]
FUNCTIONS = [
    *each("func", [5, None, [], object(), b"math:sqrt", math, NotCallable()], TypeError, "func must be a callable"),
    *each("func", ["", "math.sqrt", "math:", ":sqrt"], ValueError, "reference"),
    *each("func", ["math:nothing", "no_such:x", "math:sqrt.real", "a\0b:c", "\ud800:x"], LookupError, "reference"),
    *each("func", ["os:system", "builtins:eval", "subprocess:Popen", "shutil:rmtree", "math:__loader__.load_module",
                   "json:loads.__globals__", "logging:os.system"], ValueError, "Refused reference"),
    refused("func", "math:pi", TypeError, "func must be a callable", "math:pi"),
    *each("func", [generates, generates_later], (TypeError, ValueError), "func", "generator"),
]  # fmt: skip
ARGUMENTS = [
    *each("args", ["text", 5, True], TypeError, "args must be a non-string iterable"),
    *each("kwargs", ["text", 5, [1], [("a", 1)]], TypeError, "kwargs must be a dict-like object"),
    *each("kwargs", [{1: 2}, {None: 1}], ValueError, "Keyword argument names must be strings"),
    refused("args", [], ValueError, "have not been supplied: first", func=strict, kwargs={"flag": True}),
    refused("args", [1], ValueError, "keyword-only arguments have not been supplied in kwargs: flag", func=strict),
    refused("args", [1, 2, 3, 4], ValueError, "longer than", "allowed: 3", "4", func=strict, kwargs={"flag": True}),
    refused("kwargs", {"flag": True, "colour": 1}, ValueError, "keyword arguments: colour", func=strict, args=[1]),
    refused("kwargs", {"flag": True, "third": 1}, ValueError, "args and kwargs: third", func=strict, args=[1, 2, 3]),
    refused("kwargs", {"flag": True, "first": 1}, ValueError, "first", func=strict),
]

CASES = [
    *IDS, *NAMES, *TAGS, *DESCRIPTIONS, *NUMBERS, *ALIASES, *TIMES, *ZONES, *INTERVALS, *CRONS, *CALENDARS, *COMBINED,
    *TRIGGERS, *FUNCTIONS, *ARGUMENTS,
]  # fmt: skip


@each_row(("arguments", "error", "words"), CASES)
def test_what_makes_no_sense_is_refused_at_the_call(
    scheduler: ManualScheduler, arguments: dict[str, Any], error: type[Exception], words: tuple[str, ...]
) -> None:
    given = {"func": anything} | {name: value for name, value in arguments.items() if value is not ...}
    began = time.process_time()
    with pytest.raises(error) as caught:
        scheduler.add_job(**given)
    assert time.process_time() - began < AT_ONCE
    text = str(caught.value)
    assert all(word in text for word in words), text
    assert "\0" not in text, "control characters must be escaped"
    assert len(text) < 500, "long values must be cut"
    assert scheduler.get_jobs() == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"id": ""}, {"name": 5}, {"max_instances": 0}, {"misfire_grace_time": NAN}, {"next_run_time": "tomorrow"},
        {"timezone": "Mars/Phobos"}, {"hours": -1}, {"trigger": "nope"}, {"func": 5}, {"args": "text"}, {"jitter": -1},
        {"trigger": CronTrigger(year=2020, timezone="UTC"), "hours": ...}, {"tags": 5}, {"coalese": 1},
        {"func": strict},
    ],
    ids=lambda arguments: next(iter(arguments)),
)  # fmt: skip
def test_other_jobs_go_on_firing_after_a_refusal(
    scheduler: ManualScheduler, bystander: Any, arguments: dict[str, Any]
) -> None:
    given = {"func": anything, "trigger": "interval", "hours": 1} | arguments
    with pytest.raises((ValueError, TypeError, LookupError)):
        scheduler.add_job(**{name: value for name, value in given.items() if value is not ...})
    if not scheduler.running:
        scheduler.start()
    bystander.assert_alone_and_firing()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", "x" * 255), ("id", " "), ("id", "'; DROP TABLE jobs; --"), ("id", "../../etc"), ("id", "$ne"),
        ("id", "{}"), ("id", "%s %d {0}"), ("id", "\u65e5\u672c"), ("id", "e\u0301"), ("name", "x" * 255),
        ("tags", []), ("tags", ("a", "b")),
        ("misfire_grace_time", 2.5), ("misfire_grace_time", "30"), ("misfire_grace_time", None), ("max_instances", "3"),
        ("coalesce", "no"), ("timezone", "utc"), ("timezone", "EST5EDT"), ("timezone", timezone(timedelta(hours=5))),
        ("start_date", date(2027, 1, 1)), ("start_date", "0001-01-01"), ("jitter", 5), ("args", None), ("kwargs", None),
        ("next_run_time", datetime(2038, 1, 19, 3, 14, 8)), ("next_run_time", "2106-02-07 06:28:16.000001"),
        ("args", iter([1])),
        ("description", "two\nlines"), ("func", coroutine), ("func", math.sqrt), ("seconds", 0.5),
    ],
)  # fmt: skip
def test_what_makes_sense_is_taken(scheduler: ManualScheduler, bystander: Any, field: str, value: Any) -> None:
    arguments = {"func": anything, "trigger": "interval", "hours": 1, "id": "job", field: value}
    if value is math.sqrt:
        arguments["args"] = [4]
    scheduler.add_job(**arguments)
    if not scheduler.running:
        scheduler.start()
    bystander.assert_firing()


def test_ids_that_differ_in_case_or_composition_are_different(scheduler: ManualScheduler) -> None:
    for job_id in ("a", "A", "é", "e\u0301", "a "):
        scheduler.add_job(anything, "interval", hours=1, id=job_id)
    assert len(scheduler.get_jobs()) == 5


def test_a_taken_id_is_refused_and_the_first_job_stays(scheduler: ManualScheduler) -> None:
    scheduler.add_job(anything, "interval", hours=1, id="a", name="first")
    with pytest.raises(ConflictingIdError, match=r"\(a\)"):
        scheduler.add_job(anything, "interval", hours=2, id="a", name="second")
    assert [job.name for job in scheduler.get_jobs()] == ["first"]


def test_a_refused_replacement_leaves_the_first_job(scheduler: ManualScheduler) -> None:
    scheduler.add_job(anything, "interval", hours=1, id="a", name="first")
    with pytest.raises(ValueError, match="max_instances"):
        scheduler.add_job(anything, "interval", hours=2, id="a", name="second", max_instances=0, replace_existing=True)
    [job] = scheduler.get_jobs()
    assert (job.name, str(job.trigger)) == ("first", "interval[1:00:00]")


def test_a_coroutine_object_instead_of_a_function_is_refused(scheduler: ManualScheduler) -> None:
    called = coroutine()
    try:
        with pytest.raises(TypeError, match="func must be a callable"):
            scheduler.add_job(called, "interval", hours=1)
    finally:
        called.close()
    assert scheduler.get_jobs() == []


@pytest.mark.parametrize("expression", ["0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6 *"])
def test_a_crontab_that_never_fires_is_refused(scheduler: ManualScheduler, expression: str) -> None:
    with pytest.raises(ValueError, match=r"(?i)never"):
        scheduler.add_job(anything, CronTrigger.from_crontab(expression))
    assert scheduler.get_jobs() == []


WRONG_CRONTABS = [
    "*/0 * * * *", "*/-1 * * * *", "+5 * * * *", "1.5 * * * *", "30-10 * * * *", "* 22-2 * * *", "*/60 * * * *",
    "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 *", "* * * * 8", "² * * * *", "1\0 * * * *",
    "* * * * *\n* * * * *", "", " ", "* * * *", "* * * * * *", "@reboot", "@every 5m", "1,,2 * * * *", "1- * * * *",
    "/5 * * * *", "- * * * *", "* * * * 1#6", "jan * * * *", "a" * 100_000, "(a+)+$ * * * *",
]  # fmt: skip


@each_row(["expression"], [(expression,) for expression in WRONG_CRONTABS])
def test_a_wrong_crontab_is_refused_at_once(scheduler: ManualScheduler, expression: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the trigger's own tests check each text
        scheduler.add_job(anything, CronTrigger.from_crontab(expression))
    assert time.process_time() - began < AT_ONCE
    assert "\0" not in str(caught.value)
    assert scheduler.get_jobs() == []


@pytest.mark.parametrize("expression", [None, 5, b"* * * * *", ["* * * * *"]])
def test_a_crontab_that_is_no_text_is_a_type_error(expression: Any) -> None:
    with pytest.raises(TypeError):
        CronTrigger.from_crontab(expression)
