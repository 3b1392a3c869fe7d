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


def main(lock: str, folder: str, stop_signal: str, user: str, *command: str) -> None:
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    server = _launch(Path(folder), user, command)
    print(server.pid, flush=True)
    ended = threading.Event()
    unused = threading.Event()

    def watch() -> None:
        with open(lock, "rb+") as users:
            fcntl.lockf(users, fcntl.LOCK_EX)
            unused.set()
            _end(server, signal.Signals(int(stop_signal)), ended)
            shutil.rmtree(folder, ignore_errors=True)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    _reap_everything()
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


def _end(server: subprocess.Popen[bytes], stop_signal: signal.Signals, ended: threading.Event) -> None:
    for number in (signal.SIGCONT, stop_signal):
        _send(server.pid, number)
    if not ended.wait(GRACE):
        _send(server.pid, signal.SIGKILL)
        ended.wait(GRACE)


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it has ended by itself meanwhile


def _reap_everything() -> None:
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
