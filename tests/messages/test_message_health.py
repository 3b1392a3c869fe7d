"""What a check of health finds, and what it comes to."""

from __future__ import annotations

from datetime import timedelta

import pytest
from message_doubles import Manual, Recorder

from goscheduler.messages import HealthStatus, Message, MessageScheduler
from goscheduler.messages._health import Findings, judge
from goscheduler.runs.health import verdict


@pytest.mark.parametrize(
    ("found", "status", "words"),
    [
        (Findings(), "healthy", ""),
        (Findings(pending=10**6), "healthy", ""),
        (Findings(overdue=299), "healthy", ""),
        (Findings(overdue=301), "degraded", "nobody has taken a message that is due for 301 seconds"),
        (Findings(stuck=1), "degraded", "1 message is stuck"),
        (Findings(stuck=2), "degraded", "2 messages are stuck"),
        (Findings(transport="no"), "degraded", "the transport takes no messages: no"),
        (Findings("gone", 0, 5, 999, "no"), "unhealthy", "the store cannot be asked: gone"),
    ],
)
def test_what_is_found_decides_the_status(found, status, words):
    assert verdict(judge(found, 300)) == (HealthStatus(status), words)


def test_a_front_that_is_well_says_how_many_messages_wait():
    with Manual() as manual:
        manual.front.schedule_many(
            Message("order", scheduled_at=manual.now() + timedelta(hours=1)) for _ in range(3)
        )
        health = manual.front.health()
        assert (health.status, health.pending, health.stuck, health.message) == (HealthStatus.HEALTHY, 3, 0, "")
        assert health.checked_at == manual.now()
        assert health.latency >= 0
        assert health.details == {
            "name": "messages", "delivering": True, "overdue_seconds": 0.0, "transport": "healthy",
        }  # fmt: skip


def test_messages_that_nobody_delivers_degrade():
    with Manual(stuck_after="5m") as manual:
        manual.front.stop()
        manual.front.schedule(Message("order"))
        manual.scheduler.pause()
        manual.scheduler.advance("6m")
        health = manual.front.health()
        assert health.status is HealthStatus.DEGRADED
        assert health.details["overdue_seconds"] == 360


def test_a_transport_that_is_not_well_degrades():
    with Manual() as manual:
        manual.transport.is_healthy = False
        assert manual.front.health().status is HealthStatus.DEGRADED

        def broken():
            raise OSError("no")

        manual.transport.healthy = broken
        assert manual.front.health().message == "the transport takes no messages: OSError: no"


@pytest.mark.parametrize("question", ["get_next_run_time", "live_runs", "count_waiting"])
def test_a_store_that_does_not_answer_is_unhealthy_and_nothing_counts_as_counted(question, monkeypatch):
    with Manual() as manual:

        def no_answer(*args):
            raise ConnectionError("no route")

        monkeypatch.setattr(manual.front._shelf.store, question, no_answer)
        health = manual.front.health()
        assert (health.status, health.pending, health.stuck) == (HealthStatus.UNHEALTHY, None, None)
        assert health.message == "the store cannot be asked: ConnectionError: no route"
        assert health.details["overdue_seconds"] is None


def test_a_transport_is_asked_also_while_the_store_does_not_answer():
    front = MessageScheduler(transport=Recorder())
    front.transport.is_healthy = False
    assert front.health().details["transport"] == "it says that it is not healthy"


def test_a_front_that_was_never_started_is_unhealthy_and_does_not_wait_for_its_store():
    front = MessageScheduler(store="redis://127.0.0.1:1", transport=Recorder())
    assert front.health().status is HealthStatus.UNHEALTHY
    assert not front.scheduler.running
