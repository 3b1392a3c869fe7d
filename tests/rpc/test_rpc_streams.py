"""Calls that take time: streams, deadlines, calls that are given up, and the end of the server."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType

import grpc
import pytest

from goscheduler.ops import service
from goscheduler.ops.access import Principal, Role
from goscheduler.ops.jobs import Ids
from goscheduler.ops.model import ChangeView
from goscheduler.ops.operation import Call, operation
from goscheduler.ops.registry import OPERATIONS
from goscheduler.rpc import register
from goscheduler.rpc.access import Access
from goscheduler.rpc.calls import CALLS_AT_ONCE, CallGone, Calls, end
from goscheduler.rpc.gen import operations_pb2 as pb
from goscheduler.rpc.gen import operations_pb2_grpc

PATIENCE = 60.0


@pytest.fixture
def slow(monkeypatch):
    """Let jobs be paused slowly: each call says when it has begun, and waits."""

    class Slow:
        begun = threading.Semaphore(0)
        go_on = threading.Event()
        calls = 0

    found = Slow()

    @operation(Role.OPERATOR)
    def pause_jobs(call: Call, ids: Ids) -> ChangeView:
        found.calls += 1
        found.begun.release()
        assert found.go_on.wait(PATIENCE)
        return ChangeView([], [], {})

    monkeypatch.setattr(service, "OPERATIONS", MappingProxyType({**OPERATIONS, "pause_jobs": pause_jobs}))
    yield found
    found.go_on.set()


def test_a_stream_sends_what_is_there_and_whatever_changes(calls, scheduler):
    stream = calls.WatchJob(pb.GetJobRequest(id="plain"), timeout=PATIENCE)
    assert next(stream).state == "scheduled"
    scheduler.pause_job("plain")
    assert next(stream).state == "paused"
    scheduler.resume_job("plain")
    assert next(stream).state == "scheduled"
    stream.cancel()


def test_a_stream_of_nothing_that_is_there_ends_with_the_error(calls, scheduler):
    with pytest.raises(grpc.RpcError) as caught:
        next(calls.WatchJob(pb.GetJobRequest(id="nobody"), timeout=PATIENCE))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    stream = calls.WatchJob(pb.GetJobRequest(id="plain"), timeout=PATIENCE)
    next(stream)
    scheduler.remove_job("plain")
    with pytest.raises(grpc.RpcError) as caught:
        next(stream)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_a_stream_looks_with_the_rights_of_its_caller(calls):
    with pytest.raises(grpc.RpcError) as caught:
        next(calls.WatchOverview(pb.GetOverviewRequest(), metadata=[("rights", "some")], timeout=PATIENCE))
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_a_stream_ends_when_the_server_does(calls, served):
    stream = calls.WatchOverview(pb.GetOverviewRequest(), timeout=PATIENCE)
    next(stream)
    served.servers[-1].stop(PATIENCE)
    with pytest.raises(grpc.RpcError) as caught:
        for _ in stream:
            pass
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_streams_are_few_and_one_that_has_ended_makes_room(served, connected):
    address = served(most_watches=2)
    calls = operations_pb2_grpc.OperationsServiceStub(connected(address))
    streams = [calls.WatchJob(pb.GetJobRequest(id="plain"), timeout=PATIENCE) for _ in range(2)]
    for stream in streams:
        next(stream)
    with pytest.raises(grpc.RpcError) as caught:
        next(calls.WatchJob(pb.GetJobRequest(id="plain"), timeout=PATIENCE))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    streams[0].cancel()
    assert _until(lambda: _first(calls)).state == "scheduled"


def _first(calls):
    try:
        return next(calls.WatchJob(pb.GetJobRequest(id="plain"), timeout=PATIENCE))
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
            return None
        raise


def _until(look):
    """Return what ``look`` finds, as soon as that is something."""
    waiting = threading.Event()
    for _ in range(600):
        found = look()
        if found is not None:
            return found
        waiting.wait(0.1)
    raise AssertionError("it did not come")


def test_a_client_that_waits_no_more_hears_so_at_once(slow, calls):
    request = pb.PauseJobsRequest(ids=["plain"])
    first = [calls.PauseJobs.future(request, timeout=PATIENCE) for _ in range(CALLS_AT_ONCE)]
    for _ in first:
        assert slow.begun.acquire(timeout=PATIENCE)
    late = calls.PauseJobs.future(request, timeout=0.2)
    given_up = calls.PauseJobs.future(request, timeout=PATIENCE)
    assert late.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    given_up.cancel()
    assert given_up.code() is grpc.StatusCode.CANCELLED
    slow.go_on.set()
    assert [call.code() for call in first] == [grpc.StatusCode.OK] * CALLS_AT_ONCE
    assert calls.PauseJobs(request, timeout=PATIENCE) == pb.Change()


class Context:
    """The context of a call."""

    def __init__(self, left, active=True):
        self._left = left
        self._active = active
        self.ended = None

    def time_remaining(self):
        return self._left

    def peer(self):
        return "ipv4:127.0.0.1:50000"

    def is_active(self):
        return self._active

    def abort(self, code, details):
        self.ended = code
        raise RuntimeError(details)


def nothing_asked(ask):
    raise AssertionError("something was done")


def test_a_call_that_its_client_has_given_up_does_nothing(operations):
    calls = Calls(operations, Access(lambda context: None))
    for _ in range(CALLS_AT_ONCE + 1):  # each gives its turn back
        with pytest.raises(CallGone):
            calls.look(Context(None, active=False), nothing_asked)


def test_a_call_whose_deadline_is_over_before_its_turn_does_nothing(operations):
    calls = Calls(operations, Access(lambda context: Principal("ann")), at_once=1)

    def meanwhile(ask):
        with pytest.raises(CallGone):
            calls.look(Context(0.01), nothing_asked)
        return pb.Count(number=1)

    assert calls.look(Context(None), meanwhile).number == 1


@pytest.mark.parametrize(
    ("left", "code"),
    [(0, grpc.StatusCode.DEADLINE_EXCEEDED), (5.0, grpc.StatusCode.CANCELLED), (None, grpc.StatusCode.CANCELLED)],
)
def test_a_call_that_is_over_says_why(left, code):
    context = Context(left)
    with pytest.raises(RuntimeError):
        end(context, CallGone())
    assert context.ended is code


def test_calls_that_go_on_may_end_when_the_server_stops(slow, calls, served):
    going_on = calls.PauseJobs.future(pb.PauseJobsRequest(ids=["plain"]), timeout=PATIENCE)
    assert slow.begun.acquire(timeout=PATIENCE)
    with ThreadPoolExecutor(1) as pool:
        stopping = pool.submit(served.servers[-1].stop, PATIENCE)
        slow.go_on.set()
        assert going_on.result() == pb.Change()
        stopping.result(PATIENCE)


def test_a_server_of_the_users_own_has_the_services(scheduler, connected):
    server = grpc.server(ThreadPoolExecutor(4))
    services = register(server, scheduler, watch_interval=0.05)
    port = server.add_insecure_port("localhost:0")
    server.start()
    calls = operations_pb2_grpc.OperationsServiceStub(connected(f"localhost:{port}"))
    assert calls.CountJobs(pb.CountJobsRequest(), timeout=PATIENCE).number == 4
    stream = calls.WatchJobs(pb.FindJobsRequest(sort="id"), timeout=PATIENCE)
    assert len(next(stream).items) == 4
    services.stop()
    with pytest.raises(grpc.RpcError) as caught:
        next(stream)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    server.stop(0).wait()
