"""Links to a server that can be made bad: TCP proxies on one event loop, one listener for each process.

What a bad link does is told by its :class:`Link`, which any thread may change:

==============  ======================================================================================================
mode            what happens to bytes and connections
==============  ======================================================================================================
pass            nothing
refuse          new connections are reset; those that are open go on
blackhole       nothing arrives on the other side, in either direction, nor that a side has closed; sockets stay open
drop_replies    requests arrive, answers do not
slow            every piece arrives later, by a delay that differs
==============  ======================================================================================================

``heal`` ends it. Whatever a black hole has kept is then delivered, late and in order, as TCP does when a link comes
back, or the connections are reset, as they are when a link has been away for too long. Where answers were dropped a
connection cannot go on, and is reset.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

HOST = "127.0.0.1"
PIECE = 65536
#: A connection that is closed with this is reset.
AT_ONCE = struct.pack("ii", 1, 0)
PATIENCE = 30.0


class Link:
    """The way of one process to the server."""

    def __init__(self, name: str, luck: random.Random) -> None:
        self.name = name
        self.mode = "pass"
        self.delay = (0.0, 0.0)
        self.port = 0
        self.wait_for_request: Callable[[], None] | None = None
        """Called once, on the loop, as soon as a request has gone to the server."""
        self.connections: set[Connection] = set()
        self._luck = luck

    def latency(self) -> float:
        return self._luck.uniform(*self.delay)

    def noticed_request(self) -> None:
        wanted, self.wait_for_request = self.wait_for_request, None
        if wanted is not None:
            wanted()


class Connection:
    """One connection of a process, and the one to the server that belongs to it."""

    def __init__(self, link: Link, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self.link = link
        self.near = near
        self.far = far
        self.spoiled = False
        """Whether bytes were lost, so that the rest makes no sense."""
        self.open = asyncio.Event()
        """Whether bytes may pass; a black hole has it cleared."""
        self.open.set()

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, replies: bool) -> None:
        """Carry bytes into one direction until their end."""
        try:
            while piece := await reader.read(PIECE):
                await self.open.wait()
                if replies and self.link.mode == "drop_replies":
                    self.spoiled = True
                    continue
                if self.link.mode == "slow":
                    await asyncio.sleep(self.link.latency())
                writer.write(piece)
                await writer.drain()
                if not replies:
                    self.link.noticed_request()
            await self.open.wait()  # nor does anything tell, in a black hole, that a side has closed
            if writer.can_write_eof() and not writer.is_closing():
                writer.write_eof()
        except (OSError, RuntimeError):
            await self.open.wait()
            self.reset()

    def reset(self) -> None:
        """End both sides, so that each learns of it by an error."""
        for writer in (self.near, self.far):
            reset(writer)


class Proxy:
    """All links to one server, on a thread of their own."""

    def __init__(self, port: int, luck: random.Random) -> None:
        self._server_port = port
        self._luck = luck
        self.links: dict[str, Link] = {}
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()

    def open(self, name: str) -> Link:
        """Return a new link; its ``port`` leads to the server."""
        link = self.links[name] = Link(name, random.Random(self._luck.random()))
        link.port = self._do(self._listen(link))
        return link

    def close(self) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    def spoil(self, name: str, mode: str, delay: tuple[float, float] = (0.0, 0.0)) -> None:
        """Make a link bad."""
        self._do(self._set(self.links[name], mode, delay))

    def heal(self, name: str, late: bool = True) -> None:
        """Make a link good. ``late``: what a black hole has kept arrives now; else its connections are reset."""
        self._do(self._heal(self.links[name], late))

    def reset(self, name: str) -> int:
        """Reset all connections of a link, and return how many there were."""
        return self._do(self._reset(self.links[name]))

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for link in self.links.values():
            await self._reset(link)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _listen(self, link: Link) -> int:
        server = await asyncio.start_server(lambda near, out: self._serve(link, near, out), HOST, 0)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _set(self, link: Link, mode: str, delay: tuple[float, float]) -> None:
        link.mode, link.delay = mode, delay
        for connection in link.connections:
            connection.open.clear() if mode == "blackhole" else connection.open.set()

    async def _heal(self, link: Link, late: bool) -> None:
        held = link.mode == "blackhole"
        link.mode = "pass"
        for connection in list(link.connections):
            if connection.spoiled or (held and not late):
                connection.reset()
            connection.open.set()

    async def _reset(self, link: Link) -> int:
        for connection in list(link.connections):
            connection.reset()
            connection.open.set()
        return len(link.connections)

    async def _serve(self, link: Link, reader: asyncio.StreamReader, near: asyncio.StreamWriter) -> None:
        if link.mode == "refuse":
            reset(near)
            return
        while link.mode == "blackhole":  # the connection is made by the system's backlog, and nobody is behind it
            await asyncio.sleep(0.05)
        try:
            answers, far = await asyncio.open_connection(HOST, self._server_port)
        except OSError:
            reset(near)
            return
        for writer in (near, far):
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(link, near, far)
        if link.mode == "blackhole":
            connection.open.clear()
        link.connections.add(connection)
        try:
            await asyncio.gather(connection.pump(reader, far, False), connection.pump(answers, near, True))
        finally:
            link.connections.discard(connection)
            connection.reset() if connection.spoiled else _close(near, far)


def reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection so that the other side gets an error."""
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    writer.transport.abort()


def _close(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        with suppress(RuntimeError, OSError):
            writer.close()
