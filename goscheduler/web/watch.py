"""What changes, told to browsers as it happens: ``/v1/events?topics=overview,job:x``.

An event says that something is different, and not what: the page reads again what it shows, with the rights of whoever
looks. Each topic is looked at once every two seconds in a process, however many watch it, and only while some do.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from goscheduler.errors import InvalidArgument, shown
from goscheduler.logs import guarded_logger
from goscheduler.ops.access import Principal, Role
from goscheduler.ops.errors import NotFound, TooMany, kind_of
from goscheduler.ops.registry import OPERATIONS
from goscheduler.ops.service import Operations
from goscheduler.web.arguments import query_of
from goscheduler.web.paths import Template
from goscheduler.web.site import Site, principal_of, site_of

_logger = guarded_logger("goscheduler.web")

MOST_STREAMS, MOST_TOPICS = 50, 20
LOOK_EVERY, COMMENT_EVERY, ENDS_AFTER = 2.0, 15.0, 900.0
RETRY_MILLISECONDS = 3000
STREAM_TYPE = "text/event-stream"
#: How long a stream may not know that its server is about to end.
NOTICE_EVERY = 0.5

#: Topic → the operation whose answer is looked at, and with what. A topic with an id is followed by a colon and that.
TOPICS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "overview": ("overview", {}), "jobs": ("find_jobs", {"limit": 200}), "runs": ("find_runs", {"limit": 1}),
    "live": ("live_runs", {}), "dead": ("find_letters", {"limit": 1}), "limits": ("limits", {}),
    "processes": ("processes", {}), "messages": ("messages", {"limit": 200}), "locks": ("locks", {}),
    "audit": ("audit", {"limit": 1}), "bulk": ("bulks", {"limit": 20}), "alerts": ("alerts", {}),
    "documents": ("documents", {}), "schedules": ("schedules", {}),
}  # fmt: skip
TOPICS_OF_ONE = {"job": "job", "run": "run", "bulk": "bulk", "message": "message", "letter": "letter"}
#: Whoever looks for all that watch.
LOOKER = Principal("goscheduler", Role.ADMIN)
#: What is different at each look although nothing has happened.
RESTLESS = frozenset({"reported_at", "expires_at", "checked_at"})


def look_of(topic: str) -> tuple[str, Mapping[str, Any]]:
    """Return the operation whose answer shows whether a topic has changed, and its arguments.

    :raises InvalidArgument: if there is no such topic
    """
    name, colon, of = topic.partition(":")
    operation, arguments = (TOPICS_OF_ONE.get(name, ""), {"id": of}) if colon else TOPICS.get(name, ("", {}))
    if operation not in OPERATIONS or (colon and not of):
        known = ", ".join([*TOPICS, *(f"{each}:ID" for each in TOPICS_OF_ONE)])
        raise InvalidArgument(f"topics: there is no topic {shown(topic)}; there are: {known}", field="topics")
    return operation, arguments


def fingerprint(operations: Operations, topic: str, principal: Principal = LOOKER) -> str:
    """Return what is the same as long as nothing of a topic has changed."""
    operation, arguments = look_of(topic)
    found = operations.call(operation, principal, arguments, via="http", anew=True)
    text = json.dumps(_restful(found), sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _restful(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _restful(item) for name, item in value.items() if name not in RESTLESS}
    return [_restful(item) for item in value] if isinstance(value, list) else value


class Stream:
    """The topics of one browser that have changed and of which it was not told yet."""

    def __init__(self, topics: list[str]) -> None:
        self.topics = topics
        self._changed: dict[str, int] = {}
        self._woken = asyncio.Event()
        self.is_left = False
        """Whether the browser has gone away."""

    def leave(self) -> None:
        """Note that the browser has gone away."""
        self.is_left = True
        self._woken.set()

    def tell(self, topic: str, version: int) -> None:
        """Note that a topic has changed."""
        if topic in self.topics:
            self._changed[topic] = version
            self._woken.set()

    async def changes(self, timeout: float) -> dict[str, int]:
        """Return what has changed, as soon as something has; nothing after so many seconds."""
        try:
            await asyncio.wait_for(self._woken.wait(), timeout)
        except asyncio.TimeoutError:  # the built-in one from Python 3.11 on
            return {}
        self._woken.clear()
        changed, self._changed = self._changed, {}
        return changed


class Watch:
    """Looks at topics for the streams of one site."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._streams: set[Stream] = set()
        self._seen: dict[str, str] = {}
        self._versions: dict[str, int] = {}
        self._looking: asyncio.Task[None] | None = None

    def open(self, topics: list[str]) -> Stream:
        """Return a stream of what changes from now on.

        :raises TooMany: if there are many already
        """
        if len(self._streams) >= MOST_STREAMS:
            raise TooMany(f"{MOST_STREAMS} streams are open: read the page again from time to time instead")
        stream = Stream(topics)
        self._streams.add(stream)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look_until_nobody_watches())
        return stream

    def close(self, stream: Stream) -> None:
        """End a stream."""
        self._streams.discard(stream)
        watched = {topic for each in self._streams for topic in each.topics}
        for topic in self._seen.keys() - watched:
            del self._seen[topic]
            self._versions.pop(topic, None)

    async def _look_until_nobody_watches(self) -> None:
        while self._streams:
            for topic in sorted({topic for stream in self._streams for topic in stream.topics}):
                await self._look(topic)
            await asyncio.sleep(LOOK_EVERY)

    async def _look(self, topic: str) -> None:
        try:
            seen = await self._site.run(fingerprint, self._site.operations, topic)
        except Exception as error:
            seen = f"error {kind_of(error).name}"
            _logger.debug("Topic %s cannot be looked at; this is tried again: %s", topic, error)
        before = self._seen.get(topic)
        self._seen[topic] = seen
        if before not in (None, seen):
            self._site.operations.forget()  # or a page would read again what was there before
            self._versions[topic] = self._versions.get(topic, 0) + 1
            for stream in self._streams:
                stream.tell(topic, self._versions[topic])


class EventsEndpoint:
    """Answers with a stream of events."""

    method = "GET"
    template = Template("/v1/events")

    def __init__(self, site: Site) -> None:
        self._watch = Watch(site)

    async def answer(self, request: Request, places: Mapping[str, str]) -> Response:
        site = site_of(request)
        if not site.streams:
            raise NotFound("there are no streams here: read again from time to time")
        topics = _topics(query_of(request))
        await site.run(_require, site, principal_of(request), topics)
        if request.method == "HEAD":
            return Response(media_type=STREAM_TYPE)
        stream = self._watch.open(topics)
        return _EventStream(self._events(request, stream), self._watch, stream)

    async def _events(self, request: Request, stream: Stream) -> AsyncIterator[str]:
        clock = site_of(request).source.scheduler.clock
        begun = told = clock.monotonic()
        yield f"retry: {RETRY_MILLISECONDS}\n\n"
        if "last-event-id" in request.headers:  # something may have happened while nobody listened
            yield "".join(_event(topic, 0) for topic in stream.topics)
        while not stream.is_left and not server_is_ending() and (now := clock.monotonic()) - begun < ENDS_AFTER:
            changes = await stream.changes(NOTICE_EVERY)
            if changes:
                yield "".join(_event(topic, version) for topic, version in changes.items())
            elif now - told >= COMMENT_EVERY:
                yield ": here\n\n"
            else:
                continue
            told = now


class _EventStream(Response):
    """A stream that ends when the browser goes away."""

    def __init__(self, events: AsyncIterator[str], watch: Watch, stream: Stream) -> None:
        super().__init__(media_type=STREAM_TYPE, headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events, self._watch, self._stream = events, watch, stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        listening = asyncio.create_task(self._listen(receive))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for text in self._events:
                await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except OSError:
            _logger.debug("Stream of events has lost its browser; it is closed")
        finally:
            listening.cancel()
            self._watch.close(self._stream)

    async def _listen(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            continue
        self._stream.leave()


def server_is_ending() -> bool:
    """Tell whether uvicorn was told to end: it waits for every answer, and tells none of them."""
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return bool(getattr(server, "should_exit", False))


def _event(topic: str, version: int) -> str:
    return f"id: {version}\ndata: {json.dumps({'topic': topic, 'version': version})}\n\n"


def _topics(query: Mapping[str, list[str]]) -> list[str]:
    """Return the topics that are asked for; a comma separates them, and one of an id is encoded."""
    given = ",".join(query.get("topics", []))
    topics = list(dict.fromkeys(unquote(topic) for topic in given.split(",") if topic))
    if not 1 <= len(topics) <= MOST_TOPICS:
        raise InvalidArgument(f"topics must be 1 to {MOST_TOPICS} topics, got {len(topics)}", field="topics")
    return topics


def _require(site: Site, principal: Principal, topics: list[str]) -> None:
    """Refuse who may not see what a topic is about."""
    for topic in topics:
        operation, arguments = look_of(topic)
        known = OPERATIONS[operation]
        principal.require(known.role)
        if known.whole:
            principal.require_all()
        if arguments.get("id") and not principal.sees_all:
            site.operations.call(operation, principal, arguments, via="http")
