"""The protos, and the code that is made of them."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor

from goscheduler.ops.registry import OPERATIONS
from goscheduler.rpc.gen import operations_pb2, scheduler_pb2
from goscheduler.rpc.names import WATCHING, method_of

ROOT = Path(__file__).resolve().parents[2]

#: Message of event-scheduler → its fields: name, number, type.
SEED = {
    "GetRequest": [("id", 1, "string")],
    "GetResponse": [("message", 1, "scheduler.v1.Message")],
    "ListRequest": [
        ("event_name", 1, "string"), ("before", 2, "google.protobuf.Timestamp"),
        ("after", 3, "google.protobuf.Timestamp"), ("limit", 4, "int32"), ("offset", 5, "int32"),
    ],
    "ListResponse": [("messages", 1, "scheduler.v1.Message"), ("total_count", 2, "int32")],
    "HealthRequest": [],
    "HealthResponse": [
        ("status", 1, "scheduler.v1.HealthStatus"), ("message", 2, "string"), ("latency_ms", 3, "int64"),
        ("details", 4, "scheduler.v1.HealthResponse.DetailsEntry"),
    ],
    "Recurrence": [
        ("type", 1, "scheduler.v1.RecurrenceType"), ("value", 2, "string"), ("max_occurrences", 3, "int32"),
        ("until", 4, "google.protobuf.Timestamp"),
    ],
    "Message": [
        ("id", 1, "string"), ("event_name", 2, "string"), ("payload", 3, "bytes"),
        ("metadata", 4, "scheduler.v1.Message.MetadataEntry"), ("scheduled_at", 5, "google.protobuf.Timestamp"),
        ("created_at", 6, "google.protobuf.Timestamp"), ("retry_count", 7, "int32"),
        ("recurrence", 8, "scheduler.v1.Recurrence"), ("occurrence_count", 9, "int32"),
    ],
}  # fmt: skip
NAMES = {
    FieldDescriptor.TYPE_STRING: "string", FieldDescriptor.TYPE_INT32: "int32", FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_BYTES: "bytes",
}  # fmt: skip


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("generate_protos", ROOT / "proto" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_the_proto_of_the_operations_is_what_the_table_makes_of_it(generator):
    text, numbers = generator.described()
    assert generator.OPERATIONS_PROTO.read_text(encoding="utf-8") == text, "run make proto"
    assert generator.NUMBERS.read_text(encoding="utf-8") == numbers, "run make proto"


def test_the_code_is_what_protoc_makes_of_the_protos(generator):
    pytest.importorskip("grpc_tools")
    made = generator.compiled()
    kept = {path.name: path.read_text(encoding="utf-8") for path in generator.GENERATED.glob("*_pb2*")}
    assert sorted(made) == sorted(kept)
    assert [name for name in made if made[name] != kept[name]] == [], "run make proto"


def test_every_operation_has_a_method_and_no_method_is_without_one():
    service = operations_pb2.DESCRIPTOR.services_by_name["OperationsService"]
    expected = {method_of(operation.name, operation.acts) for operation in OPERATIONS.values()} | set(WATCHING)
    assert set(service.methods_by_name) == expected
    assert {method.name for method in service.methods if method.server_streaming} == set(WATCHING)


def test_the_proto_names_the_role_of_every_operation(generator):
    text = generator.OPERATIONS_PROTO.read_text(encoding="utf-8")
    for operation in OPERATIONS.values():
        assert f"Operation {operation.name}; needs the role {operation.role.title}." in text


def test_a_field_keeps_its_number_and_a_number_is_never_given_again(generator):
    message = generator.Message("Job", "", [generator.Field("new", "string"), generator.Field("old", "string")])
    known = {"Job": {"gone": 1, "old": 2}, "Left": {"x": 1}}
    numbers = generator.numbered({"Job": message}, known)
    assert numbers == {"Job": {"gone": 1, "old": 2, "new": 3}, "Left": {"x": 1}}
    assert [line.strip() for line in generator.message_lines(message, numbers["Job"])] == [
        "message Job {", "reserved 1;", 'reserved "gone";', "string new = 3;", "string old = 2;", "}",
    ]  # fmt: skip


def test_no_number_is_given_twice(generator):
    for name, fields in json.loads(generator.NUMBERS.read_text(encoding="utf-8")).items():
        assert len(set(fields.values())) == len(fields), name


def test_no_method_takes_a_function():
    for message in operations_pb2.DESCRIPTOR.message_types_by_name.values():
        if message.name.endswith("Request"):
            assert not {"func", "function", "callable", "target", "module"} & set(message.fields_by_name)


def test_the_messages_of_event_scheduler_have_its_fields():
    found = {
        name: [(field.name, field.number, _type_of(field)) for field in message.fields]
        for name, message in scheduler_pb2.DESCRIPTOR.message_types_by_name.items()
    }
    assert found == SEED
    assert dict(scheduler_pb2.HealthStatus.items()) == {
        "HEALTH_STATUS_UNSPECIFIED": 0, "HEALTH_STATUS_HEALTHY": 1, "HEALTH_STATUS_DEGRADED": 2,
        "HEALTH_STATUS_UNHEALTHY": 3,
    }  # fmt: skip
    assert dict(scheduler_pb2.RecurrenceType.items()) == {
        "RECURRENCE_TYPE_UNSPECIFIED": 0, "RECURRENCE_TYPE_INTERVAL": 1, "RECURRENCE_TYPE_CRON": 2,
    }  # fmt: skip


def _type_of(field):
    inner = field.message_type or field.enum_type
    return NAMES[field.type] if inner is None else inner.full_name


def test_the_service_of_event_scheduler_has_its_methods_and_changes_nothing():
    service = scheduler_pb2.DESCRIPTOR.services_by_name["SchedulerService"]
    assert service.full_name == "scheduler.v1.SchedulerService"
    assert [method.name for method in service.methods] == ["Get", "List", "Health"]
