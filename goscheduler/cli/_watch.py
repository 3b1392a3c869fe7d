"""Lists that are shown anew every two seconds."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.times import local_timezone

SECONDS = 2.0
#: Lines of a screen that are not rows: the time, the header of the table, what is noted below it, the cursor.
OTHER_LINES = 5
CLEARED = "\x1b[H\x1b[2J\x1b[3J"


def repeated(show: Callable[[int | None], None], watch: bool) -> None:
    """Show something once, or again and again until Ctrl-C. ``show`` gets how many rows it may show; None for all."""
    if not watch:
        show(None)
        return
    on_terminal = sys.stdout.isatty()
    pause = threading.Event()
    try:
        while True:
            now = f"{SYSTEM_CLOCK.now().astimezone(local_timezone()):%H:%M:%S %Z}"
            print(f"{CLEARED}{now}, every {SECONDS:.0f} s until Ctrl-C" if on_terminal else "", flush=True)
            show(max(1, shutil.get_terminal_size().lines - OTHER_LINES) if on_terminal else None)
            sys.stdout.flush()
            pause.wait(SECONDS)
    except KeyboardInterrupt:
        print()  # behind the ^C of the terminal
