"""Jobs one after the other: what ``chain`` adds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from goscheduler.errors import InvalidArgument, JobLookupError, shown
from goscheduler.options import CHECKS

if TYPE_CHECKING:
    from goscheduler.schedulers._engine import Engine

#: So many steps of a chain that is replaced are looked for.
MOST_STEPS = 10_000
#: What all steps have in common, beside the options that say how a job runs.
_SHARED = frozenset({*CHECKS, "jobstore", "if_exists", "replace_existing"})


def chained(
    steps: Iterable[Any], trigger: Any, chain_id: str, delay: Any, options: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the definition of the job of each step.

    :raises InvalidArgument: if there is no step
    """
    if isinstance(steps, (str, Mapping)) or not isinstance(steps, Iterable):
        raise InvalidArgument(f"steps must be a list of functions, got {shown(steps)}", field="steps", value=steps)
    jobs: list[dict[str, Any]] = []
    for number, step in enumerate(steps, 1):
        own = dict(step) if isinstance(step, Mapping) else {"func": step}
        if number == 1:  # its last end is followed, so it is kept
            job = {"auto_remove": False, **options, "trigger": trigger, "id": chain_id}
        else:
            shared = {name: value for name, value in options.items() if name in _SHARED}
            job = {**shared, "after": jobs[-1]["id"], "delay": delay, "id": f"{chain_id}.{number}"}
        jobs.append({**job, **own})
    if not jobs:
        raise InvalidArgument("steps must have at least one function", field="steps", value=steps)
    return jobs


def shorten(engine: Engine, chain_id: str, steps: Sequence[str], jobstore: str) -> None:
    """Remove what is left of a longer chain that these steps have replaced; what its store has, with the start.

    Other jobs of such names do not follow each other in this way, and stay.
    """
    _remove_tail(engine, chain_id, steps, jobstore)
    engine.jobs.defer(jobstore, partial(_remove_tail, engine, chain_id, steps, jobstore))


def _remove_tail(engine: Engine, chain_id: str, steps: Sequence[str], jobstore: str) -> None:
    before, tail, jobs = steps[-1], list[str](), engine.jobs
    for number in range(len(steps) + 1, MOST_STEPS):
        job_id = f"{chain_id}.{number}"
        job = None if job_id in jobs.came_with_start.get(jobstore, ()) else jobs.find(job_id, jobstore)
        if job is None or job.trigger.upstream != (before,):
            break
        tail.append(job_id)
        before = job_id
    for job_id in reversed(tail):
        with suppress(JobLookupError):  # another process starts with the same chain
            jobs.remove(job_id, jobstore)
