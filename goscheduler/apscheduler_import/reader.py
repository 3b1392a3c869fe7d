"""Reading jobs of APScheduler 3 in a process of their own, with a deadline.

A pickle of a few hundred bytes can take for ever to be read, or all memory, also where it may build nothing but plain
values: the hash of a pair of a pair of a pair, fifty levels deep, takes 2⁵⁰ steps. No signal is heard meanwhile.
"""

from __future__ import annotations

import base64
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import IO, Any

from goscheduler import codec
from goscheduler.codec import CodecError

#: How long one job may take to be read.
READ_SECONDS = 10.0
#: How long the process may take to begin.
START_SECONDS = 60.0

#: The program of the process: nothing of the environment or of the current folder changes what it imports.
_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from goscheduler.apscheduler_import._child import main; main()"


class LegacyReader:
    """Reads jobs, one at a time. The process begins with the first of them, and ends with the block."""

    def __init__(self) -> None:
        self._seconds = READ_SECONDS
        self._child: _Child | None = None

    def __enter__(self) -> LegacyReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def read_pickle(self, pickled: bytes) -> dict[str, Any]:
        """Return the state of a job that a store of APScheduler 3 keeps, with our trigger in it.

        :raises CodecError: if it cannot be read, contains what is not allowed, or takes too long or too much memory
        """
        return self._ask("pickle", base64.b64encode(pickled).decode("ascii"))

    def read_state(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return the state of a job out of a file that APScheduler 3 exported; see :meth:`read_pickle`."""
        return self._ask("state", state)

    def _ask(self, kind: str, body: object) -> dict[str, Any]:
        if self._child is None:
            self._child = _Child()
        try:
            answer = self._child.ask([kind, self._seconds, body], self._seconds)
        except (OSError, CodecError):
            self._end()  # it may be in the middle of something
            raise
        if "error" in answer:
            raise CodecError(answer["error"])
        state: dict[str, Any] = codec.loads(answer["state"])
        return state

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()


class _Child:
    """The process, and the thread that hears its answers: a pipe cannot be read with a deadline on every system."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _PROGRAM, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests: IO[bytes] = self._process.stdin
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._listener = threading.Thread(
            target=self._listen, args=(self._process.stdout,), name="goscheduler-reader", daemon=True
        )
        self._listener.start()
        try:
            if not self._next(START_SECONDS):
                raise CodecError("the process that reads jobs of APScheduler cannot be started")
        except BaseException:
            self.end()
            raise

    def ask(self, request: object, seconds: float) -> dict[str, Any]:
        self._requests.write(json.dumps(request).encode("ascii") + b"\n")
        self._requests.flush()
        line = self._next(seconds)
        if not line:
            raise CodecError("the process that read it has died of it")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _next(self, seconds: float) -> bytes:
        try:
            return self._answers.get(timeout=seconds)
        except queue.Empty:
            raise CodecError(f"it was not read within {seconds:g} seconds") from None

    def _listen(self, answers: IO[bytes]) -> None:
        for line in answers:
            self._answers.put(line)
        self._answers.put(b"")

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._listener.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except OSError:
                continue  # what it did not read any more cannot be written
