"""The options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

App = Annotated[
    str | None,
    typer.Option(
        "--app", "-a", envvar="GOSCHEDULER_APP", metavar="MODULE:SCHEDULER", help="The scheduler to look into."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

Job = Annotated[str | None, typer.Option("--job", metavar="JOB_ID", help="Only of this job.")]
Tag = Annotated[str | None, typer.Option("--tag", help="Only of jobs with this tag.")]
Since = Annotated[str | None, typer.Option("--since", metavar="TIME", help="Ended then or later; 2h is two hours ago.")]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Ended before; 2h is two hours ago.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, help="How many to show at most.")]
Before = Annotated[
    str | None, typer.Option("--before", metavar="CURSOR", help="Go on where the page before this one has ended.")
]
RunId = Annotated[str, typer.Argument(metavar="RUN_ID", help="The id of a run.")]
