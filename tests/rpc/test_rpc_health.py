"""The standard services: health, and reflection."""

from __future__ import annotations

import threading

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from goscheduler.rpc.gen import scheduler_pb2 as pb
from goscheduler.rpc.gen import scheduler_pb2_grpc
from goscheduler.rpc.health import HealthReporter

PATIENCE = 60.0
Response = health_pb2.HealthCheckResponse
SERVICES = ["", "scheduler.v1.SchedulerService", "goscheduler.v1.OperationsService"]


@pytest.fixture
def fare(monkeypatch):
    """Let the scheduler fare as is said."""

    class Fare:
        status = "healthy"
        looks = 0
        looked = threading.Event()

        def __call__(self, ask):
            self.looks += 1
            self.looked.set()
            if isinstance(self.status, Exception):
                raise self.status
            return {
                "status": self.status, "message": "so it is", "latency_ms": 2.6, "pending": 3, "stuck": None,
                "details": {"overdue_seconds": "1.5"},
            }  # fmt: skip

    found = Fare()
    monkeypatch.setattr("goscheduler.rpc.services.read_health", found)
    monkeypatch.setattr("goscheduler.rpc.seed.read_health", found)
    return found


def statuses(channel, service=""):
    """Yield the status of a service, and each that follows it."""
    stream = health_pb2_grpc.HealthStub(channel).Watch(
        health_pb2.HealthCheckRequest(service=service), timeout=PATIENCE
    )
    return (answer.status for answer in stream)


def follow_until(found, status):
    for each in found:
        if each == status:
            return
    raise AssertionError(f"{status} did not come")


def test_health_needs_no_rights_and_changes_with_the_scheduler(fare, served, connected):
    channel = connected(served(authenticate=lambda token: None, health_interval=0.02))
    found = statuses(channel)
    follow_until(found, Response.SERVING)
    fare.status = "unhealthy"
    follow_until(found, Response.NOT_SERVING)
    fare.status = "degraded"
    follow_until(found, Response.SERVING)
    fare.status = RuntimeError("nobody knows")
    follow_until(found, Response.NOT_SERVING)


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_has_a_health(fare, served, connected, service):
    channel = connected(served())
    follow_until(statuses(channel, service), Response.SERVING)
    request = health_pb2.HealthCheckRequest(service=service)
    assert health_pb2_grpc.HealthStub(channel).Check(request, timeout=PATIENCE).status == Response.SERVING


def test_a_service_that_is_not_there_has_none(served, connected):
    with pytest.raises(grpc.RpcError) as caught:
        health_pb2_grpc.HealthStub(connected(served())).Check(
            health_pb2.HealthCheckRequest(service="other"), timeout=PATIENCE
        )
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_a_server_that_stops_tells_so_before_it_is_gone(fare, served, connected):
    found = statuses(connected(served()))
    follow_until(found, Response.SERVING)
    stopping = threading.Thread(target=served.servers[-1].stop, args=(PATIENCE,))
    stopping.start()
    follow_until(found, Response.NOT_SERVING)
    served.servers[-1].stop(0)
    stopping.join(PATIENCE)
    assert not stopping.is_alive()


def test_who_watches_hears_of_changes_only(fare, served, connected):
    found = statuses(connected(served(health_interval=0.001)))
    follow_until(found, Response.SERVING)
    looks = fare.looks
    while fare.looks < looks + 20:
        fare.looked.wait(PATIENCE)
        fare.looked.clear()
    fare.status = "unhealthy"
    assert next(found) == Response.NOT_SERVING


def test_trouble_is_logged_once_until_it_is_another(caplog):
    told = iter([ValueError("a"), ValueError("a"), ValueError("b"), None, ValueError("b")])
    done = threading.Event()

    def look():
        error = next(told, StopIteration)
        if error is StopIteration:
            done.set()
            return {"status": "healthy"}
        if error is not None:
            raise error
        return {"status": "healthy"}

    class NoServer:
        def add_registered_method_handlers(self, *given):
            pass

        def add_generic_rpc_handlers(self, *given):
            pass

    reporter = HealthReporter(look, [""], 0.001)
    reporter.add_to(NoServer())
    assert done.wait(PATIENCE)
    reporter.stop()
    lines = [record.getMessage() for record in caplog.records if record.name == "goscheduler.rpc"]
    assert [line.rpartition(" ")[2] for line in lines] == ["a", "b", "b"]


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ("healthy", pb.HEALTH_STATUS_HEALTHY),
        ("degraded", pb.HEALTH_STATUS_DEGRADED),
        ("unhealthy", pb.HEALTH_STATUS_UNHEALTHY),
    ],
)
def test_the_health_of_event_scheduler_has_its_status_and_figures(fare, seed, status, told):
    fare.status = status
    answer = seed.Health(pb.HealthRequest(), timeout=PATIENCE)
    assert (answer.status, answer.message, answer.latency_ms) == (told, "so it is", 3)
    assert dict(answer.details) == {"overdue_seconds": "1.5", "pending_messages": "3"}


def test_the_health_of_a_real_scheduler_is_told(seed, messages, call):
    answer = seed.Health(pb.HealthRequest(), timeout=PATIENCE)
    told = call("health")
    assert pb.HealthStatus.Name(answer.status) == f"HEALTH_STATUS_{told['status'].upper()}"
    assert answer.message == told["message"]


def test_clients_learn_the_methods_by_reflection(served, connected):
    stub = reflection_pb2_grpc.ServerReflectionStub(connected(served()))
    asked = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="goscheduler.v1.OperationsService"),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="scheduler.v1.SchedulerService"),
    ]
    names, *files = stub.ServerReflectionInfo(iter(asked), timeout=PATIENCE)
    assert {service.name for service in names.list_services_response.service} >= {
        "scheduler.v1.SchedulerService", "goscheduler.v1.OperationsService", "grpc.health.v1.Health",
    }  # fmt: skip
    found = [FileDescriptorProto.FromString(each.file_descriptor_response.file_descriptor_proto[0]) for each in files]
    assert [each.package for each in found] == ["goscheduler.v1", "scheduler.v1"]


def test_reflection_can_be_left_out(served, connected):
    channel = connected(served(reflection=False))
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    with pytest.raises(grpc.RpcError) as caught:
        list(stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")])))
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert scheduler_pb2_grpc.SchedulerServiceStub(channel).List(pb.ListRequest(), timeout=PATIENCE) is not None
