"""The stores on etcd and ZooKeeper with real servers: who is alive, who is woken, what an outage does, who gets in."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from queue import SimpleQueue
from typing import Any

import pytest
from kazoo.client import KazooClient

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import GoSchedulerError, InvalidArgument, StoreUnavailable
from goscheduler.jobstores import zookeeper
from goscheduler.jobstores._keyvalue.server import Span, Transaction, encode_time
from goscheduler.jobstores.etcd import EtcdJobStore
from goscheduler.jobstores.zookeeper import ZooKeeperJobStore
from goscheduler.runs.model import Owner
from goscheduler.runs.transitions import asked_for, crashed
from goscheduler.testing import ManualScheduler
from goscheduler.testing.contract import Requests, succeeded
from goscheduler.times import to_micros

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)
STORES = {"etcd": EtcdJobStore, "zookeeper": ZooKeeperJobStore}
PATIENCE = 60


@pytest.fixture(params=STORES)
def kind(request):
    return request.param


@pytest.fixture
def url(kind, shared_server, fresh):
    space = fresh(shared_server(kind))
    return f"{space.url}/{space.name}"


@pytest.fixture
def scheduler():
    return ManualScheduler()


@pytest.fixture
def requests():
    return Requests()


@pytest.fixture
def store(kind, url, opened):
    return opened(STORES[kind].from_url(url))


def eventually(look: Callable[[], Any]) -> Any:
    """Return the first answer that says something."""
    pause = threading.Event()
    for _ in range(int(PATIENCE / 0.1)):
        if answer := look():
            return answer
        pause.wait(0.1)
    raise AssertionError(f"nothing within {PATIENCE} seconds")


@contextmanager
def raw_client(kind: str, url: str) -> Iterator[Callable[[str, bytes], None]]:
    """Lend a function that overwrites a key below the path of a URL, as somebody else would."""
    hosts, _, path = url.partition("://")[2].partition("/")
    if kind == "etcd":
        import etcd3gw

        host, port = hosts.split(":")
        client = etcd3gw.client(host=host, port=int(port))
        yield lambda key, value: client.put(f"/{path}/{key}", value)
        client.session.close()
    else:
        from kazoo.client import KazooClient

        keeper = KazooClient(hosts)
        keeper.start()
        yield lambda key, value: keeper.set(f"/{path}/{key}", value)
        keeper.stop()
        keeper.close()


# Where


def test_a_scheduler_takes_a_url_for_a_job_store(kind, url):
    with ManualScheduler(jobstores={"default": url}) as scheduler:
        scheduler.add_job("json:dumps", "interval", seconds=1, args=[[2, 3]], id="text")
        scheduler.advance("2s")
        assert [record.result for record in scheduler.runs("text")] == ["[2, 3]", "[2, 3]"]


def test_a_path_has_nothing_to_do_with_one_that_begins_like_it(kind, url, opened, make_job):
    short, long = (opened(STORES[kind].from_url(f"{url}/{name}")) for name in ("a", "ab"))
    long.add_job(make_job("kept"))
    short.add_job(make_job("removed"))
    assert [job.id for job in short.get_all_jobs()] == ["removed"]
    short.remove_all_jobs()
    assert [job.id for job in long.get_all_jobs()] == ["kept"]


def test_a_client_that_was_given_is_not_closed(kind, url, opened, scheduler, make_job):
    hosts, _, path = url.partition("://")[2].partition("/")
    if kind == "etcd":
        import etcd3gw

        host, port = hosts.split(":")
        client: Any = etcd3gw.client(host=host, port=int(port))
        alive = client.status
    else:
        from kazoo.client import KazooClient

        client = KazooClient(hosts)
        alive = lambda: client.exists("/")  # noqa: E731
    for _ in range(2):
        store = STORES[kind](f"/{path}", client)
        store.start(scheduler, "default")
        store.get_all_jobs()
        store.shutdown()
        assert alive()
    (client.session.close if kind == "etcd" else client.stop)()
    if kind == "zookeeper":
        client.close()


def test_a_client_and_a_url_together_are_refused(kind):
    with pytest.raises(InvalidArgument, match="not several"):
        STORES[kind](client=object(), url=f"{kind}://localhost")
    with pytest.raises(InvalidArgument, match="must not be empty"):
        STORES[kind]("")


# Leases


def test_an_owner_that_renews_is_alive_whatever_the_clock_of_another_process_says(
    store, kind, url, opened, make_job, requests
):
    peer = opened(STORES[kind].from_url(url))
    assert store.renew_owner(Owner("owner-1", "host-1"), NOW, timedelta(seconds=30))
    store.add_job(make_job("a"))
    requests.fire(store)
    assert not peer.recover_runs(NOW + HOUR, pytest.fail)
    assert [owner.host for owner in peer.owners(NOW + HOUR)] == ["host-1"]
    assert store.renew_owner(Owner("owner-1", "host-1"), NOW - HOUR, timedelta(seconds=30))


def test_an_owner_that_does_not_renew_is_lost_by_the_time_of_the_server(store, kind, url, opened, make_job, requests):
    peer = opened(STORES[kind].from_url(url))
    store.renew_owner(Owner("owner-1", "host-1"), NOW, timedelta(seconds=1))
    store.add_job(make_job("a"))
    (run,) = requests.fire(store).runs
    (settlement,) = eventually(lambda: peer.recover_runs(NOW, lambda run, host: crashed(run, NOW, host=host)))
    assert (settlement.attempt.run, settlement.attempt.host) == (run, "host-1")
    assert len(store.settle([succeeded(run)])) == 1
    assert not store.renew_owner(Owner("owner-1"), NOW, timedelta(seconds=1))
    assert peer.owners(NOW) == []


# Wake-ups


def test_others_are_woken_by_what_is_new_and_not_by_what_they_do_themselves(store, kind, url, opened, make_job):
    peer = opened(STORES[kind].from_url(url))
    woken, notifications = threading.Event(), note_notifications(peer)
    peer.subscribe(woken.set)
    assert peer.poll_after() <= 1.0
    assert woken.wait(PATIENCE), "at first, in case that something was missed"
    woken.clear()
    peer.add_job(make_job("ours"))
    while not notifications.get(timeout=PATIENCE).startswith(peer._instance_id):
        continue
    assert not woken.is_set()
    store.add_job(make_job("theirs"))
    assert woken.wait(PATIENCE)
    woken.clear()
    store.add_run(asked_for(make_job("theirs"), "run", NOW))
    assert woken.wait(PATIENCE)


def note_notifications(store: Any) -> SimpleQueue[str]:
    """Return a queue of what a store hears, each put there when the store has dealt with it."""
    notifications: SimpleQueue[str] = SimpleQueue()
    listen = store._server.listen

    def noting(heard: Callable[[str], None]) -> None:
        def hear(notification: str) -> None:
            heard(notification)
            notifications.put(notification)

        listen(hear)

    store._server.listen = noting
    return notifications


# What others have written


def test_bytes_that_are_no_job_are_kept_and_suspended(store, kind, url, make_job, requests):
    store.add_job(make_job("bad"))
    store.add_job(make_job("good"))
    key = "jobs/bad" if kind == "etcd" else store._server.path(("jobs", "bad")).removeprefix(f"{store._path}/")
    with raw_client(kind, url) as write:
        write(key, b"\x80\x04\x95 cposix\nsystem\n\xff\xfe")
    fired = requests.fire(store)
    assert [run.job.id for run in fired.runs] == ["good"]
    assert [suspended.job.id for suspended in fired.suspended] == ["bad"]
    assert "cannot be read" in store.suspensions()["bad"]


# Outages


@pytest.mark.serial
def test_a_server_that_is_killed_and_comes_back_has_lost_nothing(kind, private_server, opened, make_job, requests):
    server = private_server(kind)
    store = opened(STORES[kind].from_url(f"{server.url}/jobs"))
    store.add_job(make_job("a"))
    (run,) = requests.fire(store).runs
    notifications = note_notifications(store)
    store.subscribe(lambda: None)
    notifications.get(timeout=PATIENCE)  # the watch has begun
    server.kill()
    eventually(lambda: _is_out(store))
    server.restart()
    eventually(lambda: not _is_out(store))
    assert [live.id for live in store.live_runs()] == [run.id]
    assert not store.settle([succeeded(run)])
    notifications.get(timeout=PATIENCE)  # the watch has begun again
    peer = opened(STORES[kind].from_url(f"{server.url}/jobs"))
    peer.add_job(make_job("b"))
    while not notifications.get(timeout=PATIENCE).startswith(peer._instance_id):
        continue


@pytest.mark.serial
@pytest.mark.parametrize("kind", ["zookeeper"])
def test_who_subscribes_does_not_wait_for_ever_for_a_server_that_hangs(kind, private_server, opened, monkeypatch):
    server = private_server(kind)
    store = opened(STORES[kind].from_url(f"{server.url}/jobs"))
    monkeypatch.setattr(zookeeper, "ANSWER_SECONDS", 0.1)
    server.freeze()
    with pytest.raises(StoreUnavailable):
        store.subscribe(lambda: None)
    server.thaw()


def _is_out(store: Any) -> bool:
    try:
        store.get_next_run_time()
    except StoreUnavailable:
        return True
    return False


@pytest.mark.serial
def test_a_server_that_does_not_answer_is_not_waited_for_longer_than_the_deadline(
    kind, private_server, opened, make_job, monkeypatch
):
    monkeypatch.setattr(f"goscheduler.jobstores.{kind}.ANSWER_SECONDS", 0.5)
    server = private_server(kind)
    store = opened(STORES[kind].from_url(f"{server.url}/jobs"))
    server.freeze()
    with pytest.raises(StoreUnavailable, match="did not answer"):
        store.add_job(make_job("a"))
    server.thaw()


def test_a_server_that_is_not_there_is_named_without_the_password(kind, scheduler, monkeypatch):
    monkeypatch.setattr(f"goscheduler.jobstores.{kind}.CONNECT_SECONDS", 0.5)
    store = STORES[kind].from_url(f"{kind}://somebody:canary@127.0.0.1:1/jobs")
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1") as caught:
        store.start(scheduler, "default")
    assert "canary" not in str(caught.value)
    assert "canary" not in repr(store)


@pytest.mark.serial
@pytest.mark.parametrize("kind", ["etcd"])
def test_a_member_that_is_gone_is_left_for_one_that_answers(kind, private_server, opened, make_job):
    """One server under two addresses stands for two members; the first one is dead from the start, or dies later."""
    server, dead = private_server(kind), "127.0.0.1:1"
    place = server.url.partition("://")[2]
    notifications: SimpleQueue[None] = SimpleQueue()
    store = opened(EtcdJobStore.from_url(f"etcd://{dead},{place}/jobs"))
    store.subscribe(lambda: notifications.put(None))
    store.add_job(make_job("a"))
    wire = store._server.wire
    wire.address = f"http://{dead}"
    with pytest.raises(StoreUnavailable, match=dead):
        store.get_all_jobs()
    assert [job.id for job in store.get_all_jobs()] == ["a"]
    server.restart()  # which ends the watch
    peer = opened(EtcdJobStore.from_url(f"etcd://{place},{dead}/jobs"))
    while not notifications.empty():
        notifications.get()
    peer.add_job(make_job("b"))
    notifications.get(timeout=PATIENCE)


@pytest.mark.parametrize("kind", ["etcd"])
def test_when_no_member_answers_the_start_says_so(kind, scheduler):
    store = EtcdJobStore.from_url("etcd://127.0.0.1:1,127.0.0.1:2/jobs")
    with pytest.raises(StoreUnavailable, match="no etcd answers at"):
        store.start(scheduler, "default")


# Who gets in


@pytest.mark.serial
def test_a_wrong_password_for_etcd_is_told_as_that_and_the_right_one_works(private_server, opened, make_job):
    import etcd3gw

    server = private_server("etcd")
    client = etcd3gw.client(port=server.port)
    for path, payload in [
        ("auth/user/add", {"name": "root", "password": "right"}),
        ("auth/role/add", {"name": "root"}),
        ("auth/user/grant", {"user": "root", "role": "root"}),
        ("auth/enable", {}),
    ]:
        client.post(client.get_url(path), json=payload)
    client.session.close()
    address = server.url.partition("://")[2]
    with pytest.raises(GoSchedulerError, match="does not accept this user and password") as caught:
        opened(EtcdJobStore(url=f"etcd://root:canary@{address}/jobs"))
    assert "canary" not in str(caught.value)
    store = opened(EtcdJobStore(url=f"etcd://root:right@{address}/jobs"))
    store.add_job(make_job("a"))
    store._server.wire.client.session.headers["Authorization"] = "forgotten"
    assert [job.id for job in store.get_all_jobs()] == ["a"]


def test_nodes_of_a_user_of_zookeeper_are_closed_to_others(zookeeper, fresh, opened, make_job):
    from kazoo.security import OPEN_ACL_UNSAFE

    space = fresh(zookeeper)
    address = zookeeper.url.partition("://")[2]
    store = opened(ZooKeeperJobStore(url=f"zookeeper://one:right@{address}/{space.name}"))
    store.add_job(make_job("a"))
    with pytest.raises(GoSchedulerError, match="check user and password") as caught:
        opened(ZooKeeperJobStore(url=f"zookeeper://one:canary@{address}/{space.name}"))
    assert "canary" not in str(caught.value)
    store._server.connection.client.delete(f"/{space.name}", recursive=True)
    store._server.connection.client.create(f"/{space.name}", acl=OPEN_ACL_UNSAFE)  # for who clears the space away


@pytest.fixture
def keeper(zookeeper, fresh, opened):
    space = fresh(zookeeper)
    return opened(ZooKeeperJobStore(url=f"{space.url}/{space.name}", server_time=False))


class Sweeper:
    """Takes away, before a transaction is sent, the nodes that were made to hold what it creates."""

    def __init__(self, store: ZooKeeperJobStore, times: float, whole: bool = False) -> None:
        self._server: Any = store._server
        self._client = self._server.connection.client
        self._transaction = self._client.transaction
        self._whole = whole
        self.left = times

    def transaction(self) -> Any:
        if self.left > 0:
            self.left -= 1
            root = self._server._paths.root
            kept = {"bell", "clock"}
            found = [f"/{name}" for name in self._client.get_children(root) if name not in kept]
            folders = [""] if self._whole else found
            for folder in folders:
                self._client.delete(f"{root}{folder}", recursive=True)
        return self._transaction()


@pytest.mark.parametrize("whole", [False, True])
def test_a_node_of_zookeeper_that_is_swept_away_while_another_is_put_into_it_is_made_again(
    keeper, make_job, monkeypatch, whole
):
    keeper.add_job(make_job("before", due=NOW))
    sweeper = Sweeper(keeper, 3, whole)
    monkeypatch.setattr(keeper._server.connection.client, "transaction", sweeper.transaction)
    transaction = Transaction()
    transaction.create(("jobs", "a"), "text")
    transaction.create(("due", "default.5.", f"{encode_time(1)}.a.b"))
    assert keeper._server.commit(transaction)
    assert sweeper.left == 0
    assert keeper._server.read([("jobs", "a")])[0].value == "text"


def test_nodes_of_zookeeper_that_are_swept_away_all_the_time_are_an_outage(keeper, make_job, monkeypatch):
    sweeper = Sweeper(keeper, math.inf)
    monkeypatch.setattr(keeper._server.connection.client, "transaction", sweeper.transaction)
    with pytest.raises(StoreUnavailable, match="again and again"):
        keeper.add_job(make_job("a", due=NOW))
    sweeper.left = 0
    keeper.add_job(make_job("a", due=NOW))


def test_a_node_of_zookeeper_that_refuses_to_hold_others_is_told_as_that(keeper, make_job):
    from kazoo.security import OPEN_ACL_UNSAFE, make_acl

    client, root = keeper._server.connection.client, keeper._server._paths.root
    client.set_acls(root, [make_acl("world", "anyone", read=True, write=True, delete=True, admin=True)])
    with pytest.raises(GoSchedulerError, match="check user and password"):
        keeper.add_job(make_job("a", due=NOW))
    client.set_acls(root, OPEN_ACL_UNSAFE)


def sent_by(keeper, monkeypatch) -> list[str]:
    """Return a list to which all that is asked of ZooKeeper is added."""
    sent: list[str] = []
    call = KazooClient._call

    def noted(client, request, promise):
        sent.append(type(request).__name__)
        return call(client, request, promise)

    monkeypatch.setattr(KazooClient, "_call", noted)
    return sent


def test_nodes_of_zookeeper_are_asked_for_along_with_what_is_put_into_them(keeper, make_job, monkeypatch):
    sent = sent_by(keeper, monkeypatch)
    transaction = Transaction()
    transaction.create(("due", "default.5.", f"{encode_time(1)}.a.b"))
    assert keeper._server.commit(transaction)
    assert sent == ["Create"] * 4 + ["Transaction"], "due, the lane, the day and the quarter of an hour"
    sent.clear()
    transaction = Transaction()
    transaction.create(("due", "default.5.", f"{encode_time(2)}.a.b"))
    assert keeper._server.commit(transaction)
    assert sent == ["Transaction"]


def test_zookeeper_is_asked_in_one_go_for_what_is_due_where_the_last_look_has_found_something(
    keeper, make_job, requests, monkeypatch
):
    keeper.add_job(make_job("a", due=NOW + HOUR))
    requests.fire(keeper, now=NOW)
    waits: list[int] = []
    answers = zookeeper.answers
    count = lambda asked, within: (waits.append(len(asked)), answers(asked, within))[1]  # noqa: E731
    monkeypatch.setattr(zookeeper, "answers", count)
    assert requests.fire(keeper, now=NOW).next_due == NOW + HOUR
    assert len(waits) == 1


def test_an_empty_node_of_zookeeper_is_swept_away_unless_it_is_for_the_present(keeper, requests):
    server, now = keeper._server, to_micros(SYSTEM_CLOCK.now())
    times = {time: encode_time(time) for time in (1, now, now + 10**12)}
    for folder in ("due", "ready"):
        for encoded in times.values():
            transaction = Transaction()
            transaction.create((folder, "default.5.", f"{encoded}.a.b"))
            assert server.commit(transaction)
            transaction = Transaction()
            transaction.delete((folder, "default.5.", f"{encoded}.a.b"))
            assert server.commit(transaction)
        for _ in range(2):  # first the lower nodes, then those above them
            assert server.names([Span((folder, "default.5."))]) == [[]]
        top = server._paths.folder((folder, "default.5."))
        eventually(lambda top=top: server._client.get_children(top) == [times[now][:7]])
        assert server._client.get_children(f"{top}/{times[now][:7]}") == [times[now][7:9]]
