"""PostgreSQL with a synchronous standby, Redis with Sentinel, and MariaDB, which only comes back."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from key_servers import Redis, Sentinel
from server_process import HOST, PASSWORD, USER, Server
from sql_servers import MariaDB, PostgreSQL
from topology import Topology, require, until


class Standby(PostgreSQL):
    """A PostgreSQL server whose data are a copy of another one's, which it follows."""

    source: PostgreSQL

    def prepare(self) -> None:
        if self.run_as():
            shutil.chown(self.folder, self.run_as())
        source = f"host={HOST} port={self.source.port} user={USER} password={PASSWORD}"
        copy = [self.program("pg_basebackup"), "--dbname", source, "--pgdata", str(self._files)]
        copy += ["--write-recovery-conf", "--wal-method", "stream", "--checkpoint", "fast", "--no-sync"]
        identity: dict[str, Any] = {"user": self.run_as(), "extra_groups": []} if self.run_as() else {}
        subprocess.run(copy, check=True, capture_output=True, cwd=self.folder, env=os.environ, **identity)


class PostgreSQLPair(Topology):
    """A primary and a hot standby that has every commit before it is confirmed; promoted by hand.

    After a takeover the new primary is alone, and waits for nobody, until the other one has rejoined.
    """

    kind = "postgresql"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._primary: PostgreSQL = PostgreSQL(folder / "postgresql-0")
        self._standby = Standby(folder / "postgresql-1")

    @property
    def servers(self) -> Sequence[Server]:
        return self._both()

    @property
    def url(self) -> str:
        """Both hosts, of which the driver takes the one that can be written to."""
        hosts = "&".join(f"host={HOST}:{port}" for port in sorted(server.port for server in self._both()))
        return f"postgresql+psycopg://{USER}:{PASSWORD}@/postgres?{hosts}&target_session_attrs=read-write"

    def start(self) -> None:
        self._primary.start()
        self._follow()

    def leader(self) -> Server:
        return self._primary

    def standby(self) -> Server:
        """Return the server that follows."""
        return self._standby

    def write(self) -> None:
        _execute(self._primary, "CREATE TABLE IF NOT EXISTS probe (at timestamptz)", "INSERT INTO probe VALUES (now())")

    def take_over(self) -> None:
        _execute(self._standby, "SELECT pg_promote(true, 60)")
        self._primary, self._standby = self._standby, self._primary  # type: ignore[assignment]

    def rejoin(self) -> None:
        """Give the lost one a fresh copy: what it has written may have gone further than what its standby got."""
        (lost,) = self.lost
        self.lost.clear()
        port = lost.port
        lost.close()
        self._standby = Standby(self.folder / lost.folder.name)
        self._standby.port = port
        self._follow()

    def _follow(self) -> None:
        self._standby.source = self._primary
        self._standby.start()
        until(self._streams)
        _execute(self._primary, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
        until(self._is_synchronous)

    def _streams(self) -> None:
        require(_execute(self._primary, "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"), "not yet")

    def _is_synchronous(self) -> None:
        require(_execute(self._primary, "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"), "not yet")

    def _both(self) -> tuple[PostgreSQL, PostgreSQL]:
        return self._primary, self._standby


def _execute(server: Server, *statements: str) -> list[Any]:
    """Return the rows of the last of some statements."""
    import psycopg

    plain = server.url.replace("+psycopg", "")
    with psycopg.connect(plain, connect_timeout=5, autocommit=True, options="-c statement_timeout=60s") as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


class RedisWithSentinel(Topology):
    """A master and two replicas, of which one must be near for a write, and three Sentinels.

    A write is confirmed before a replica has it: what was confirmed in the last moment before a death may be lost.
    """

    kind = "redis"
    keeps_confirmed = False

    _NEAR = ("--min-replicas-to-write", "1", "--min-replicas-max-lag", "10", "--repl-diskless-sync-delay", "0")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._members = [Redis(folder / f"redis-{number}", *self._NEAR) for number in range(3)]
        self._sentinels: list[Sentinel] = []

    @property
    def servers(self) -> Sequence[Server]:
        return [*self._sentinels, *self._members]

    @property
    def url(self) -> str:
        places = ",".join(f"{HOST}:{sentinel.port}" for sentinel in self._sentinels)
        return f"redis+sentinel://{places}/main/0"

    def start(self) -> None:
        master, *replicas = self._members
        master.start()
        for replica in replicas:
            self._follow(replica, master)
        self._sentinels = [Sentinel(self.folder / f"sentinel-{number}", str(master.port)) for number in range(3)]
        for sentinel in self._sentinels:
            sentinel.start()
        until(self._is_watched)
        until(self.write)

    def leader(self) -> Server:
        """Return the master that most Sentinels name."""
        ports = [self._told(sentinel)["port"] for sentinel in self._sentinels]
        port = max(ports, key=ports.count)
        require(ports.count(port) > len(ports) // 2, "the Sentinels do not agree")
        return next(member for member in self._members if member.port == port)

    def write(self) -> None:
        leader = self.leader()
        require(leader not in self.lost, "the Sentinels still name a master that is gone")
        with leader._client() as client:  # type: ignore[attr-defined]
            client.set("probe", 1)

    def rejoin(self) -> None:
        leader = until(self.leader)
        while self.lost:
            member = self.lost.pop()
            member.options = self._NEAR
            self._follow(member, leader)
        until(self._is_watched)

    def _follow(self, replica: Server, master: Server) -> None:
        replica.options = (*self._NEAR, "--replicaof", HOST, str(master.port))
        replica.start()

        def has_a_copy() -> None:
            with replica._client() as client:  # type: ignore[attr-defined]
                require(client.info("replication").get("master_link_status") == "up", "no copy yet")

        until(has_a_copy)

    def _is_watched(self) -> None:
        for sentinel in self._sentinels:
            told = self._told(sentinel)
            require(told["num-other-sentinels"] == len(self._sentinels) - 1, "a Sentinel does not know the others")
            require(told["num-slaves"] >= len(self._members) - 1, "a Sentinel does not know the replicas")
            with sentinel._client() as client:
                replicas = client.sentinel_slaves("main")
            alive = [each for each in replicas if not each["is_sdown"] and each["master-link-status"] == "ok"]
            require(len(alive) == len(self._members) - 1, "a Sentinel takes a replica for lost")

    def _told(self, sentinel: Sentinel) -> dict[str, Any]:
        with sentinel._client() as client:
            return client.sentinel_master("main")  # type: ignore[no-any-return]


class MariaDBAlone(Topology):
    """One server, which is killed and started again with the same data."""

    kind = "mariadb"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server = MariaDB(folder / "mariadb-0")
        self._space = ""

    @property
    def servers(self) -> Sequence[Server]:
        return [self._server]

    @property
    def url(self) -> str:
        return self._space

    def start(self) -> None:
        self._server.start()
        self._space = self._server.make_space("failover")

    def leader(self) -> Server:
        return self._server

    def write(self) -> None:
        self._server._execute("CREATE TABLE IF NOT EXISTS failover.probe (number INT)")
        self._server._execute("INSERT INTO failover.probe VALUES (1)")

    def take_over(self) -> None:
        self._server.start()

    def rejoin(self) -> None:
        self.lost.clear()
