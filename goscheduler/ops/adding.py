"""The operation that adds a job. It names a task that a living process announces, and never a function."""

from __future__ import annotations

from typing import Annotated, Any

from goscheduler.errors import InvalidArgument
from goscheduler.ops.access import Forbidden, Role
from goscheduler.ops.model import JobRow
from goscheduler.ops.operation import Call, Store, operation
from goscheduler.ops.schema import JsonValue
from goscheduler.ops.views import job_row


@operation(Role.ADMIN, acts=True)
def add_job(
    call: Call,
    job: Annotated[dict[str, Any], JsonValue("task, args, kwargs, trigger or run_at, id, name, options.", "object")],
    jobstore: Store = None,
) -> JobRow:
    """Add a job that runs a task which some process has announced."""
    alias = call.only_store(jobstore) or call.source.home
    call.check_store(alias)
    if "task" not in job:
        raise InvalidArgument("job.task must name the task that is to be run", field="job.task")
    addition = call.scheduler.engine.inbox.addition(job, alias, by=call.by)
    if not call.principal.sees_tags(addition.job.tags):
        raise Forbidden(f"the job must have one of the tags {', '.join(sorted(call.principal.tags or ()))}")
    call.scheduler.engine.jobs.add(addition)
    added = call.job(addition.job.id, alias)
    return job_row(added, call.scheduler.job_states([added])[0])
