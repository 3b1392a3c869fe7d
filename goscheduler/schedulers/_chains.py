"""Jobs one after the other: what ``chain`` adds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from goscheduler.errors import InvalidArgument, shown
from goscheduler.options import CHECKS

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
