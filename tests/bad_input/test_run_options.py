"""Options of a run's life that make no sense are refused at the call, with the name of the option."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from decimal import Decimal

import pytest
from rows import each_row

from goscheduler import Limit
from goscheduler.errors import InvalidArgument
from goscheduler.testing import ManualScheduler

HUGE = pytest.param(10**400, id="huge")


class Odd:
    """Compares in a way that helps nobody."""

    def __eq__(self, other):
        raise RuntimeError("not comparable")

    __hash__ = None


BAD = {
    "timeout": [
        0, 0.0, -1, -0.5, math.nan, math.inf, -math.inf, "soon", "", "1m", "nan", "inf", "0", True, False, [60], {},
        b"60", 1j, Decimal(60), timedelta(0), timedelta(seconds=-1), object(), HUGE,
    ],
    "priority": [
        10, -1, 1.5, True, False, None, "urgent", "", "10", "-1", "1.5", math.nan, math.inf, [5], b"5", object(), HUGE,
    ],
    "overlap": ["maybe", "", "Skip", "QUEUE", None, True, 1, ["skip"], b"skip", object()],
    "on_crash": ["x", "", "Rerun", None, False, 0, ["rerun"], b"rerun", object()],
    "max_crashes": [0, -1, 1.5, True, False, None, "many", "", "0", math.nan, math.inf, [3], object(), HUGE],
    "auto_remove": ["maybe", "", 2, [True], object()],
    "limits": ["mail", b"mail", 5, True, {"mail": 5}, {}, [5], [None], [Limit("a", 1), "b"], Limit, object(),
               [Limit("a", 1), Limit("a", 2)], [Limit(str(number), 1) for number in range(101)]],
}  # fmt: skip
GOOD = {
    "timeout": 60, "priority": 3, "overlap": "queue", "on_crash": "fail", "max_crashes": 5, "auto_remove": False,
    "limits": (Limit("mail", concurrency=2),),
}  # fmt: skip
CASES = [
    pytest.param(option, value, id=f"{option}-{getattr(value, 'id', None) or re.sub(' at 0x.*', '', repr(value)[:30])}")
    for option, values in BAD.items()
    for value in [getattr(each, "values", [each])[0] if hasattr(each, "marks") else each for each in values]
]


def job() -> None:
    """Do nothing."""


def assert_names_the_option(caught, option):
    error = caught.value
    assert error.field == option
    assert option in str(error)
    assert len(str(error)) < 300
    assert str(error).isprintable()


@each_row(("option", "value"), CASES)
def test_add_job_refuses_it_and_adds_nothing(scheduler, bystander, option, value):
    with pytest.raises(InvalidArgument) as caught:
        scheduler.add_job(job, "interval", minutes=1, **{option: value})
    assert_names_the_option(caught, option)
    assert [job.id for job in scheduler.get_jobs()] == ["bystander"]


@each_row(("option", "value"), CASES)
def test_scheduled_job_refuses_it_and_adds_nothing(scheduler, bystander, option, value):
    with pytest.raises(InvalidArgument) as caught:
        scheduler.scheduled_job("interval", minutes=1, **{option: value})(job)
    assert_names_the_option(caught, option)
    assert [job.id for job in scheduler.get_jobs()] == ["bystander"]


@each_row(("option", "value"), CASES)
def test_modify_job_refuses_it_and_changes_nothing(scheduler, option, value):
    scheduler.add_job(job, "interval", minutes=1, id="job", replace_existing=True, **GOOD)
    with pytest.raises(InvalidArgument) as caught:
        scheduler.modify_job("job", name="changed", **{option: value})
    assert_names_the_option(caught, option)
    kept = scheduler.get_job("job")
    assert kept.name == "job"
    assert {name: getattr(kept, name) for name in GOOD} == GOOD


@each_row(("option", "value"), CASES)
def test_job_defaults_refuse_it(option, value):
    with pytest.raises(InvalidArgument) as caught:
        ManualScheduler(job_defaults={option: value})
    assert_names_the_option(caught, option)


@pytest.mark.parametrize("option", ["timeout", "priority", "overlap", "on_crash", "max_crashes", "limits"])
def test_a_value_that_cannot_even_be_compared_is_refused(scheduler, option):
    with pytest.raises(InvalidArgument, match=option):
        scheduler.add_job(job, **{option: Odd()})


@pytest.mark.parametrize(("option", "given", "kept"), [
    ("timeout", 60, 60), ("timeout", 0.5, 0.5), ("timeout", "60", 60), ("timeout", "1.5", 1.5), ("timeout", None, None),
    ("timeout", timedelta(minutes=2), 120.0), ("timeout", "None", None), ("timeout", 1e300, 1e300),
    ("priority", 0, 0), ("priority", 9, 9), ("priority", "7", 7), ("priority", 5.0, 5),
    ("overlap", "cancel_running", "cancel_running"), ("overlap", "allow", "allow"), ("on_crash", "dead", "dead"),
    ("max_crashes", 1, 1), ("max_crashes", "10", 10), ("auto_remove", "no", False), ("auto_remove", True, True),
    ("limits", None, ()), ("limits", [], ()), ("limits", Limit("a", 1), (Limit("a", 1),)),
])  # fmt: skip
def test_what_makes_sense_is_taken_also_as_the_text_of_a_configuration_file(scheduler, option, given, kept):
    scheduler.add_job(job, "interval", minutes=1, id="own", **{option: given})
    assert getattr(scheduler.get_job("own"), option) == kept
    with ManualScheduler(job_defaults={option: given}) as other:
        assert getattr(other.add_job(job, "interval", minutes=1), option) == kept


def test_a_very_long_timeout_is_as_good_as_none():
    with ManualScheduler() as scheduler:
        scheduler.add_job(job, id="job", timeout=1e300)
        scheduler.advance("2d")
        assert [record.outcome.value for record in scheduler.runs("job")] == ["succeeded"]


@pytest.mark.parametrize("arguments", [
    {}, {"concurrency": None}, {"concurrency": 0}, {"concurrency": -1}, {"concurrency": True}, {"concurrency": "5"},
    {"rate": ""}, {"rate": "fast"}, {"rate": "0/1m"}, {"rate": "5/0s"}, {"rate": "5"}, {"rate": 5},
])  # fmt: skip
def test_a_limit_that_makes_no_sense_cannot_be_made(arguments):
    with pytest.raises(InvalidArgument, match=r"limits nothing|concurrency must be|rate must be"):
        Limit("mail", **arguments)


@pytest.mark.parametrize("name", ["timeuot", "prioritiy", "overlaps", "limit"])
def test_a_misspelt_option_is_answered_with_the_right_one(scheduler, name):
    with pytest.raises(TypeError, match="did you mean"):
        scheduler.add_job(job, "interval", minutes=1, **{name: 5})
