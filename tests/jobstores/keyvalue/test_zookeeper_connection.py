"""A connection to ZooKeeper that was lost: kazoo makes it again, and calls wait for that, but not again and again."""

from __future__ import annotations

import pytest

from goscheduler._drivers import zookeeper
from goscheduler.errors import StoreUnavailable
from goscheduler.testing import ManualClock


class Away:
    """A client whose connection is lost and comes back at a time; each look at it takes a second."""

    client_state = "CONNECTING"
    hosts = (("127.0.0.1", 2181),)

    def __init__(self, clock, back_at):
        self._clock = clock
        self.back_at = back_at

    @property
    def connected(self):
        self._clock.advance(1)
        return self._clock.monotonic() >= self.back_at


@pytest.fixture
def clock(monkeypatch):
    clock = ManualClock()
    monkeypatch.setattr(zookeeper, "SYSTEM_CLOCK", clock)
    monkeypatch.setattr(zookeeper, "LOOK_SECONDS", 0)
    return clock


def seconds_of(clock, call):
    began = clock.monotonic()
    with pytest.raises(StoreUnavailable, match=r"no ZooKeeper answers at 127\.0\.0\.1:2181"):
        call()
    return clock.monotonic() - began


def test_a_call_waits_for_a_connection_that_was_lost_a_moment_ago(clock):
    client = Away(clock, back_at=4)
    assert zookeeper.Connection(client).connected(5) is client


def test_a_call_waits_no_longer_than_it_may_take(clock):
    connection = zookeeper.Connection(Away(clock, back_at=60))
    assert seconds_of(clock, lambda: connection.connected(2)) <= 4


def test_calls_of_a_long_outage_fail_at_once_after_the_first_and_wait_again_in_the_next_outage(clock):
    client = Away(clock, back_at=60)
    connection = zookeeper.Connection(client)
    assert seconds_of(clock, lambda: connection.connected(9)) >= zookeeper.RETURN_SECONDS
    assert seconds_of(clock, lambda: connection.connected(9)) <= 3
    client.back_at = 0
    assert connection.connected(9) is client
    client.back_at = clock.monotonic() + 4
    assert connection.connected(9) is client
