"""A gevent program that does with a GeventScheduler what there is to do, and fails where something is not as promised.

    python gevent_program.py patched|unpatched FOLDER [POSTGRESQL_URL]

It prints the name of each step that went well. Nothing here may have been imported before gevent has patched.
"""

from __future__ import annotations

import sys

if sys.argv[1] == "patched":
    from gevent import monkey

    monkey.patch_all()

import atexit

ENDED = []
if __name__ == "__main__":
    # Before the scheduler registers what it does then: the last that was registered is called first.
    atexit.register(lambda: print("the_end_of_the_interpreter_waits" if ENDED == [True] else "it does not wait"))

import asyncio  # noqa: E402
import os  # noqa: E402
import threading  # noqa: E402
from contextlib import suppress  # noqa: E402
from datetime import datetime, timedelta, timezone  # noqa: E402
from pathlib import Path  # noqa: E402

import gevent  # noqa: E402
from gevent.event import Event  # noqa: E402
from gevent.monkey import get_original  # noqa: E402

from goscheduler import GeventScheduler, RunCancelled, current_run  # noqa: E402
from goscheduler.events import (  # noqa: E402
    EVENT_JOB_CANCELLED,
    EVENT_JOB_ERROR,
    EVENT_JOB_EXECUTED,
    EVENT_JOB_MISSED,
    EVENT_JOB_STARTED,
    EVENT_JOB_SUBMITTED,
    EVENT_SCHEDULER_RESUMED,
    EVENT_SCHEDULER_SHUTDOWN,
)

LIMIT = 120
PATCHED = sys.argv[1] == "patched"
native_thread = get_original("_thread", "get_ident")
HUB_THREAD = native_thread()


class Heard:
    """Every event, and a way to wait for one."""

    def __init__(self):
        self.events = []
        self.more = Event()

    def __call__(self, event):
        assert native_thread() == HUB_THREAD, "listeners are called on the hub"
        assert isinstance(gevent.getcurrent(), gevent.Greenlet)
        gevent.sleep(0)  # which means that they may wait
        self.events.append(event)
        self.more.set()

    def find(self, code, job_id=None):
        return next((e for e in self.events if e.code == code and job_id == (job_id and e.job_id)), None)

    def wait(self, code, job_id=None):
        with gevent.Timeout(LIMIT, AssertionError(f"no {code!r} of {job_id} among {self.events}")):
            while (event := self.find(code, job_id)) is None:
                self.more.clear()
                self.more.wait()
        return event


def where():
    return isinstance(gevent.getcurrent(), gevent.Greenlet), native_thread() == HUB_THREAD, current_run().job_id


async def later():
    await asyncio.sleep(0)
    return native_thread() != HUB_THREAD, current_run().job_id


def fail():
    raise LookupError("on purpose")


def wait_in_a_child(path):
    while not Path(path).exists():
        gevent.sleep(0.01)
    return os.getpid()


class Endless:
    """A job that waits until it is killed, and may take no notice of the first."""

    def __init__(self, lives=1):
        self.lives = lives
        self.killed = []

    def __call__(self):
        while self.lives:
            try:
                Event().wait()
            except RunCancelled as error:
                self.killed.append(error.reason)
                self.lives -= 1
                if not self.lives:
                    raise


def greenlets_run_and_events_are_heard(scheduler, heard):
    scheduler.add_job(where, id="plain")
    for name in ("one", "two"):
        scheduler.add_job(later, id=name)
    scheduler.add_job(fail, id="bad")
    assert heard.wait(EVENT_JOB_EXECUTED, "plain").retval == (True, True, "plain")
    for name in ("one", "two"):
        assert heard.wait(EVENT_JOB_EXECUTED, name).retval == (True, name)
    assert isinstance(heard.wait(EVENT_JOB_ERROR, "bad").exception, LookupError)


def a_cancelled_run_is_killed(scheduler, heard):
    job = Endless()
    scheduler.add_job(job, id="endless")
    run_id = heard.wait(EVENT_JOB_STARTED, "endless").run_id
    assert scheduler.cancel_run(run_id, "not needed")
    heard.wait(EVENT_JOB_CANCELLED, "endless")
    assert job.killed == ["not needed"]


def a_run_out_of_time_is_killed_and_killed_again_when_it_is_given_up(scheduler, heard):
    stubborn = Endless(lives=2)
    scheduler.add_job(stubborn, id="stubborn", timeout=0.01)
    assert isinstance(heard.wait(EVENT_JOB_ERROR, "stubborn").exception, TimeoutError)
    with gevent.Timeout(LIMIT):
        while stubborn.lives:
            gevent.sleep(0)
    assert len(stubborn.killed) == 2


def a_paused_scheduler_waits_and_a_late_run_is_missed(scheduler, heard):
    scheduler.pause()
    scheduler.add_job(where, id="patient")
    hour_ago = datetime.now(timezone.utc) - timedelta(hours=1)
    scheduler.add_job(where, "interval", hours=2, next_run_time=hour_ago, misfire_grace_time=1, id="late")
    scheduler.resume()
    heard.wait(EVENT_JOB_EXECUTED, "patient")
    heard.wait(EVENT_JOB_MISSED, "late")
    resumed = heard.events.index(heard.find(EVENT_SCHEDULER_RESUMED))
    assert heard.events.index(heard.find(EVENT_JOB_SUBMITTED, "patient")) > resumed
    assert heard.find(EVENT_JOB_STARTED, "late") is None


def child_processes_work(scheduler, heard):
    scheduler.add_executor("processpool", "processes", max_workers=1)
    path = Path(sys.argv[2]) / "go on"
    scheduler.add_job(wait_in_a_child, args=[str(path)], executor="processes", id="child")
    heard.wait(EVENT_JOB_STARTED, "child")
    path.touch()  # the hub turns while the child runs
    assert heard.wait(EVENT_JOB_EXECUTED, "child").retval != os.getpid()


def a_stored_job_runs(scheduler, heard):
    path = Path(sys.argv[2]) / "jobs.sqlite"
    scheduler.add_jobstore("sqlalchemy", "file", url=f"sqlite:///{path}")
    scheduler.add_job(where, jobstore="file", id="stored")
    assert heard.wait(EVENT_JOB_EXECUTED, "stored").retval == (True, True, "stored")


def a_store_that_waits_for_its_server_lets_others_run(scheduler, heard):
    import psycopg

    scheduler.add_jobstore(sys.argv[3], "server")
    scheduler.add_job(where, "interval", hours=1, jobstore="server", id="known")
    plain_url = sys.argv[3].replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(plain_url) as connection:
        tables = connection.execute("select tablename from pg_tables where schemaname = current_schema()").fetchall()
        for (table,) in tables:
            connection.execute(f'lock table "{table}" in access exclusive mode')
        adding = gevent.spawn(scheduler.add_job, where, jobstore="server", id="locked-out")
        scheduler.add_job(where, id="meanwhile")
        heard.wait(EVENT_JOB_EXECUTED, "meanwhile")
        assert tables
        assert not adding.ready(), "the lock did not keep the store waiting"
    adding.get(timeout=LIMIT)
    heard.wait(EVENT_JOB_EXECUTED, "locked-out")


def a_shutdown_waits_while_the_hub_turns(scheduler, heard):
    go_on, started = Event(), Event()

    def job():
        started.set()
        go_on.wait()
        return "done"

    scheduler.add_job(job, id="last")
    assert started.wait(LIMIT)
    gevent.spawn_later(0, go_on.set)
    scheduler.shutdown()
    assert heard.wait(EVENT_JOB_EXECUTED, "last").retval == "done"
    assert heard.events[-1].code == EVENT_SCHEDULER_SHUTDOWN


def a_shutdown_without_waiting_kills(scheduler, heard):
    job = Endless()
    scheduler.start()
    scheduler.add_job(job, id="killed")
    heard.wait(EVENT_JOB_STARTED, "killed")
    scheduler.shutdown(wait=False)
    assert job.killed == ["the executor was shut down"]


def a_listener_can_shut_down(scheduler, heard):
    scheduler.add_listener(lambda event: scheduler.shutdown(), EVENT_JOB_EXECUTED)
    staying = scheduler.start()
    scheduler.add_job(where, id="ender")
    staying.join(LIMIT)
    assert staying.ready()
    assert not scheduler.running


def the_end_of_the_interpreter_waits(ended):
    """Leave a job behind that goes on when the program is through."""
    scheduler, started = GeventScheduler(timezone="UTC"), Event()

    def job():
        started.set()
        gevent.sleep(0.01)
        ended.append(current_run().job_id == "at-exit")

    scheduler.add_job(job, id="at-exit")
    scheduler.start()
    assert started.wait(LIMIT)


def main():
    scheduler, heard = GeventScheduler(timezone="UTC"), Heard()
    scheduler.add_listener(heard)
    staying = scheduler.start()
    scheduler.engine.executors["default"].grace_seconds = 0.01
    steps = [
        greenlets_run_and_events_are_heard, a_cancelled_run_is_killed,
        a_run_out_of_time_is_killed_and_killed_again_when_it_is_given_up,
        a_paused_scheduler_waits_and_a_late_run_is_missed, child_processes_work, a_stored_job_runs,
    ]  # fmt: skip
    if len(sys.argv) > 3:
        steps.append(a_store_that_waits_for_its_server_lets_others_run)
    for step in steps:
        step(scheduler, heard)
        print(step.__name__)
    assert not staying.ready()
    a_shutdown_waits_while_the_hub_turns(scheduler, heard)
    staying.join(LIMIT)
    assert staying.ready()
    print("a_shutdown_waits_while_the_hub_turns")
    for step in (a_shutdown_without_waiting_kills, a_listener_can_shut_down):
        step(scheduler, heard)
        print(step.__name__)
    assert PATCHED or threading.Thread is get_original("threading", "Thread")
    scheduler.remove_listener(heard)
    the_end_of_the_interpreter_waits(ENDED)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
