"""``goscheduler run-one``: makes one packed call, in a container of a Kubernetes Job."""

from __future__ import annotations

import base64
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from goscheduler.cli._command_error import CommandError
from goscheduler.executors._packed import run_packed, shortened_reply, terminate_packed

#: As much as Kubernetes takes of a termination message.
MAX_MESSAGE = 4096


def run_one(
    call: Annotated[str, typer.Option(envvar="GOSCHEDULER_CALL", help="The packed call, in base64.")] = "",
    reply: Annotated[
        Path, typer.Option(envvar="GOSCHEDULER_REPLY", help="The file that gets the reply.")
    ] = Path("/dev/termination-log"),
) -> None:
    """Make one call that a scheduler has packed, and write its reply into a file: the command of a container."""
    if not call:
        raise CommandError("There is no call: a scheduler sets GOSCHEDULER_CALL in the containers that it starts")
    os.environ.pop("GOSCHEDULER_CALL", None)  # not for the processes that the job starts
    with _ended_by_sigterm():
        answer = run_packed(base64.b64decode(call))
    reply.write_bytes(base64.b64encode(shortened_reply(answer, MAX_MESSAGE // 4 * 3)))


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """End the call at the first SIGTERM; after the call no signal gets between it and its reply.

    The command of a container has process id 1, to which Linux delivers no signal that it has no handler for.
    """
    pid, ends = os.getpid(), True

    def end(number: int, _frame: object) -> None:
        nonlocal ends
        if os.getpid() != pid:  # a process that the job has forked
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif ends:
            ends = False
            terminate_packed()

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        ends = False
