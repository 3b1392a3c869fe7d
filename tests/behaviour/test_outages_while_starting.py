"""A server that goes away while a scheduler starts is waited for, at whatever step of the start that happens.

SQLite is not among them: it has no server that could go away.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from behaviour_doubles import calls, note

from goscheduler.errors import StoreUnavailable
from goscheduler.events import EVENT_JOB_EXECUTED, EVENT_SCHEDULER_DEGRADED, EVENT_SCHEDULER_RECOVERED
from goscheduler.testing import EventRecorder

SERVERS = ["postgresql", "mariadb", "redis", "mongodb", "etcd", "zookeeper"]
#: What a store is asked after it was started, in this order.
STEPS = ["subscribe", "lookup_job", "add_job", "suspensions", "renew_owner"]
#: Servers that take many seconds to come back, or to be missed: two steps have to do.
SLOW = {"mongodb", "zookeeper"}
#: Seconds for what takes a moment on an idle machine.
LIMIT = 60

pytestmark = [pytest.mark.serial, pytest.mark.timeout(300)]


@pytest.fixture(params=SERVERS)
def server(request, private_server):
    return private_server(request.param)


@pytest.fixture
def start_losing_the_server(server, schedulers, caplog):
    """Return a function that starts a scheduler whose server is away from one step on until that was noticed."""

    def start(step, name, loss):
        url = f"{server.url}/start" if server.kind in ("etcd", "zookeeper") else server.url
        scheduler = schedulers(jobstores={"default": url})
        recorder = EventRecorder(scheduler)
        store = scheduler.engine.stores["default"]
        asked, losses = getattr(store, step), [loss]

        def lose(*args, **kwargs):
            return losses.pop()(partial(asked, *args, **kwargs)) if losses else asked(*args, **kwargs)

        setattr(store, step, lose)
        scheduler.add_job(note, id=name, args=[name], misfire_grace_time=None)
        caplog.clear()
        waits = threading.Event()
        scheduler.add_listener(lambda _: waits.set(), EVENT_SCHEDULER_DEGRADED)
        with ThreadPoolExecutor(1) as pool:
            starting = pool.submit(scheduler.start)
            starting.add_done_callback(lambda _: waits.set())
            assert waits.wait(LIMIT)
            assert not starting.done() or starting.result(), "it has not waited"
            server.restart()
            starting.result(LIMIT)
        recorder.wait_for(EVENT_JOB_EXECUTED, name, timeout=LIMIT)
        scheduler.shutdown()
        return recorder

    return start


def test_a_server_that_is_killed_at_any_step_of_the_start_is_waited_for(
    server, start_losing_the_server, caplog, jobcalls
):
    def kill(ask):
        server.kill()
        return ask()

    steps = ["subscribe", "add_job"] if server.kind in SLOW else STEPS
    for step in steps:
        recorder = start_losing_the_server(step, f"killed at {step}", kill)
        told = [record for record in caplog.records if "cannot be reached" in record.getMessage()]
        assert [record.levelname for record in told] == ["WARNING"], step
        assert len(recorder.of(EVENT_SCHEDULER_DEGRADED)) == len(recorder.of(EVENT_SCHEDULER_RECOVERED)) == 1, step
    assert calls == [f"killed at {step}" for step in steps]


@pytest.mark.parametrize("server", ["redis"], indirect=True)
def test_a_job_whose_addition_was_written_and_not_confirmed_is_not_taken_for_somebody_elses(
    server, start_losing_the_server, jobcalls
):
    def lose_the_answer(ask):
        ask()
        server.kill()
        raise StoreUnavailable("the answer was lost")

    start_losing_the_server("add_job", "unconfirmed", lose_the_answer)
    assert calls == ["unconfirmed"]
