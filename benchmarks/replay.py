"""The raw limit of a server: what a store has sent to it, sent once more by one thread that does nothing else.

A tape has a store, records what that sends while a scheduler uses it, and plays it from the start on empty data.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from pymongo import MongoClient, monitoring
from pymongo.write_concern import WriteConcern


class RedisTape:
    """Records the steps of the script."""

    FIRING = ("take_due", "write_due", "settle")

    def __init__(self, options: Mapping[str, Any]) -> None:
        from goscheduler.jobstores.redis import RedisJobStore

        self.store = RedisJobStore(**options)
        self._steps: list[tuple[Any, ...]] = []
        self._scripts: Any = self.store._scripts
        self._send = self._scripts.call
        self._scripts.call = self._record

    def _record(self, *step: Any) -> Any:
        self._steps.append(step)
        return self._send(*step)

    def play(self) -> float:
        """Add the jobs again, and return how many seconds firing them takes."""
        records = self._scripts.client.hlen(self._scripts.key("records"))
        self._scripts.client.flushdb()
        for step in self._steps:
            if step[0] == "add_jobs":
                self._send(*step)
        seconds = _timed([partial(self._send, *step) for step in self._steps if step[0] in self.FIRING])
        assert self._scripts.client.hlen(self._scripts.key("records")) == records, "not the same has happened"
        return seconds


class MongoTape(monitoring.CommandListener):
    """Records commands, as the driver tells of them."""

    FIRING = ("aggregate", "find", "insert", "update", "delete", "commitTransaction")
    #: Parts of a command that belong to the connection or the transaction.
    _LEFT_OUT = ("lsid", "txnNumber", "autocommit", "$clusterTime", "$db", "$readPreference")

    def __init__(self, options: Mapping[str, Any]) -> None:
        from goscheduler.jobstores.mongodb import MongoDBJobStore

        self._server, self._database = options["host"], options["database"]
        self._commands: list[tuple[Any, dict[str, Any]]] = []
        """Which session a command was sent in, if it is part of a transaction, and the command."""
        self.store = MongoDBJobStore(**options, event_listeners=[self])

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if event.command_name in self.FIRING and not _is_call(event):
            command = {name: part for name, part in event.command.items() if name not in self._LEFT_OUT}
            self._commands.append((event.command["lsid"]["id"] if "autocommit" in event.command else None, command))

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Nothing: what was sent is enough."""

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Nothing, either."""

    def play(self) -> float:
        """Add the jobs again, and return how many seconds firing them takes."""
        jobs = self.store._collections.jobs.name
        adding = [command for session, command in self._commands if session is None and command.get("insert") == jobs]
        firing = [step for step in self._commands if step[0] is not None or step[1].get("insert") != jobs]
        for _, command in firing:
            if "cursor" in command:
                command["cursor"] = {"batchSize": 10_000}  # all of it, where the store had asked for more in turn
        client: MongoClient[dict[str, Any]] = MongoClient(self._server)
        with client:
            database = client[self._database]
            records = database[f"{jobs}.history"].count_documents({})
            for name in database.list_collection_names():
                if not name.endswith((".meta", ".calls")):
                    database[name].delete_many({})
            for command in adding:
                database.command(command)
            player = _Player(database)
            seconds = _timed([partial(player.play, *step) for step in firing])
            assert database[f"{jobs}.history"].count_documents({}) == records, "not the same has happened"
        return seconds


class _Player:
    """Sends commands, those of a transaction in a session as they were."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self._sessions: dict[Any, Any] = {}

    def play(self, place: Any, command: dict[str, Any]) -> None:
        if place is not None and place not in self._sessions:
            self._sessions[place] = self._database.client.start_session()
        session = self._sessions.get(place)
        if command.pop("startTransaction", False):
            session.start_transaction(write_concern=WriteConcern("majority", j=True))
        if "commitTransaction" in command:
            session.commit_transaction()
        else:
            self._database.command(command, session=session)


def _is_call(event: monitoring.CommandStartedEvent) -> bool:
    """Tell whether a command belongs to the thread that listens for other processes."""
    return str(event.command[event.command_name]).endswith(".calls")


def _timed(calls: list[Any]) -> float:
    begin = time.perf_counter()
    for call in calls:
        call()
    return time.perf_counter() - begin
