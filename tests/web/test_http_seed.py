"""The three routes of event-scheduler answer with the JSON that its gateway makes."""

from __future__ import annotations

import base64

import pytest
from asgi_client import AsgiClient
from operation_doubles import ADMIN
from operation_table import dead_message

from goscheduler.messages import Message, Recurrence
from goscheduler.ops.access import Principal
from goscheduler.ops.service import Operations
from goscheduler.web import web_app
from goscheduler.web.seed import go_duration, timestamp


@pytest.fixture
def stored(messages):
    """Three messages: one that comes once, and two that recur."""
    messages.schedule(
        Message("order.paid", {"n": 1}, {"team": "blue"}, "2026-01-02T03:04:05Z", id="once"), if_exists="error"
    )
    messages.schedule(Message(
        "report", b"\xff\xfe", {}, "2026-01-03T00:00:00Z", id="daily",
        recurrence=Recurrence(interval="1d", max_occurrences=3, until="2026-02-01T00:00:00Z"),
    ))  # fmt: skip
    messages.schedule(Message("tick", b"", {}, "2026-01-04T00:00:00Z", id="by/cron", recurrence=Recurrence(
        cron="0 3 * * *", timezone="UTC",
    )))  # fmt: skip


ONCE = {
    "id": "once", "eventName": "order.paid", "payload": "eyJuIjoxfQ==", "metadata": {"team": "blue"},
    "scheduledAt": "2026-01-02T03:04:05Z", "createdAt": "2026-01-01T00:01:00Z", "retryCount": 0, "recurrence": None,
    "occurrenceCount": 0,
}  # fmt: skip
BY_CRON = {
    "id": "by/cron", "eventName": "tick", "payload": "", "metadata": {}, "scheduledAt": "2026-01-04T03:00:00Z",
    "createdAt": "2026-01-01T00:01:00Z", "retryCount": 0,
    "recurrence": {"type": "RECURRENCE_TYPE_CRON", "value": "0 3 * * *", "maxOccurrences": 0, "until": None},
    "occurrenceCount": 0,
}  # fmt: skip


def test_a_message_has_every_field_under_the_name_that_the_gateway_gives_it(client, stored):
    assert client.get("/v1/messages/once").json() == {"message": ONCE}
    assert list(client.get("/v1/messages/once").json()["message"]) == list(ONCE)
    assert client.get("/v1/messages/by%2Fcron").json() == {"message": BY_CRON}
    assert client.get("/v1/message?id=by%2Fcron").json() == {"message": BY_CRON}


def test_a_recurrence_by_an_interval_is_written_as_go_writes_it(client, stored):
    message = client.get("/v1/messages/daily").json()["message"]
    assert base64.b64decode(message["payload"]) == b"\xff\xfe"
    assert message["recurrence"] == {
        "type": "RECURRENCE_TYPE_INTERVAL", "value": "24h0m0s", "maxOccurrences": 3, "until": "2026-01-05T00:00:00Z",
    }  # fmt: skip


def test_messages_are_listed_the_earliest_first_with_a_total(client, stored):
    def ids(query):
        found = client.get(f"/v1/messages?{query}").json()
        return [message["id"] for message in found["messages"]], found["totalCount"]

    assert ids("") == (["once", "daily", "by/cron"], 3)
    assert ids("limit=1") == (["once"], 3)
    assert ids("limit=1&offset=1") == (["daily"], 3)
    assert ids("limit=0") == ids("limit=100000") == ids("limit=-1") == ids("")
    assert ids("event_name=report") == ids("eventName=report") == (["daily"], 1)
    assert ids("event_name=") == ids("")
    assert ids("before=2026-01-03T00:00:00Z") == (["once"], 1)
    assert ids("after=2026-01-03T00:00:00Z") == (["daily", "by/cron"], 2)
    assert ids("event_name=nothing") == ([], 0)


@pytest.mark.parametrize("query", ["limit=x", "offset=1.5", "limit=99999999999", "before=soon", "after=%FF"])
def test_a_query_that_cannot_be_parsed_is_refused_as_the_gateway_does(client, query):
    answer = client.get(f"/v1/messages?{query}")
    assert (answer.status, answer.json()["code"], answer.json()["details"]) == (400, 3, [])


def test_a_message_that_is_not_there_is_told_as_the_gateway_tells_it(client):
    answer = client.get("/v1/messages/nobody")
    assert (answer.status, answer.json()["code"], answer.json()["details"]) == (404, 5, [])
    assert "nobody" in answer.json()["message"]


def test_what_is_hidden_is_empty(source, stored):
    client = AsgiClient(web_app(source, principal=lambda: Principal("vic")))
    message = client.get("/v1/messages/once").json()["message"]
    assert (message["payload"], message["metadata"]) == ("", {})


def test_a_dead_message_can_be_got_and_tells_its_attempts(client, operations):
    message = client.get(f"/v1/messages/{dead_message(operations)}").json()["message"]
    assert message["retryCount"] == 1
    assert client.get("/v1/messages").json() == {"messages": [], "totalCount": 0}


def test_health_has_the_fields_of_the_gateway(client):
    answer = client.get("/v1/health")
    told = answer.json()
    assert list(told) == ["status", "message", "latencyMs", "details"]
    assert told["status"] in ("HEALTH_STATUS_HEALTHY", "HEALTH_STATUS_DEGRADED")
    assert told["latencyMs"].isdecimal()
    assert {"pending_messages", "stuck_messages"} <= told["details"].keys()
    assert all(isinstance(value, str) for value in told["details"].values())
    assert answer.status == 200


def test_health_answers_503_if_it_is_unhealthy_with_the_same_body(client, operations, monkeypatch):
    view = {**operations.call("health", ADMIN), "status": "unhealthy", "message": "the store is away", "latency_ms": 3}
    monkeypatch.setattr(Operations, "call", lambda *arguments, **more: view)
    answer = client.get("/v1/health")
    told = answer.json()
    assert (answer.status, told["status"]) == (503, "HEALTH_STATUS_UNHEALTHY")
    assert (told["message"], told["latencyMs"]) == ("the store is away", "3")


@pytest.mark.parametrize(("seconds", "text"), [
    (0, "0s"), (1, "1s"), (90, "1m30s"), (3600, "1h0m0s"), (86_400, "24h0m0s"), (5.5, "5.5s"), (0.25, "250ms"),
    (0.000001, "1µs"), (3661.5, "1h1m1.5s"),
])  # fmt: skip
def test_lengths_of_time_are_written_as_go_writes_them(seconds, text):
    assert go_duration(seconds) == text


@pytest.mark.parametrize(("moment", "text"), [
    (None, None), ("2026-01-02T03:04:05+00:00", "2026-01-02T03:04:05Z"),
    ("2026-01-02T03:04:05.500000+01:00", "2026-01-02T02:04:05.500Z"),
    ("2026-01-02T03:04:05.000001+00:00", "2026-01-02T03:04:05.000001Z"),
])  # fmt: skip
def test_moments_are_written_as_protocol_buffers_have_them_in_json(moment, text):
    assert timestamp(moment) == text
