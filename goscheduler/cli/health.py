"""``goscheduler health``: a probe for orchestrators, of a store or of a running web process."""

from __future__ import annotations

import json
import os
import platform
from typing import Annotated, Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, build_opener

import typer

from goscheduler._urls import masked
from goscheduler.cli._command_error import FAILED, CommandError, errors_told
from goscheduler.cli._options import Where, grouped
from goscheduler.cli._print import print_json, print_rows
from goscheduler.cli._session import opened
from goscheduler.errors import shown

TOKEN_VARIABLE = "GOSCHEDULER_TOKEN"
COLUMNS = ("check", "status", "message")
#: Where a web process tells of its health, and the longest answer that is read.
PATH, LONGEST_ANSWER, TIMEOUT = "/v1/health", 1 << 20, 15.0
#: How statuses are called over HTTP begins so.
PREFIX = "HEALTH_STATUS_"
STATUSES = ("healthy", "degraded", "unhealthy")


@grouped
def check_health(
    where: Where,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="Ask a running web process, such as http://host:8180.")
    ] = None,
    here: Annotated[
        bool, typer.Option("--here", help="Also unhealthy if no process on this machine has a lease.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 also when it is degraded.")] = False,
) -> None:
    """Tell how goscheduler fares. Exit code 0 if it is healthy or degraded, 1 if it is unhealthy."""
    if url is None:
        with opened(where) as session:
            told = session.call("health", host=platform.node() if here else None)
            _show(told, where.as_json, strict)
        return
    with errors_told(where.debug):
        if here or where.store or where.app:
            raise CommandError("--url asks a web process: leave out --here, --store and --app")
        _show(_fetched(url.rstrip("/") + PATH), where.as_json, strict)


def _show(told: dict[str, Any], as_json: bool, strict: bool) -> None:
    status = str(told.get("status", "")).removeprefix(PREFIX).lower()
    if status not in STATUSES:
        raise CommandError(f"the answer has the status {shown(status)}, expected one of {', '.join(STATUSES)}", FAILED)
    if as_json:
        print_json(told)
    else:
        message = told.get("message")
        print(f"{status}: {message}" if message else status)
        checks = [{**check, "check": check["name"]} for check in told.get("checks", ()) if check["message"]]
        if checks:
            print_rows(checks, COLUMNS)
    if status == "unhealthy" or (strict and status == "degraded"):
        raise typer.Exit(FAILED)


def _fetched(url: str) -> dict[str, Any]:
    """Return the answer of a web process; one of 503 tells of its health too."""
    if not url.startswith(("http://", "https://")):
        raise CommandError(f"--url must be an address such as http://127.0.0.1:8180, got {shown(url)}")
    token = os.environ.get(TOKEN_VARIABLE)
    request = Request(url, headers={"Accept": "application/json"})
    if token:
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        with build_opener().open(request, timeout=TIMEOUT) as answer:
            text = answer.read(LONGEST_ANSWER)
    except HTTPError as error:
        with error:
            if error.code != 503:
                raise CommandError(f"{masked(url)} answered {error.code}", FAILED) from error
            text = error.read(LONGEST_ANSWER)
    except (URLError, OSError) as error:
        raise CommandError(f"{masked(url)} cannot be reached: {getattr(error, 'reason', error)}", FAILED) from error
    try:
        told = json.loads(text)
    except ValueError as error:
        raise CommandError(f"{masked(url)} did not answer with JSON", FAILED) from error
    if not isinstance(told, dict):
        raise CommandError(f"{masked(url)} did not answer with an object", FAILED)
    return told
