"""Operations that act on all jobs that fit: first a preview with the count, then the act, by the ticket of the preview.

The act goes on in the background and stands in a note of the store. If the process that works on it is lost, another
one that shares the store goes on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

from goscheduler.errors import InvalidArgument
from goscheduler.ops.access import Role
from goscheduler.ops.errors import Changed, NotFound, TooMany
from goscheduler.ops.filters import JobFilters
from goscheduler.ops.model import BulkPreview, BulkView
from goscheduler.ops.operation import Call, Id, operation
from goscheduler.ops.schema import Choice, Text, Whole
from goscheduler.ops.values import plain
from goscheduler.ops.views import bulk_view
from goscheduler.runs.bulk import ACTS, BULK, REMOVE, Bulk, read_bulk
from goscheduler.runs.queries import Note
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.jobstores.base import BaseJobStore

TICKET = "ticket"
VALID_FOR = timedelta(minutes=10)
#: More jobs than this only an admin acts on.
MOST_JOBS = 100_000
EXAMPLES = 5
FORGOTTEN_AT_ONCE = 50

Act = Annotated[str, Choice("What is to be done.", ACTS)]


@operation(Role.OPERATOR)
def preview_bulk(call: Call, act: Act, wanted: JobFilters) -> BulkPreview:
    """Count the jobs that an act would touch, and return a ticket for it, which is valid for ten minutes."""
    _require_role(call, act)
    filters = wanted.given(call)
    if not filters.keys() - {"jobstore"}:
        raise InvalidArgument("a filter, such as tag or state, must say which jobs are meant", field="filters")
    count = call.scheduler.count_jobs(cap=MOST_JOBS, **filters)
    examples = call.scheduler.find_jobs(limit=EXAMPLES, **filters).jobs
    ticket = call.new_id()
    plan = {"act": act, "filters": plain(filters), "count": count.number, "for": call.by}
    notes = call.source.stores[call.source.home]
    notes.prune_notes(TICKET, f"{to_micros(call.now - VALID_FOR):016x}", FORGOTTEN_AT_ONCE)
    notes.put_note(Note(TICKET, ticket, json.dumps(plan)))
    return BulkPreview(ticket, act, plain(filters), count.number, count.exact, [job.id for job in examples])


@operation(Role.OPERATOR, acts=True)
def start_bulk(call: Call, ticket: Annotated[str, Text("From the preview.", 100)]) -> BulkView:
    """Do what was previewed to all jobs that fit now, in the background."""
    notes = call.source.stores[call.source.home]
    text = notes.read_note(TICKET, ticket)
    if text is None or ticket < f"{to_micros(call.now - VALID_FOR):016x}":
        raise NotFound("there is no such ticket, or it is more than ten minutes old: make a preview again")
    plan = json.loads(text)
    if plan["for"] != call.by:
        raise NotFound("the ticket was made for somebody else: make a preview again")
    _require_role(call, plan["act"])
    filters: dict[str, Any] = plan["filters"]
    jobstore = filters.pop("jobstore", None)
    count = call.scheduler.count_jobs(jobstore=jobstore, cap=MOST_JOBS, **filters)
    if not count.exact and call.principal.role < Role.ADMIN:
        raise TooMany(f"more than {MOST_JOBS} jobs fit: this needs the role {Role.ADMIN.title}")
    if not notes.put_note(Note(TICKET, ticket, json.dumps({**plan, "used": True})), expected=text) or "used" in plan:
        raise Changed("the ticket was used already: look at the act that it has started")
    result = call.scheduler.engine.bulk.start(
        plan["act"], filters, jobstore, call.by, call.reason, background=True, bulk_id=ticket
    )
    return _view_of(call, result.id)


@operation(Role.VIEWER)
def bulk(call: Call, id: Id) -> BulkView:
    """Return how far an act on many jobs has come."""
    return _view_of(call, id)


@operation(Role.VIEWER, whole=True)
def bulks(call: Call, limit: Annotated[int, Whole("How many at most.", 1, 200)] = 50) -> list[BulkView]:
    """Return the acts on many jobs, newest first."""
    found: dict[str, list[tuple[str, Bulk]]] = {}
    for alias, store in call.stores():
        for note in store.notes(BULK, limit=limit):
            known = read_bulk(note.text)
            if known is not None:
                found.setdefault(note.key, []).append((alias, known))
    newest = sorted(found, reverse=True)[:limit]
    return [_together(found[key]) for key in newest]


@operation(Role.OPERATOR, acts=True)
def stop_bulk(call: Call, id: Id) -> BulkView:
    """Stop an act on many jobs. What is done stays."""
    _view_of(call, id)  # one that is out of scope is not there
    call.scheduler.stop_bulk(id)
    return _view_of(call, id)


def _require_role(call: Call, act: str) -> None:
    call.principal.require(Role.ADMIN if act == REMOVE else Role.OPERATOR)


def _view_of(call: Call, bulk_id: str) -> BulkView:
    found = [(alias, known) for alias, _, known in _parts(call, bulk_id) if call.principal.sees_store(alias)]
    tags = call.principal.tags
    if not found or (tags is not None and found[0][1].filters.get("tag") not in tags):
        raise NotFound(f"there is no act {bulk_id!r} on many jobs")
    return _together(found)


def _parts(call: Call, bulk_id: str) -> Iterator[tuple[str, BaseJobStore, Bulk]]:
    for alias, store in call.source.stores.items():
        text = store.read_note(BULK, bulk_id)
        known = None if text is None else read_bulk(text)
        if known is not None:
            yield alias, store, known


def _together(parts: list[tuple[str, Bulk]]) -> BulkView:
    """Return one view of what is done in several stores."""
    whole = parts[0][1]
    for _, part in parts[1:]:
        state = whole.state if part.state == "done" else part.state
        whole = replace(
            whole, changed=whole.changed + part.changed, unchanged=whole.unchanged + part.unchanged,
            refused=whole.refused + part.refused, reasons={**whole.reasons, **part.reasons}, state=state,
        )  # fmt: skip
    return bulk_view(whole, ", ".join(alias for alias, _ in parts))
