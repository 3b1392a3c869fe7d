"""The scripts of the Redis store, how they are called, and what the store checks about the server at the start."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from importlib.resources import files
from typing import Any, NamedTuple
from uuid import uuid4

import redis

from goscheduler._drivers.redis import address_of, forget_connections, is_encrypted
from goscheduler.errors import InvalidArgument, StoreUnavailable
from goscheduler.jobstores.redis.rows import as_text
from goscheduler.times import to_micros

OLDEST_SERVER = (6, 2)
#: Versions 1 and 2 kept the runs of a job in other keys, which the first start of this version rewrites. Jobs of
#: version 3 have no facts, which :mod:`.indexing` gives them.
SCHEMA = 4


class Script(NamedTuple):
    """Lua that the server runs."""

    text: str
    digest: str


def _scripts() -> Iterator[tuple[str, Script]]:
    """Yield each step with its script: ``common.lua``, then the file that has the step.

    There are six scripts because a server builds all functions of a script again at each call.
    """
    shared, end = _lua("common.lua"), "local answer = steps[ARGV[1]]()\nfinish()\nreturn answer\n"
    for name in ("jobs.lua", "firing.lua", "notes.lua", "orphans.lua", "reading.lua", "settling.lua"):
        text = "\n".join([shared, _lua(name), end])
        script = Script(text, hashlib.sha1(text.encode("utf-8"), usedforsecurity=False).hexdigest())
        for step in re.findall(r"^function steps\.(\w+)", text, re.MULTILINE):
            yield step, script


def _lua(name: str) -> str:
    return (files("goscheduler.jobstores.redis") / "lua" / name).read_text(encoding="utf-8")


#: Name of a step → its script.
SCRIPTS = dict(_scripts())
#: What programs in other languages run, see the file.
SHOW = _lua("show.lua")


class ScriptClient:
    """Runs the steps of the scripts on one server."""

    def __init__(self, client: Any, prefix: str, server_time: bool) -> None:
        self.client = client
        self.keys = f"{{{prefix}}}:"
        self.sender = uuid4().hex
        self._server_time = server_time
        self._server = ""
        """The run id of the server that answered last."""
        self._replaced = False
        settings = getattr(getattr(client, "connection_pool", None), "connection_kwargs", {})
        self.channel = f"{self.keys}wake:{settings.get('db', 0)}"

    def key(self, name: str) -> str:
        """Return the whole name of a key."""
        return self.keys + name

    def call(self, name: str, now: datetime | None, *arguments: object) -> Any:
        """Run one step, which is atomic, and return its answer as the server sent it."""
        time = "" if self._server_time or now is None else to_micros(now)
        everything = (1, self.keys, name, self.channel, self.sender, time, *arguments)
        try:
            return self._send(SCRIPTS[name], *everything)
        except redis.ResponseError as error:
            if tells_of_replica(error):  # the step did not run, and no step will on this connection
                forget_connections(self.client)
            raise

    def _send(self, script: Script, *everything: object) -> Any:
        try:
            return self.client.evalsha(script.digest, *everything)
        except redis.exceptions.NoScriptError:  # the step did not run; the server now caches the script
            return self.client.eval(script.text, *everything)

    def call_json(self, name: str, now: datetime | None, *arguments: object) -> Any:
        """Run one step, and return its answer, which is JSON."""
        return json.loads(as_text(self.call(name, now, *arguments)))

    def call_text(self, name: str, now: datetime | None, *arguments: object) -> str:
        """Run one step, and return its answer, which is a word."""
        return as_text(self.call(name, now, *arguments))

    @property
    def address(self) -> str:
        """Where the server is, without a password."""
        return address_of(self.client)

    # Who answers

    def look_who_answers(self) -> None:
        """Note whether another server answers than before, or the same one after a restart.

        Clients reconnect silently. A write that the replica had not received, or the server had not saved,
        is lost then.
        """
        before, self._server = self._server, self._who_answers()
        if before != self._server:
            self._replaced = True

    def was_replaced(self) -> bool:
        """Tell, once, whether another server has answered."""
        replaced, self._replaced = self._replaced, False
        return replaced

    def _who_answers(self) -> str:
        node_of = getattr(self.client, "get_node_from_key", None)
        target = {} if node_of is None else {"target_nodes": node_of(self.keys)}
        return str(self.client.info("server", **target).get("run_id", ""))

    # At the start

    def begin(self, logger: logging.Logger) -> None:
        """Check the server, log its unsafe settings, and bring the stored data to this version.

        :raises StoreUnavailable: if no server answers, or if it takes no writes
        """
        with self._problems_told():
            facts = self.client.info()
            self._require_usable(facts)
            self._server = self._who_answers()
            for warning in self.warnings(facts):
                logger.warning("%s", warning)
            answer = self.call_text("adopt", None, SCHEMA)
        if answer == "newer":
            raise RuntimeError(f"A newer goscheduler than this one has written the keys that begin with {self.keys}")
        if answer == "in use":
            raise StoreUnavailable(
                f"Schedulers of an earlier goscheduler use the keys that begin with {self.keys} at {self.address}, and "
                "cannot read what this version writes. Stop them first; this scheduler waits for that"
            )

    def warnings(self, facts: Mapping[str, Any] | None = None) -> list[str]:
        """Return a sentence for each setting of the server that may lose jobs."""
        facts = self.client.info() if facts is None else facts
        return [f"The Redis server at {self.address} {warning}" for warning in unsafe_settings(facts)]

    def _require_usable(self, facts: Mapping[str, Any]) -> None:
        version = tuple(int(part) for part in str(facts.get("redis_version", "0.0")).split(".")[:2])
        if version < OLDEST_SERVER:
            wanted = ".".join(map(str, OLDEST_SERVER))
            found = facts.get("redis_version")
            raise RuntimeError(f"The Redis server at {self.address} is {found}; goscheduler needs {wanted} or newer")
        if facts.get("role") == "slave":
            forget_connections(self.client)
            raise StoreUnavailable(
                f"The Redis server at {self.address} is a replica, which takes no writes. Give the address of the "
                "master, or of Sentinel: redis+sentinel://host:26379/name-of-master/0"
            )

    @contextmanager
    def _problems_told(self) -> Iterator[None]:
        try:
            yield
        except redis.AuthenticationError as error:
            raise InvalidArgument(
                f"The Redis server at {self.address} refuses the password or user name: {error}", field="password"
            ) from None
        except redis.RedisError as error:
            if not is_outage(error):
                raise
            if not isinstance(error, redis.ResponseError):
                told = str(error).rstrip(".")
                raise StoreUnavailable(f"No Redis server answers at {self.address}: {told}. {self._hint}") from error
            forget_connections(self.client)
            raise StoreUnavailable(f"The Redis server at {self.address} takes no writes now: {error}") from error

    @property
    def _hint(self) -> str:
        if is_encrypted(self.client):
            return "Is it running, is the address right, does it speak TLS, and is its certificate trusted?"
        return "Is it running, and is the address right? One that speaks TLS needs rediss:// or ssl=True"


def is_outage(error: BaseException) -> bool:
    """Tell whether no server answers at the moment, or none that takes writes."""
    if isinstance(error, redis.ResponseError):
        return str(error).startswith("NOREPLICAS") or tells_of_replica(error)
    outages = (redis.ConnectionError, redis.TimeoutError, redis.exceptions.BusyLoadingError)
    return isinstance(error, outages) and not isinstance(error, redis.AuthenticationError)


def tells_of_replica(error: redis.ResponseError) -> bool:
    """Tell whether a server has refused a write because it is a replica."""
    # Before version 7 an error inside a script has other first words.
    return isinstance(error, redis.ReadOnlyError) or "-READONLY " in str(error)


def unsafe_settings(facts: Mapping[str, Any]) -> list[str]:
    """Return the settings of a server that may lose jobs."""
    warnings = []
    if not facts.get("aof_enabled"):
        warnings.append("has no append-only file: it loses everything since its last snapshot when it stops "
                        "(set: appendonly yes)")  # fmt: skip
    policy = str(facts.get("maxmemory_policy", "noeviction"))
    if policy.startswith("allkeys"):
        warnings.append(f"evicts keys when its memory is full (maxmemory-policy {policy}): jobs may vanish "
                        "(set: maxmemory-policy noeviction)")  # fmt: skip
    if facts.get("connected_slaves") and "min_slaves_good_slaves" not in facts:
        warnings.append("confirms writes before its replicas have them: a failover loses the latest writes, "
                        "and the latest firings may run again (bound that with: min-replicas-to-write 1)")  # fmt: skip
    return warnings
