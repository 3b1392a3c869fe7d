"""Operations on the processes that share a store."""

from __future__ import annotations

from typing import Annotated

from goscheduler.ops.access import Role
from goscheduler.ops.errors import NotFound
from goscheduler.ops.model_around import ProcessView
from goscheduler.ops.operation import Call, Id, Store, operation
from goscheduler.ops.schema import Choice
from goscheduler.ops.views import process_view
from goscheduler.runs.processes import ACTIONS, Process


@operation(Role.VIEWER, kept=True)
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


def _in_scope(call: Call, jobstore: str | None) -> list[Process]:
    call.check_store(jobstore)
    found = [process for process in call.scheduler.processes() if call.principal.sees_store(process.jobstore)]
    return [process for process in found if jobstore in (None, process.jobstore)]
