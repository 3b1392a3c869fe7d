"""What a lock promises, on every kind of server."""

from __future__ import annotations

import os
import socket
import threading
from datetime import timedelta

import pytest
from lock_places import KINDS, RENEWED, keys_at

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import LockLost, LockNotAcquired
from goscheduler.locks import acquire, break_lock, held_locks, lock
from goscheduler.locks._find import backend_for
from goscheduler.locks.base import key_of

pytestmark = pytest.mark.parametrize("place", KINDS, indirect=True)

#: Names that mean something to one server or another, or look the same to it.
ODD_NAMES = [
    "a", "A", "a ", "ä", "a\u0308", ".", "..", "/", "a/b", "a\\b", "a'b", 'a"b', "a\0b", "a\nb", "$ne", "{a}", "a%b",
    "%61", "*", "\ud800", "🔒" * 255, "🔒" * 254, "x" * 255, "x" * 254,
]  # fmt: skip


def test_a_lock_has_one_holder_and_is_free_when_it_was_released(place):
    first = acquire(place.where, "report", 30)
    assert first is not None
    assert first.held
    assert acquire(place.where, "report", 30) is None
    assert acquire(place.where, "other", 30) is not None
    assert first.release() is True
    assert not first.held
    assert first.release() is False
    second = acquire(place.where, "report", 30)
    assert second is not None
    assert second.fence > first.fence
    assert second.token != first.token


def test_a_lock_whose_time_is_over_goes_to_who_waits_and_its_holder_is_refused(place):
    begun = SYSTEM_CLOCK.monotonic()
    first = acquire(place.where, "report", place.short)
    second = acquire(place.where, "report", 30, wait=60)
    assert SYSTEM_CLOCK.monotonic() - begun >= place.short * 0.9
    assert second.fence > first.fence
    assert not first.held
    assert first.extend() is False
    assert first.lost.is_set()
    assert first.release() is False
    assert second.held
    assert second.release() is True


def test_a_lock_that_ended_and_that_nobody_took_is_not_had_again_by_extending_it(place):
    first = acquire(place.where, "report", place.short)
    witness = acquire(place.where, "witness", place.short)
    acquire(place.where, "witness", place.short, wait=60)
    assert witness.fence
    assert first.extend() is False
    assert acquire(place.where, "report", 30).fence > first.fence


def test_a_lock_that_is_extended_lasts_longer(place):
    first = acquire(place.where, "report", place.short)
    assert first.extend(30) is True
    assert first.ttl == 30
    witness = acquire(place.where, "witness", place.short)
    assert acquire(place.where, "witness", 30, wait=60).fence > witness.fence
    assert acquire(place.where, "report", 30) is None
    assert first.held
    assert first.release() is True


def test_another_token_can_neither_release_nor_extend(place):
    first = acquire(place.where, "report", 30)
    backend = backend_for(place.where)
    assert backend.release("report", "guess", 5) is False
    assert backend.extend("report", "guess", 30, 5) is False
    assert backend.release("unknown", first.token, 5) is False
    assert backend.extend("unknown", first.token, 30, 5) is False
    assert acquire(place.where, "report", 30) is None
    assert first.extend() is True


def test_a_request_that_is_sent_again_gets_what_it_got_the_first_time(place):
    backend = backend_for(place.where)
    fence = backend.try_acquire("report", "token", 30, 5)
    assert backend.try_acquire("report", "token", 30, 5) == fence
    assert backend.try_acquire("report", "other", 30, 5) is None
    assert backend.release("report", "token", 5) is True
    assert backend.release("report", "token", 5) is (place.kind != "etcd")  # which keeps nothing of what is over
    later = backend.try_acquire("report", "token", 30, 5)
    assert later > fence
    assert backend.release("report", "token", 5) is True
    assert backend.try_acquire("report", "other", 30, 5) > later
    assert backend.release("report", "token", 5) is False


def test_who_waits_gets_a_lock_soon_after_it_was_released(place):
    first = acquire(place.where, "report", 30)
    found = []
    waiting = threading.Thread(target=lambda: found.append(acquire(place.where, "report", 30, wait=60)))
    waiting.start()
    assert first.release() is True
    waiting.join(60)
    assert found[0].fence > first.fence


def test_who_waited_in_vain_gets_none(place):
    acquire(place.where, "report", 30)
    assert acquire(place.where, "report", 30, wait=0.05) is None


def test_threads_that_count_under_a_lock_lose_nothing(place):
    count, fences = [0], []

    def work():
        for _ in range(5):
            with lock(place.where, "count", 30, wait=30) as held:
                seen = count[0]
                threading.Event().wait(0.001)
                count[0] = seen + 1
                fences.append(held.fence)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert count == [15]
    assert fences == sorted(set(fences))


def test_a_block_under_a_lock_releases_it_at_its_end(place):
    with lock(place.where, "report", 30) as first:
        with pytest.raises(LockNotAcquired, match="report"):
            lock(place.where, "report", 30)
        first.check()
    with pytest.raises(KeyError), lock(place.where, "report", 30) as second:
        raise KeyError("ours")
    assert acquire(place.where, "report", 30).fence > second.fence > first.fence


def test_a_block_that_outlives_its_lock_says_so(place):
    first = lock(place.where, "report", place.short)
    with pytest.raises(LockLost, match="report") as caught, first:
        acquire(place.where, "report", 30, wait=60)
    assert caught.value.fence == first.fence
    with pytest.raises(LockLost):
        first.check()
    assert acquire(place.where, "report", 30) is None


def test_names_are_only_names(place):
    locks = {name: acquire(place.where, name, 30) for name in ODD_NAMES}
    assert [name for name, found in locks.items() if found is None] == []
    assert acquire(place.where, ODD_NAMES[-1], 30) is None
    assert all(found.release() for found in locks.values())


def test_a_name_is_swept_when_its_lock_has_long_ended_and_its_fence_still_grows(place, monkeypatch):
    backend = backend_for(place.where)
    assert acquire(place.where, "kept", 30).release()
    backend.sweep(5)
    assert ("kept" in keys_at(place)) is (place.kind != "etcd")  # which keeps nothing of what is over

    monkeypatch.setattr(backend, "kept", 0.0)
    held, over = acquire(place.where, "held", 30), acquire(place.where, "over", 30)
    assert over.release()
    while "over" in keys_at(place):  # until the clock of the server shows a later time than the fence
        backend.sweep(5)
    assert "held" in keys_at(place)
    assert held.extend() is True
    assert acquire(place.where, "over", 30).fence > over.fence


def test_a_lock_that_is_renewed_outlives_its_time_and_ends_with_its_release(place):
    first = acquire(place.where, "report", RENEWED, renew=True)
    witness = acquire(place.where, "witness", RENEWED)
    assert acquire(place.where, "witness", 30, wait=60).fence > witness.fence
    assert acquire(place.where, "report", 30) is None
    assert first.held
    assert not first.lost.is_set()
    assert first.release() is True
    assert not first.lost.is_set()
    assert acquire(place.where, "report", 30).fence > first.fence


def test_locks_that_are_held_are_listed_with_their_holder_and_their_end(place):
    before = SYSTEM_CLOCK.now()
    held = {name: acquire(place.where, name, 30) for name in ("b:2", "a", "b:1", "c")}
    assert held.pop("c").release()
    found = held_locks(place.where)
    assert [(each.name, each.fence) for each in found] == [(name, held[name].fence) for name in ("a", "b:1", "b:2")]
    host, _, process = found[0].holder.rpartition(":")
    assert (socket.gethostname()[: len(host)], process) == (host, str(os.getpid()))
    assert host
    for each in found:
        assert timedelta(seconds=25) < each.until - before < timedelta(hours=1)
    assert all(lock.token[:32] not in repr(found) for lock in held.values())
    assert held["a"].extend(3600)
    (longer,) = held_locks(place.where, "a")
    assert longer.until > found[0].until + timedelta(minutes=30)


def test_locks_are_listed_by_the_beginning_of_their_names_and_no_more_than_wanted(place):
    for name in ("a", "a%", "a_", "ab", "A", "b", "a/b", "ä", "ab~"):
        assert acquire(place.where, name, 30)
    assert {each.name for each in held_locks(place.where, "a")} == {"a", "a%", "a_", "ab", "a/b", "ab~"}
    assert [each.name for each in held_locks(place.where, "ab")] == ["ab", "ab~"]
    assert [each.name for each in held_locks(place.where, "a%")] == ["a%"]
    assert [each.name for each in held_locks(place.where, "ä")] == ["ä"]
    assert held_locks(place.where, "none") == []
    assert len(held_locks(place.where, limit=3)) == 3


def test_every_lock_can_be_broken_under_the_name_that_it_is_listed_by(place):
    held = {name: acquire(place.where, name, 30) for name in ODD_NAMES}
    listed = held_locks(place.where)
    assert {each.fence for each in listed} == {lock.fence for lock in held.values()}
    short = {name for name in ODD_NAMES if len(key_of(name)) < 200}
    assert {each.name for each in listed} >= short
    assert all(break_lock(place.where, each.name, each.fence) for each in listed)
    assert held_locks(place.where) == []
    assert all(acquire(place.where, name, 30).fence > lock.fence for name, lock in held.items())


def test_a_lock_is_broken_for_its_holder_and_for_no_other(place):
    first = acquire(place.where, "report", 30)
    assert break_lock(place.where, "report", first.fence + 1) is False
    assert break_lock(place.where, "unknown", first.fence) is False
    assert acquire(place.where, "report", 30) is None
    assert break_lock(place.where, "report", first.fence) is True
    assert break_lock(place.where, "report", first.fence) is False
    assert first.extend() is False
    assert first.lost.is_set()
    assert not first.held
    assert first.release() is False
    second = acquire(place.where, "report", 30)
    assert second.fence > first.fence
    assert break_lock(place.where, "report", first.fence) is False
    assert second.extend() is True


def test_the_holder_of_a_broken_lock_cannot_release_it(place):
    first = acquire(place.where, "report", 30)
    assert break_lock(place.where, "report", first.fence) is True
    assert first.release() is False
    assert acquire(place.where, "report", 30).fence > first.fence


def test_a_lock_whose_time_is_over_is_neither_listed_nor_broken(place):
    first = acquire(place.where, "report", place.short)
    witness = acquire(place.where, "witness", place.short)
    later = acquire(place.where, "witness", 30, wait=60)
    while place.kind == "etcd" and "report" in keys_at(place):  # it ends leases in its own time
        assert acquire(place.where, "other", place.short, wait=60)
    assert witness.fence < later.fence
    assert [each.name for each in held_locks(place.where) if each.name != "other"] == ["witness"]
    assert break_lock(place.where, "report", first.fence) is False
