"""The command line, ``goscheduler`` or ``python -m goscheduler``. It needs the extra ``cli``.

Every command parses, calls one operation, and prints. Nothing below this package knows of it. Only the module of the
command that is called is imported, and nothing of the user's unless ``--app`` names it.
"""

from __future__ import annotations

import sys

from goscheduler.cli._output import flush

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
        flush()


def _run() -> None:
    try:
        from goscheduler.cli.app import app_with

        app = app_with(sys.argv[1:])
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in ("typer", "rich"):
            raise
        print(MISSING, file=sys.stderr)
        sys.exit(2)
    app(prog_name="goscheduler")
