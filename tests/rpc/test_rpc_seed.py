"""The service of event-scheduler, asked by a client that knows nothing but its proto, and byte by byte."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import grpc
import pytest
from rows import each_row

from goscheduler.messages import Message, Recurrence
from goscheduler.ops.redact import HIDDEN
from goscheduler.rpc.gen import scheduler_pb2 as pb
from goscheduler.rpc.seed import go_duration, message_of

ROOT = Path(__file__).resolve().parents[2]
VIEWER = (("role", "viewer"),)

#: A program of somebody who has generated a client from the proto: it prints what it is answered, as JSON.
CLIENT = """
import json, sys
import grpc
from google.protobuf.json_format import MessageToDict
from scheduler.v1 import scheduler_pb2 as pb, scheduler_pb2_grpc

address, message_id = sys.argv[1:]
with grpc.insecure_channel(address) as channel:
    stub = scheduler_pb2_grpc.SchedulerServiceStub(channel)

    def told(call, request):
        try:
            return MessageToDict(call(request, timeout=60))
        except grpc.RpcError as error:
            return error.code().name

    print(json.dumps({
        "get": told(stub.Get, pb.GetRequest(id=message_id)),
        "nothing": told(stub.Get, pb.GetRequest()),
        "unknown": told(stub.Get, pb.GetRequest(id="nobody")),
        "list": told(stub.List, pb.ListRequest(event_name="order.paid", limit=1)),
        "health": told(stub.Health, pb.HealthRequest()),
    }))
"""


@pytest.fixture
def client(tmp_path):
    """Generate a client from the text of the proto alone, in a folder of its own, and run it."""
    pytest.importorskip("grpc_tools")
    proto = tmp_path / "scheduler" / "v1" / "scheduler.proto"
    proto.parent.mkdir(parents=True)
    proto.write_bytes((ROOT / "proto" / "scheduler" / "v1" / "scheduler.proto").read_bytes())
    protoc = [sys.executable, "-m", "grpc_tools.protoc", "-I.", "--python_out=.", "--grpc_python_out=."]
    subprocess.run([*protoc, "scheduler/v1/scheduler.proto"], cwd=tmp_path, check=True)
    (tmp_path / "client.py").write_text(CLIENT, encoding="utf-8")

    def run(*arguments):
        done = subprocess.run(
            [sys.executable, "client.py", *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return json.loads(done.stdout)

    return run


def test_a_client_made_of_the_proto_alone_is_answered(client, served, messages, scheduler):
    start = scheduler.clock.now() + timedelta(hours=1)
    message_id = messages.schedule(Message(
        "order.paid", {"n": 1}, {"tenant": "ada"}, start,
        recurrence=Recurrence(interval=timedelta(minutes=90), max_occurrences=3),
    ))  # fmt: skip
    messages.schedule_after("2h", "order.paid")
    messages.schedule_after("2h", "other")
    told = client(served(), message_id)
    stamp = start.isoformat().replace("+00:00", "Z")
    created = scheduler.clock.now().isoformat().replace("+00:00", "Z")
    message = {
        "id": message_id, "eventName": "order.paid", "payload": "eyJuIjoxfQ==", "metadata": {"tenant": "ada"},
        "scheduledAt": stamp, "createdAt": created, "recurrence": {
            "type": "RECURRENCE_TYPE_INTERVAL", "value": "1h30m0s", "maxOccurrences": 3,
            "until": (start + timedelta(hours=3)).isoformat().replace("+00:00", "Z"),
        },
    }  # fmt: skip
    assert told["get"] == {"message": message}
    assert (told["nothing"], told["unknown"]) == ("INVALID_ARGUMENT", "NOT_FOUND")
    assert told["list"] == {"messages": [message], "totalCount": 2}
    assert told["health"]["status"].startswith("HEALTH_STATUS_")
    assert told["health"]["details"]["stuck_messages"] == "0"


#: What goes over the wire, recorded with protoc: request and answer.
RECORDED = {
    "GetRequest": (pb.GetRequest(id="m1"), "0a026d31"),
    "ListRequest": (
        pb.ListRequest(event_name="e", before={"seconds": 5}, after={"seconds": 4}, limit=3, offset=2),
        "0a0165120208051a02080420032802",
    ),
    "Message": (
        pb.Message(
            id="m1", event_name="e", payload=b"\x00\xff", metadata={"k": "v"}, scheduled_at={"seconds": 1},
            created_at={"nanos": 1}, retry_count=2, recurrence={"type": 2, "value": "* * * * *"}, occurrence_count=3,
        ),
        "0a026d311201651a0200ff22060a016b1201762a02080132021001380242"
        "0d080212092a202a202a202a202a4803",
    ),
    "ListResponse": (pb.ListResponse(messages=[pb.Message(id="m")], total_count=7), "0a030a016d1007"),
    "HealthResponse": (
        pb.HealthResponse(status=2, message="m", latency_ms=300, details={"a": "1"}),
        "080212016d18ac0222060a0161120131",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDED)
def test_the_bytes_on_the_wire_stay_the_same(name):
    message, recorded = RECORDED[name]
    assert message.SerializeToString(deterministic=True).hex() == recorded


def test_a_client_that_sends_bytes_is_answered_in_bytes(channel, messages):
    message_id = messages.schedule(Message("e", b"\x00\xff", id="m1", scheduled_at="2030-01-01T00:00:00Z"))
    answer = channel.unary_unary("/scheduler.v1.SchedulerService/Get")(bytes.fromhex("0a026d31"), timeout=60)
    assert message_id == "m1"
    assert answer[2:].startswith(bytes.fromhex("0a026d311201651a0200ff2a060880b1ef8607"))


@pytest.mark.parametrize("request_bytes", [b"\xff\xff\xff", b"\x0a\x02\xff\xfe", b"\x0a\xff\xff\xff\xff\x0f"])
def test_a_request_that_cannot_be_parsed_is_an_invalid_argument(channel, request_bytes):
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/scheduler.v1.SchedulerService/Get")(request_bytes, timeout=60)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_the_limit_is_between_1_and_1000_and_the_total_counts_all(seed, messages):
    messages.schedule_many([Message("e", scheduled_at=f"2030-01-01T00:{n // 60:02}:{n % 60:02}Z") for n in range(1100)])
    for limit, expected in {0: 1000, -5: 1000, 1001: 1000, 3: 3}.items():
        answer = seed.List(pb.ListRequest(limit=limit), timeout=60)
        assert (len(answer.messages), answer.total_count) == (expected, 1100)
    assert len(seed.List(pb.ListRequest(offset=1000)).messages) == 100
    assert len(seed.List(pb.ListRequest(offset=10_000)).messages) == 0


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.ListRequest(offset=10_001), "offset"),
        (pb.ListRequest(offset=-1), "offset"),
        (pb.ListRequest(before={"seconds": 1 << 60}), "before"),
        (pb.ListRequest(after={"nanos": -5}), "after"),
        (pb.ListRequest(event_name="x" * 2000), "event_name"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused_by_the_name_of_the_field(seed, request_, field):
    with pytest.raises(grpc.RpcError) as caught:
        seed.List(request_, timeout=60)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert field in caught.value.details()


def test_messages_are_listed_by_event_name_and_time(seed, messages):
    for hour in range(4):
        messages.schedule(Message("a" if hour % 2 else "b", id=f"at-{hour}", scheduled_at=f"2030-01-01T0{hour}:00Z"))

    def listed(**request):
        return [message.id for message in seed.List(pb.ListRequest(**request), timeout=60).messages]

    at = {hour: datetime(2030, 1, 1, hour, tzinfo=timezone.utc) for hour in range(4)}
    assert listed() == ["at-0", "at-1", "at-2", "at-3"]
    assert listed(event_name="a") == ["at-1", "at-3"]
    assert listed(after=at[1], before=at[3]) == ["at-1", "at-2"]
    assert listed(limit=2, offset=1) == ["at-1", "at-2"]


def test_a_message_that_failed_tells_how_often_and_one_that_recurs_which_time_it_is(seed, messages, scheduler):
    retried = messages.schedule_after(0, "retry")
    recurring = messages.schedule(Message("e", scheduled_at=scheduler.clock.now(), recurrence=Recurrence(interval=60)))
    messages._transport = None  # nothing can be published
    scheduler.run_due()
    assert seed.Get(pb.GetRequest(id=retried), timeout=60).message.retry_count == 1
    assert seed.Get(pb.GetRequest(id=recurring), timeout=60).message.occurrence_count == 1


def test_who_may_not_see_payloads_sees_none(seed, messages):
    message_id = messages.schedule(Message("e", b"\xff\x00", {"k": "v"}, "2030-01-01T00:00Z"))
    blind = (("role", "viewer"), ("rights", "blind"))
    message = seed.Get(pb.GetRequest(id=message_id), metadata=blind, timeout=60).message
    assert (message.payload.decode(), dict(message.metadata)) == (HIDDEN, {HIDDEN: HIDDEN})


def test_a_hook_may_put_something_else_in_the_place_of_a_payload():
    row = {
        "payload": "not base64!", "payload_is_base64": True, "retries": 0, "occurrences": 1 << 40, "id": "m",
        "event_name": "e", "metadata": {}, "scheduled_at": None, "created_at": None, "recurrence": None,
    }  # fmt: skip
    message = message_of(row)
    assert (message.payload, message.occurrence_count) == (b"not base64!", (1 << 31) - 1)


@each_row(
    ["seconds", "text"],
    [
        (0, "0s"), (1, "1s"), (60, "1m0s"), (3600, "1h0m0s"), (86400, "24h0m0s"), (5400.5, "1h30m0.5s"),
        (0.001, "1ms"), (0.0015, "1.5ms"), (0.000001, "1µs"), (1.234567, "1.234567s"), (59.999999, "59.999999s"),
    ],
)  # fmt: skip
def test_lengths_of_time_are_written_as_go_writes_them(seconds, text):
    assert go_duration(seconds) == text
