"""Event codes and event objects, compared with APScheduler 3 one by one."""

from __future__ import annotations

import inspect
from datetime import datetime, timezone

import apscheduler.events as theirs
import pytest

import goscheduler.events as ours

WHEN = datetime(2026, 1, 1, tzinfo=timezone.utc)
CODES = [name for name in vars(theirs) if name.startswith("EVENT_")]
CLASSES = ["SchedulerEvent", "JobEvent", "JobSubmissionEvent", "JobExecutionEvent"]


@pytest.mark.parametrize("name", CODES)
def test_a_code_has_apschedulers_value(name: str) -> None:
    assert getattr(ours, name) == getattr(theirs, name)
    assert isinstance(getattr(ours, name), int)


def test_all_is_apschedulers_seventeen_and_new_codes_lie_above() -> None:
    assert ours.EVENT_ALL == 131071 == theirs.EVENT_ALL
    new = [value for name, value in vars(ours).items() if name.startswith("EVENT_") and name not in CODES]
    assert len(new) >= 8
    assert all(value > ours.EVENT_ALL for value in new)


def test_codes_can_be_joined_into_a_mask() -> None:
    mask = ours.EVENT_JOB_EXECUTED | ours.EVENT_JOB_ERROR
    assert mask == 4096 | 8192
    assert mask & ours.EVENT_JOB_ERROR
    assert not mask & ours.EVENT_JOB_MISSED


@pytest.mark.parametrize("name", CLASSES)
def test_a_constructor_takes_apschedulers_arguments_in_its_order(name: str) -> None:
    expected = list(inspect.signature(getattr(theirs, name)).parameters.values())
    actual = list(inspect.signature(getattr(ours, name)).parameters.values())
    assert [p.name for p in actual[: len(expected)]] == [p.name for p in expected]
    assert [p.default for p in actual[: len(expected)]] == [p.default for p in expected]
    assert all(p.default is not p.empty for p in actual[len(expected) :]), "what we add must have a default"


ARGUMENTS = {
    "SchedulerEvent": (1, "x"),
    "JobEvent": (512, "job", "store"),
    "JobSubmissionEvent": (32768, "job", "store", [WHEN]),
    "JobExecutionEvent": (8192, "job", "store", WHEN, None, ValueError("no"), "frames"),
}


@pytest.mark.parametrize("name", CLASSES)
def test_an_event_has_the_attributes_of_apschedulers_with_the_same_values(name: str) -> None:
    expected = vars(getattr(theirs, name)(*ARGUMENTS[name]))
    actual = vars(getattr(ours, name)(*ARGUMENTS[name]))
    assert {key: actual[key] for key in expected} == expected


def test_job_events_derive_from_scheduler_events() -> None:
    assert ours.JobExecutionEvent.__mro__[1:3] == (ours.JobEvent, ours.SchedulerEvent)
    assert ours.JobSubmissionEvent.__mro__[1:3] == (ours.JobEvent, ours.SchedulerEvent)


def test_an_event_can_be_given_attributes_by_its_listeners() -> None:
    event = ours.JobEvent(ours.EVENT_JOB_ADDED, "job", "store")
    event.seen = True  # type: ignore[attr-defined]
    event.job_id = "other"
    assert vars(event)["seen"] is True


def test_an_event_shows_its_class_and_code() -> None:
    assert repr(ours.SchedulerEvent(1)) == "<SchedulerEvent (code=1)>"
    assert repr(ours.JobEvent(512, "a", None)).startswith("<JobEvent (code=512")
