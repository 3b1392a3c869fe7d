"""The operation that shows the audit."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from goscheduler.clock import SYSTEM_CLOCK, Deadline
from goscheduler.ops.access import Role
from goscheduler.ops.audit import Audit
from goscheduler.ops.model_around import AuditEntry, AuditView
from goscheduler.ops.operation import Call, Store, operation
from goscheduler.ops.schema import MOMENT, TEXT, Choice, Text, Whole
from goscheduler.ops.values import fields_of
from goscheduler.times import to_micros

STATUSES = ("done", "failed", "unknown")
#: A search looks at so many entries at a time, and gives up after so many seconds.
PORTION = 200
SEARCH_SECONDS = 2.0

Chains = Sequence[tuple[str, Audit]]


@dataclass(frozen=True)
class AuditFilters:
    """Which entries are meant: those that fit all of it."""

    actor: Annotated[str | None, Text("Only what this one did.")] = None
    operation: Annotated[str | None, Text("Only this operation, such as pause_jobs.")] = None
    status: Annotated[str | None, Choice("Only what came out like this.", STATUSES)] = None
    since: Annotated[str | None, MOMENT] = None
    until: Annotated[str | None, MOMENT] = None

    @property
    def are_given(self) -> bool:
        """Whether there is any."""
        return any(value is not None for value in fields_of(self).values())

    def match(self, entry: AuditEntry) -> bool:
        """Tell whether an entry fits, its time aside."""
        return (
            self.actor in (None, entry.actor)
            and self.operation in (None, entry.operation)
            and self.status in (None, entry.status)
        )


@operation(Role.ADMIN, whole=True)
def audit(
    call: Call,
    wanted: AuditFilters,
    jobstore: Store = None,
    limit: Annotated[int, Whole("How many at most.", 1, 200)] = 50,
    before: Annotated[str | None, TEXT] = None,
) -> AuditView:
    """Return who did what, newest first, and where entries are missing."""
    chains = [(alias, Audit(store)) for alias, store in call.stores(jobstore)]
    found = _search(call, chains, wanted, limit, before)
    gaps = [] if before is not None else [gap for _, chain in chains for gap in chain.gaps()]
    return AuditView(found.items, found.next, gaps, found.complete)


def _search(call: Call, chains: Chains, wanted: AuditFilters, limit: int, before: str | None) -> AuditView:
    """Return the entries that fit, without the gaps."""
    since = _key(call, "since", wanted.since) or ""
    cursor = min((key for key in (before, _key(call, "until", wanted.until)) if key is not None), default=None)
    size = PORTION if wanted.are_given else limit
    deadline = Deadline(SYSTEM_CLOCK, SEARCH_SECONDS)
    items: list[AuditEntry] = []
    while True:
        portion = _portion(chains, cursor, size)
        for entry in portion:
            if entry.id >= since and wanted.match(entry):
                items.append(entry)
            if len(items) == limit:
                return AuditView(items, entry.id, ())
        if len(portion) < size or portion[-1].id < since:
            return AuditView(items, None, ())
        cursor = portion[-1].id
        if not deadline.left():
            return AuditView(items, cursor, (), complete=False)


def _portion(chains: Chains, before: str | None, size: int) -> list[AuditEntry]:
    found = [[_entry(alias, entry) for entry in chain.entries(before, size)] for alias, chain in chains]
    return list(heapq.merge(*found, key=lambda entry: entry.id, reverse=True))[:size]


def _key(call: Call, field: str, given: str | None) -> str | None:
    """Return the id that an entry of a moment would have at least."""
    moment = call.moment(field, given)
    return None if moment is None else f"{max(0, to_micros(moment)):016x}"


def _entry(alias: str, told: dict[str, Any]) -> AuditEntry:
    status = str(told.get("status", "unknown"))
    outcome = told.get("outcome") if status == "done" else told.get("message")
    return AuditEntry(
        told["id"], told["at"], told.get("actor", ""), told.get("role", ""), told.get("via", ""),
        told.get("operation", ""), told.get("arguments") or {}, told.get("reason", ""), status, outcome, alias,
        str(told.get("address", "")),
    )  # fmt: skip
