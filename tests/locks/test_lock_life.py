"""What a holder may believe, what happens when answers are lost, and how locks are renewed, by a clock of the tests."""

from __future__ import annotations

import gc
import logging
import threading
from collections import Counter

import pytest

from goscheduler.errors import LockLost, StoreUnavailable
from goscheduler.locks import LockNotAcquired, _acquiring, acquire, lock
from goscheduler.locks._lock import trusted_seconds
from goscheduler.locks._renewal import RENEW_AFTER, TRY_AGAIN_AFTER, renew_once
from goscheduler.locks.base import KEPT, call_seconds, key_of
from goscheduler.locks.memory import MemoryLocks
from goscheduler.testing import ManualClock


class Server(MemoryLocks):
    """Locks whose answers are lost when a test wants it, before or after the step was done. Pauses move the clock."""

    def __init__(self):
        super().__init__(ManualClock())
        self.lost_before = self.lost_after = 0
        self.slow = 0.0
        self.pauses = []
        self.allowed = []

    def try_acquire(self, name, token, ttl, within):
        return self._answered(lambda: MemoryLocks.try_acquire(self, name, token, ttl, within), within)

    def release(self, name, token, within):
        return self._answered(lambda: MemoryLocks.release(self, name, token, within), within)

    def extend(self, name, token, ttl, within):
        return self._answered(lambda: MemoryLocks.extend(self, name, token, ttl, within), within)

    def pause(self, name, seconds):
        self.pauses.append(seconds)
        self.clock.advance(max(seconds, 0.000001))

    def _answered(self, step, within):
        self.allowed.append(within)
        if self.lost_before:
            self.lost_before -= 1
            raise StoreUnavailable("the request was lost")
        done = step()
        self.clock.advance(self.slow)
        if self.lost_after:
            self.lost_after -= 1
            raise StoreUnavailable("the answer was lost")
        return done


@pytest.fixture
def server():
    return Server()


def test_a_lock_is_trusted_a_little_less_long_than_the_server_keeps_it(server):
    held = acquire(server, "a", 10)
    server.clock.advance(9.89)
    assert held.held
    server.clock.advance(0.02)
    assert not held.held
    assert acquire(server, "a", 10) is None
    server.clock.advance(0.09)
    assert acquire(server, "a", 10).fence > held.fence


def test_the_time_that_an_answer_takes_does_not_lengthen_the_trust(server):
    server.slow = 4.0
    held = acquire(server, "a", 10)
    server.clock.advance(5.8)
    assert held.held
    server.clock.advance(0.2)
    assert not held.held


def test_a_lock_that_was_granted_when_its_time_was_over_is_given_back(server):
    server.slow = 10.0
    with pytest.raises(StoreUnavailable, match="too late"):
        acquire(server, "a", 10)
    server.slow = 0.0
    assert acquire(server, "a", 10) is not None


@pytest.mark.parametrize("loss", ["lost_before", "lost_after"])
def test_an_answer_that_was_lost_is_asked_for_again_by_the_same_token(server, loss):
    setattr(server, loss, 1)
    held = acquire(server, "a", 10)
    assert held.held
    assert acquire(server, "a", 10) is None
    setattr(server, loss, 1)
    assert held.release() is True
    assert acquire(server, "a", 10).fence > held.fence


@pytest.mark.parametrize("loss", ["lost_before", "lost_after"])
def test_a_server_that_does_not_answer_is_an_error_unless_it_is_waited_for(server, loss):
    setattr(server, loss, 2)
    with pytest.raises(StoreUnavailable):
        acquire(server, "a", 10)
    setattr(server, loss, 6)
    held = acquire(server, "b", 10, wait=5)
    assert held.held
    setattr(server, loss, 1000)
    with pytest.raises(StoreUnavailable):
        acquire(server, "c", 10, wait=5)


def test_a_release_that_is_not_answered_at_all_is_an_error_and_is_not_tried_for_ever(server):
    held = acquire(server, "a", 10)
    server.lost_before = 2
    with pytest.raises(StoreUnavailable):
        held.release()
    assert not held.held
    assert held.release() is False


def test_a_block_whose_release_was_not_answered_ends_well_if_it_ended_in_time(server, caplog):
    with lock(server, "a", 10):
        server.lost_before = 2
    assert "could not be released; it expires within 10 s" in caplog.text
    server.clock.advance(10)
    late = lock(server, "a", 10)
    server.clock.advance(10)
    server.lost_before = 2
    with pytest.raises(LockLost):
        late.__exit__(None, None, None)


def test_what_a_block_raised_is_not_hidden_by_the_loss_of_its_lock(server, caplog):
    held = lock(server, "a", 10)
    server.clock.advance(10)
    with pytest.raises(KeyError), held:
        raise KeyError("ours")
    assert "was lost before the block under it ended" in caplog.text


def test_a_block_may_release_its_lock_itself(server):
    with lock(server, "a", 10) as held:
        assert held.release() is True
    assert acquire(server, "a", 10) is not None


def test_an_extension_of_unknown_outcome_counts_only_if_it_is_the_shorter_one(server):
    held = acquire(server, "a", 10)
    server.lost_after = 1
    with pytest.raises(StoreUnavailable):
        held.extend(60)
    server.clock.advance(9.95)
    assert not held.held
    other = acquire(server, "b", 60)
    server.lost_after = 1
    with pytest.raises(StoreUnavailable):
        other.extend(10)
    server.clock.advance(9.95)
    assert not other.held
    assert other.extend(10) is True
    assert other.held


def test_extensions_do_not_overtake_each_other():
    server, standing, goes_on = MemoryLocks(), threading.Event(), threading.Event()
    extend = server.extend

    def slow(name, token, ttl, within):
        done = extend(name, token, ttl, within)
        if ttl == 60:
            standing.set()
            goes_on.wait(60)
        return done

    server.extend = slow
    held = acquire(server, "a", 10)
    first = threading.Thread(target=held.extend, args=(60,))
    first.start()
    assert standing.wait(60)
    second = threading.Thread(target=held.extend, args=(0.5,))
    second.start()
    goes_on.set()
    for thread in (first, second):
        thread.join(60)
    assert held.ttl == 0.5
    assert acquire(server, "a", 1, wait=60) is not None
    assert not held.held


def test_waiting_takes_pauses_that_grow_and_ends_in_time(server):
    acquire(server, "a", 100)
    assert acquire(server, "a", 10, wait=3) is None
    assert sum(server.pauses) == pytest.approx(3, abs=0.001)  # the clock counts microseconds
    assert server.pauses[0] <= 0.01
    assert 0.125 <= max(server.pauses) <= 0.25
    with pytest.raises(LockNotAcquired) as caught:
        lock(server, "a", 10, wait=1)
    assert caught.value.name == "a"
    assert isinstance(caught.value, TimeoutError)


def test_who_waits_for_ever_gets_the_lock_in_the_end(server):
    acquire(server, "a", 50)
    assert acquire(server, "a", 10, wait=float("inf")) is not None
    assert 49 < sum(server.pauses) < 51


def test_a_call_may_take_a_third_of_the_lock_and_from_one_to_five_seconds(server):
    assert [call_seconds(ttl) for ttl in (0.1, 3, 6, 15, 3600)] == [1, 1, 2, 5, 5]
    held = acquire(server, "a", 9)
    held.extend(60)
    held.extend(6)
    held.release()
    assert server.allowed == [3, 3, 2, 2]


def test_a_call_about_a_short_lock_is_given_the_time_that_a_busy_machine_needs(server):
    held = acquire(server, "a", 0.3)
    assert held.release()
    assert server.allowed == [1, 1]


def test_the_trust_is_never_longer_than_the_lock():
    for ttl in (0.1, 1, 60, 86400):
        assert 0 < trusted_seconds(ttl) < ttl


def test_a_fence_grows_when_the_server_has_forgotten_everything(server):
    first = acquire(server, "a", 10)
    server._rows.clear()
    server.clock.advance(1)
    assert acquire(server, "a", 10).fence > first.fence


def test_a_fence_grows_when_the_clock_of_the_server_was_set_back(server):
    first = acquire(server, "a", 10)
    assert first.release()
    server.clock.set(server.clock.now().replace(year=2001))
    second = acquire(server, "a", 10)
    assert second.fence == first.fence + 1


def test_a_name_is_swept_a_week_after_its_lock_has_ended(server):
    acquire(server, "over", 60)
    assert acquire(server, "released", 60).release()
    server.clock.advance(KEPT + 1)
    acquire(server, "held", 60)
    server.sweep(5)
    assert set(server._rows) == {"over", "held"}
    server.clock.advance(60.1)
    server.sweep(5)
    assert set(server._rows) == {"held"}


def test_a_name_whose_fence_is_ahead_of_the_clock_is_kept(server):
    now = server.clock.now()
    server.clock.set(now.replace(year=now.year + 1))
    first = acquire(server, "a", 10)
    assert first.release()
    server.clock.set(now)
    server.clock.advance(2 * KEPT)
    server.sweep(5)
    assert acquire(server, "a", 10).fence > first.fence


def test_old_names_are_swept_now_and_then_and_a_failure_costs_nobody_a_lock(server, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(_acquiring, "SWEEPS", 1.0)
    assert acquire(server, "old", 10).release()
    server.clock.advance(2 * KEPT)
    held = acquire(server, "a", 10)
    assert set(server._rows) == {"a"}

    def refuse(_within):
        raise StoreUnavailable("no answer")

    server.sweep = refuse
    assert held.release()
    assert acquire(server, "a", 10).held
    assert "no answer" in caplog.text


# Renewal


def test_a_lock_is_renewed_a_third_of_its_time_after_the_last_time(server):
    held = acquire(server, "a", 12)
    server.clock.advance(11)
    assert renew_once(held) == pytest.approx(12 * RENEW_AFTER)
    server.clock.advance(11)
    assert held.held


def test_a_renewal_that_is_not_answered_is_tried_again_while_the_lock_can_be_trusted(server, caplog):
    held = acquire(server, "a", 12)
    server.lost_before = 1000
    assert renew_once(held) == pytest.approx(12 * TRY_AGAIN_AFTER)
    assert not held.lost.is_set()
    server.clock.advance(11.9)
    assert renew_once(held) is None
    assert held.lost.is_set()
    assert "fence" in caplog.text
    assert held.token not in caplog.text


def test_a_renewal_that_is_refused_is_a_loss(server):
    held = acquire(server, "a", 12)
    server.clock.advance(12)
    acquire(server, "a", 12)
    assert renew_once(held) is None
    assert held.lost.is_set()


def test_an_error_that_nobody_expected_ends_neither_the_thread_nor_the_lock(server, caplog):
    held = acquire(server, "a", 12)
    server.extend = lambda *_: 1 / 0
    assert renew_once(held) == pytest.approx(1)
    assert "ZeroDivisionError" in caplog.text


def test_a_lock_that_was_released_is_not_lost(server, caplog):
    held = acquire(server, "a", 12)
    held.release()
    assert renew_once(held) is None
    assert not held.lost.is_set()
    assert caplog.text == ""


def test_a_lock_that_was_made_shorter_is_renewed_in_time():
    server = CountedLocks()
    held = acquire(server, "a", 600, renew=True)
    assert held.extend(SECONDS)
    server.await_extensions("a", 2)  # by the test, and not minutes later by the thread
    assert held.held
    assert held.release()


def test_a_lock_for_which_there_is_no_thread_is_given_back(monkeypatch):
    server = MemoryLocks()

    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            acquire(server, "a", 10, renew=True)
    held = acquire(server, "a", 10, renew=True)
    assert held.release()


def test_there_is_one_thread_for_all_locks_of_a_server_and_it_ends_with_the_last(caplog):
    caplog.set_level(logging.WARNING)
    server = CountedLocks()
    before = renewing()
    locks = [acquire(server, f"{number}", SECONDS, renew=True) for number in range(20)]
    (thread,) = renewing() - before
    for held in locks:
        server.await_extensions(held.name, 1)
    assert all(held.held for held in locks)
    assert renewing() - before == {thread}
    assert all(held.release() for held in locks)
    thread.join(60)
    assert not thread.is_alive()
    assert caplog.text == ""
    again = acquire(server, "again", SECONDS, renew=True)
    (other,) = renewing() - before
    assert again.release()
    other.join(60)
    assert not other.is_alive()


def test_a_server_that_stands_still_does_not_cost_the_locks_on_another_one():
    standing, stands, goes_on = MemoryLocks(), threading.Event(), threading.Event()

    def stand(*_):
        stands.set()
        return not goes_on.wait(60)

    standing.extend = stand
    unlucky = acquire(standing, "a", 1, renew=True)
    assert stands.wait(60)
    healthy = CountedLocks()
    lucky = acquire(healthy, "a", SECONDS, renew=True)
    healthy.await_extensions("a", 2)
    assert acquire(healthy, "a", 1) is None
    assert lucky.held
    assert not unlucky.held
    goes_on.set()
    assert unlucky.lost.wait(60)
    assert lucky.release()


def test_a_lock_that_its_holder_has_forgotten_is_renewed_no_more():
    server = MemoryLocks()
    acquire(server, "a", 1, renew=True)
    gc.collect()
    assert acquire(server, "a", 1, wait=60) is not None


#: The length of a lock that a thread renews: a machine may be busy for two thirds of it.
SECONDS = 3.0


class CountedLocks(MemoryLocks):
    """Counts how often each lock is extended."""

    def __init__(self):
        super().__init__()
        self._extensions = Counter()
        self._extended = threading.Condition()

    def extend(self, name, token, ttl, within):
        done = super().extend(name, token, ttl, within)
        with self._extended:
            self._extensions[name] += done
            self._extended.notify_all()
        return done

    def await_extensions(self, name, count):
        with self._extended:
            assert self._extended.wait_for(lambda: self._extensions[name] >= count, 60), self._extensions


def renewing():
    return {thread for thread in threading.enumerate() if thread.name == "goscheduler-locks"}


def test_keys_are_plain_and_as_different_as_names():
    names = ["a", "A", "a b", "a%20b", ".", "..", "...", "a.b", "a/b", "~", "x" * 255, "x" * 254 + "y", "ä" * 255, "\0"]
    keys = [key_of(name) for name in names]
    assert len(set(keys)) == len(names)
    assert all(key.isascii() and key.isprintable() and len(key) <= 200 and not key.startswith(".") for key in keys)
    assert not any(set(key) & set("/{}'\" \\") for key in keys)
    assert key_of("report:daily-2.x_y") == "report:daily-2.x_y"
