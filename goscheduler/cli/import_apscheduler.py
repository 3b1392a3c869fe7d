"""``goscheduler import-apscheduler``: the jobs of an APScheduler 3 store, looked at and moved."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, NamedTuple

import typer

from goscheduler._program import Program
from goscheduler._resolver import MissingFunction, Resolver
from goscheduler._text import printable
from goscheduler.apscheduler_import.candidates import (
    Candidate,
    Unreadable,
    loaded_function,
    notes_on,
    read_candidates,
    without_their_grace_time,
)
from goscheduler.apscheduler_import.passwords import passwords_hidden
from goscheduler.apscheduler_import.sources import read_source
from goscheduler.cli._command_error import FAILED, CommandError, errors_told, one_line
from goscheduler.cli._host import found, started
from goscheduler.cli._options import AsJson, Debug
from goscheduler.cli._print import View, note, print_json, print_rows
from goscheduler.cli._target import import_from_here
from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import ConflictingIdError
from goscheduler.job import Job
from goscheduler.runs.model import NO_STATS
from goscheduler.schedulers._pending_jobs import AddRequest
from goscheduler.schedulers.background import BackgroundScheduler
from goscheduler.schedulers.base import BaseScheduler

COLUMNS = ("id", "function", "schedule", "next_run_time", "result")
UNREADABLE_COLUMNS = ("id", "reason")
#: How many jobs are named in a remark about several.
NAMED = 5
NOT_ADDED = ("id is taken", "not added")


class Target(NamedTuple):
    """Where jobs go: a job store of a running scheduler."""

    scheduler: BaseScheduler
    store: str
    is_foreign: Callable[[str], bool]
    """Tells whether a function is not code of the program."""


class Move(NamedTuple):
    """A job that could be read, and what becomes of it."""

    candidate: Candidate
    result: str
    notes: list[str]


def import_jobs(
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="The store of APScheduler 3: postgresql://, mysql://, sqlite:///, redis://, mongodb://, zookeeper://, "
            "etcd:// or what else SQLAlchemy knows.",
        ),
    ],
    app: Annotated[
        str | None,
        typer.Option(
            "--app", "-a", envvar="GOSCHEDULER_APP", metavar="MODULE:SCHEDULER", help="The scheduler to move to."
        ),
    ] = None,
    to: Annotated[str | None, typer.Option(metavar="URL", help="The store to move to, instead of --app.")] = None,
    store: Annotated[str, typer.Option(help="The alias of the job store in the scheduler of --app.")] = "default",
    apply: Annotated[bool, typer.Option("--apply", help="Add the jobs; else they are only shown.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace jobs whose id is taken.")] = False,
    drop_default_grace: Annotated[
        bool,
        typer.Option("--drop-default-grace", help="Leave misfire_grace_time out where it is 1, the default there."),
    ] = False,
    table: Annotated[str | None, typer.Option(help="SQL: the table, apscheduler_jobs if left out.")] = None,
    schema: Annotated[str | None, typer.Option(help="SQL: the schema that the table is in.")] = None,
    key: Annotated[str | None, typer.Option(help="Redis: the key of the jobs, apscheduler.jobs if left out.")] = None,
    database: Annotated[str | None, typer.Option(help="MongoDB: the database, apscheduler if left out.")] = None,
    collection: Annotated[str | None, typer.Option(help="MongoDB: the collection, jobs if left out.")] = None,
    path: Annotated[
        str | None, typer.Option(help="ZooKeeper and etcd: the path, /apscheduler if left out.")
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show the jobs of an APScheduler 3 store, and with --apply add them here.

    The store is only read. Nothing that is stored there is run or imported.
    """
    with errors_told(debug):
        if apply and not (app or to):
            raise CommandError("where to? Give the scheduler with --app module:scheduler, or a store with --to URL")
        places = {
            "table": table, "schema": schema, "key": key, "database": database, "collection": collection, "path": path,
        }  # fmt: skip
        candidates, unreadable = read_candidates(read_source(url, places))
        if drop_default_grace:
            candidates = [without_their_grace_time(candidate) for candidate in candidates]
        import_from_here()  # not before the jobs are read, by a process that takes nothing from here
        with opened_target(app, to, store) as target:
            if apply:
                refuse_memory(target)
            moves = list(move(candidates, target, apply, replace))
        print_moves(moves, unreadable, applied=apply, as_json=as_json)
        if unreadable or any(made.result.startswith(NOT_ADDED) for made in moves):
            raise typer.Exit(FAILED)


@contextmanager
def opened_target(app: str | None, url: str | None, store: str) -> Iterator[Target | None]:
    """Give the place that jobs go to, if one was named; ``url`` goes before ``app``."""
    if url is not None:
        with passwords_hidden(url), started(BackgroundScheduler(jobstores={"default": url})) as scheduler:
            yield Target(scheduler, "default", is_foreign_here())
    elif app:
        with started(found(app), store) as scheduler:
            yield Target(scheduler, store, partial(is_foreign_to, scheduler))
    else:
        yield None


def is_foreign_to(scheduler: BaseScheduler, ref: str) -> bool:
    """Tell whether a function is neither code of the scheduler's program nor one of its tasks."""
    func = loaded_function(ref)
    is_task = func is not None and scheduler.task_registry.name_of(func) is not None
    return not is_task and scheduler.task_registry.resolver.is_foreign(ref)


def is_foreign_here() -> Callable[[str], bool]:
    """Return what tells whether a function is foreign to the program in the current directory, if one is there."""
    program = Program()
    program.lies_in(os.getcwd())
    return Resolver(program).is_foreign


def refuse_memory(target: Target | None) -> None:
    """Refuse to add jobs where they would end with this command."""
    if target is not None and target.scheduler.engine.stores[target.store].keeps_objects:
        raise CommandError(f'job store "{target.store}" is in memory: jobs that are added here end with this command')


def move(candidates: Iterable[Candidate], target: Target | None, apply: bool, replace: bool) -> Iterator[Move]:
    """Say of each job what becomes of it; with ``apply``, add it."""
    executors = None if target is None else target.scheduler.engine.executors
    is_foreign = is_foreign_here() if target is None else target.is_foreign
    for candidate in candidates:
        notes = notes_on(candidate, SYSTEM_CLOCK.now(), executors, is_foreign)
        if apply and target is not None:
            result = added(candidate, target, replace)
        else:
            result = foreseen(candidate, target, replace)
        yield Move(candidate, result, notes)


def foreseen(candidate: Candidate, target: Target | None, replace: bool) -> str:
    """Return what would become of a job."""
    if target is None:
        return "would be added"
    try:
        job_from(candidate, target.scheduler)
        taken = target.scheduler.get_job(candidate.id, target.store) is not None
    except Exception as error:  # the job's own matter; the others go on
        return f"not added: {one_line(error)}"
    if not taken:
        return "would be added"
    return "would replace the one that is there" if replace else "id is taken"


def added(candidate: Candidate, target: Target, replace: bool) -> str:
    """Add a job, and return what became of it."""
    scheduler = target.scheduler
    try:
        taken = scheduler.get_job(candidate.id, target.store) is not None
        if_exists = "replace" if replace else "error"
        job = job_from(candidate, scheduler)
        scheduler.engine.jobs.add(AddRequest(job, target.store, if_exists, time_given=True, imported=True))
    except ConflictingIdError:
        return "id is taken"
    except Exception as error:  # the job's own matter; the others go on
        return f"not added: {one_line(error)}"
    return "replaced the one that was there" if taken else "added"


def job_from(candidate: Candidate, scheduler: BaseScheduler) -> Job:
    """Return the job, made without importing its function: if that is not loaded here, a worker will find it."""
    func: Any = loaded_function(candidate.func)
    job = Job(
        scheduler,
        candidate.id,
        func=MissingFunction(candidate.func, "it is not loaded here") if func is None else func,
        args=candidate.args,
        kwargs=candidate.kwargs,
        name=candidate.name,
        trigger=candidate.trigger,
        next_run_time=candidate.next_run_time,
        **candidate.options,
    )
    if job.task is None:
        job.func_ref = candidate.func
    if job.next_run_time is None:
        job.stats = NO_STATS._replace(paused_by="APScheduler, before it was moved")
    return job


def print_moves(moves: list[Move], unreadable: list[Unreadable], *, applied: bool, as_json: bool) -> None:
    """Print what becomes of each job, what to know about it, and what could not be read."""
    rows = [row_of(made) for made in moves]
    if as_json:
        left = [reading._asdict() for reading in unreadable]
        print_json({"applied": applied, "jobs": [dict(row) for row in rows], "unreadable": left})
        return
    print_rows([shown_row(row) for row in rows], COLUMNS, as_json=False, nothing="There are no jobs that can be moved.")
    print_notes(moves)
    if unreadable:
        print("\nThese cannot be read, and stay where they are:")
        print_rows([reading._asdict() for reading in unreadable], UNREADABLE_COLUMNS, as_json=False, nothing="")
    tell_total(moves, unreadable, applied)


def print_notes(moves: list[Move]) -> None:
    """Print each remark once, with the jobs that it is about."""
    about: dict[str, list[str]] = {}
    for made in moves:
        for sentence in made.notes:
            about.setdefault(sentence, []).append(made.candidate.id)
    for sentence, ids in about.items():
        print(printable(f"{_several(ids)}: {sentence}"))


def _several(ids: list[str]) -> str:
    """Return one id, or how many there are and the first of them."""
    if len(ids) == 1:
        return ids[0]
    return f"{len(ids)} jobs ({', '.join([*ids[:NAMED], *['…'] * (len(ids) > NAMED)])})"


def row_of(made: Move) -> View:
    candidate = made.candidate
    return {
        "id": candidate.id,
        "function": candidate.func,
        "schedule": candidate.trigger.explain(),
        "next_run_time": candidate.next_run_time,
        "paused": candidate.next_run_time is None,
        "result": made.result,
        "notes": made.notes,
    }


def shown_row(row: View) -> View:
    return {**row, "next_run_time": "paused"} if row["paused"] else row


def tell_total(moves: list[Move], unreadable: list[Unreadable], applied: bool) -> None:
    refused = sum(made.result.startswith(NOT_ADDED) for made in moves)
    good = len(moves) - refused
    if moves:
        note("max_instances holds for all processes together here, also where it is 1.")
    if applied:
        note(f"Added: {good}, not added: {refused}, not readable: {len(unreadable)}.")
    else:
        note(f"Nothing was changed. --apply would add {good}; not added: {refused}, not readable: {len(unreadable)}.")
