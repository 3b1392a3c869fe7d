"""The server that leads is killed for good: another one takes its place, firing goes on, and no job is lost."""

from __future__ import annotations

import os
import socket
import threading
from collections import Counter
from contextlib import closing
from datetime import datetime, timedelta, timezone

import psycopg
import pymysql
import pytest
from cluster import Cluster
from scarce_servers import LEAST
from server_process import HOST, PASSWORD, USER
from topologies import FAILOVERS, failover, few_connections, small_disk
from topology import require, until

pytestmark = [pytest.mark.faults, pytest.mark.serial, pytest.mark.timeout(900)]

PATIENCE = 180
TICKING = [f"tick-{number}" for number in range(4)]
#: Longer than a takeover on a busy machine: no process gives up what it runs.
LEASE = "200"


class Adder(threading.Thread):
    """Adds jobs that are due much later, one after the other, and keeps in mind which were confirmed."""

    def __init__(self, scheduler, load=""):
        super().__init__(daemon=True)
        self._load = load
        self._scheduler = scheduler
        self._stopping = threading.Event()
        self._confirmation = threading.Condition()
        self.confirmed = []
        self.error = None
        self.before_failures = set()
        """Those that were confirmed last before something failed."""

    def run(self):
        later = datetime.now(timezone.utc) + timedelta(days=1)
        number = 0
        while not self._stopping.wait(0.005):
            number += 1
            try:
                self._scheduler.add_job(
                    "cluster_jobs:wait_for", "date", run_date=later, id=f"added-{number}", args=[self._load]
                )
            except Exception as error:
                self.error = error
                self.before_failures.update(self.confirmed[-1:])
                continue
            with self._confirmation:
                self.confirmed.append(f"added-{number}")
                self._confirmation.notify_all()

    def wait_for_more(self, count):
        with self._confirmation:
            enough = len(self.confirmed) + count
            assert self._confirmation.wait_for(lambda: len(self.confirmed) >= enough, PATIENCE), repr(self.error)

    def stop(self):
        self._stopping.set()
        self.join(PATIENCE)
        assert not self.is_alive()


@pytest.fixture
def topology(request, server_folder):
    """Return servers of the kind that the test is parametrised with, started."""
    with closing(failover(request.param, server_folder)) as topology:
        topology.start()
        yield topology


@pytest.mark.parametrize("topology", FAILOVERS, indirect=True)
def test_when_the_leader_is_lost_firing_goes_on_and_no_confirmed_job_is_lost(topology):
    with closing(Cluster(topology.url)) as cluster:
        for _ in range(2):
            cluster.start("--lease", LEASE)
        cluster.wait_until("ready", 2, PATIENCE)
        with cluster.scheduler(lease=float(LEASE)) as scheduler:
            add_ticking_jobs(scheduler)
            adder = Adder(scheduler)
            adder.start()
            goes_on(cluster, adder)
            lose_the_leader(topology)
            goes_on(cluster, adder)
            topology.rejoin()
            lose_the_leader(topology)
            goes_on(cluster, adder)
            adder.stop()
            kept = {job.id for job in scheduler.get_jobs()}
            gone = set(adder.confirmed) - kept
            assert gone <= (set() if topology.keeps_confirmed else adder.before_failures)
            assert set(TICKING) <= kept
        for node in cluster.nodes:
            node.stop()
        if topology.keeps_confirmed:
            assert [fire for fire, times in fires(cluster).items() if times > 1] == []


def lose_the_leader(topology):
    before = until(topology.leader).pid
    topology.fail_over()
    assert until(topology.leader).pid != before


def add_ticking_jobs(scheduler):
    scheduler.add_jobs(
        {"func": "cluster_jobs:work", "trigger": "interval", "seconds": 0.25, "id": name, "max_instances": 1}
        for name in TICKING
    )


def goes_on(cluster, adder):
    """Return when every job has fired several times from now on, in both processes, and when jobs were added."""
    before = len(cluster.said("ran"))
    pids = {str(node.pid) for node in cluster.nodes}

    def enough(lines):
        new = [line for line in lines if line[0] == "ran"][before:]
        often = Counter(line[1] for line in new)
        return all(often[name] >= 4 for name in TICKING) and {line[4] for line in new} == pids

    cluster.wait_for(enough, PATIENCE)
    adder.wait_for_more(20)


def fires(cluster):
    return Counter(line[2] for line in cluster.said("ran"))


@pytest.fixture
def full(request, server_folder):
    """Return a server of the kind that the test is parametrised with, on a small disk, started."""
    with closing(small_disk(request.param, server_folder)) as full:
        full.start()
        yield full


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root can mount a small disk")
@pytest.mark.parametrize("full", LEAST, indirect=True)
def test_a_full_disk_is_told_and_when_there_is_room_again_firing_goes_on_and_no_confirmed_job_is_lost(full):
    with closing(Cluster(full.url)) as cluster:
        for _ in range(2):
            cluster.start("--lease", LEASE)
        cluster.wait_until("ready", 2, PATIENCE)
        with cluster.scheduler(lease=float(LEASE)) as scheduler:
            add_ticking_jobs(scheduler)
            adder = Adder(scheduler, load="x" * 20_000)
            adder.start()
            goes_on(cluster, adder)
            full.fill()
            until(lambda: require(full.saw_no_space() and adder.before_failures, "the disk is not full"))
            full.free()
            goes_on(cluster, adder)
            adder.stop()
            kept = {job.id for job in scheduler.get_jobs()}
            assert set(adder.confirmed) <= kept
            assert set(TICKING) <= kept


@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "redis", "mongodb", "zookeeper"])
def test_a_server_without_a_free_connection_is_waited_for(kind, server_folder):
    """Others take all connections after the start; when they leave, everything goes on."""
    with closing(few_connections(kind, server_folder, 30)) as server:
        server.start()
        url = f"{server.url}/few" if kind == "zookeeper" else server.url
        with closing(Cluster(url)) as cluster:
            cluster.start("--lease", LEASE)
            cluster.wait_until("ready", 1, PATIENCE)
            with cluster.scheduler(lease=float(LEASE)) as scheduler:
                add_ticking_jobs(scheduler)
                cluster.wait_until("ran", 8, PATIENCE)
            with Crowd(server):
                newcomer = cluster.start("--lease", LEASE)
                degraded = ["event", "SCHEDULER_DEGRADED", str(newcomer.pid)]
                cluster.wait_for(lambda lines: degraded in lines, PATIENCE)
            cluster.wait_until("ready", 2, PATIENCE)
            ran = len(cluster.said("ran"))
            cluster.wait_until("ran", ran + 20, PATIENCE)
            for node in cluster.nodes:
                node.stop()


class Crowd:
    """Connections that do nothing, as many as a server takes."""

    def __init__(self, server):
        self._server = server
        self._connections = []

    def __enter__(self):
        """Connect until the server takes no more."""
        self._fill()
        return self

    def _fill(self):
        try:
            while True:
                self._connections.append(connection_to(self._server))
                self._server.ping()
        except Exception as error:  # each driver has its own for it
            self.refusal = error

    def __exit__(self, *exc_info):
        for each in self._connections:
            each.close()


def connection_to(server):
    """Return a connection that the server counts; a SQL server counts those that have logged in."""
    if server.kind == "postgresql":
        return psycopg.connect(server.url.replace("+psycopg", ""), connect_timeout=30)
    if server.kind == "mariadb":
        return pymysql.connect(host=HOST, port=server.port, user=USER, password=PASSWORD, connect_timeout=30)
    return socket.create_connection((HOST, server.port), timeout=30)
