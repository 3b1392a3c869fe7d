"""``goscheduler jobs``: list, show, pause, resume, run, remove."""

from __future__ import annotations

from typing import Annotated

import typer

from goscheduler._text import printable
from goscheduler.cli._host import opened
from goscheduler.cli._options import App, AsJson, Debug
from goscheduler.cli._print import print_facts, print_json, print_rows
from goscheduler.cli._views import JOB_COLUMNS, job_facts, job_row
from goscheduler.errors import JobLookupError
from goscheduler.job import Job
from goscheduler.schedulers.base import BaseScheduler

app = typer.Typer(help="Look at jobs and change them.", no_args_is_help=True)

JobId = Annotated[str, typer.Argument(metavar="JOB_ID", help="The id of a job.")]
Store = Annotated[str | None, typer.Option("--store", help="The alias of the job store; all if left out.")]


@app.command("list")
def list_jobs(target: App = None, store: Store = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """List the jobs, those that are due first at the top."""
    with opened(target, debug, store) as scheduler:
        rows = [job_row(job) for job in scheduler.get_jobs(store)]
        print_rows(rows, JOB_COLUMNS, as_json=as_json, nothing="There are no jobs.")


@app.command("show")
def show_job(
    job_id: JobId, target: App = None, store: Store = None, as_json: AsJson = False, debug: Debug = False
) -> None:
    """Show all that is known of a job, also why it is not running now."""
    with opened(target, debug, store) as scheduler:
        print_facts(job_facts(scheduler, _found(scheduler, job_id, store)), as_json=as_json)


@app.command("pause")
def pause_job(
    job_id: JobId, target: App = None, store: Store = None, as_json: AsJson = False, debug: Debug = False
) -> None:
    """Stop firing a job until it is resumed."""
    with opened(target, debug, store) as scheduler:
        job = scheduler.pause_job(job_id, store)
        _print_change(job_row(job), f"Job {job.id} is paused.", as_json)


@app.command("resume")
def resume_job(
    job_id: JobId, target: App = None, store: Store = None, as_json: AsJson = False, debug: Debug = False
) -> None:
    """Fire a paused job again, from now on."""
    with opened(target, debug, store) as scheduler:
        job = scheduler.resume_job(job_id, store)
        if job is None:
            _print_change({"id": job_id, "removed": True}, f"Job {job_id} had no time left and is removed.", as_json)
        else:
            _print_change(job_row(job), f"Job {job.id} is resumed; it runs next at {job.next_run_time}.", as_json)


@app.command("run")
def run_job(
    job_id: JobId, target: App = None, store: Store = None, as_json: AsJson = False, debug: Debug = False
) -> None:
    """Ask for a run of a job now, beside its schedule; a worker takes it up."""
    with opened(target, debug, store) as scheduler:
        run_id = scheduler.run_now(job_id, store)
        _print_change({"id": job_id, "run_id": run_id}, f"Run {run_id} of job {job_id} is waiting.", as_json)


@app.command("remove")
def remove_job(
    job_id: JobId, target: App = None, store: Store = None, as_json: AsJson = False, debug: Debug = False
) -> None:
    """Remove a job."""
    with opened(target, debug, store) as scheduler:
        scheduler.remove_job(job_id, store)
        _print_change({"id": job_id, "removed": True}, f"Job {job_id} is removed.", as_json)


def _found(scheduler: BaseScheduler, job_id: str, store: str | None) -> Job:
    job = scheduler.get_job(job_id, store)
    if job is None:
        raise JobLookupError(job_id)
    return job


def _print_change(view: object, sentence: str, as_json: bool) -> None:
    if as_json:
        print_json(view)
    else:
        print(printable(sentence))
