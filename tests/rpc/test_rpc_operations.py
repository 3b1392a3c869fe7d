"""The operations over gRPC: every one of them, by everybody, and what becomes of values on the way."""

from __future__ import annotations

from ipaddress import ip_address

import grpc
import pytest
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import Struct, Value
from operation_doubles import nothing
from operation_table import NOT_THERE, TABLE, filled_in

from goscheduler.ops.access import Principal, Role
from goscheduler.ops.redact import HIDDEN
from goscheduler.ops.registry import OPERATIONS
from goscheduler.rpc.gen import operations_pb2 as pb
from goscheduler.rpc.names import method_of
from goscheduler.rpc.wire import answer_of, arguments_of, fill, plain_value

SERVICE = pb.DESCRIPTOR.services_by_name["OperationsService"]


def request_of(name, arguments):
    """Return the method of an operation, and a request with the arguments."""
    method = SERVICE.methods_by_name[method_of(name, OPERATIONS[name].acts)]
    request = GetMessageClass(method.input_type)()
    fill(request, arguments)
    return method.name, request


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.ADMIN], ids=lambda role: role.title)
@pytest.mark.parametrize("name", TABLE)
def test_each_role_may_call_over_grpc_what_it_may_call(calls, scheduler, operations, name, role):
    needed, arguments = TABLE[name]
    method, request = request_of(name, filled_in(arguments, scheduler, operations, Principal("ann", role)))
    metadata = [("role", role.title)]
    if role < Role.of(needed):
        before = [(job.id, job.next_run_time) for job in scheduler.get_jobs()]
        with pytest.raises(grpc.RpcError) as caught:
            getattr(calls, method)(request, metadata=metadata, timeout=60)
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert before == [(job.id, job.next_run_time) for job in scheduler.get_jobs()]
    elif name in NOT_THERE:
        with pytest.raises(grpc.RpcError) as caught:
            getattr(calls, method)(request, metadata=metadata, timeout=60)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    else:
        assert getattr(calls, method)(request, metadata=metadata, timeout=60) is not None


def test_the_requests_of_the_table_arrive_as_they_were_made():
    for name, (_, arguments) in TABLE.items():
        _, request = request_of(name, arguments)
        assert arguments_of(request, OPERATIONS[name].params) == arguments, name


def test_an_act_is_in_the_audit_with_its_reason_and_its_way(calls, call):
    request = pb.PauseJobsRequest(ids=["plain"], reason="the disk is moved")
    assert list(calls.PauseJobs(request, timeout=60).changed) == ["plain"]
    (entry,) = call("audit")["items"]
    assert (entry["actor"], entry["via"], entry["operation"], entry["reason"]) == (
        "ann", "grpc", "pause_jobs", "the disk is moved",
    )  # fmt: skip
    assert ip_address(entry["address"]).is_loopback


def test_a_repeated_request_is_answered_as_the_first(calls, scheduler):
    request = pb.RunJobsRequest(ids=["plain"], request_id="once")
    first = calls.RunJobs(request, timeout=60)
    assert calls.RunJobs(request, timeout=60) == first
    assert len(scheduler.live_runs("plain")) == 1


def test_a_job_is_told_with_its_types(calls, scheduler):
    job = calls.GetJob(pb.GetJobRequest(id="plain"), timeout=60)
    stored = scheduler.get_job("plain")
    assert job.next_run_time.ToMicroseconds() == round(stored.next_run_time.timestamp() * 1e6)
    assert (list(job.tags), dict(job.metadata), job.priority) == (["billing"], {"team": "blue"}, 5)
    assert (plain_value(job.args), plain_value(job.kwargs)) == ([1], {"password": HIDDEN, "n": 2})
    assert [(limit.name, limit.concurrency) for limit in job.limits] == [("api", 2)]
    assert not job.HasField("timeout")
    assert not job.HasField("retry")
    assert not job.HasField("last_run")


def test_arguments_are_hidden_from_those_who_may_not_see_them(calls):
    job = calls.GetJob(pb.GetJobRequest(id="plain"), metadata=[("role", "viewer"), ("rights", "blind")], timeout=60)
    assert (plain_value(job.args), dict(job.metadata)) == (HIDDEN, {HIDDEN: HIDDEN})


def test_who_may_see_a_part_sees_a_part(calls):
    some = [("rights", "some")]
    assert [job.id for job in calls.FindJobs(pb.FindJobsRequest(sort="id"), metadata=some, timeout=60).items] == [
        "failing", "plain",
    ]  # fmt: skip
    with pytest.raises(grpc.RpcError) as caught:
        calls.GetJob(pb.GetJobRequest(id="nightly"), metadata=some, timeout=60)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_pages_follow_one_another(calls):
    first = calls.FindJobs(pb.FindJobsRequest(sort="id", limit=3), timeout=60)
    rest = calls.FindJobs(pb.FindJobsRequest(sort="id", limit=3, after=first.next), timeout=60)
    assert [job.id for job in [*first.items, *rest.items]] == ["failing", "nightly", "other", "plain"]
    assert not rest.HasField("next")


def test_a_job_is_added_and_edited_with_the_arguments_that_were_given(calls, scheduler):
    arguments = [1, 2.5, "three", None, True, {"four": [4]}]
    definition = Struct()
    definition.update({"task": "greet", "id": "new", "trigger": {"type": "cron", "hour": 4}, "args": arguments})
    assert calls.AddJob(pb.AddJobRequest(job=definition), timeout=60).task == "greet"
    stored = scheduler.get_job("new")
    assert list(stored.args) == arguments
    assert type(stored.args[0]) is int
    changes = Struct()
    changes.update({"name": "renamed", "priority": 2})
    edited = calls.EditJob(pb.EditJobRequest(id="new", changes=changes), timeout=60)
    assert (edited.done, edited.after["name"], scheduler.get_job("new").priority) == (True, "renamed", 2)


def test_a_job_that_names_a_function_is_refused(calls, scheduler):
    definition = Struct()
    definition.update({"task": f"{nothing.__module__}:{nothing.__name__}"})
    with pytest.raises(grpc.RpcError) as caught:
        calls.AddJob(pb.AddJobRequest(job=definition), timeout=60)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_an_answer_of_two_kinds_says_which_one_it_is(calls, scheduler):
    run_id = scheduler.runs("failing")[0].run_id
    named = calls.Redrive(pb.RedriveRequest(ids=[run_id]), timeout=60)
    assert (named.WhichOneof("result"), list(named.change.changed)) == ("change", [run_id])
    filtered = calls.Discard(pb.DiscardRequest(job_id="failing"), timeout=60)
    assert (filtered.WhichOneof("result"), filtered.letters.count) == ("letters", 0)


def test_an_answer_of_one_value_has_it(calls, source):
    answer = calls.BreakLock(pb.BreakLockRequest(name="nobody's", fence=3), timeout=60)
    assert answer.value is False


@pytest.mark.parametrize(
    "value",
    [None, True, False, 0, -1, 1 << 53, 0.5, "", "ä \u2022", [], {}, [[{"a": [None]}]], {"": {"b": 1}}],
    ids=repr,
)
def test_a_value_of_any_kind_comes_back_as_it_was(value):
    message = answer_of(pb.Job, {"args": value})
    assert plain_value(message.args) == value


@pytest.mark.parametrize(
    ("value", "told"),
    [(1 << 60, str(1 << 60)), (float("inf"), "inf"), (float("nan"), "nan"), ("\ud800", "\\ud800"), (2.0, 2)],
)
def test_a_value_that_the_wire_does_not_have_is_told_as_text(value, told):
    assert plain_value(answer_of(pb.Job, {"kwargs": value}).kwargs) == told
    assert answer_of(pb.Job, {"name": "\ud800"}).name == "\\ud800"


def test_a_process_is_told_with_all_that_is_in_it():
    at = "2026-05-04T12:00:00.25+00:00"
    told = {
        "owner": "o", "jobstore": "default", "host": "vm", "pid": 7, "state": None, "version": "1", "started_at": at,
        "expires_at": None, "reported_at": at, "tasks": ["a", "b"], "all_runs": True,
        "executors": [{"alias": "x", "running": 0, "room": None}],
        "runs": [{"run_id": "r", "job_id": "j", "started_at": at, "progress": 0.5, "progress_note": "half"}],
    }  # fmt: skip
    process = answer_of(pb.ListProcessesResponse, [told]).items[0]
    assert (process.pid, process.HasField("state"), process.HasField("expires_at")) == (7, False, False)
    assert (process.started_at.nanos, list(process.tasks)) == (250_000_000, ["a", "b"])
    (use,), (run,) = process.executors, process.runs
    assert (use.HasField("running"), use.running, use.HasField("room")) == (True, 0, False)
    assert (run.progress, run.started_at) == (0.5, process.started_at)


def test_a_value_of_no_kind_counts_as_not_given():
    assert plain_value(Value()) is None
    assert answer_of(pb.Change, {"run_ids": None, "changed": []}) == pb.Change()


def test_a_number_that_is_too_large_for_the_wire_is_the_largest():
    assert answer_of(pb.Count, {"number": 1 << 70, "exact": False}).number == (1 << 63) - 1
