"""An interpreter that has imported everything and forks itself into whatever it is asked for; see ``warm``.

A request is a line with the length of what follows, the description of the process as JSON, and its open files. The
answers go through the first of these files: the process id, and in the end the return code.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import sys
import time
import types
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

#: What the programs of tests use beside the package itself; one that is not installed is left out.
USED = (
    "argparse", "asyncio.runners", "concurrent.futures.process", "concurrent.futures.thread", "logging.config",
    "multiprocessing.spawn", "sqlite3", "croniter", "tzlocal", "sqlalchemy", "sqlalchemy.dialects.sqlite.pysqlite",
    "sqlalchemy.dialects.postgresql.psycopg", "sqlalchemy.dialects.mysql.pymysql", "psycopg", "pymysql", "redis",
    "pymongo", "etcd3gw", "requests", "kazoo.client", "typer", "rich.table", "rich.live",
    "django.db.models",
)  # fmt: skip
#: Apps of Django want a project around them.
NOT_IMPORTED = ("goscheduler.__main__", "goscheduler.testing", "goscheduler.contrib.django.")
ROOT = Path(__file__).resolve().parent.parent.parent
MOST_FILES = 16
#: Who started this interpreter connects at once; if it does not, it has gone.
FIRST_WITHIN = 60.0
#: Above all numbers of open files that a test gives to a process.
HIGH = 300


def main(descriptor: int) -> None:
    """Serve on a socket that listens until nobody is left; or become, in a child, what was asked for."""
    if os.fork():
        os._exit(0)  # who started this does not wait for the end of it
    import_everything()
    with socket.socket(fileno=descriptor) as listener:
        request, files = Forking(listener).serve()
    if request is not None:
        become(request, files)


def import_everything() -> None:
    sys.path.insert(0, str(ROOT))
    goscheduler = importlib.import_module("goscheduler")
    ours = [found.name for found in pkgutil.walk_packages(goscheduler.__path__, "goscheduler.")]
    for name in (*USED, *(name for name in ours if not name.startswith(NOT_IMPORTED))):
        with suppress(ImportError):
            importlib.import_module(name)
    sys.path.remove(str(ROOT))
    gc.collect()
    gc.freeze()  # so that the collector of a child touches, and thereby copies, nothing of this


class Forking:
    """The parent of all these processes: takes requests, and tells of the ends."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._address = listener.getsockname()
        self._shut = False
        self._ends: dict[int, int] = {}
        self._clients: set[socket.socket] = set()
        self._selector = selectors.DefaultSelector()
        self._woken, self._waking = socket.socketpair()

    def serve(self) -> tuple[dict[str, Any] | None, list[int]]:
        """Return twice: in a child with what it is to become, and here with nothing when the last client has gone."""
        self._woken.setblocking(False)
        self._waking.setblocking(False)
        signal.set_wakeup_fd(self._waking.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for source in (self._listener, self._woken):
            self._selector.register(source, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select(None if self._clients else FIRST_WITHIN):
                asked = self._take(key.fileobj)
                if asked is not None and self._fork(*asked):
                    return asked[0], asked[1][1:]
            if not self._clients and self._closed():
                return None, []

    def _take(self, source: Any) -> tuple[dict[str, Any], list[int]] | None:
        if source is self._listener:
            self._welcome()
        elif source is self._woken:
            self._reap()
        else:
            return self._read(source)
        return None

    def _welcome(self) -> None:
        client, _ = self._listener.accept()
        self._clients.add(client)
        self._selector.register(client, selectors.EVENT_READ)

    def _closed(self) -> bool:
        """Let nobody in any more, and tell whether nobody has come in the last moment."""
        if self._shut:
            return True
        self._shut = True
        Path(self._address).unlink(missing_ok=True)  # the folder may have been removed meanwhile
        self._listener.setblocking(False)
        with suppress(BlockingIOError):
            self._welcome()
        return not self._clients

    def _read(self, client: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
        head, files, _, _ = socket.recv_fds(client, 10, MOST_FILES)
        if not head:
            self._selector.unregister(client)
            self._clients.remove(client)
            client.close()
            return None
        with client.makefile("rb", buffering=0) as stream:
            text, length = b"", int(head)
            while len(text) < length:
                text += stream.read(length - len(text)) or b""
        return json.loads(text), files

    def _fork(self, request: dict[str, Any], files: list[int]) -> bool:
        """Tell whether this is the child."""
        child = os.fork()
        if child:
            self._ends[child] = files[0]
            for number in files[1:]:
                os.close(number)
            os.write(files[0], f"{child}\n".encode())
            return False
        os.close(files[0])
        self._forget()
        return True

    def _forget(self) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for file in (self._listener, self._woken, self._waking, *self._clients):
            file.close()
        for number in self._ends.values():
            os.close(number)

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                file = self._ends.pop(ended[0])
                with suppress(BrokenPipeError):
                    os.write(file, f"{os.waitstatus_to_exitcode(ended[1])}\n".encode())
                os.close(file)


def become(request: dict[str, Any], files: list[int]) -> None:
    """Run what was asked for as if this interpreter had been started for it."""
    put_files(files, request["files"])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.path[1:1] = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry not in sys.path]
    arguments = list(request["arguments"])
    unbuffered, meant = set_options(arguments)
    open_streams(unbuffered)
    sys.argv = arguments
    main_module = sys.modules["__main__"] = types.ModuleType("__main__")
    run(meant, arguments, main_module)


def put_files(files: list[int], numbers: list[int]) -> None:
    """Give the open files the numbers that they are to have."""
    high = [fcntl.fcntl(file, fcntl.F_DUPFD, HIGH) for file in files]
    for file in files:
        os.close(file)
    for file, number in zip(high, numbers, strict=True):
        os.dup2(file, number)
        os.close(file)


def open_streams(unbuffered: bool) -> None:
    """Open the standard streams anew, because those of this interpreter were made for other files."""
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    for name, number, errors in (("stdout", 1, "strict"), ("stderr", 2, "backslashreplace")):
        file = open(number, "wb", 0 if unbuffered else -1, closefd=False)  # noqa: SIM115
        lines = number == 2 or file.isatty()
        stream = io.TextIOWrapper(file, "utf-8", errors, line_buffering=lines, write_through=unbuffered)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def set_options(arguments: list[str]) -> tuple[bool, str]:
    """Take the options of the interpreter away; return whether nothing is buffered, and what the first argument is."""
    unbuffered = False
    while arguments[0].startswith("-"):
        option = arguments.pop(0)
        if option == "-W":
            sys.warnoptions.append(arguments.pop(0))
        elif option == "-u":
            unbuffered = True
        else:
            assert option in ("-m", "-c"), option
            break
    else:
        option = ""
    warnings._processoptions(sys.warnoptions)  # type: ignore[attr-defined]
    return unbuffered, option


def run(option: str, arguments: list[str], main_module: types.ModuleType) -> None:
    if option == "-m":
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        return
    if option == "-c":
        source, name, sys.path[0] = arguments[0], "<string>", ""
        arguments[0] = "-c"
    else:
        source, name = Path(arguments[0]).read_text(encoding="utf-8"), arguments[0]
        sys.path[0] = str(Path(arguments[0]).resolve().parent)
        main_module.__file__ = arguments[0]
    exec(compile(source, name, "exec", dont_inherit=True), main_module.__dict__)
