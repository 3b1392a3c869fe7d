"""The standard output of a process whose reader may go away."""

from __future__ import annotations

import os
import sys


def flush() -> None:
    """Write what is left of the output; nothing is said of a reader that has gone, as ``| head`` does."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard()


def discard() -> None:
    """Let whatever is still to be written go nowhere: the interpreter flushes again at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
