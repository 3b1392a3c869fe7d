"""Has jobs and runs carry what the carrier of the engine gives them: by it one process follows what another has begun.

It stands in the metadata of the job, of which a run has a copy of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from goscheduler.job import copy_with
from goscheduler.options import InvalidOption, JobOptions, parse_options
from goscheduler.runs.tally import MARK

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.model import Run, Settlement
    from goscheduler.schedulers._engine import Engine


def note_adding(engine: Engine, job: Job, defaults: JobOptions) -> None:
    """Have a job carry where it is added; one that a registry declares is added nowhere in particular."""
    if engine.carrier is None or _is_declared(job):
        return
    carried = engine.carrier.context()
    if carried:
        job.options = _with(job.options, {**carried, **_metadata(job.options, defaults)})


def note_asking(engine: Engine, run: Run) -> Run:
    """Return a run that somebody asks for here, so that it carries that."""
    carried = {} if engine.carrier is None else engine.carrier.context()
    return _carrying(run, carried)


def note_attempt(engine: Engine, settlement: Settlement) -> Settlement:
    """Return a settlement whose follow-up or dead letter carries which attempt was before it."""
    attempt, follow_up, dead = settlement
    if engine.carrier is None or (follow_up is None and dead is None):
        return settlement
    carried = engine.carrier.passed_on(attempt.run)
    if follow_up is not None:
        return settlement._replace(follow_up=_carrying(follow_up, carried))
    return settlement._replace(attempt=attempt._replace(run=_carrying(attempt.run, carried)))


def _carrying(run: Run, carried: Mapping[str, str]) -> Run:
    if not carried:
        return run
    job = copy_with(run.job)
    job.options = _with(job.options, {**job.metadata, **carried})
    return run._replace(job=job)


def _with(options: JobOptions, metadata: Mapping[str, str]) -> JobOptions:
    """Return options with other metadata; as they are, if there is no room for more."""
    try:
        return parse_options({"metadata": metadata}, options)
    except InvalidOption:
        return options


def _metadata(options: JobOptions, defaults: JobOptions) -> dict[str, str]:
    given: object = options.metadata
    return dict(given if isinstance(given, tuple) else defaults.metadata)


def _is_declared(job: Job) -> bool:
    tags: object = job.options.tags
    return isinstance(tags, tuple) and any(tag.startswith(MARK) for tag in tags)
