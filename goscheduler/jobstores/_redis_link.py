"""The connection of the Redis store: how it is made, how steps are sent, what is asked of the server at the start.

A client never sends anything twice by itself: what was sent and not answered may have been done. A call that gets no
answer is given up after :data:`ANSWER_WITHIN` seconds, a quarter of a lease.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from datetime import datetime
from importlib.resources import files
from typing import Any
from uuid import uuid4

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from goscheduler.errors import InvalidArgument, StoreUnavailable, shown
from goscheduler.jobstores._redis_rows import as_text
from goscheduler.times import instant

CONNECT_WITHIN = 5.0
ANSWER_WITHIN = 7.0
OLDEST_SERVER = (6, 2)
SCHEMA = 1
LONGEST_PREFIX = 200

SCRIPT = "\n".join(
    files("goscheduler.jobstores").joinpath(name).read_text(encoding="utf-8")
    for name in ("_redis.lua", "_redis_firing.lua", "_redis_settling.lua")
)
DIGEST = hashlib.sha1(SCRIPT.encode("utf-8"), usedforsecurity=False).hexdigest()

#: Errors of a connection, after which nobody knows whether a step was done.
LOST = (redis.ConnectionError, redis.TimeoutError)

#: Kept within arm's length of the client's own defaults, which try again for a minute, and send twice.
_SAFE: Mapping[str, Any] = {
    "socket_connect_timeout": CONNECT_WITHIN,
    "socket_timeout": ANSWER_WITHIN,
    "socket_keepalive": True,
}


def make_client(url: str | None, options: Mapping[str, Any]) -> Any:
    """Return a client that gives up in time and never sends anything twice."""
    settings = {**_SAFE, **options, "retry": Retry(NoBackoff(), 0), "decode_responses": False}
    if url is None:
        return redis.Redis(**settings)
    try:
        return redis.Redis.from_url(url, **settings)
    except (ValueError, TypeError):
        # The address itself is not told: it may hold a password.
        raise InvalidArgument("url must be an address such as redis://localhost:6379/0", field="url") from None


def check_prefix(value: Any) -> str:
    """Return what all keys begin with, or raise."""
    if not isinstance(value, str) or not value or len(value) > LONGEST_PREFIX:
        raise _refused(f"a nonempty string of at most {LONGEST_PREFIX} characters", value)
    if not value.isprintable() or "{" in value or "}" in value:
        raise _refused("printable and without braces", value)
    return value


def _refused(what: str, value: object) -> InvalidArgument:
    return InvalidArgument(f"prefix must be {what}, got {shown(value)}", field="prefix", value=value)


class Link:
    """Sends steps to one server."""

    def __init__(self, client: Any, prefix: str, server_time: bool) -> None:
        self.client = client
        self.keys = f"{{{prefix}}}:"
        self.sender = uuid4().hex
        self._server_time = server_time
        self._settings = getattr(getattr(client, "connection_pool", None), "connection_kwargs", {})
        self.channel = f"{self.keys}wake:{self._settings.get('db', 0)}"

    def key(self, name: str) -> str:
        """Return the whole name of a key."""
        return self.keys + name

    def step(self, name: str, now: datetime | None, *arguments: object) -> Any:
        """Take one atomic step of ``_redis.lua``, and return its answer as it came."""
        time = "" if self._server_time or now is None else instant(now)
        everything = (1, self.keys, name, self.channel, self.sender, time, *arguments)
        try:
            return self.client.evalsha(DIGEST, *everything)
        except redis.exceptions.NoScriptError:  # nothing was done; the server keeps the script from now on
            return self.client.eval(SCRIPT, *everything)

    def ask(self, name: str, now: datetime | None, *arguments: object) -> Any:
        """Take one atomic step, and return its answer, which is JSON."""
        return json.loads(as_text(self.step(name, now, *arguments)))

    def say(self, name: str, now: datetime | None, *arguments: object) -> str:
        """Take one atomic step, and return its answer, which is a word."""
        return as_text(self.step(name, now, *arguments))

    @property
    def address(self) -> str:
        """Where the server is, without a password."""
        settings = self._settings
        if "path" in settings:
            return str(settings["path"])
        return f"{settings.get('host', 'localhost')}:{settings.get('port', 6379)}/{settings.get('db', 0)}"

    # At the start

    def begin(self, logger: logging.Logger) -> None:
        """Make sure that there is a server that can be used, and tell what is unsafe about it.

        :raises StoreUnavailable: if none answers now
        """
        facts = self._facts()
        version = tuple(int(part) for part in str(facts.get("redis_version", "0.0")).split(".")[:2])
        if version < OLDEST_SERVER:
            wanted = ".".join(map(str, OLDEST_SERVER))
            found = facts.get("redis_version")
            raise RuntimeError(f"The Redis server at {self.address} is {found}; goscheduler needs {wanted} or newer")
        for warning in unsafe_settings(facts):
            logger.warning("The Redis server at %s %s", self.address, warning)
        self.client.hsetnx(self.key("meta"), "schema", SCHEMA)
        schema = int(as_text(self.client.hget(self.key("meta"), "schema")))
        if schema > SCHEMA:
            raise RuntimeError(f"What is under {self.keys} was written by a newer goscheduler (schema {schema})")

    def _facts(self) -> Mapping[str, Any]:
        try:
            facts: Mapping[str, Any] = self.client.info()
            return facts
        except redis.AuthenticationError as error:
            raise InvalidArgument(
                f"The Redis server at {self.address} refuses the password or user name: {error}", field="password"
            ) from None
        except (*LOST, redis.exceptions.BusyLoadingError) as error:
            raise StoreUnavailable(
                f"No Redis server answers at {self.address}: {error}. Is it running, and is the address right?"
            ) from error


def unsafe_settings(facts: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a server that is to keep jobs."""
    warnings = []
    if not facts.get("aof_enabled"):
        warnings.append("has no append-only file: what was added since its last snapshot is lost when it stops "
                        "(set: appendonly yes)")  # fmt: skip
    policy = str(facts.get("maxmemory_policy", "noeviction"))
    if policy.startswith("allkeys"):
        warnings.append(f"throws keys away when its memory is full (maxmemory-policy {policy}): jobs may vanish "
                        "(set: maxmemory-policy noeviction)")  # fmt: skip
    return warnings
