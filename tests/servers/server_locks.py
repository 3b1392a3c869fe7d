"""Locks between processes that the system releases when a process ends, however it ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform != "win32":
    import fcntl


class Hold:
    """A share of a lock, until it is released or the process ends.

    It belongs to its own descriptor. A lock of ``lockf`` belongs to the process, and is lost when the process closes
    any other descriptor of the file, for example that of an attempt which failed.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab+")
        fcntl.flock(self._file, fcntl.LOCK_SH)
        os.register_at_fork(after_in_child=self._file.close)  # a child that outlives us does not hold it

    def release(self) -> None:
        self._file.close()


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Let one process at a time in."""
    with path.open("ab") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        yield
