"""``goscheduler migrate``: the tables of the SQL job store, made or brought up to date by hand.

A scheduler does the same when it starts. These commands are for those who do not let it, or want to see it first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from goscheduler._urls import masked
from goscheduler.cli._command_error import FAILED, CommandError, errors_told
from goscheduler.cli._options import Debug
from goscheduler.cli._print import note
from goscheduler.plugins import create_plugin

if TYPE_CHECKING:
    from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore

app = typer.Typer(help="Make the tables of a SQL job store, or bring them up to date.", no_args_is_help=True)

Url = Annotated[str, typer.Argument(metavar="URL", help="Such as postgresql+psycopg://user@host/database.")]
TableName = Annotated[str, typer.Option(help="What the names of the tables begin with.")]
TableSchema = Annotated[str | None, typer.Option(help="The schema that they are in.")]


@app.command("status")
def show_status(
    url: Url, tablename: TableName = "goscheduler", tableschema: TableSchema = None, debug: Debug = False
) -> None:
    """Say which version of the tables is there. Exit code 1 if they are to be made or brought up to date."""
    with errors_told(debug):
        status = _store(url, tablename, tableschema).schema_status()
        if status.version is None:
            print("There are no tables yet.")
        else:
            print(f"The tables are of version {status.version}; this goscheduler needs version {status.wanted}.")
        if not status.current:
            note("goscheduler migrate up makes them current; so does a scheduler when it starts.")
            raise typer.Exit(FAILED)


@app.command("up")
def bring_up(
    url: Url, tablename: TableName = "goscheduler", tableschema: TableSchema = None, debug: Debug = False
) -> None:
    """Make the tables, or bring them up to date."""
    with errors_told(debug):
        changed = _store(url, tablename, tableschema).upgrade_schema()
        print("The tables are up to date." if changed else "The tables were up to date.")


@app.command("sql")
def print_sql(
    url: Url, tablename: TableName = "goscheduler", tableschema: TableSchema = None, debug: Debug = False
) -> None:
    """Print the SQL that makes the tables, without connecting."""
    with errors_told(debug):
        for statement in _store(url, tablename, tableschema).schema_sql():
            print(f"{statement};\n")


def _store(url: str, tablename: str, tableschema: str | None) -> SQLAlchemyJobStore:
    from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore

    if "://" not in url:
        raise CommandError("expected the URL of a database such as sqlite:///jobs.db, and this has no ://")
    options = {"tablename": tablename, "tableschema": tableschema}
    try:
        store = create_plugin("jobstore", "store", {"type": url, **options})
    except TypeError as error:
        raise CommandError(f"{masked(url)} is not the URL of a SQL database: {error}") from error
    if not isinstance(store, SQLAlchemyJobStore):
        raise CommandError(f"{masked(url)} is not the URL of a SQL database; other stores need no tables")
    return store
