"""Calls an ASGI application as a server does, with the bytes of path, peer and headers as a test gives them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from itertools import chain
from typing import Any
from urllib.parse import unquote

HERE = ("127.0.0.1", 50000)


class Answer:
    """What an application has answered."""

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        self.status = status
        self.headers = {name.decode().lower(): value.decode() for name, value in headers}
        self.body = body

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"<{self.status} {self.text[:500]}>"


class AsgiClient:
    """Makes requests to one application."""

    def __init__(
        self, app: Any, *, peer: tuple[str, int] | None = HERE, host: str = "localhost:8180", scheme: str = "http",
        root_path: str = "", **headers: str,
    ) -> None:  # fmt: skip
        self._app = app
        self._peer, self._host, self._scheme, self._root = peer, host, scheme, root_path
        self._headers = headers

    def request(
        self, method: str, target: str, *, json_body: Any = None, body: bytes = b"",
        parts: Iterable[bytes] | None = None, raw_headers: list[tuple[bytes, bytes]] | None = None, **headers: str,
    ) -> Answer:  # fmt: skip
        """Return the answer to a request; underscores in names of headers stand for hyphens."""
        if json_body is not None:
            body, headers = json.dumps(json_body).encode(), {"content_type": "application/json", **headers}
        named = {"host": self._host, **self._headers, **headers}
        listed = [
            (name.replace("_", "-").lower().encode(), value.encode("latin-1"))
            for name, value in named.items()
            if value
        ]
        scope = self._scope(method, target, listed + (raw_headers or []))
        return asyncio.run(self._call(scope, [body] if parts is None else parts))

    def get(self, target: str, **headers: str) -> Answer:
        return self.request("GET", target, **headers)

    def post(self, target: str, json_body: Any = None, **headers: str) -> Answer:
        return self.request("POST", target, json_body={} if json_body is None else json_body, **headers)

    def _scope(self, method: str, target: str, headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
        raw, _, query = target.partition("?")
        return {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
            "scheme": self._scheme, "path": self._root + unquote(raw), "raw_path": (self._root + raw).encode(),
            "query_string": query.encode("latin-1"), "root_path": self._root, "headers": headers,
            "client": self._peer, "server": ("127.0.0.1", 8180),
        }  # fmt: skip

    async def _call(self, scope: dict[str, Any], parts: Iterable[bytes]) -> Answer:
        asked = ({"type": "http.request", "body": part, "more_body": True} for part in parts)
        waiting = chain(asked, [{"type": "http.request", "body": b"", "more_body": False}])
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return next(waiting, {"type": "http.disconnect"})

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        start = sent[0]
        body = b"".join(message.get("body", b"") for message in sent[1:])
        return Answer(start["status"], list(start["headers"]), body)
