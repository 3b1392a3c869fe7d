"""A line to a server that can be frozen, cut and mended, for a server that takes too long to start again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from server_process import HOST, free_port
from transport_contract import PATIENCE


class Line:
    """Passes on what comes in at ``port`` to another port of this machine, with the verbs of a private server."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._writers: set[asyncio.StreamWriter] = set()
        self._ends: list[asyncio.Task[None]] = []
        self._listener: asyncio.Server | None = None
        self._thread.start()
        self._run(self._prepare())

    def freeze(self) -> None:
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def thaw(self) -> None:
        self._loop.call_soon_threadsafe(self._flowing.set)

    def kill(self) -> None:
        self._run(self._cut())

    def restart(self) -> None:
        self._run(self._listen())

    def close(self) -> None:
        self.kill()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, step: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(step, self._loop).result(PATIENCE)

    async def _prepare(self) -> None:
        self._flowing = asyncio.Event()
        self._flowing.set()
        await self._listen()

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._join, HOST, self.port)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(HOST, self._target)
        self._writers |= {writer, back}
        ends = [asyncio.ensure_future(self._pump(reader, back)), asyncio.ensure_future(self._pump(there, writer))]
        self._ends += ends
        await asyncio.wait(ends)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(65536):
                await self._flowing.wait()
                writer.write(piece)
                await writer.drain()
        writer.close()

    async def _cut(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for writer in self._writers:
            writer.transport.abort()
        if self._ends:
            await asyncio.wait(self._ends)
        self._writers, self._ends = set(), []
