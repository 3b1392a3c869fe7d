"""All commands together."""

from __future__ import annotations

import typer

from goscheduler._version import __version__
from goscheduler.cli import dead, jobs, migrate, runs
from goscheduler.cli.import_apscheduler import import_jobs
from goscheduler.cli.next import show_next
from goscheduler.cli.worker import run_worker

app = typer.Typer(
    help="Run a scheduler of yours, look into it, and try out crontab lines.",
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
)  # fmt: skip
app.command("worker")(run_worker)
app.add_typer(jobs.app, name="jobs")
app.add_typer(runs.app, name="runs")
app.add_typer(dead.app, name="dead")
app.add_typer(migrate.app, name="migrate")
app.command("next")(show_next)
app.command("import-apscheduler")(import_jobs)


@app.command("version")
def show_version() -> None:
    """Print the version."""
    print(__version__)
