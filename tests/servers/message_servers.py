"""RabbitMQ and NATS for tests."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

from server_process import HOST, PASSWORD, USER, Server, free_port


class RabbitMQ(Server):
    """A RabbitMQ node without plug-ins. A fresh space is a name, to begin the names of exchanges and queues with."""

    kind = "rabbitmq"
    programs = ("rabbitmq-server", "erl")
    drivers = ("amqp",)  # brought by kombu, which hides from who looks for it

    #: The node knows its own port, so no port mapper is started, which would outlive it and be shared by all nodes.
    _NODE = "-noinput -sname rabbit@localhost -start_epmd false -kernel inet_dist_use_interface {127,0,0,1}"
    #: Threads that have nothing to do do not spin.
    _CALM = "+sbwt none +sbwtdcpu none +sbwtdio none"

    def __init__(self, folder: Path, *options: str, durable: bool = False) -> None:
        super().__init__(folder, *options, durable=durable)
        self._node_port = free_port()

    @classmethod
    def find_program(cls, name: str) -> str | None:
        packaged = Path("/usr/lib/rabbitmq/bin", name)  # the one on the path changes to another user first
        return str(packaged) if packaged.exists() else super().find_program(name)

    @property
    def url(self) -> str:
        return f"amqp://{USER}:{PASSWORD}@{HOST}:{self.port}/%2F"

    def prepare(self) -> None:
        settings = {
            "listeners.tcp.default": f"{HOST}:{self.port}",
            "default_user": USER,
            "default_pass": PASSWORD,
            "log.console.level": "warning",
            "disk_free_limit.absolute": "10MB",
            "vm_memory_high_watermark.absolute": "1GB",
        }
        (self.folder / "rabbitmq.conf").write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
        (self.folder / "plugins").write_text("[].\n")

    def command(self) -> list[str]:
        places = {
            "HOME": self.folder,
            "RABBITMQ_CONF_ENV_FILE": self.folder / "no-such-file",
            "RABBITMQ_CONFIG_FILE": self.folder / "rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": self.folder / "plugins",
            "RABBITMQ_MNESIA_BASE": self.folder / "data",
            "RABBITMQ_LOG_BASE": self.folder / "logs",
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_NODENAME": "rabbit@localhost",
            "RABBITMQ_ALLOW_INPUT": "1",  # the server replaces the script, and is who gets our signals
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"{self._NODE} -erl_epmd_port {self._node_port} {self._CALM}",
        }
        environment = [f"{name}={value}" for name, value in places.items()]
        return ["env", *environment, self.program("rabbitmq-server"), *self.options]

    def ping(self) -> None:
        import amqp

        with amqp.Connection(f"{HOST}:{self.port}", userid=USER, password=PASSWORD, connect_timeout=5):
            return

    def make_space(self, name: str) -> str:
        return self.url

    def drop_space(self, name: str) -> None:
        """Leave it: queues cannot be listed, their names are used by nobody else, and the server goes away soon."""


class NATS(Server):
    """A NATS server with JetStream. A fresh space is a name, to begin the names of streams and subjects with."""

    kind = "nats"
    programs = ("nats-server",)
    drivers = ("nats",)

    @property
    def url(self) -> str:
        return f"nats://{USER}:{PASSWORD}@{HOST}:{self.port}"

    def command(self) -> list[str]:
        return [
            self.program("nats-server"),
            *("--addr", HOST, "--port", str(self.port), "--user", USER, "--pass", PASSWORD),
            *("--jetstream", "--store_dir", str(self.folder / "data")),
            *self.options,
        ]

    def ping(self) -> None:
        """It greets who connects with what it can do, and says nothing before JetStream is ready."""
        with socket.create_connection((HOST, self.port), timeout=2) as connection:
            greeting = connection.makefile("rb").readline()
        if not json.loads(greeting.removeprefix(b"INFO ")).get("jetstream"):
            raise RuntimeError("no JetStream yet")

    def make_space(self, name: str) -> str:
        return self.url

    def drop_space(self, name: str) -> None:
        asyncio.run(self._delete_streams(name))

    async def _delete_streams(self, prefix: str) -> None:
        import nats

        connection = await nats.connect(self.url)
        manager = connection.jsm()
        try:
            for stream in await manager.streams_info():
                if (stream.config.name or "").startswith(prefix):
                    await manager.delete_stream(stream.config.name)
        finally:
            await connection.close()
