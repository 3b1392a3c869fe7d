"""Three servers each of MongoDB, etcd and ZooKeeper, which elect the one that leads."""

from __future__ import annotations

import http.client
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from key_servers import Etcd, MongoDB, ZooKeeper
from server_process import HOST, Server, free_port
from topology import Topology, require, start_together, until

SIZE = 3


class Ensemble(Topology):
    """An odd number of servers, of which a majority decides."""

    members: Sequence[Server]

    @property
    def servers(self) -> Sequence[Server]:
        return self.members

    @property
    def places(self) -> str:
        return ",".join(f"{HOST}:{member.port}" for member in self.members)

    @property
    def alive(self) -> list[Server]:
        return [member for member in self.members if member not in self.lost]

    def start(self) -> None:
        start_together(self.members)
        until(self.write)

    def leader(self) -> Server:
        for member in self.alive:
            if self.leads(member):
                return member
        raise RuntimeError("nobody leads")

    def leads(self, member: Server) -> bool:
        """Tell whether a member that is alive leads.

        :raises Exception: if it cannot be asked
        """
        raise NotImplementedError

    def rejoin(self) -> None:
        start_together(self.lost)
        self.lost.clear()
        until(self.has_all)
        until(self.write)

    def has_all(self) -> None:
        """Raise unless all members follow the leader."""
        require(sum(self.leads(member) for member in self.members) == 1, "not one of them leads")


class MongoDBMember(MongoDB):
    """One of several servers of a set; it is told about the others when all of them are there."""

    def settle(self) -> None:
        """Nothing: the set is begun by its first member."""


class MongoDBSet(Ensemble):
    """A replica set of three."""

    kind = "mongodb"

    _QUICK = {"electionTimeoutMillis": 1000, "heartbeatIntervalMillis": 200}  # noqa: RUF012

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.members = [MongoDBMember(folder / f"mongodb-{number}") for number in range(SIZE)]

    @property
    def url(self) -> str:
        return f"mongodb://{self.places}/failover?replicaSet={MongoDB._SET}"

    def start(self) -> None:
        start_together(self.members)
        wanted = [{"_id": number, "host": f"{HOST}:{member.port}"} for number, member in enumerate(self.members)]
        self._ask(self.members[0], "replSetInitiate", {"_id": MongoDB._SET, "members": wanted, "settings": self._QUICK})
        until(self.has_all)
        until(self.write)

    def leads(self, member: Server) -> bool:
        return bool(self._ask(member, "hello")["isWritablePrimary"])

    def has_all(self) -> None:
        states = sorted(each["stateStr"] for each in self._ask(self.leader(), "replSetGetStatus")["members"])
        require(states == ["PRIMARY", "SECONDARY", "SECONDARY"], f"they are {states}")

    def write(self) -> None:
        import pymongo

        with pymongo.MongoClient(self.url, w="majority", serverSelectionTimeoutMS=2000, timeoutMS=5000) as client:
            client["probes"]["probe"].insert_one({})

    def _ask(self, member: Server, command: str, *arguments: Any) -> dict[str, Any]:
        with member._client() as client:  # type: ignore[attr-defined]
            return client.admin.command(command, *arguments)  # type: ignore[no-any-return]


class EtcdEnsemble(Ensemble):
    """An etcd cluster of three."""

    kind = "etcd"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.members = members = [Etcd(folder / f"etcd-{number}") for number in range(SIZE)]
        cluster = ",".join(f"{each.folder.name}=http://{HOST}:{each._peer_port}" for each in members)
        for each in members:  # these come after the options of an etcd that is alone, and so count
            each.options = ("--name", each.folder.name, "--initial-cluster", cluster, "--initial-cluster-state", "new")

    @property
    def url(self) -> str:
        return f"etcd://{self.places}/failover"

    def leads(self, member: Server) -> bool:
        told = self._post(member, "maintenance/status", {})
        return bool(told["leader"] == told["header"]["member_id"])

    def write(self) -> None:
        for member in self.alive:
            self._post(member, "kv/put", {"key": "cHJvYmU=", "value": ""})

    def _post(self, member: Server, path: str, payload: dict[str, Any]) -> Any:
        connection = http.client.HTTPConnection(HOST, member.port, timeout=2)
        try:
            connection.request("POST", f"/v3/{path}", json.dumps(payload))
            response = connection.getresponse()
            answer = json.load(response)
            require(response.status == http.client.OK, str(answer))
            return answer
        finally:
            connection.close()


class ZooKeeperMember(ZooKeeper):
    """One of several servers of an ensemble."""

    number: int
    lines: dict[str, object]

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.address = f"{HOST}:{free_port()}:{free_port()}"

    def prepare(self) -> None:
        super().prepare()
        (self.folder / "data").mkdir()
        (self.folder / "data" / "myid").write_text(str(self.number))

    def settings(self) -> dict[str, object]:
        # In ticks; a follower that is slow on a busy machine is not given up, one that is killed is noticed at once.
        return {**super().settings(), "initLimit": 100, "syncLimit": 50, **self.lines}


class ZooKeeperEnsemble(Ensemble):
    """A ZooKeeper ensemble of three."""

    kind = "zookeeper"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.members = members = [ZooKeeperMember(folder / f"zookeeper-{number}") for number in range(SIZE)]
        for number, each in enumerate(members, 1):
            each.number = number
            each.lines = {f"server.{other}": place.address for other, place in enumerate(members, 1)}

    @property
    def url(self) -> str:
        return f"zookeeper://{self.places}/failover"

    def leads(self, member: Server) -> bool:
        assert isinstance(member, ZooKeeperMember)
        return member.mode() == "leader"

    def write(self) -> None:
        from kazoo.client import KazooClient

        client = KazooClient(",".join(f"{HOST}:{member.port}" for member in self.alive), timeout=4)
        client.start(timeout=5)
        try:
            client.ensure_path("/probe")
            client.set("/probe", b"")
        finally:
            client.stop()
            client.close()
