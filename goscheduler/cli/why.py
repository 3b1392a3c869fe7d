"""``goscheduler why``: why a job is not running, or did not run."""

from __future__ import annotations

from typing import Annotated

import typer

from goscheduler._text import printable
from goscheduler.cli._options import JobId, Where, grouped
from goscheduler.cli._print import print_json
from goscheduler.cli._session import opened


@grouped
def explain_job(
    job_id: JobId,
    where: Where,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="A time that has passed: why it did not run then.")
    ] = None,
) -> None:
    """Say why a job is not running now, or did not run at a time that has passed."""
    with opened(where) as session:
        view = session.call("why", id=job_id, at=at)
        if where.as_json:
            print_json(view)
        else:
            print(printable(view["sentence"]))
