"""Runs one server for as long as somebody uses it: ``python keeper.py LOCK FOLDER STOP_SIGNAL USER COMMAND...``.

A user of the server holds a shared lock on LOCK. The system takes the lock away from a process that has ended, however
it ended; so when the keeper gets the lock for itself, nobody is left, and it ends the server and removes FOLDER.
The server in turn dies with its keeper. The keeper writes the server's process id to its standard output, and ends
when the server and all processes that the server has started have ended.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
GRACE = 10.0
#: The file in the folder of a server that tells others how to use it.
NOTE = "shared"


def main(lock: str, folder: str, stop_signal: str, user: str, *command: str) -> None:
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    server = _launch(Path(folder), user, command)
    print(server.pid, flush=True)
    ended = threading.Event()
    unused = threading.Event()
    reaped: set[int] = set()

    def watch() -> None:
        with open(lock, "rb+") as users:
            fcntl.flock(users, fcntl.LOCK_EX)
            unused.set()
            Path(folder, NOTE).unlink(missing_ok=True)  # first: whoever finds it uses the server
            _end(server.pid, signal.Signals(int(stop_signal)), ended, reaped)
            shutil.rmtree(folder, ignore_errors=True)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    _reap_everything(reaped)
    ended.set()
    if unused.is_set():
        watcher.join(GRACE)


def _launch(folder: Path, user: str, command: tuple[str, ...]) -> subprocess.Popen[bytes]:
    identity: dict[str, Any] = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if user else {}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
            preexec_fn=lambda: _prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
            **identity,
        )


def _end(server: int, stop_signal: signal.Signals, ended: threading.Event, reaped: set[int]) -> None:
    for number in (signal.SIGCONT, stop_signal):
        _send(server, number, reaped)
    if not ended.wait(GRACE):
        _send(server, signal.SIGKILL, reaped)
        ended.wait(GRACE)


def _send(pid: int, number: signal.Signals, reaped: set[int]) -> None:
    if pid in reaped:
        return  # the number may be that of another process by now
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it has ended by itself meanwhile


def _reap_everything(reaped: set[int]) -> None:
    while True:
        try:
            reaped.add(os.wait()[0])
        except ChildProcessError:
            return


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
