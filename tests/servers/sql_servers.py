"""PostgreSQL and MariaDB for tests."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from server_process import ANSWER_WITHIN, GLIMPSE, HOST, PASSWORD, USER, Server


class PostgreSQL(Server):
    """A PostgreSQL cluster. A fresh space is a database."""

    kind = "postgresql"
    programs = ("initdb", "postgres")
    drivers = ("psycopg", "sqlalchemy")
    stop_signal = signal.SIGINT  # ends the sessions; SIGTERM would wait for them to end by themselves

    _FAST: ClassVar[Sequence[str]] = (
        "fsync=off", "full_page_writes=off", "synchronous_commit=on", "autovacuum_naptime=10s", "shared_buffers=64MB",
    )  # fmt: skip
    _SETTINGS: ClassVar[Sequence[str]] = (
        f"listen_addresses={HOST}",
        "unix_socket_directories=",
        "dynamic_shared_memory_type=mmap",  # in its folder, where a kill leaves nothing behind
        "max_connections=300",
    )

    @classmethod
    def find_program(cls, name: str) -> str | None:
        packaged = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: _version(path.parts[-3]))
        return str(packaged[-1]) if packaged else super().find_program(name)

    @property
    def url(self) -> str:
        return self._url("postgres")

    def prepare(self) -> None:
        if self.run_as():
            shutil.chown(self.folder, self.run_as())
        password = self.folder / "password"
        password.write_text(PASSWORD)
        initdb = [self.program("initdb"), "--pgdata", str(self._files), "--username", USER, "--pwfile", str(password)]
        initdb += ["--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"]
        identity: dict[str, Any] = {"user": self.run_as(), "extra_groups": []} if self.run_as() else {}
        subprocess.run(initdb, check=True, capture_output=True, cwd=self.folder, **identity)

    def command(self) -> list[str]:
        settings = [*self._SETTINGS, *(() if self.durable else self._FAST)]
        flags = [part for setting in settings for part in ("-c", setting)]
        return [self.program("postgres"), "-D", str(self._files), "-p", str(self.port), *flags, *self.options]

    def run_as(self) -> str:
        if os.geteuid() != 0:
            return ""
        return "postgres" if any(entry.pw_name == "postgres" for entry in pwd.getpwall()) else "nobody"

    def ping(self) -> None:
        self._execute("SELECT 1", GLIMPSE)

    def forget(self) -> None:
        # A killed server leaves one small segment of shared memory, named on the line of two numbers.
        notes = self._files / "postmaster.pid"
        found = re.search(r"^ *\d+ +(\d+) *$", notes.read_text(), re.MULTILINE) if notes.exists() else None
        if found:
            subprocess.run(["ipcrm", "-m", found[1]], check=False, capture_output=True)

    def make_space(self, name: str) -> str:
        self._execute(f"CREATE DATABASE {name}")
        return self._url(name)

    def drop_space(self, name: str) -> None:
        self._execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    @property
    def _files(self) -> Path:
        return self.folder / "data"

    def _url(self, database: str) -> str:
        return f"postgresql+psycopg://{USER}:{PASSWORD}@{HOST}:{self.port}/{database}"

    def _execute(self, statement: str, within: int = ANSWER_WITHIN) -> None:
        import psycopg

        plain = self.url.replace("+psycopg", "")
        with psycopg.connect(plain, connect_timeout=within, autocommit=True) as connection:
            connection.execute(statement.encode())


class PgBouncer(Server):
    """A pooler in front of the PostgreSQL at a port, which is its first option; the others are settings."""

    kind = "pgbouncer"
    programs = ("pgbouncer",)
    drivers = ("psycopg",)
    stop_signal = signal.SIGINT

    def prepare(self) -> None:
        port, *settings = self.options
        self._users.write_text(f'"{USER}" "{PASSWORD}"\n')
        own = [f"listen_addr={HOST}", f"listen_port={self.port}", "auth_type=plain", f"auth_file={self._users}"]
        lines = ["[databases]", f"* = host={HOST} port={port}", "[pgbouncer]", *own, "unix_socket_dir=", *settings]
        self._configuration.write_text("\n".join(lines))

    def command(self) -> list[str]:
        return [self.program("pgbouncer"), str(self._configuration)]

    def run_as(self) -> str:
        return "nobody" if os.geteuid() == 0 else ""

    def ping(self) -> None:
        import psycopg

        psycopg.connect(self.url.replace("+psycopg", "")).close()

    @property
    def url(self) -> str:
        return self.in_front_of("postgresql+psycopg://./postgres")

    def in_front_of(self, url: str) -> str:
        """Return the URL of a database on the server behind it."""
        return urlsplit(url)._replace(netloc=f"{USER}:{PASSWORD}@{HOST}:{self.port}").geturl()

    @property
    def _users(self) -> Path:
        return self.folder / "users"

    @property
    def _configuration(self) -> Path:
        return self.folder / "pgbouncer.ini"


class MariaDB(Server):
    """A MariaDB server. A fresh space is a database."""

    kind = "mariadb"
    programs = ("mariadbd", "mariadb-install-db", "my_print_defaults")
    drivers = ("pymysql", "sqlalchemy")

    _LOG_SIZE = "--innodb-log-file-size=32M"
    #: At a commit the log goes to the system, which writes it to the disk within a second.
    _FAST: ClassVar[Sequence[str]] = (
        "--innodb-flush-log-at-trx-commit=2", "--innodb-doublewrite=0", "--debug-no-sync",
        "--innodb-use-native-aio=0", "--innodb-buffer-pool-size=64M", _LOG_SIZE,
    )  # fmt: skip

    @property
    def url(self) -> str:
        return self._url("mysql")

    def prepare(self) -> None:
        account = f"'{USER}'@'{HOST}'"
        (self.folder / "accounts.sql").write_text(
            f"CREATE USER IF NOT EXISTS {account} IDENTIFIED BY '{PASSWORD}';\n"
            f"GRANT ALL PRIVILEGES ON *.* TO {account} WITH GRANT OPTION;\n"
        )
        install = [self.program("mariadb-install-db"), *self._place(), "--auth-root-authentication-method=normal"]
        install += ["--skip-test-db", self._LOG_SIZE, "--innodb-flush-method=nosync"]
        done = subprocess.run(install, capture_output=True, text=True, cwd=self.folder)
        assert done.returncode == 0, f"mariadb-install-db failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"

    def command(self) -> list[str]:
        return [
            self.program("mariadbd"),
            *self._place(),
            f"--port={self.port}",
            f"--bind-address={HOST}",
            f"--socket={self.folder / 'socket'}",
            f"--pid-file={self.folder / 'pid'}",
            f"--init-file={self.folder / 'accounts.sql'}",
            "--skip-name-resolve",
            "--max-connections=300",
            *(() if self.durable else self._FAST),
            *self.options,
        ]

    def ping(self) -> None:
        self._execute("SELECT 1", GLIMPSE)

    def make_space(self, name: str) -> str:
        self._execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        return self._url(name)

    def drop_space(self, name: str) -> None:
        self._execute(f"DROP DATABASE IF EXISTS {name}")

    def _place(self) -> list[str]:
        user = ["--user=root"] if os.geteuid() == 0 else []  # it refuses to run as root unless it is told to
        return ["--no-defaults", f"--datadir={self.folder / 'data'}", *user]

    def _url(self, database: str) -> str:
        return f"mysql+pymysql://{USER}:{PASSWORD}@{HOST}:{self.port}/{database}"

    def _execute(self, statement: str, within: int = ANSWER_WITHIN) -> None:
        import pymysql

        with (
            pymysql.connect(
                host=HOST, port=self.port, user=USER, password=PASSWORD,
                connect_timeout=within, read_timeout=ANSWER_WITHIN,
            ) as connection,  # fmt: skip
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text))
