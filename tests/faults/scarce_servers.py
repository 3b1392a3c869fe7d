"""Servers that run out of something: of their disk, or of connections."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

from server_process import Server
from shared_servers import KINDS

#: How servers say that their disk is full, in small letters. Redis tells of errors once in half a minute, and the first
#: one is that less was written than it wanted; MariaDB names only the number of the error at times.
_WORDS = ("no space left on device", "short write while writing to the aof", "errcode: 28", "error 28", "disk full")
#: Those that end when they cannot write.
_DIES = ("mongodb", "etcd", "zookeeper")

#: What is given to a server so that its own files leave room for anything on a small disk.
_SMALL: dict[str, tuple[str, ...]] = {
    "postgresql": ("-c", "max_wal_size=32MB", "-c", "min_wal_size=32MB", "-c", "wal_recycle=off"),
    "mariadb": ("--innodb-log-file-size=32M", "--innodb-temp-data-file-path=ibtmp1:4M:autoextend"),
}
#: The least of a disk on which a server of a kind starts, in megabytes.
LEAST = {"postgresql": 120, "mariadb": 200, "redis": 16, "mongodb": 400, "etcd": 160, "zookeeper": 16}

_BLOCK = 1 << 20


class SmallDisk:
    """A server whose files are on a file system of their own, which can be filled and freed. Needs root."""

    def __init__(self, kind: str, folder: Path, megabytes: int) -> None:
        self._folder = folder
        self.disk = folder / "disk"
        self._log = folder / "log"
        self._ballast = self.disk / "ballast"
        self._seen = 0
        """How much of the log was written before the disk was filled."""
        log = self._log

        class OnDisk(KINDS[kind]):  # type: ignore[misc]
            def prepare(self) -> None:
                """Have it write its log elsewhere: on a full disk nobody could tell that it is full."""
                (self.folder / "log").symlink_to(log)
                super().prepare()

        self.disk.mkdir(parents=True)
        folder.chmod(0o755)
        options = ["-o", f"size={megabytes}m,mode=0755"]
        subprocess.run(["mount", "-t", "tmpfs", *options, "goscheduler-tests", str(self.disk)], check=True)
        self.server: Server = OnDisk(self.disk / kind, *_SMALL.get(kind, ()))

    @property
    def url(self) -> str:
        kind = self.server.kind
        return f"{self.server.url}/full" if kind in ("etcd", "zookeeper") else self.server.url

    def start(self) -> None:
        self.server.start()

    def fill(self, spare: int = 0) -> None:
        """Leave room for about ``spare`` bytes."""
        self._seen = self._log.stat().st_size
        with self._ballast.open("ab", buffering=0) as ballast:
            size = _BLOCK
            while size:
                try:
                    ballast.write(b"\0" * size)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    size //= 2
            ballast.truncate(max(0, ballast.tell() - spare))

    def free(self) -> None:
        """Make room again; start the server if the lack of it has ended it."""
        self._ballast.unlink(missing_ok=True)
        if self.server.kind in _DIES and self.saw_no_space():
            self.server._end_what_is_left()  # it may still be about to end
        if not self.server.running:
            self.server.start()

    def saw_no_space(self) -> bool:
        """Tell whether the server has said that its disk is full since it was filled."""
        said = self._log.read_bytes()[self._seen :].decode(errors="replace").lower()
        return any(word in said for word in _WORDS)

    def close(self) -> None:
        self.server.close()
        subprocess.run(["umount", str(self.disk)], check=True)
        shutil.rmtree(self._folder)


def small_disk(kind: str, folder: Path, megabytes: int | None = None) -> SmallDisk:
    """Return a server that is not started, on a disk of so many megabytes, or as few as it can do with."""
    if os.geteuid() != 0:
        raise PermissionError("only root can mount a small disk")
    return SmallDisk(kind, folder, LEAST[kind] if megabytes is None else megabytes)


#: How a server is told how many connections it may have. etcd has no such setting.
_MOST = {
    "postgresql": ("-c", "max_connections={most}", "-c", "superuser_reserved_connections=0"),
    "mariadb": ("--max-connections={most}",),
    "redis": ("--maxclients", "{most}"),
    "mongodb": ("--maxConns", "{most}"),
    "zookeeper": ("-Dzookeeper.maxCnxns={most}",),
}


def few_connections(kind: str, folder: Path, most: int) -> Server:
    """Return a server that is not started, and that has no more than so many connections at a time.

    :raises KeyError: for etcd, which cannot be limited
    """
    return KINDS[kind](folder, *(option.format(most=most) for option in _MOST[kind]))
