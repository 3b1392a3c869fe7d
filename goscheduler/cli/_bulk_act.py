"""An act on all jobs that fit: previewed, confirmed, followed to its end.

This process works on it. If it is lost, a worker that shares the store goes on; Ctrl-C stops it behind the portion
that it is at.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import typer

from goscheduler._text import printable
from goscheduler.cli._command_error import FAILED, CommandError
from goscheduler.cli._options import JobFilters
from goscheduler.cli._print import note, print_json
from goscheduler.cli._session import Session
from goscheduler.cli._text import examples, many
from goscheduler.clock import SYSTEM_CLOCK

#: How often an act is looked at, and how often it is told of where there is no terminal, in seconds.
LOOK_SECONDS, LINE_SECONDS = 0.2, 5.0
BAR_WIDTH = 30
INTERRUPTED = 130

_DONE = {"pause": "paused", "resume": "resumed", "run": "to run now", "remove": "removed"}
_UNCHANGED = {
    "pause": "paused already", "resume": "not paused", "run": "gone meanwhile", "remove": "gone meanwhile",
}  # fmt: skip
_HOW_TO_GO_ON = {
    False: "To go on, give the same command again: what is done is left as it is.",
    True: "The other jobs are not asked to run; the same command would ask all of them.",
}


def act_on_all(
    session: Session, act: str, filters: JobFilters, reason: str | None, *, yes: bool, as_json: bool
) -> None:
    """Do something to all jobs that fit, if that is confirmed."""
    preview = session.call("preview_bulk", act=act, **filters.given())
    count = preview["count"]
    if not count:
        note("There are no such jobs.")
        if as_json:
            print_json(preview)
        return
    confirm(_question(preview), yes=yes)
    started = session.call("start_bulk", ticket=preview["ticket"], reason=reason)
    try:
        view = _followed(session, started, count)
    except KeyboardInterrupt:
        view = _stopped(session, started["id"])
    if as_json:
        print_json(view)
    else:
        print(_result(view))
    _end(view)


def confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal whether to go on; elsewhere ``--yes`` must have been given."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{question} Give --yes to do so where nobody can be asked")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        note("Nothing is done.")
        raise typer.Exit(FAILED)


def _question(preview: dict[str, Any]) -> str:
    more = "" if preview["exact"] else "more than "
    some = examples(preview["examples"], preview["count"])
    return f"{preview['act'].capitalize()} {more}{many(preview['count'], 'job')}: {some}?"


def _followed(session: Session, view: dict[str, Any], count: int) -> dict[str, Any]:
    """Return the view of an act at its end, telling of its progress meanwhile."""
    progress = _Progress(view["act"], count)
    pause = threading.Event()
    while view["state"] == "going on":
        worked_on = session.scheduler.engine.bulk.is_working
        view = session.call("bulk", id=view["id"])
        progress.tell(_dealt_with(view))
        if not worked_on and view["state"] == "going on":
            progress.end()
            raise CommandError(
                f"it was interrupted after {many(_dealt_with(view), 'job')}; a worker that shares the store goes on "
                f"with it within a minute: goscheduler bulk show {view['id']}",
                FAILED,
            )
        if view["state"] == "going on":
            pause.wait(LOOK_SECONDS)
    progress.end()
    session.scheduler.engine.bulk.wait()
    return view


def _stopped(session: Session, bulk_id: str) -> dict[str, Any]:
    """Stop an act, and return its view when the portion that it was at is dealt with."""
    note("\nStopping …")
    session.call("stop_bulk", id=bulk_id)
    session.scheduler.engine.bulk.wait()
    view: dict[str, Any] = session.call("bulk", id=bulk_id)
    return view


def _dealt_with(view: dict[str, Any]) -> int:
    return int(view["changed"] + view["unchanged"] + view["refused"])


def _result(view: dict[str, Any]) -> str:
    act = view["act"]
    verb = "is" if view["changed"] == 1 else "are"
    parts = [f"{many(view['changed'], 'job')} {verb} {_DONE[act]}"]
    if view["unchanged"]:
        parts.append(f"{view['unchanged']:,} {'was' if view['unchanged'] == 1 else 'were'} {_UNCHANGED[act]}")
    if view["refused"]:
        parts.append(f"{view['refused']:,} refused")
    return f"{', '.join(parts)}."


def _end(view: dict[str, Any]) -> None:
    """Say how to undo it and what went wrong, which is an exit code of its own."""
    for job_id, why in view["reasons"].items():
        note(printable(f"Refused: {job_id}: {why}"))
    if view["act"] == "pause" and view["changed"]:
        note(printable(f"Undo: goscheduler jobs resume --pause-id {view['id']}"))
    if view["state"] == "stopped":
        note(f"Stopped before its end. {_HOW_TO_GO_ON[view['act'] == 'run']}")
        raise typer.Exit(INTERRUPTED)
    if view["refused"]:
        raise typer.Exit(FAILED)


class _Progress:
    """A bar on a terminal, a line now and then elsewhere; on stderr."""

    def __init__(self, act: str, count: int) -> None:
        self._act = act
        self._count = count
        self._on_terminal = sys.stderr.isatty()
        self._told_at = SYSTEM_CLOCK.monotonic()
        self._is_open = False

    def tell(self, done: int) -> None:
        """Tell how many jobs were dealt with."""
        share = min(1.0, done / self._count)
        if self._on_terminal:
            filled = round(share * BAR_WIDTH)
            bar = "#" * filled + "." * (BAR_WIDTH - filled)
            print(f"\r{self._act} [{bar}] {done:,}/{self._count:,}", end="", file=sys.stderr, flush=True)
            self._is_open = True
        elif SYSTEM_CLOCK.monotonic() - self._told_at >= LINE_SECONDS:
            self._told_at = SYSTEM_CLOCK.monotonic()
            note(f"{self._act}: {done:,} of {self._count:,} jobs, {share:.0%}")

    def end(self) -> None:
        """Leave the line of the bar."""
        if self._is_open:
            note("")
