"""Every operation with the role that it needs and arguments that work in the store of ``operation_fixtures``.

Each transport is tried with this table, so that all of them agree on who may do what.
"""

from __future__ import annotations

from operation_doubles import nothing

from goscheduler.alerts import Alert, Alerts, Failures
from goscheduler.alerts.model import state_id
from goscheduler.ops.access import Principal, Role
from goscheduler.ops.errors import NotFound

#: Operation → the role that it needs, and arguments with which it can be called in the store of the fixture.
TABLE = {
    "find_jobs": ("viewer", {}),
    "count_jobs": ("viewer", {"tag": "billing"}),
    "job": ("viewer", {"id": "plain"}),
    "why": ("viewer", {"id": "plain"}),
    "next_fires": ("viewer", {"id": "plain"}),
    "job_timeline": ("viewer", {"id": "failing"}),
    "pause_jobs": ("operator", {"ids": ["plain"]}),
    "resume_jobs": ("operator", {"ids": ["failing"]}),
    "run_jobs": ("operator", {"ids": ["plain"]}),
    "skip_next": ("operator", {"id": "plain"}),
    "postpone_job": ("operator", {"id": "plain", "until": "2090-01-01T00:00Z"}),
    "backfill": ("operator", {"id": "plain", "start": "2025-12-01", "end": "2025-12-02"}),
    "backfills": ("viewer", {}),
    "cancel_backfill": ("operator", {"id": "BACKFILL"}),
    "blackouts": ("viewer", {}),
    "add_blackout": ("operator", {"end": "2h", "tag": "billing"}),
    "remove_blackout": ("operator", {"id": "BLACKOUT"}),
    "remove_jobs": ("admin", {"ids": ["plain"]}),
    "edit_job": ("admin", {"id": "plain", "changes": {"name": "new"}}),
    "preview_bulk": ("operator", {"act": "pause", "tag": "billing"}),
    "start_bulk": ("operator", {"ticket": "TICKET"}),
    "bulk": ("viewer", {"id": "BULK"}),
    "bulks": ("viewer", {}),
    "stop_bulk": ("operator", {"id": "BULK"}),
    "find_runs": ("viewer", {}),
    "run": ("viewer", {"id": "RUN"}),
    "live_runs": ("viewer", {}),
    "cancel_runs": ("operator", {"ids": ["LIVE"]}),
    "find_letters": ("viewer", {}),
    "letter_groups": ("viewer", {}),
    "letter": ("viewer", {"id": "RUN"}),
    "redrive": ("operator", {"ids": ["RUN"]}),
    "discard": ("operator", {"job_id": "failing"}),
    "processes": ("viewer", {}),
    "ask_process": ("admin", {"owner": "nobody", "action": "pause"}),
    "limits": ("viewer", {}),
    "audit": ("admin", {}),
    "forecast": ("viewer", {}),
    "explain_trigger": ("viewer", {"trigger": "0 3 * * *"}),
    "doctor": ("viewer", {}),
    "health": ("viewer", {}),
    "alerts": ("viewer", {}),
    "ack_alert": ("operator", {"id": "ALERT"}),
    "silence_alert": ("operator", {"id": "billing", "until": "2h"}),
    "firings": ("viewer", {"start": "2026-01-01T00:00Z"}),
    "about": ("viewer", {}),
    "overview": ("viewer", {}),
    "stats": ("viewer", {"minutes": 10}),
    "add_job": ("admin", {"job": {"task": "greet", "tags": ["billing"]}}),
    "messages": ("viewer", {"count": True}),
    "message": ("viewer", {"id": "WAITING"}),
    "schedule_message": ("operator", {"message": {"event": "order.paid", "payload": {"n": 1}}}),
    "cancel_message": ("operator", {"id": "WAITING"}),
    "postpone_message": ("operator", {"id": "WAITING", "to": "2030-01-01T00:00Z"}),
    "redrive_message": ("operator", {"id": "DEAD"}),
    "discard_message": ("operator", {"id": "DEAD"}),
    "schedules": ("viewer", {}),
    "schedule_diff": ("viewer", {}),
    "documents": ("viewer", {}),
    "locks": ("viewer", {}),
    "break_lock": ("admin", {"name": "a lock", "fence": 1}),
}
#: In the fixture's store, which one process has to itself, there is nobody to ask.
NOT_THERE = {"ask_process": NotFound}


def filled_in(arguments, scheduler, operations, principal):
    """Return arguments with the ids of what the store has."""

    def value(given):
        if given == "TICKET":
            admin = Principal(principal.name, Role.ADMIN)
            return operations.call("preview_bulk", admin, {"act": "pause", "tag": "reports"})["ticket"]
        if given == "BULK":
            return scheduler.pause_jobs(tag="reports").id
        if given == "BLACKOUT":
            return scheduler.add_blackout(None, "2h", tag="billing").id
        if given == "BACKFILL":
            return scheduler.backfill("nightly", "2025-12-01", "2025-12-03").id
        if given == "RUN":
            return scheduler.runs("failing")[0].run_id
        if given == "WAITING":
            return operations.source.messages.schedule_after("1h", "order.paid", {"n": 1})
        if given == "DEAD":
            return dead_message(operations)
        if given == "ALERT":
            return firing_alert(scheduler)
        if given == "LIVE":
            return scheduler.run_now("plain")
        return [value(item) for item in given] if isinstance(given, list) else given

    return {name: value(given) for name, given in arguments.items()}


def firing_alert(scheduler):
    """Let an alert fire, and return its id."""
    alert = Alert("billing", [Failures(1)], to=["nobody"], match="tag:billing")
    Alerts(scheduler, [alert], {"nobody": nothing}).evaluate()
    return state_id("billing", "failures", "failing")


def dead_message(operations):
    """Let a message die, and return its id."""
    message_id = operations.source.messages.schedule_after(0, "bad")
    operations.source.scheduler.run_due()
    return message_id
