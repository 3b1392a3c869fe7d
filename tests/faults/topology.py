"""Several servers that are one store: when the one that leads is lost, another takes its place."""

from __future__ import annotations

import shutil
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

from server_process import Server

#: How long servers may take to agree, in seconds: it tells a hang, and no verdict depends on it.
PATIENCE = 120.0
GLANCE = 0.05


class Topology(ABC):
    """Servers of one kind that stand in for each other, private to the caller, in a folder that is theirs."""

    kind: ClassVar[str]
    #: Whether a write that was confirmed is on the server that takes over, whatever happens.
    keeps_confirmed: ClassVar[bool] = True

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)  # some servers do not run as root, and must get to their files
        self.folder = folder
        self.lost: list[Server] = []
        """Servers that were killed, and have not rejoined."""

    @property
    @abstractmethod
    def servers(self) -> Sequence[Server]:
        """All processes of it, in the order in which they are ended."""

    @property
    @abstractmethod
    def url(self) -> str:
        """What the job store takes; it stays the same, whichever server leads."""

    @abstractmethod
    def start(self) -> None:
        """Return when it takes writes, and would still do so without its leader."""

    @abstractmethod
    def leader(self) -> Server:
        """Return the server that takes the writes.

        :raises Exception: if there is none at the moment
        """

    @abstractmethod
    def write(self) -> None:
        """Write something, as a job store would.

        :raises Exception: if it is not confirmed within some seconds
        """

    def fail_over(self) -> Server:
        """Kill the leader for good; return it when another server takes writes."""
        leader = until(self.leader)
        leader.kill()
        self.lost.append(leader)
        self.take_over()
        until(self.write)
        return leader

    def take_over(self) -> None:  # noqa: B027 - most elect another leader by themselves
        """Do what nobody else does after the loss of the leader."""

    @abstractmethod
    def rejoin(self) -> None:
        """Start the servers that were lost; return when the next leader can be lost too."""

    def close(self) -> None:
        for server in self.servers:
            server.close()
        shutil.rmtree(self.folder)


def until(attempt: Callable[[], Server | None], seconds: float = PATIENCE) -> Server:
    """Return what ``attempt`` does as soon as it does not raise.

    :raises TimeoutError: with the last error as its cause
    """
    deadline = time.monotonic() + seconds
    pause = threading.Event().wait
    while True:
        try:
            return attempt()  # type: ignore[return-value]
        except Exception as error:
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {seconds} s: {type(error).__name__}: {error}") from error
        pause(GLANCE)


def start_together(servers: Iterable[Server]) -> None:
    """Start servers each of which serves only when others do."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda server: server.start(), servers))


def require(fulfilled: object, why_not: str) -> None:
    if not fulfilled:
        raise RuntimeError(why_not)
