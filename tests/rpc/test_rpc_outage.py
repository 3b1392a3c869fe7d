"""A store that does not answer, over gRPC."""

from __future__ import annotations

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from goscheduler.observer import Observer
from goscheduler.rpc.gen import operations_pb2 as pb
from goscheduler.rpc.gen import operations_pb2_grpc

pytestmark = pytest.mark.serial

PATIENCE = 120.0


@pytest.mark.parametrize("kind", ["redis", "postgresql"])
def test_a_store_that_is_down_is_unavailable_and_the_server_lives_on(private_server, served, connected, kind):
    store = private_server(kind)
    with Observer(store.url) as observer:
        channel = connected(served(observer, health_interval=0.5))
        calls = operations_pb2_grpc.OperationsServiceStub(channel)
        assert calls.CountJobs(pb.CountJobsRequest(), timeout=PATIENCE).number == 0
        store.kill()
        with pytest.raises(grpc.RpcError) as caught:
            calls.FindJobs(pb.FindJobsRequest(), timeout=PATIENCE)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE, caught.value.details()
        with pytest.raises(grpc.RpcError) as caught:
            calls.PauseJobs(pb.PauseJobsRequest(ids=["x"]), timeout=PATIENCE)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        watched = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=PATIENCE)
        assert any(answer.status == health_pb2.HealthCheckResponse.NOT_SERVING for answer in watched)
        served.servers[-1].stop(0)
