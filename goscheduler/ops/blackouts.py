"""Operations on blackouts: times in which jobs are held back or left out."""

from __future__ import annotations

from typing import Annotated

from goscheduler.ops.access import Role
from goscheduler.ops.errors import NotFound
from goscheduler.ops.model_times import BlackoutView
from goscheduler.ops.operation import Call, Id, Store, operation
from goscheduler.ops.schema import Choice, Moment, Text
from goscheduler.runs.blackouts import ACTIONS, LONGEST_REASON, Blackout

Start = Annotated[str | None, Moment("When it begins; 2h is in two hours, nothing is now.")]
End = Annotated[str, Moment("When it ends; 2h is in two hours.")]


@operation(Role.VIEWER)
def blackouts(call: Call, jobstore: Store = None) -> list[BlackoutView]:
    """Return the blackouts to come, in force, and of the last 30 days; those that end last first."""
    call.check_store(jobstore)
    found: dict[str, Blackout] = {}
    for alias, _ in call.stores(jobstore):
        found.update((each.id, each) for each in call.scheduler.blackouts(alias) if _sees(call, each))
    return [_view(call, each) for each in found.values()]


@operation(Role.OPERATOR, acts=True)
def add_blackout(
    call: Call,
    end: End,
    start: Start = None,
    tag: Annotated[str | None, Text("Only jobs with this tag.")] = None,
    job_id: Annotated[str | None, Text("Only this job.")] = None,
    action: Annotated[str, Choice("hold: once at the end; skip: recorded as skipped.", ACTIONS)] = "hold",
    jobstore: Store = None,
) -> BlackoutView:
    """Hold jobs back, or leave their fire times out, for a while; the reason stands in their history."""
    if job_id is not None:
        call.job(job_id, jobstore)  # one that is out of scope is not there
    scope = call.scoped(tag, jobstore)
    because = call.reason[:LONGEST_REASON]
    done = call.scheduler.add_blackout(start, end, scope["tag"], job_id, action, because, scope["jobstore"])
    return _view(call, done)


@operation(Role.OPERATOR, acts=True)
def remove_blackout(call: Call, id: Id) -> BlackoutView:
    """End a blackout, or call one off that is to come; jobs that it holds back fire now."""
    stores = [alias for alias, _ in call.stores()]
    found = [each for alias in stores for each in call.scheduler.blackouts(alias) if each.id == id]
    everywhere = len(found) == len(call.source.stores) or len(stores) == len(call.source.stores)
    if not found or not everywhere or not _sees(call, found[0]):
        raise NotFound(f"there is no blackout {id!r}; blackouts has those that there are")
    call.scheduler.remove_blackout(id)
    return _view(call, found[0])


def _sees(call: Call, blackout: Blackout) -> bool:
    """Tell whether the principal may see all jobs that a blackout is about."""
    tags = call.principal.tags
    return tags is None or blackout.tag in tags


def _view(call: Call, blackout: Blackout) -> BlackoutView:
    now = call.now
    state = "to come" if now < blackout.start else "in force" if blackout.is_in_force(now) else "over"
    return BlackoutView(
        blackout.id, state, blackout.start, blackout.end, blackout.action, blackout.tag, blackout.job_id,
        blackout.reason,
    )  # fmt: skip
