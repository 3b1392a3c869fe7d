"""The command line, ``goscheduler`` or ``python -m goscheduler``. It needs the extra ``cli``.

Every command parses, calls one method of the scheduler, and prints. Nothing below this package knows of it.
"""

from __future__ import annotations

import sys

MISSING = 'The command line of goscheduler needs Typer and Rich: pip install "goscheduler[cli]"'


def main() -> None:
    """Run the command that the arguments of the process name, and exit."""
    try:
        from goscheduler.cli.app import app
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in ("typer", "rich"):
            raise
        print(MISSING, file=sys.stderr)
        sys.exit(2)
    app(prog_name="goscheduler")
