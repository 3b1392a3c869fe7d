"""Redis as it is run in production: replicas and Sentinel, and TLS."""

from __future__ import annotations

import math
import os
import subprocess
import threading
from collections import Counter
from contextlib import closing, suppress
from datetime import datetime, timedelta, timezone
from shutil import which

import pytest
import redis
import redis_jobs
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelConnectionPool
from server_process import free_port

from goscheduler import BackgroundScheduler
from goscheduler._drivers.redis import ANSWER_WITHIN, SENTINEL_WITHIN, Sentinels, make_client
from goscheduler.clock import SYSTEM_CLOCK, Deadline
from goscheduler.errors import InvalidArgument, StoreUnavailable, TransportUnavailable
from goscheduler.events import EVENT_SCHEDULER_DEGRADED, EVENT_SCHEDULER_RECOVERED
from goscheduler.jobstores.redis import RedisJobStore
from goscheduler.jobstores.redis.scripts import SCRIPTS, tells_of_replica
from goscheduler.locks import acquire
from goscheduler.locks._find import close_connections
from goscheduler.runs.records import HistoryQuery
from goscheduler.runs.transitions import asked_for
from goscheduler.testing.contract import NOW, Requests, succeeded
from goscheduler.testing.scheduler import ManualScheduler
from goscheduler.transports.base import Delivery
from goscheduler.transports.registry import create_transport

FULL = bool(os.environ.get("GOSCHEDULER_FULL"))
#: How soon jobs run again when a server is back; only a machine that does nothing else can be held to that.
MOST_SECONDS = 5 if FULL else 120
QUICK_REPLICATION = ("--repl-diskless-sync-delay", "0")
#: As users write it, to be seen nowhere.
SECRET = "hunter2"


class TestAddressesOfSentinel:
    def test_the_master_and_all_sentinels_are_read(self):
        client = make_client("redis+sentinel://ann:s%40crt@one,two:5000,[::1]:7/main/3?client_name=me", {})
        pool = client.connection_pool
        assert isinstance(pool, SentinelConnectionPool)
        assert pool.service_name == "main"
        told = {"username": "ann", "password": "s@crt", "db": 3, "client_name": "me", "socket_timeout": ANSWER_WITHIN}
        assert told.items() <= pool.connection_kwargs.items()
        assert places(pool) == [("one", 26379), ("two", 5000), ("::1", 7)]
        assert all(seconds == SENTINEL_WITHIN for seconds in asked_within(pool))

    def test_the_sentinels_have_a_login_and_deadlines_of_their_own(self):
        url = "redis+sentinel://:a@one/main?sentinel_username=s&sentinel_password=b&sentinel_socket_timeout=0.3"
        pool = make_client(url, {}).connection_pool
        (sentinel,) = pool.sentinel_manager.sentinels
        settings = sentinel.connection_pool.connection_kwargs
        assert (pool.connection_kwargs["password"], pool.connection_kwargs["db"]) == ("a", 0)
        assert (settings["username"], settings["password"], settings["socket_timeout"]) == ("s", "b", 0.3)

    def test_one_ca_serves_the_master_and_the_sentinels(self, tmp_path):
        (tmp_path / "ca.pem").touch()
        pool = make_client(f"rediss+sentinel://one/main/0?ssl_ca_certs={tmp_path}/ca.pem", {}).connection_pool
        (sentinel,) = pool.sentinel_manager.sentinels
        for each in (pool, sentinel.connection_pool):
            assert issubclass(each.connection_class, redis.SSLConnection)
            assert each.connection_kwargs["ssl_ca_certs"] == f"{tmp_path}/ca.pem"

    @pytest.mark.parametrize("url", [
        "redis+sentinel://one:26379", "redis+sentinel://one:26379/", "redis+sentinel:///main",
        "redis+sentinel://one:port/main", "redis+sentinel://one,/main", "redis+sentinel://one:1/main/x",
        "redis+sentinel://one:1/main/0?socket_timeout=soon", "unix+sentinel://one/main", "redis+other://one/main", 7,
    ])  # fmt: skip
    def test_what_is_no_address_is_refused_without_being_told(self, url):
        url = url.replace("//", f"//:{SECRET}@") if isinstance(url, str) else url
        with pytest.raises(InvalidArgument, match="url must be an address") as caught:
            RedisJobStore(url=url)
        assert SECRET not in str(caught.value)

    @pytest.mark.parametrize(("url", "told"), [
        ("redis://one/0?colour=red", "colour"),
        ("redis+sentinel://one/main?colour=red", "colour"),
        ("redis://one/0?ssl_ca_certs=/nowhere/ca.pem", "ssl_ca_certs must be a file"),
        ("rediss://one/0?ssl_ca_certs=/nowhere/ca.pem", "ssl_ca_certs must be a file"),
        ("rediss://one/0?ssl_cert_reqs=perhaps", "perhaps"),
    ])  # fmt: skip
    def test_an_option_that_makes_no_sense_is_told_at_once(self, url, told):
        with pytest.raises(InvalidArgument, match=told):
            RedisJobStore(url=url)

    @pytest.mark.parametrize("url", [
        "redis://one/0?retry=3&retry_on_timeout=true&decode_responses=true", "redis://one/0?retry_on_error=any",
        "redis+sentinel://one/main?retry=3&retry_on_timeout=true&sentinel_retry=3",
    ])  # fmt: skip
    def test_no_address_makes_a_client_send_twice(self, url):
        pool = make_client(url, {}).connection_pool
        sentinels = getattr(getattr(pool, "sentinel_manager", None), "sentinels", [])
        for each in (pool, *(sentinel.connection_pool for sentinel in sentinels)):
            assert each.connection_class(**each.connection_kwargs).retry.get_retries() == 0

    def test_sentinels_that_cannot_be_asked_are_told_without_their_passwords(self, opened):
        url = f"redis+sentinel://:{SECRET}@127.0.0.1:1,127.0.0.1:2/main/0?sentinel_password={SECRET}"
        with pytest.raises(StoreUnavailable, match=r"no Sentinel knows .*127\.0\.0\.1:2: Error 111") as caught:
            opened(RedisJobStore(url=url))
        assert SECRET not in f"{caught.value}"
        assert len(str(caught.value)) < 500

    def test_threads_that_ask_at_once_lose_no_sentinel(self):
        sentinels = Sentinels([("one", 1), ("two", 2), ("three", 3)])
        both_know = threading.Barrier(2)

        def masters():
            both_know.wait(60)
            return {"main": {"is_master": True, "is_sdown": False, "is_odown": False, "ip": "four", "port": 4,
                             "num-other-sentinels": 2}}  # fmt: skip

        for place, sentinel in enumerate(sentinels.sentinels):
            sentinel.sentinel_masters = masters if place == 2 else dict
        threads = [threading.Thread(target=sentinels.discover_master, args=("main",)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len({id(sentinel) for sentinel in sentinels.sentinels}) == 3
        assert sentinels.sentinels[0].sentinel_masters is masters


def places(pool):
    return [(at["host"], at["port"]) for at in settings_of_sentinels(pool)]


def asked_within(pool):
    return [at[name] for at in settings_of_sentinels(pool) for name in ("socket_timeout", "socket_connect_timeout")]


def settings_of_sentinels(pool):
    return [each.connection_pool.connection_kwargs for each in pool.sentinel_manager.sentinels]


class TestReadyClients:
    def test_one_that_sends_nothing_twice_and_does_not_wait_for_ever_is_used_itself(self):
        with redis.Redis(retry=Retry(NoBackoff(), 0), socket_timeout=3) as client:
            assert RedisJobStore(client=client)._scripts.client is client

    @pytest.mark.parametrize("options", [
        {"retry": Retry(NoBackoff(), 3)},
        {"retry": Retry(NoBackoff(), 0), "socket_timeout": None},
        {"retry": Retry(NoBackoff(), 0), "socket_connect_timeout": None, "socket_timeout": None},
        {"connection_pool": redis.BlockingConnectionPool(db=4, retry=Retry(NoBackoff(), 2))},
    ])  # fmt: skip
    def test_another_one_lends_its_settings(self, options):
        with redis.Redis(db=4, **options) as client:
            store = RedisJobStore(client=client)
            assert store.redis is client
            pool = store._scripts.client.connection_pool
            connection = pool.connection_class(**pool.connection_kwargs)
            assert connection.db == 4
            assert connection.retry.get_retries() == 0
            assert 0 < connection.socket_timeout <= ANSWER_WITHIN
            assert 0 < connection.socket_connect_timeout <= ANSWER_WITHIN

    def test_one_of_sentinel_asks_each_of_them_once_and_for_a_short_time(self):
        given = Sentinel([("one", 1), ("two", 2)], sentinel_kwargs={"password": "p", "socket_timeout": 60})
        store = RedisJobStore(client=given.master_for("main", db=2, password="q", socket_timeout=None))
        pool = store._scripts.client.connection_pool
        assert (pool.service_name, pool.connection_kwargs["db"], pool.connection_kwargs["password"]) == ("main", 2, "q")
        assert pool.connection_kwargs["socket_timeout"] == ANSWER_WITHIN
        assert places(pool) == [("one", 1), ("two", 2)]
        assert all(seconds == SENTINEL_WITHIN for seconds in asked_within(pool))
        assert all(at["retry"].get_retries() == 0 and at["password"] == "p" for at in settings_of_sentinels(pool))

    def test_its_name_tells_master_and_sentinels_and_no_password(self):
        given = Sentinel([("one", 1), ("two", 2)], sentinel_kwargs={"password": SECRET}, password=SECRET)
        store = RedisJobStore(client=given.master_for("main", db=2))
        assert repr(store) == "<RedisJobStore ({goscheduler}: at main/2 of Sentinel one:1,two:2)>"


@pytest.mark.serial
class TestSentinel:
    def test_a_master_that_dies_costs_seconds_and_no_firing(self, watched, scheduled):
        """The master is killed under load: Sentinel makes the replica the master, and nothing is lost or done twice."""
        store = RedisJobStore(url=watched.url)
        scheduler, events = scheduled(store)
        lock = acquire(watched.url, "report", ttl=60)
        names = [f"job-{number}" for number in range(120)]
        begin = datetime.now(timezone.utc) + timedelta(seconds=0.3)
        scheduler.add_jobs(
            {"func": redis_jobs.remember, "trigger": "date", "id": name, "args": [name],
             "run_date": begin + timedelta(milliseconds=30 * number)}
            for number, name in enumerate(names)
        )  # fmt: skip
        wait_for(lambda: len(redis_jobs.remembered) >= 20)
        watched.master.kill()
        watched.wait_for_takeover()
        resumed_after = seconds_until_another_runs()
        wait_for(lambda: len(redis_jobs.remembered) >= len(names))
        wait_for(lambda: not scheduler.live_runs())
        assert Counter(redis_jobs.remembered) == Counter(names)
        assert Counter(record.job_id for record in scheduler.runs(limit=1000, outcome="succeeded")) == Counter(names)
        wait_for(lambda: events[-1:] == ["SCHEDULER_RECOVERED"])
        assert events[0] == "SCHEDULER_DEGRADED"
        assert resumed_after < MOST_SECONDS
        self._others_are_heard(store, watched.url)
        self._locks_and_messages_go_to_the_new_master(watched, lock)
        if FULL:
            self._the_old_master_becomes_a_replica(watched)

    def _others_are_heard(self, store, url):
        wait_for(lambda: store.poll_after() == math.inf)
        other = BackgroundScheduler(jobstores={"default": url}, timezone="UTC")
        other.start(paused=True)
        other.add_job(redis_jobs.remember, args=["heard"])
        wait_for(lambda: "heard" in redis_jobs.remembered)
        other.shutdown()

    def _locks_and_messages_go_to_the_new_master(self, watched, lock):
        assert lock.release()
        later = acquire(watched.url, "report", ttl=60)
        assert later.fence > lock.fence
        transport = create_transport(watched.url)
        transport.publish("orders", delivery("orders"))
        transport.close()
        with redis.Redis(port=watched.replica.port) as client:
            assert client.xlen("orders") == 1
            assert client.exists("{goscheduler}:locks:report")

    def _the_old_master_becomes_a_replica(self, watched):
        watched.master.restart()
        wait_for(lambda: role(watched.master) == "slave")

    def test_a_master_that_hangs_costs_no_firing_either(self, watched, scheduled):
        scheduler, _ = scheduled(RedisJobStore(url=f"{watched.url}?socket_timeout=2"))
        scheduler.add_job(redis_jobs.remember, "interval", seconds=0.2, args=["ran"])
        wait_for(lambda: len(redis_jobs.remembered) >= 3)
        watched.master.freeze()
        try:
            watched.wait_for_takeover()
            assert seconds_until_another_runs() < MOST_SECONDS
        finally:
            watched.master.thaw()

    def test_a_client_as_users_make_it_can_be_used(self, private_server, opened, make_job, requests):
        watched = Watched(private_server, sentinels=1)
        sentinel = Sentinel([("127.0.0.1", 1), *(("127.0.0.1", each.port) for each in watched.sentinels)])
        with closing(sentinel), sentinel.master_for("main") as client:
            store = opened(RedisJobStore(client=client))
            store.add_job(make_job("a"))
            (run,) = requests.fire(store).runs
            assert not store.settle([succeeded(run)])
            with pytest.raises(StoreUnavailable, match="No Redis server answers at other/0 of Sentinel 127"):
                opened(RedisJobStore(client=sentinel.master_for("other")))


@pytest.mark.serial
class TestTakeover:
    """A replica becomes the master, and it has not got everything."""

    @pytest.fixture
    def servers(self, private_server):
        return pair(private_server)

    @pytest.fixture
    def way(self, servers):
        return Way(servers[0])

    def test_a_server_that_has_no_script_is_given_it(self, servers, way, opened, make_job, requests):
        master, replica = servers
        store = opened(RedisJobStore(client=way.client()))
        store.add_job(make_job("a"))
        with redis.Redis(port=replica.port) as client:
            digest = SCRIPTS["take_due"].digest
            assert client.script_exists(digest) == [False]
            wait_for_copy(servers)
            promote(replica)
            way.leads_to(replica)
            master.kill()
            assert [run.job.id for run in requests.fire(store).runs] == ["a"]
            assert client.script_exists(digest) == [True]

    def test_what_was_handed_out_and_not_copied_is_handed_out_with_a_higher_fence(
        self, servers, way, opened, make_job, requests
    ):
        _, replica = servers
        early = opened(RedisJobStore(client=way.client()))
        early.add_job(make_job("fired"))
        early.add_run(asked_for(make_job("asked"), "asked", NOW))
        wait_for_copy(servers)
        promote(replica)  # what the old master does from here on is lost
        (lost,), (also_lost,) = requests.fire(early).runs, requests.claim(early).runs
        way.leads_to(replica)
        demote(servers)
        late = opened(RedisJobStore(client=way.client()))
        (fired,), (asked,) = requests.fire(late, owner="owner-2").runs, requests.claim(late, owner="owner-2").runs
        assert (fired.job.id, asked.id) == ("fired", also_lost.id)
        assert fired.fence > lost.fence
        assert asked.fence > also_lost.fence
        with suppress(redis.ConnectionError):  # it may learn by this that its server is a replica now
            early.settle([succeeded(also_lost)])
        refused = early.settle([succeeded(lost), succeeded(also_lost)])
        assert {each.attempt.run for each in refused} == {lost, also_lost}, "only one of them owns the run"
        assert not late.settle([succeeded(fired), succeeded(asked)])
        records = {record.run_id: record.fence for record in late.history(HistoryQuery())}
        assert records == {fired.id: fired.fence, asked.id: asked.fence}

    def test_a_server_that_became_a_replica_is_connected_to_anew(self, servers, opened, make_job, requests):
        master, replica = servers
        store = opened(RedisJobStore(url=master.url))
        store.add_job(make_job("a"))
        wait_for_copy(servers)
        before = store.redis.client_id()
        promote(replica)
        demote(servers)
        with pytest.raises(redis.ReadOnlyError):
            requests.fire(store)
        assert store.redis.client_id() != before, "behind the same name there may be another server by now"

    def test_a_server_that_became_a_replica_is_an_outage(self, servers, scheduled):
        master, replica = servers
        scheduler, events = scheduled(RedisJobStore(url=master.url))
        scheduler.add_job(redis_jobs.remember, "interval", seconds=0.1, args=["ran"])
        wait_for(lambda: redis_jobs.remembered)
        wait_for_copy(servers)
        promote(replica)
        demote(servers)
        wait_for(lambda: events[:1] == ["SCHEDULER_DEGRADED"])
        promote(master)
        assert seconds_until_another_runs() < MOST_SECONDS
        wait_for(lambda: events[-1:] == ["SCHEDULER_RECOVERED"])

    def test_a_run_whose_end_was_lost_by_the_server_does_not_block_its_job(self, private_server):
        """Nobody notices the loss by an error: the server goes and comes back between two calls."""
        server = private_server("redis", "--appendonly", "no")
        store = RedisJobStore(url=server.url, server_time=False)
        with ManualScheduler(jobstores={"default": store}) as scheduler:
            scheduler.add_job(redis_jobs.save, "interval", minutes=1, args=[server.url], max_instances=1, id="a")
            redis_jobs.remembered.clear()
            scheduler.advance(60)
            assert len(redis_jobs.remembered) == 1
            server.kill()
            server.restart()  # as it was while the job ran
            assert len(scheduler.live_runs()) == 1
            scheduler.advance(600)
            assert not scheduler.live_runs()
            assert len(redis_jobs.remembered) >= 10

    def test_nothing_is_begun_on_a_replica(self, servers, opened):
        with pytest.raises(StoreUnavailable, match="is a replica, which takes no writes"):
            opened(RedisJobStore(url=servers[1].url))

    def test_nothing_is_begun_while_too_few_replicas_are_there(self, private_server, opened):
        server = private_server("redis", "--min-replicas-to-write", "1")
        with pytest.raises(StoreUnavailable, match="takes no writes now: NOREPLICAS"):
            opened(RedisJobStore(url=server.url))

    @pytest.mark.parametrize(("error", "told"), [
        (redis.ReadOnlyError("You can't write against a read only replica."), True),
        (redis.ResponseError("Error running script (call to f_1): @user_script:1: -READONLY You can't write"), True),
        (redis.ResponseError("unknown command"), False),
    ])  # fmt: skip
    def test_old_servers_say_it_in_other_words(self, error, told):
        assert tells_of_replica(error) == told


class Way:
    """The way to the master, as Sentinel would tell it."""

    def __init__(self, server):
        self._server = server

    def leads_to(self, server):
        self._server = server

    def discover_master(self, name):
        return "127.0.0.1", self._server.port

    def client(self):
        pool = SentinelConnectionPool("main", self, retry=Retry(NoBackoff(), 0), socket_timeout=5)
        return redis.Redis.from_pool(pool)


@pytest.mark.serial
@pytest.mark.skipif(not (which("openssl") or os.environ.get("CI")), reason="NOT TESTED: TLS needs openssl")
class TestTLS:
    """A server that speaks TLS on one port, and none on the other."""

    @pytest.fixture
    def certificates(self, tmp_path):
        for name in ("server", "stranger"):
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                 "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
                 "-keyout", tmp_path / f"{name}.key", "-out", tmp_path / f"{name}.pem"],
                check=True, capture_output=True,
            )  # fmt: skip
        return tmp_path

    @pytest.fixture
    def port(self, certificates, private_server):
        port, (certificate, key) = free_port(), (certificates / f"server.{end}" for end in ("pem", "key"))
        private_server(
            "redis", "--tls-port", str(port), "--tls-cert-file", str(certificate), "--tls-key-file", str(key),
            "--tls-ca-cert-file", str(certificate), "--tls-auth-clients", "no",
        )  # fmt: skip
        return port

    def test_jobs_locks_and_messages_go_through_it(self, port, certificates, opened, make_job, requests):
        url = f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={certificates}/server.pem"
        store, woken = opened(RedisJobStore(url=url)), threading.Event()
        store.subscribe(woken.set)
        assert woken.wait(60), "it listens"
        store.add_job(make_job("a"))
        (run,) = requests.fire(store).runs
        assert not store.settle([succeeded(run)])
        assert acquire(url, "report", ttl=60).release()
        transport = create_transport(url)
        transport.publish("orders", delivery("orders"))
        assert store.redis.xlen("orders") == 1
        transport.close()

    @pytest.mark.parametrize(("scheme", "options", "told"), [
        ("rediss", "", "CERTIFICATE_VERIFY_FAILED.* is its certificate trusted"),
        ("rediss", "?ssl_ca_certs={stranger}", "CERTIFICATE_VERIFY_FAILED.* is its certificate trusted"),
        ("redis", "", "One that speaks TLS needs rediss://"),
    ])  # fmt: skip
    def test_a_server_that_is_not_trusted_or_not_spoken_to_rightly_is_told(
        self, port, certificates, opened, scheme, options, told
    ):
        url = f"{scheme}://:{SECRET}@127.0.0.1:{port}/0{options.format(stranger=certificates / 'stranger.pem')}"
        with pytest.raises(StoreUnavailable, match=told) as caught:
            opened(RedisJobStore(url=url))
        assert SECRET not in f"{caught.value}"
        with pytest.raises(StoreUnavailable) as caught:
            acquire(url, "report", ttl=60)
        assert SECRET not in f"{caught.value}"
        transport = create_transport(url)
        with pytest.raises(TransportUnavailable) as caught:
            transport.publish("orders", delivery("orders"))
        assert SECRET not in f"{caught.value}"
        transport.close()

    def test_a_server_that_does_not_speak_it_is_given_up(self, redis_server, opened):
        url = f"rediss://:{SECRET}@127.0.0.1:{redis_server.port}/0?socket_timeout=1"
        with pytest.raises(StoreUnavailable, match="does it speak TLS") as caught:
            opened(RedisJobStore(url=url))
        assert SECRET not in f"{caught.value}"


def delivery(event_name):
    return Delivery("1", event_name, b"payload", "text/plain", NOW)


class Watched:
    """A master, a replica, and Sentinels that watch over them."""

    def __init__(self, private_server, sentinels=3):
        self.master, self.replica = pair(private_server)
        self.sentinels = [private_server("redis-sentinel", str(self.master.port)) for _ in range(sentinels)]
        for sentinel in self.sentinels:
            sentinel.until(lambda sentinel=sentinel: require(self._is_ready(sentinel)))

    @property
    def url(self):
        return f"redis+sentinel://{','.join(f'127.0.0.1:{each.port}' for each in self.sentinels)}/main/0"

    def wait_for_takeover(self):
        wait_for(lambda: self._where_master_is() == self.replica.port)
        wait_for(lambda: role(self.replica) == "master")

    def _where_master_is(self):
        with redis.Redis(port=self.sentinels[0].port) as client:
            return int(client.sentinel_get_master_addr_by_name("main")[1])

    def _is_ready(self, sentinel):
        with redis.Redis(port=sentinel.port) as client:
            state = client.sentinel_master("main")
        found = (state["num-slaves"], state["num-other-sentinels"], state["flags"])
        return found == (1, len(self.sentinels) - 1, "master")


@pytest.fixture(autouse=True)
def _no_locks_are_left_connected():
    yield
    close_connections()


@pytest.fixture
def requests():
    return Requests()


@pytest.fixture
def watched(private_server):
    return Watched(private_server)


@pytest.fixture
def scheduled():
    """Start a scheduler on a store; return it and the names of the events that say how its store is."""
    started = []

    def start(store):
        events = []
        # It does not look by itself, and no outage on a busy machine costs it its lease.
        scheduler = BackgroundScheduler(jobstores={"default": store}, lease=300, poll_interval=3600, timezone="UTC")
        scheduler.add_listener(
            lambda event: events.append(event.code.name), EVENT_SCHEDULER_DEGRADED | EVENT_SCHEDULER_RECOVERED
        )
        scheduler.start()
        started.append(scheduler)
        return scheduler, events

    redis_jobs.remembered.clear()
    yield start
    for scheduler in started:
        scheduler.shutdown()


def pair(private_server):
    """Return a master and a replica that has everything."""
    master = private_server("redis", *QUICK_REPLICATION)
    replica = private_server("redis", *QUICK_REPLICATION, "--replicaof", "127.0.0.1", str(master.port))
    with redis.Redis(port=replica.port) as client:
        replica.until(lambda: require(client.info("replication")["master_link_status"] == "up"))
    wait_for_copy((master, replica))  # what comes before the first answer of a replica is not sent to it yet
    return master, replica


def promote(server):
    with redis.Redis(port=server.port) as client:
        client.replicaof("NO", "ONE")


def demote(servers):
    """Make the first one the replica of the second."""
    with redis.Redis(port=servers[0].port) as client:
        client.replicaof("127.0.0.1", servers[1].port)


def wait_for_copy(servers):
    with redis.Redis(port=servers[0].port) as client:
        client.set("last", "written")
        assert client.wait(1, 60_000) == 1


def seconds_until_another_runs():
    before, begun = len(redis_jobs.remembered), SYSTEM_CLOCK.monotonic()
    wait_for(lambda: len(redis_jobs.remembered) > before)
    return SYSTEM_CLOCK.monotonic() - begun


def role(server):
    with redis.Redis(port=server.port) as client:
        return client.info("replication")["role"]


def require(fulfilled):
    assert fulfilled


def wait_for(fulfilled):
    pause, deadline = threading.Event(), Deadline(SYSTEM_CLOCK, 120)
    while not fulfilled():
        assert deadline.left(), "it never was so"
        pause.wait(0.02)
