"""What a worker of Dask calls.

Dask runs a task again by itself when its worker is lost, and does not count where a worker retires. So each attempt
sets an event in the scheduler of Dask before it begins, and does not begin where that is set: then the reply is empty.
"""

from __future__ import annotations

from distributed import Event

from goscheduler.executors._packed import expect, run_packed

#: The reply of an attempt that has begun before, on a worker that is lost by now.
BEGUN_BEFORE = b""


class NotBegun(Exception):
    """The scheduler of Dask could not be asked whether the attempt has begun before."""


def run_guarded(message: bytes, name: str, run_id: str, fence: int) -> bytes:
    """Return the pickled reply to a packed call, unless the attempt of this name has begun before."""
    with expect(run_id, fence):
        try:
            begun = Event(name)
            if begun.is_set():
                return BEGUN_BEFORE
            begun.set()
        except Exception as error:
            raise NotBegun(f"{type(error).__name__}: {error}") from error
        return run_packed(message)
