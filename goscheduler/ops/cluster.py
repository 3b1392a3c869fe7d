"""Operations on what is around the jobs: processes, limits, the audit."""

from __future__ import annotations

import heapq
from typing import Annotated, Any

from goscheduler.ops.access import Role
from goscheduler.ops.audit import Audit
from goscheduler.ops.errors import NotFound
from goscheduler.ops.model_around import AuditEntry, AuditView, LimitView, ProcessView
from goscheduler.ops.operation import Call, Id, Store, operation
from goscheduler.ops.schema import TEXT, Choice, Whole
from goscheduler.ops.views import limit_view, process_view
from goscheduler.runs.processes import ACTIONS, Process


@operation(Role.VIEWER)
def processes(call: Call, jobstore: Store = None) -> list[ProcessView]:
    """Return the processes that share a store and are alive, as they tell of themselves."""
    return [process_view(process) for process in _in_scope(call, jobstore)]


@operation(Role.ADMIN, acts=True, whole=True)
def ask_process(
    call: Call,
    owner: Id,
    action: Annotated[str, Choice("What it is to do when it renews its lease next.", ACTIONS)],
) -> ProcessView:
    """Ask a process to pause, to resume, or to end what runs and shut down."""
    found = [process for process in _in_scope(call, None) if process.owner == owner]
    if not found:
        raise NotFound(f"there is no process {owner!r}: its lease has lapsed, or it never was")
    call.scheduler.ask_process(owner, action)
    return process_view(found[0])


@operation(Role.VIEWER, whole=True)
def limits(call: Call, jobstore: Store = None) -> list[LimitView]:
    """Return what is used of every limit that jobs share."""
    now = call.now
    return [limit_view(use, alias) for alias, store in call.stores(jobstore) for use in store.limit_usage(now)]


@operation(Role.ADMIN, whole=True)
def audit(
    call: Call,
    jobstore: Store = None,
    limit: Annotated[int, Whole("How many at most.", 1, 200)] = 50,
    before: Annotated[str | None, TEXT] = None,
) -> AuditView:
    """Return who did what, newest first, and where entries are missing."""
    chains = [(alias, Audit(store)) for alias, store in call.stores(jobstore)]
    found = [[_entry(alias, entry) for entry in chain.entries(before, limit)] for alias, chain in chains]
    merged = list(heapq.merge(*found, key=lambda entry: entry.id, reverse=True))[:limit]
    gaps = [] if before is not None else [gap for _, chain in chains for gap in chain.gaps()]
    return AuditView(merged, merged[-1].id if len(merged) == limit else None, gaps)


def _entry(alias: str, told: dict[str, Any]) -> AuditEntry:
    status = str(told.get("status", "unknown"))
    outcome = told.get("outcome") if status == "done" else told.get("message")
    return AuditEntry(
        told["id"], told["at"], told.get("actor", ""), told.get("role", ""), told.get("via", ""),
        told.get("operation", ""), told.get("arguments") or {}, told.get("reason", ""), status, outcome, alias,
    )  # fmt: skip


def _in_scope(call: Call, jobstore: str | None) -> list[Process]:
    call.check_store(jobstore)
    found = [process for process in call.scheduler.processes() if call.principal.sees_store(process.jobstore)]
    return [process for process in found if jobstore in (None, process.jobstore)]
