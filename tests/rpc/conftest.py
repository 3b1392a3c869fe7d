"""A store with jobs and messages, served on a real socket."""

from __future__ import annotations

import grpc
import pytest
from operation_fixtures import call, messages, operations, scheduler, source

from goscheduler.ops.access import Principal, Role
from goscheduler.rpc import Server
from goscheduler.rpc.gen import operations_pb2_grpc, scheduler_pb2_grpc

__all__ = ["call", "messages", "operations", "scheduler", "source"]


def who(context):
    """Return who makes a call: the metadata "role" says so, and "rights" in what they are limited."""
    told = dict(context.invocation_metadata())
    rights = {"tags": frozenset({"billing"})} if told.get("rights") == "some" else {}
    role = Role.of(told.get("role", "admin"))
    return Principal("ann", role, see_arguments=told.get("rights") != "blind", **rights)


@pytest.fixture
def served(source):
    """Serve the source, and return where; each server ends with the test."""
    servers = []

    def serve(given=source, /, **options):
        server = Server(given, port=0, **{"watch_interval": 0.05, "health_interval": 60, **options})
        servers.append(server)
        return f"localhost:{server.start()}"

    serve.servers = servers
    yield serve
    for server in servers:
        server.stop(0)


@pytest.fixture
def connected():
    """Open channels, which are closed after the test."""
    channels = []

    def connect(address, credentials=None, **options):
        if credentials is None:
            channels.append(grpc.insecure_channel(address, **options))
        else:
            channels.append(grpc.secure_channel(address, credentials, **options))
        return channels[-1]

    yield connect
    for channel in channels:
        channel.close()


@pytest.fixture
def channel(served, connected):
    """A channel to a server that believes what calls say of themselves."""
    return connected(served(principal=who))


@pytest.fixture
def seed(channel):
    return scheduler_pb2_grpc.SchedulerServiceStub(channel)


@pytest.fixture
def calls(channel):
    return operations_pb2_grpc.OperationsServiceStub(channel)
