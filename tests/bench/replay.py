"""The raw limit of a server: what a store has sent to it, sent once more by one thread that does nothing else.

A tape has a store, records what that sends while a scheduler uses it, and plays it from the start on empty data.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from pymongo import MongoClient, monitoring


class RedisTape:
    """Records the steps of the script."""

    FIRING = ("take_due", "write_due", "settle")

    def __init__(self, options: Mapping[str, Any]) -> None:
        from goscheduler.jobstores.redis import RedisJobStore

        self.store = RedisJobStore(**options)
        self._steps: list[tuple[Any, ...]] = []
        self._link: Any = self.store._link
        self._send = self._link.step
        self._link.step = self._record

    def _record(self, *step: Any) -> Any:
        self._steps.append(step)
        return self._send(*step)

    def play(self) -> float:
        """Add the jobs again, and return how many seconds firing them takes."""
        records = self._link.client.hlen(self._link.key("records"))
        self._link.client.flushdb()
        for step in self._steps:
            if step[0] == "add_jobs":
                self._send(*step)
        seconds = _timed([partial(self._send, *step) for step in self._steps if step[0] in self.FIRING])
        assert self._link.client.hlen(self._link.key("records")) == records, "not the same has happened"
        return seconds


class MongoTape(monitoring.CommandListener):
    """Records commands, as the driver tells of them."""

    FIRING = ("aggregate", "find", "insert", "update", "delete")
    #: Parts of a command that belong to the connection.
    _LEFT_OUT = ("lsid", "txnNumber", "$clusterTime", "$db", "$readPreference")

    def __init__(self, options: Mapping[str, Any]) -> None:
        from goscheduler.jobstores.mongodb import MongoDBJobStore

        self._server, self._database = options["host"], options["database"]
        self._commands: list[dict[str, Any]] = []
        self.store = MongoDBJobStore(**options, event_listeners=[self])

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if event.command_name in self.FIRING and event.database_name == self._database and not _is_call(event):
            command = {name: part for name, part in event.command.items() if name not in self._LEFT_OUT}
            self._commands.append(command)

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Nothing: what was sent is enough."""

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Nothing, either."""

    def play(self) -> float:
        """Add the jobs again, and return how many seconds firing them takes."""
        jobs = self.store._collections.jobs.name
        adding = [command for command in self._commands if command.get("insert") == jobs]
        firing = [command for command in self._commands if command.get("insert") != jobs]
        for command in firing:
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
            seconds = _timed([partial(database.command, command) for command in firing])
            assert database[f"{jobs}.history"].count_documents({}) == records, "not the same has happened"
        return seconds


def _is_call(event: monitoring.CommandStartedEvent) -> bool:
    """Tell whether a command belongs to the thread that listens for other processes."""
    return str(event.command[event.command_name]).endswith(".calls")


def _timed(calls: list[Any]) -> float:
    begin = time.perf_counter()
    for call in calls:
        call()
    return time.perf_counter() - begin
