"""``goscheduler doctor``: what keeps jobs from running, or will."""

from __future__ import annotations

from typing import Annotated

import typer

from goscheduler.cli._command_error import FAILED
from goscheduler.cli._options import Where, grouped
from goscheduler.cli._print import print_rows
from goscheduler.cli._session import opened

COLUMNS = ("verdict", "check", "message")


@grouped
def examine(
    where: Where,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 for warnings as well.")] = False,
) -> None:
    """Look for what keeps jobs from running. Exit code 1 if there is a problem."""
    with opened(where) as session:
        findings = session.call("doctor")
        columns = COLUMNS if len({finding["jobstore"] for finding in findings}) < 2 else ("jobstore", *COLUMNS)
        print_rows(findings, columns, as_json=where.as_json)
        verdicts = {finding["verdict"] for finding in findings}
        if "problem" in verdicts or (strict and "warning" in verdicts):
            raise typer.Exit(FAILED)
