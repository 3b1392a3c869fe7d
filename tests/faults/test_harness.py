"""The instruments of the fault suite do what they say: links that are bad, and a workload that a seed decides."""

from __future__ import annotations

import random
import socket
import threading
from contextlib import suppress
from itertools import islice

import pytest
from proxy import HOST, Proxy
from workload import operations, standing

PATIENCE = 60


@pytest.fixture
def echo():
    """Return the port of a server that sends back what it gets, and the list of what it got."""
    got = []
    listener = socket.create_server((HOST, 0))

    def serve(connection):
        with connection, suppress(ConnectionResetError):
            while piece := connection.recv(1000):
                got.append(piece)
                connection.sendall(piece)

    def accept():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=[connection], daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()[1], got
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.fixture
def proxy(echo):
    proxy = Proxy(echo[0], random.Random(1))
    proxy.open("n0")
    yield proxy
    proxy.close()


@pytest.fixture
def connect(proxy):
    opened = []

    def connect():
        opened.append(socket.create_connection((HOST, proxy.links["n0"].port), timeout=PATIENCE))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


def ask(connection, text=b"hello"):
    connection.sendall(text)
    return connection.recv(1000)


def test_a_good_link_carries_both_ways(connect):
    assert ask(connect()) == b"hello"


def test_a_black_hole_keeps_what_is_sent_and_delivers_it_late(proxy, connect, echo):
    connection = connect()
    ask(connection)
    proxy.spoil("n0", "blackhole")
    connection.sendall(b"later")
    connection.settimeout(0.2)
    with pytest.raises(TimeoutError):
        connection.recv(1000)
    assert echo[1] == [b"hello"]
    connection.settimeout(PATIENCE)
    proxy.heal("n0", late=True)
    assert connection.recv(1000) == b"later"


def test_a_black_hole_may_end_its_connections_instead(proxy, connect, echo):
    connection = connect()
    ask(connection)
    proxy.spoil("n0", "blackhole")
    connection.sendall(b"never")
    proxy.heal("n0", late=False)
    with pytest.raises(ConnectionResetError):
        connection.recv(1000)
    assert echo[1] == [b"hello"]


def test_a_request_whose_reply_is_dropped_was_done(proxy, connect, echo):
    connection = connect()
    ask(connection)
    proxy.spoil("n0", "drop_replies")
    connection.sendall(b"done")
    connection.settimeout(0.2)
    with pytest.raises(TimeoutError):
        connection.recv(1000)
    connection.settimeout(PATIENCE)
    proxy.heal("n0")
    with pytest.raises(ConnectionResetError):
        connection.recv(1000)
    assert echo[1] == [b"hello", b"done"]
    assert ask(connect()) == b"hello"


def test_refused_connections_are_reset_and_the_others_go_on(proxy, connect):
    connection = connect()
    ask(connection)
    proxy.spoil("n0", "refuse")
    assert ask(connection) == b"hello"
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        ask(connect())


def test_a_reset_ends_all_connections_of_a_link(proxy, connect):
    connections = [connect(), connect()]
    for connection in connections:
        ask(connection)
    assert proxy.reset("n0") == 2
    for connection in connections:
        with pytest.raises(ConnectionResetError):
            connection.recv(1000)


def test_a_link_tells_once_when_a_request_has_gone_through(proxy, connect):
    seen = threading.Event()
    proxy.links["n0"].wait_for_request = seen.set
    ask(connect())
    assert seen.wait(PATIENCE)
    assert proxy.links["n0"].wait_for_request is None


def test_a_seed_decides_the_workload():
    assert standing(7, 3.0) == standing(7, 3.0) != standing(8, 3.0)
    first, again, other = (list(islice(operations(seed, 3.0), 500)) for seed in (7, 7, 8))
    assert first == again != other


def test_operations_come_in_the_order_of_time_and_each_job_is_added_before_it_is_touched():
    steps = list(islice(operations(3, 3.0), 2000))
    assert [step.after for step in steps] == sorted(step.after for step in steps)
    known = set(standing(3, 3.0))
    for step in steps:
        if step.op in ("add_job", "schedule_message"):
            known.add(step.id)
        elif step.op in ("remove_job", "pause_job", "resume_job", "run_now", "cancel_message"):
            assert step.id in known
