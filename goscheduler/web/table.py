"""The table of routes: by which method and path each operation is called.

What an operation takes comes from the path, the query (GET, DELETE) or the JSON object in the body (POST, PATCH); see
:mod:`goscheduler.web.arguments`. The routes of OpenAPI are made of this table too.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from goscheduler.ops.operation import Operation
from goscheduler.ops.registry import OPERATIONS
from goscheduler.web.paths import Template


@dataclass(frozen=True)
class Row:
    """One way to call an operation."""

    method: str
    path: str
    name: str
    """The operation."""
    cursor: str = ""
    """The parameter by which a list goes on; a query calls it ``cursor``."""
    count: str = ""
    """The operation that counts what a list has, for ``?count=1``."""
    status: int = 200
    if_match: bool = False
    """Whether ``If-Match`` is wanted; it is given to the operation as ``expect``."""
    template: Template = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "template", Template(self.path))

    @property
    def operation(self) -> Operation:
        """The operation."""
        return OPERATIONS[self.name]

    @property
    def has_body(self) -> bool:
        """Whether arguments come in a body."""
        return self.method in ("POST", "PATCH")


def _on_ids(name: str, resource: str, verb: str) -> tuple[Row, Row]:
    """Return the routes of an act: on one thing by its path, and on several by the ``ids`` in the body."""
    return Row("POST", f"/v1/{resource}/{{id}}:{verb}", name), Row("POST", f"/v1/{resource}:{verb}", name)


ROWS = (
    Row("GET", "/v1/overview", "overview"),
    Row("GET", "/v1/stats", "stats"),
    Row("GET", "/v1/jobs", "find_jobs", cursor="after", count="count_jobs"),
    Row("GET", "/v1/jobs:count", "count_jobs"),
    Row("POST", "/v1/jobs", "add_job", status=201),
    Row("GET", "/v1/jobs/{id}", "job"),
    Row("PATCH", "/v1/jobs/{id}", "edit_job", if_match=True),
    Row("DELETE", "/v1/jobs/{id}", "remove_jobs"),
    Row("POST", "/v1/jobs:remove", "remove_jobs"),
    *_on_ids("pause_jobs", "jobs", "pause"),
    *_on_ids("resume_jobs", "jobs", "resume"),
    *_on_ids("run_jobs", "jobs", "run"),
    Row("POST", "/v1/jobs/{id}:skip", "skip_next"),
    Row("POST", "/v1/jobs/{id}:postpone", "postpone_job"),
    Row("POST", "/v1/jobs/{id}:backfill", "backfill"),
    Row("GET", "/v1/backfills", "backfills"),
    Row("POST", "/v1/backfills/{id}:cancel", "cancel_backfill"),
    Row("GET", "/v1/blackouts", "blackouts"),
    Row("POST", "/v1/blackouts", "add_blackout", status=201),
    Row("DELETE", "/v1/blackouts/{id}", "remove_blackout"),
    Row("GET", "/v1/jobs/{id}/why", "why"),
    Row("GET", "/v1/jobs/{id}/next", "next_fires"),
    Row("GET", "/v1/jobs/{id}/runs", "job_timeline"),
    Row("GET", "/v1/bulk", "bulks"),
    Row("POST", "/v1/bulk:preview", "preview_bulk"),
    Row("POST", "/v1/bulk", "start_bulk", status=202),
    Row("GET", "/v1/bulk/{id}", "bulk"),
    Row("POST", "/v1/bulk/{id}:stop", "stop_bulk"),
    Row("GET", "/v1/runs", "find_runs", cursor="before"),
    Row("GET", "/v1/runs/{id}", "run"),
    *_on_ids("cancel_runs", "runs", "cancel"),
    Row("GET", "/v1/live", "live_runs"),
    Row("GET", "/v1/dead", "find_letters", cursor="before"),
    Row("GET", "/v1/dead/groups", "letter_groups"),
    Row("GET", "/v1/dead/{id}", "letter"),
    *_on_ids("redrive", "dead", "redrive"),
    *_on_ids("discard", "dead", "discard"),
    Row("GET", "/v1/processes", "processes"),
    Row("POST", "/v1/processes/{owner}:ask", "ask_process"),
    Row("GET", "/v1/limits", "limits"),
    Row("GET", "/v1/audit", "audit", cursor="before"),
    Row("GET", "/v1/calendar", "forecast"),
    Row("GET", "/v1/calendar/firings", "firings"),
    Row("POST", "/v1/triggers:explain", "explain_trigger"),
    Row("GET", "/v1/doctor", "doctor"),
    Row("GET", "/v1/about", "about"),
    Row("GET", "/v1/messages:search", "messages", cursor="after"),
    Row("GET", "/v1/messages/{id}:details", "message"),
    Row("POST", "/v1/messages", "schedule_message", status=201),
    Row("POST", "/v1/messages/{id}:cancel", "cancel_message"),
    Row("POST", "/v1/messages/{id}:postpone", "postpone_message"),
    Row("POST", "/v1/messages/{id}:redrive", "redrive_message"),
    Row("POST", "/v1/messages/{id}:discard", "discard_message"),
    Row("GET", "/v1/schedules", "schedules"),
    Row("GET", "/v1/schedules:diff", "schedule_diff"),
    Row("GET", "/v1/documents", "documents"),
    Row("GET", "/v1/locks", "locks"),
    Row("POST", "/v1/locks/{name}:break", "break_lock"),
    Row("GET", "/v1/health:checks", "health"),
    Row("GET", "/v1/alerts", "alerts"),
    Row("POST", "/v1/alerts/{id}:ack", "ack_alert"),
    Row("POST", "/v1/alerts/{id}:silence", "silence_alert"),
)


#: What one thing of a collection is called, for proxies that decode paths: ``/v1/job:pause?id=a%2Fb``.
SINGULAR = {
    "/v1/jobs/": "/v1/job", "/v1/runs/": "/v1/run", "/v1/dead/": "/v1/letter", "/v1/messages/": "/v1/message",
    "/v1/locks/": "/v1/lock", "/v1/processes/": "/v1/process", "/v1/bulk/": "/v1/act", "/v1/alerts/": "/v1/alert",
    "/v1/backfills/": "/v1/backfill", "/v1/blackouts/": "/v1/blackout",
}  # fmt: skip


def singular(path: str) -> str | None:
    """Return the path of the same route with the value of its place in the query; None if it has no place."""
    before, brace, rest = path.partition("{")
    return f"{SINGULAR[before]}{rest.partition('}')[2]}" if brace else None
