"""Errors that programs catch and logs show: bases and texts are those of APScheduler 3."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace

import apscheduler.executors.base
import apscheduler.jobstores.base
import apscheduler.schedulers
import pytest

from goscheduler import errors
from goscheduler.executors.base import MaxInstancesReachedError
from goscheduler.jobstores.base import ConflictingIdError, JobLookupError, TransientJobError
from goscheduler.schedulers import SchedulerAlreadyRunningError, SchedulerNotRunningError
from goscheduler.testing import ManualScheduler

THEIRS = {
    SchedulerAlreadyRunningError: apscheduler.schedulers.SchedulerAlreadyRunningError,
    SchedulerNotRunningError: apscheduler.schedulers.SchedulerNotRunningError,
    JobLookupError: apscheduler.jobstores.base.JobLookupError,
    ConflictingIdError: apscheduler.jobstores.base.ConflictingIdError,
    TransientJobError: apscheduler.jobstores.base.TransientJobError,
    MaxInstancesReachedError: apscheduler.executors.base.MaxInstancesReachedError,
}


@pytest.mark.parametrize("ours", THEIRS, ids=lambda cls: cls.__name__)
def test_an_error_has_every_standard_base_that_apschedulers_has(ours: type[Exception]) -> None:
    theirs = THEIRS[ours]
    standard = [base for base in theirs.__mro__ if base.__module__ == "builtins"]
    assert all(issubclass(ours, base) for base in standard)
    assert ours.__name__ == theirs.__name__
    assert issubclass(ours, errors.GoSchedulerError)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (SchedulerAlreadyRunningError(), "Scheduler is already running"),
        (SchedulerNotRunningError(), "Scheduler is not running"),
        (JobLookupError("x"), "No job by the id of x was found"),
        (ConflictingIdError("x"), "Job identifier (x) conflicts with an existing job"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_says_what_apschedulers_says(error: Exception, text: str) -> None:
    assert str(error) == text


def test_a_refused_instance_names_the_job_and_its_limit() -> None:
    error = MaxInstancesReachedError(SimpleNamespace(id="x", max_instances=7))
    theirs = apscheduler.executors.base.MaxInstancesReachedError(SimpleNamespace(id="x", max_instances=7))
    assert str(error) == str(theirs)


@pytest.mark.parametrize("error", [JobLookupError("x"), ConflictingIdError("x"), TransientJobError("x")])
def test_an_error_about_a_job_survives_copying_and_pickling(error: JobLookupError) -> None:
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is type(error)
        assert (str(twin), twin.job_id) == (str(error), "x")


def test_errors_that_carry_a_field_survive_pickling() -> None:
    error = errors.InvalidArgument("interval must be positive", field="seconds", value=-1)
    twin = pickle.loads(pickle.dumps(error))
    assert (str(twin), twin.field, twin.value) == (str(error), "seconds", -1)


def test_an_unknown_option_survives_pickling() -> None:
    error = errors.UnknownOption("coalese", ["coalesce"], where="job")
    twin = pickle.loads(pickle.dumps(error))
    assert (str(twin), twin.suggestion) == (str(error), "coalesce")


def test_a_scheduler_refuses_to_be_pickled_and_says_why() -> None:
    with pytest.raises(TypeError, match=r"^Schedulers cannot be serialized"):
        pickle.dumps(ManualScheduler())
