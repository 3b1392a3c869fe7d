"""A worker turns the loops that it can turn, and refuses a scheduler whose loop only its program can."""

from __future__ import annotations

import pytest

from goscheduler.cli._host import Host, HostEventKind
from goscheduler.events import EVENT_JOB_EXECUTED
from goscheduler.testing import EventRecorder


@pytest.mark.parametrize(("loop", "name"), [("gevent", "GeventScheduler"), ("tornado", "TornadoScheduler")])
def test_a_worker_turns_the_loop_of_its_scheduler(loop: str, name: str) -> None:
    module = pytest.importorskip(f"goscheduler.schedulers.{loop}", exc_type=ImportError)
    scheduler = getattr(module, name)(timezone="UTC")
    recorder, host = EventRecorder(scheduler), Host(scheduler)
    scheduler.add_job(int, id="once")

    host.start()
    assert host.next_event().kind is HostEventKind.STARTED
    recorder.wait_for(EVENT_JOB_EXECUTED, "once")
    host.stop()

    assert host.next_event().kind is HostEventKind.ENDED


def test_a_worker_refuses_a_scheduler_that_waits_for_a_reactor() -> None:
    module = pytest.importorskip("goscheduler.schedulers.twisted", exc_type=ImportError)
    host = Host(module.TwistedScheduler(timezone="UTC"))

    host.start()

    told = host.next_event()
    assert told.kind is HostEventKind.FAILED
    assert "runs its jobs on a loop that only reactor.run() turns; start it in a program of its own" in str(told.error)
    assert not host.scheduler.running
