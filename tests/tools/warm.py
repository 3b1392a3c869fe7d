"""Python programs in real processes that need not import the package first: they are forked from one that has.

``start`` and ``run`` take what would follow ``python`` on a command line. Who starts ten schedulers pays for the
imports of one; beside that, nothing is different: signals, exit codes, open files and the end of an interpreter are
those of a process of its own. A test of imports themselves, or of a cold start, takes ``subprocess``.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from server_locks import alone

HERE = Path(__file__).parent
PIPE = subprocess.PIPE
DEVNULL = subprocess.DEVNULL
STDOUT = subprocess.STDOUT
#: How long the interpreter may take for its imports, and later for a fork, in seconds.
READY_WITHIN = 60.0

_folder: Callable[[], Path] | None = None
_line: socket.socket | None = None


class Process:
    """A process of one's own, with the part of ``subprocess.Popen`` that tests use."""

    def __init__(self, pid: int, ending: socket.socket, pipes: Mapping[str, IO[Any]]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdin, self.stdout, self.stderr = (pipes.get(name) for name in ("stdin", "stdout", "stderr"))
        self._ending = ending

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, or minus the number of the signal that ended it."""
        if self.returncode is None:
            self._ending.settimeout(timeout)
            try:
                self.returncode = int(_line_of(self._ending))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0) from None
            self._ending.close()
        return self.returncode

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(
    *arguments: str | Path,
    stdin: int | IO[Any] | None = None,
    stdout: int | IO[Any] | None = None,
    stderr: int | IO[Any] | None = None,
    pass_fds: Sequence[int] = (),
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    text: bool = False,
    bufsize: int = -1,
) -> Process:
    """Start a program; the options are those of ``subprocess.Popen``."""
    pipes: dict[str, IO[Any]] = {}
    theirs: list[int] = []
    closing: list[int] = []
    for number, (name, given) in enumerate({"stdin": stdin, "stdout": stdout, "stderr": stderr}.items()):
        if given == PIPE:
            ends = os.pipe() if number == 0 else os.pipe()[::-1]
            theirs.append(ends[0])
            closing.append(ends[0])
            mode = ("w" if number == 0 else "r") + ("" if text else "b")
            pipes[name] = open(ends[1], mode, bufsize, encoding="utf-8" if text else None)  # noqa: SIM115
        elif given == DEVNULL:
            theirs.append(os.open(os.devnull, os.O_RDWR))
            closing.append(theirs[-1])
        elif given == STDOUT:
            theirs.append(theirs[1])
        else:
            theirs.append(number if given is None else given if isinstance(given, int) else given.fileno())
    request = {
        "arguments": [str(argument) for argument in arguments],
        "cwd": str(cwd or os.getcwd()),
        "env": dict(os.environ if env is None else env),
        "files": [0, 1, 2, *pass_fds],
    }
    try:
        return _forked(request, [*theirs, *pass_fds], pipes)
    finally:
        for file in closing:
            os.close(file)


def _forked(request: dict[str, Any], files: list[int], pipes: dict[str, IO[Any]]) -> Process:
    ours, told = socket.socketpair()
    with told:
        message = json.dumps(request).encode()
        line = _connection()
        socket.send_fds(line, [f"{len(message):<10}".encode()], [told.fileno(), *files])
        line.sendall(message)
    ours.settimeout(READY_WITHIN)
    return Process(int(_line_of(ours)), ours, pipes)


def run(
    *arguments: str | Path,
    timeout: float = 120.0,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return what it wrote."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = start(*arguments, stdin=DEVNULL, stdout=out, stderr=err, cwd=cwd, env=env)
        try:
            process.wait(timeout)
        finally:
            process.kill()
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(arguments, process.wait(), out.read().decode(), err.read().decode())


def use(folder: Callable[[], Path]) -> None:
    """Say how to get the folder in which all processes of this session meet."""
    global _folder
    _folder = folder


def let_go() -> None:
    """Need no more processes; the interpreter ends when nobody does."""
    global _line
    if _line is not None:
        _line.close()
        _line = None


def _connection() -> socket.socket:
    global _line
    if _line is None:
        assert _folder is not None
        folder = _folder()
        with alone(folder / "warm.starting"):
            _line = _connect(str(folder / "warm"))
    return _line


def _connect(address: str) -> socket.socket:
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(READY_WITHIN)
    try:
        line.connect(address)
    except (FileNotFoundError, ConnectionRefusedError):
        _launch(address)
        line.connect(address)
    return line


def _launch(address: str) -> None:
    Path(address).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        code = f"import sys; sys.path[0] = {str(HERE)!r}; import warm_server; warm_server.main({listener.fileno()})"
        # It leaves us at once, because it serves others too and ends with the last of them. An interrupt from the
        # keyboard is for the tests.
        subprocess.run(
            [sys.executable, "-c", code], check=True, stdin=DEVNULL, stdout=DEVNULL, pass_fds=[listener.fileno()],
            start_new_session=True,
        )  # fmt: skip


def _line_of(answers: socket.socket) -> str:
    line = b""
    while not line.endswith(b"\n"):
        got = answers.recv(1)
        if not got:
            raise ChildProcessError("the interpreter that forks has ended; what it said is on standard error")
        line += got
    return line.decode()
