"""The command line, ``goscheduler`` or ``python -m goscheduler``. It needs the extra ``cli``.

Every command parses, calls one method of the scheduler, and prints. Nothing below this package knows of it.
"""

from __future__ import annotations

import os
import sys

MISSING = 'The command line of goscheduler needs Typer and Rich: pip install "goscheduler[cli]"'
#: The exit code of a process that Ctrl-C has ended, as shells have it.
INTERRUPTED = 130


def main() -> None:
    """Run the command that the arguments of the process name, and exit."""
    try:
        _run()
    except KeyboardInterrupt:  # during the imports; Typer hears one during a command
        sys.exit(INTERRUPTED)
    finally:
        _flush()


def _run() -> None:
    try:
        from goscheduler.cli.app import app
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in ("typer", "rich"):
            raise
        print(MISSING, file=sys.stderr)
        sys.exit(2)
    app(prog_name="goscheduler")


def _flush() -> None:
    """Write what is left of the output; nothing is said of a reader that has gone, as ``| head`` does."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes again at its end
