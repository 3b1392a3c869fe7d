"""A store with jobs and messages, served on a real socket."""

from __future__ import annotations

from datetime import timedelta

import grpc
import pytest
from operation_doubles import fail, nothing

from goscheduler import Limit
from goscheduler.documents.memory import MemoryDocumentStore
from goscheduler.errors import MessageRejected
from goscheduler.locks.memory import MemoryLocks
from goscheduler.messages import MessageScheduler
from goscheduler.ops.access import Principal, Role
from goscheduler.ops.service import Operations
from goscheduler.ops.source import Source
from goscheduler.periodic import Schedule, ScheduleRegistry
from goscheduler.rpc import Server
from goscheduler.rpc.gen import operations_pb2_grpc, scheduler_pb2_grpc
from goscheduler.testing import ManualScheduler

#: How long a test waits for an answer that must come.
PATIENCE = 60.0


@pytest.fixture
def scheduler():
    scheduler = ManualScheduler()
    scheduler.start()
    add = scheduler.add_job
    add(nothing, "interval", hours=1, id="plain", tags=["billing"], args=[1, "two", None, 2.5],
        kwargs={"password": "hush", "n": 2}, metadata={"team": "blue"}, limits=[Limit("api", concurrency=2)])  # fmt: skip
    add(nothing, "cron", hour=3, id="nightly", tags=["reports"])
    add(nothing, "interval", hours=1, id="other", tags=["reports"])
    add(fail, "interval", minutes=1, id="failing", args=[17], tags=["billing"], dead_letter=True)
    scheduler.advance(timedelta(minutes=1))
    scheduler.run_due()
    scheduler.pause_job("failing", by="ops", reason="it fails")
    yield scheduler
    if scheduler.running:
        scheduler.shutdown()


@pytest.fixture
def messages(scheduler):
    """A front of messages on the same scheduler, whose transport refuses those that are called "bad"."""

    def publish(event_name, message):
        if event_name == "bad":
            raise MessageRejected("nobody wants it")

    front = MessageScheduler(scheduler=scheduler, transport=publish, workers=0)
    front.start()
    return front


@pytest.fixture
def source(scheduler, messages):
    scheduler.register("greet", nothing)
    registry = ScheduleRegistry()
    registry.register(Schedule(id="cleanup", cron="0 * * * *", job="greet"))
    crontab = MemoryDocumentStore([{"_id": "due", "sleepUntil": scheduler.clock.now()}])
    return Source(
        scheduler, messages=messages, schedules=registry, documents={"crontab": crontab}, locks=MemoryLocks()
    )


@pytest.fixture
def operations(source):
    return Operations(source)


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
        server = Server(given, port=0, **{"watch_interval": 0.05, "health_interval": 0.05, **options})
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
        made = grpc.insecure_channel(address) if credentials is None else grpc.secure_channel(address, credentials, **options)
        channels.append(made)
        return made

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
