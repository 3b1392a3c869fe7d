"""How errors are told over gRPC: by status, kind and field, and nothing of what is inside."""

from __future__ import annotations

import logging
from types import MappingProxyType

import grpc
import pytest
from google.protobuf.struct_pb2 import Struct

from goscheduler.errors import InvalidArgument, StoreUnavailable
from goscheduler.ops import errors, service
from goscheduler.ops.access import Role
from goscheduler.ops.operation import Call, operation
from goscheduler.ops.registry import OPERATIONS
from goscheduler.rpc.gen import operations_pb2 as pb


@pytest.fixture
def raising(monkeypatch, calls):
    """Let the list of jobs raise an error, and return that of the client."""

    def get(error):
        @operation(Role.VIEWER)
        def find_jobs(call: Call):
            raise error

        monkeypatch.setattr(service, "OPERATIONS", MappingProxyType({**OPERATIONS, "find_jobs": find_jobs}))
        with pytest.raises(grpc.RpcError) as caught:
            calls.FindJobs(pb.FindJobsRequest(), timeout=60)
        return caught.value

    return get


def trailers_of(error):
    return dict(error.trailing_metadata())


ERRORS = [(error, kind) for errors_of, kind in errors._TABLE for error in (
    errors_of if isinstance(errors_of, tuple) else (errors_of,)
)]  # fmt: skip
TEXTS = {"ScheduleConflict": ("a", "b"), "MessageNotPending": ("a", "sent"), "UnknownOption": ("a", ["b"], "a job")}


@pytest.mark.parametrize(("error", "kind"), ERRORS, ids=lambda value: getattr(value, "__name__", None))
def test_each_error_has_the_status_of_the_table(raising, error, kind):
    told = raising(error(*TEXTS.get(error.__name__, ("the reason",))))
    assert (told.code().name, told.code().value[0]) == (kind.grpc, kind.grpc_code)
    assert trailers_of(told)["goscheduler-error"] == kind.name
    assert told.details() != ""


def test_of_an_internal_error_the_caller_gets_a_name_and_the_log_the_rest(raising, caplog):
    with caplog.at_level(logging.ERROR):
        told = raising(RuntimeError("the inside broke"))
    error_id = trailers_of(told)["goscheduler-error-id"]
    assert told.code() is grpc.StatusCode.INTERNAL
    assert "broke" not in told.details()
    assert error_id in told.details()
    assert error_id in caplog.text
    assert "the inside broke" in caplog.text


def test_no_password_of_a_url_is_told(raising):
    assert "hush" not in raising(StoreUnavailable("cannot reach postgresql://ann:hush@db/x")).details()


def test_the_field_that_is_wrong_is_told(calls):
    with pytest.raises(grpc.RpcError) as caught:
        calls.FindJobs(pb.FindJobsRequest(limit=0), timeout=60)
    assert trailers_of(caught.value) == {"goscheduler-error": "invalid", "goscheduler-field": "limit"}
    assert caught.value.details() == "limit must be a whole number from 1 to 200, got 0"


def test_a_field_that_must_be_given_is_told(calls):
    with pytest.raises(grpc.RpcError) as caught:
        calls.AddJob(pb.AddJobRequest(), timeout=60)
    assert trailers_of(caught.value)["goscheduler-field"] == "job"


def test_a_name_beyond_ascii_is_told_in_ascii(raising):
    told = raising(InvalidArgument("ümlaut \ud800 is wrong", field="changes.ü"))
    assert trailers_of(told)["goscheduler-field"] == "changes.\\xfc"
    assert told.details() == "ümlaut \\ud800 is wrong"


@pytest.mark.parametrize("text", ["x" * 100_000, "ü" * 100_000, "\U0001f600" * 100_000])
def test_a_long_reason_arrives_in_part(raising, text):
    told = raising(InvalidArgument(text))
    assert told.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert told.details().startswith(text[:100])


def test_an_edit_of_a_job_that_was_edited_meanwhile_gets_its_etag(calls):
    etag = calls.GetJob(pb.GetJobRequest(id="plain"), timeout=60).etag
    changes = Struct()
    changes.update({"name": "new"})
    with pytest.raises(grpc.RpcError) as caught:
        calls.EditJob(pb.EditJobRequest(id="plain", changes=changes, expect="another"), timeout=60)
    assert caught.value.code() is grpc.StatusCode.ABORTED
    assert trailers_of(caught.value)["goscheduler-etag"] == etag
    assert calls.EditJob(pb.EditJobRequest(id="plain", changes=changes, expect=etag), timeout=60).done


def test_a_method_that_is_not_there_is_unimplemented(channel):
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/scheduler.v1.SchedulerService/Schedule")(b"", timeout=60)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_an_answer_beyond_4_mb_is_refused_with_a_hint(calls, messages):
    for _ in range(20):
        messages.schedule_after("1h", "big", b"x" * 250_000)
    with pytest.raises(grpc.RpcError) as caught:
        calls.ListMessages(pb.ListMessagesRequest(), timeout=60)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "limit" in caught.value.details()
    assert len(calls.ListMessages(pb.ListMessagesRequest(limit=2), timeout=60).items) == 2


def test_a_request_beyond_4_mb_is_refused(calls):
    with pytest.raises(grpc.RpcError) as caught:
        calls.FindJobs(pb.FindJobsRequest(text="x" * 5_000_000), timeout=60)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_store_that_is_looked_at_only_refuses_acts(connected, served, url_of):
    from goscheduler import BackgroundScheduler
    from goscheduler.observer import Observer
    from goscheduler.rpc.gen import operations_pb2_grpc

    url = url_of("sqlite")
    worker = BackgroundScheduler(jobstores={"default": url})
    worker.start(paused=True)
    worker.shutdown()
    with Observer(url, read_only=True) as observer:
        calls = operations_pb2_grpc.OperationsServiceStub(connected(served(observer)))
        with pytest.raises(grpc.RpcError) as caught:
            calls.PauseJobs(pb.PauseJobsRequest(ids=["x"]), timeout=60)
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert trailers_of(caught.value)["goscheduler-error"] == "read_only"
        served.servers[-1].stop(0)
