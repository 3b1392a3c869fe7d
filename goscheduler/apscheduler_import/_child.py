"""The process that reads what APScheduler 3 wrote, so that nothing in it can hold up or fill the one that asked.

One line is one request, ``[kind, seconds, body]``, and one answer: ``{"state": …}`` in the words of the codec, or
``{"error": …}``. The process ends with its input, and where it can, by itself when a request takes too long.
"""

from __future__ import annotations

import base64
import json
import signal
import sys
from contextlib import suppress
from typing import Any

from goscheduler import codec
from goscheduler.apscheduler_import.pickles import read_legacy_pickle, read_legacy_state
from goscheduler.errors import described

#: How much address space the process may have, where the system can limit it.
MOST_MEMORY = 1024 * 1024 * 1024
READY = b"ready\n"
#: How much longer than the one that asked this process waits before it ends itself.
GRACE_SECONDS = 5


def main() -> None:
    """Answer requests until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that asked, who ends this process
    _limit_memory()
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    answers.write(READY)
    answers.flush()
    for line in requests:
        answers.write(_answer(line) + b"\n")
        answers.flush()


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # not a POSIX system
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = MOST_MEMORY if hard == resource.RLIM_INFINITY else min(MOST_MEMORY, hard)
    with suppress(ValueError, OSError):  # a system that does not know this limit
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _answer(line: bytes) -> bytes:
    kind, seconds, body = json.loads(line)
    _end_after(seconds + GRACE_SECONDS)
    try:
        told = {"state": codec.dumps(_READ[kind](body), "job")}
    except MemoryError:
        told = {"error": f"it needs more than the {MOST_MEMORY >> 20} MiB that reading a job may take"}
    except Exception as error:  # whatever is wrong with one job, the others are read
        told = {"error": str(error) if isinstance(error, ValueError) else described(error)}
    _end_after(0)
    return json.dumps(told).encode("ascii")


def _end_after(seconds: float) -> None:
    """Let the system end this process after so many seconds, also if the one that asked is gone; 0 calls that off."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _read_pickle(body: Any) -> dict[str, Any]:
    return read_legacy_pickle(base64.b64decode(body))


_READ = {"pickle": _read_pickle, "state": read_legacy_state}
