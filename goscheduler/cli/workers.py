"""``goscheduler workers``: the processes that fire jobs, and what they can be asked to do."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from goscheduler._text import printable
from goscheduler.cli._command_error import FAILED, CommandError
from goscheduler.cli._options import Reason, Watch, Where, grouped
from goscheduler.cli._print import print_json, print_rows
from goscheduler.cli._session import Session, opened
from goscheduler.cli._text import percent
from goscheduler.cli._watch import repeated

app = typer.Typer(help="Look at the processes that fire jobs; ask one to pause, to resume, to end.")

COLUMNS = ("process", "state", "version", "started_at", "expires_at", "executors", "runs", "owner")
RUN_COLUMNS = ("process", "job_id", "started_at", "progress", "run_id")

Owner = Annotated[str, typer.Argument(metavar="OWNER", help="The id of a process, or HOST:PID, as workers lists it.")]


@app.callback(invoke_without_command=True)
@grouped
def list_workers(
    context: typer.Context,
    where: Where,
    runs: Annotated[bool, typer.Option("--runs", help="List the runs of each process as well.")] = False,
    watch: Watch = False,
) -> None:
    """List the processes that share the job stores and are alive, or ask one of them to do something."""
    if context.invoked_subcommand is not None:
        return
    with opened(where) as session:

        def show(most: int | None) -> None:
            found = session.call("processes")
            if where.as_json:
                print_json(found)
                return
            nothing = "No process fires the jobs of this store."
            print_rows(list(map(_row, found)), COLUMNS, nothing=nothing, most=most)
            running = [_run_row(process, run) for process in found for run in process["runs"]]
            if runs and running:
                print(flush=True)
                print_rows(running, RUN_COLUMNS, most=most)

        repeated(show, watch)


@app.command("pause")
@grouped
def pause_worker(owner: Owner, where: Where, reason: Reason = None) -> None:
    """Ask a process to fire nothing until it is resumed; what runs goes on."""
    _ask(owner, "pause", where, reason)


@app.command("resume")
@grouped
def resume_worker(owner: Owner, where: Where, reason: Reason = None) -> None:
    """Ask a process to fire again."""
    _ask(owner, "resume", where, reason)


@app.command("drain")
@grouped
def drain_worker(owner: Owner, where: Where, reason: Reason = None) -> None:
    """Ask a process to fire nothing more, to let what runs end, and to shut down."""
    _ask(owner, "drain", where, reason)


def _ask(owner: str, action: str, where: Where, reason: str | None) -> None:
    with opened(where) as session:
        view = session.call("ask_process", owner=_owner_id(session, owner), action=action, reason=reason)
        if where.as_json:
            print_json(view)
        else:
            print(printable(f"{_place(view)} is asked to {action}; it does so when it renews its lease next."))


def _owner_id(session: Session, named: str) -> str:
    """Return the id of the process that is named; one that is not known stays as it is, for the operation to refuse."""
    if ":" not in named:
        return named
    found = [process["owner"] for process in session.call("processes") if named in (_place(process), process["owner"])]
    if len(set(found)) > 1:
        raise CommandError(f"{named} has several schedulers; name one of {', '.join(sorted(found))}", FAILED)
    return found[0] if found else named


def _place(process: dict[str, Any]) -> str:
    return f"{process['host']}:{process['pid']}"


def _row(process: dict[str, Any]) -> dict[str, Any]:
    uses = ", ".join(map(_use, process["executors"]))
    runs = f"{len(process['runs'])}{'' if process['all_runs'] else '+'}"
    return {**process, "process": _place(process), "executors": uses, "runs": runs}


def _use(use: dict[str, Any]) -> str:
    if use["running"] is None:
        return str(use["alias"])
    return f"{use['alias']} {use['running']}/{use['running'] + use['room']}"


def _run_row(process: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    return {**run, "process": _place(process), "progress": percent(run["progress"], run["progress_note"])}
