"""Locks between processes: nobody loses a count, and neither the dead nor those who stood still keep others off."""

from __future__ import annotations

import os
import signal

import pytest
import warm
from lock_places import NODE, RENEWED, SHARED, Holder

from goscheduler.locks import acquire

#: ``GOSCHEDULER_FULL=1`` counts to a thousand, and freezes a holder on every server.
FULL = bool(os.environ.get("GOSCHEDULER_FULL"))
TIMES = 125 if FULL else 4
PROCESSES = 8


@pytest.mark.parametrize("place", SHARED if FULL else ["sqlite", "redis", "zookeeper"], indirect=True)
def test_eight_processes_that_count_under_a_lock_lose_nothing(place, tmp_path):
    file = tmp_path / "count"
    file.write_text("0 0")
    done = warm.run(NODE, "count", place.where, str(PROCESSES), str(TIMES), file, timeout=280)
    assert done.returncode == 0, done.stderr
    assert int(file.read_text().split()[0]) == PROCESSES * TIMES


@pytest.mark.parametrize("place", SHARED if FULL else ["redis", "postgresql", "etcd"], indirect=True)
def test_a_holder_that_stood_still_finds_that_it_was_replaced_and_changes_nothing(place):
    with Holder(place.where, "report", RENEWED, "renew") as frozen:
        assert acquire(place.where, "report", 30) is None
        frozen.process.send_signal(signal.SIGSTOP)
        second = acquire(place.where, "report", 30, wait=60)
        frozen.process.send_signal(signal.SIGCONT)
        assert frozen.ask("lost") == "True"
        assert [frozen.ask(question) for question in ("held", "extend", "release")] == ["False"] * 3
        assert second.fence > frozen.fence
        assert second.extend() is True


@pytest.mark.parametrize("place", ["redis"], indirect=True)
def test_a_lock_of_a_process_that_was_killed_is_free_when_its_time_is_over(place):
    with Holder(place.where, "report", RENEWED, "renew") as killed:
        assert acquire(place.where, "report", 30) is None
        killed.kill()
        assert acquire(place.where, "report", 30, wait=60).fence > killed.fence


@pytest.mark.parametrize("place", ["redis"], indirect=True)
def test_a_forked_child_does_not_have_the_lock_of_its_parent(place, tmp_path):
    source = f"""
import os
from goscheduler.locks import acquire, lock
with lock({place.where!r}, "report", 30, renew=True) as held:
    child = os.fork()
    if not child:
        assert not held.held and not held.extend() and not held.release()
        assert acquire({place.where!r}, "report") is None
        with lock({place.where!r}, "other", {RENEWED}, renew=True) as own:
            assert acquire({place.where!r}, "other", wait={RENEWED + 0.5}) is None and own.held
        held.__exit__(None, None, None)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert held.extend()
assert acquire({place.where!r}, "report").fence > held.fence
"""
    done = warm.run("-c", source)
    assert done.returncode == 0, done.stderr
