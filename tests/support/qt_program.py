"""A Qt program that does with a QtScheduler what there is to do, and fails where something is not as promised.

    python qt_program.py STORE_URL

It prints the name of each step that went well. The GUI thread belongs to the event loop; the steps are another thread.
"""

from __future__ import annotations

import sys
import threading
import traceback
from datetime import datetime, timedelta, timezone

import pytest

from goscheduler import QtScheduler, current_run
from goscheduler.events import (
    EVENT_JOB_CANCELLED,
    EVENT_JOB_ERROR,
    EVENT_JOB_EXECUTED,
    EVENT_JOB_MISSED,
    EVENT_JOB_STARTED,
    EVENT_JOB_SUBMITTED,
    EVENT_JOB_SUSPENDED,
    EVENT_SCHEDULER_RESUMED,
    EVENT_SCHEDULER_SHUTDOWN,
)
from goscheduler.executors.qt import QtCore
from goscheduler.testing import EventRecorder

LIMIT = 60


def on_gui():
    return threading.current_thread() is threading.main_thread()


async def on_gui_later():
    return on_gui()


def fail():
    raise LookupError("on purpose")


def obedient():
    never = threading.Event()
    while not current_run().cancelled:
        never.wait(0.001)
    current_run().check()


class Gate:
    def __init__(self):
        self.reached, self.open = threading.Event(), threading.Event()

    def __call__(self):
        self.reached.set()
        assert self.open.wait(LIMIT)
        return on_gui()


def wait_until(condition):
    moment = threading.Event()
    for _ in range(LIMIT * 1000):
        if condition():
            return
        moment.wait(0.001)
    raise AssertionError("waited in vain")


def without_an_application_jobs_run_on_threads():
    scheduler = QtScheduler(timezone="UTC")
    heard = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(on_gui, id="thread")
    scheduler.add_job(on_gui, executor="qt", id="early")
    assert heard.wait_for(EVENT_JOB_EXECUTED, "thread").retval is False
    heard.wait_for(EVENT_JOB_SUSPENDED, "early")
    scheduler.shutdown()
    with pytest.raises(RuntimeError, match="make a QApplication before the scheduler is started"):
        QtScheduler(event_dispatch="qt").start()


def a_job_runs_where_its_executor_says(scheduler, heard):
    for name, func, executor, expected in (
        ("thread", on_gui, "default", False), ("gui", on_gui, "qt", True), ("later", on_gui_later, "qt", True),
    ):  # fmt: skip
        scheduler.add_job(func, executor=executor, id=name)
        assert heard.wait_for(EVENT_JOB_EXECUTED, name).retval is expected
    scheduler.add_job(fail, executor="qt", id="bad")
    assert isinstance(heard.wait_for(EVENT_JOB_ERROR, "bad").exception, LookupError)


def a_run_is_told_to_end_and_given_up_while_the_gui_thread_goes_on(scheduler, heard):
    gate = Gate()
    scheduler.add_job(obedient, executor="qt", id="obedient", timeout=0.01)
    assert isinstance(heard.wait_for(EVENT_JOB_ERROR, "obedient").exception, TimeoutError)
    scheduler.add_job(gate, executor="qt", id="stubborn", timeout=0.01)
    assert isinstance(heard.wait_for(EVENT_JOB_ERROR, "stubborn").exception, TimeoutError)
    assert gate.reached.is_set()
    scheduler.add_job(on_gui, "interval", hours=1, executor="qt", id="behind")
    run_id = scheduler.run_now("behind")
    heard.wait_for(EVENT_JOB_SUBMITTED, "behind")
    assert scheduler.cancel_run(run_id, "not needed")
    heard.wait_for(EVENT_JOB_CANCELLED, "behind")
    gate.open.set()
    scheduler.add_job(on_gui, executor="qt", id="after")
    heard.wait_for(EVENT_JOB_EXECUTED, "after")
    assert not heard.of(EVENT_JOB_STARTED, "behind")


def a_paused_scheduler_waits_and_a_late_run_is_missed(scheduler, heard):
    scheduler.pause()
    scheduler.add_job(on_gui, executor="qt", id="patient")
    options = {"next_run_time": datetime.now(timezone.utc) - timedelta(hours=1), "misfire_grace_time": 1}
    scheduler.add_job(on_gui, "interval", hours=2, executor="qt", id="late", **options)
    scheduler.resume()
    heard.wait_for(EVENT_JOB_EXECUTED, "patient")
    heard.wait_for(EVENT_JOB_MISSED, "late")
    resumed, submitted = heard.of(EVENT_SCHEDULER_RESUMED)[0], heard.of(EVENT_JOB_SUBMITTED, "patient")[0]
    assert heard.events.index(resumed) < heard.events.index(submitted)


def a_stored_job_runs(scheduler, heard):
    scheduler.add_jobstore(sys.argv[1], "file")
    scheduler.add_job(on_gui, executor="qt", jobstore="file", id="stored")
    assert heard.wait_for(EVENT_JOB_EXECUTED, "stored").retval is True


def a_shutdown_on_the_gui_thread_lets_jobs_and_listeners_end_there(scheduler, heard):
    other, places, seen = QtScheduler(timezone="UTC", event_dispatch="qt"), [], []
    other.add_listener(lambda event: places.append((event.code, on_gui())))
    thread_job, gui_job = Gate(), Gate()
    gui_job.open.set()

    def shut_down():
        assert thread_job.reached.wait(LIMIT)
        other.add_job(gui_job, executor="qt", id="gui")
        wait_until(lambda: other.engine.executors["qt"].live())
        seen.append(gui_job.reached.is_set())  # not yet: this thread is busy with us
        thread_job.open.set()
        other.shutdown()
        seen.append(gui_job.reached.is_set())

    other.start()
    other.add_job(thread_job, id="thread")
    scheduler.add_job(shut_down, executor="qt", id="shut-down")
    heard.wait_for(EVENT_JOB_EXECUTED, "shut-down")
    assert seen == [False, True]
    assert places[-1] == (EVENT_SCHEDULER_SHUTDOWN, True)
    assert {on_gui for _, on_gui in places} == {True}
    assert len([code for code, _ in places if code == EVENT_JOB_EXECUTED]) == 2


def a_shutdown_after_the_event_loop_has_ended_does_not_wait_for_it(scheduler, heard):
    jobs_left = Gate()
    scheduler.add_job(jobs_left, executor="qt", id="never")
    heard.wait_for(EVENT_JOB_SUBMITTED, "never")
    scheduler.shutdown()
    assert not jobs_left.reached.is_set()


STEPS = [
    a_job_runs_where_its_executor_says, a_run_is_told_to_end_and_given_up_while_the_gui_thread_goes_on,
    a_paused_scheduler_waits_and_a_late_run_is_missed, a_stored_job_runs,
    a_shutdown_on_the_gui_thread_lets_jobs_and_listeners_end_there,
]  # fmt: skip


class OtherThread(threading.Thread):
    """Runs steps, and then, or after the first that fails, calls something."""

    def __init__(self, steps, scheduler, heard, then=lambda: None):
        super().__init__(daemon=True)
        self.steps, self.with_what, self.then, self.failed = steps, (scheduler, heard), then, False

    def run(self):
        try:
            for step in self.steps:
                step(*self.with_what)
                print(step.__name__)
        except BaseException:
            self.failed = True
            traceback.print_exc()
        self.then()


def main():
    without_an_application_jobs_run_on_threads()
    print("without_an_application_jobs_run_on_threads")
    application = QtCore.QCoreApplication([])
    scheduler = QtScheduler(timezone="UTC")
    heard = EventRecorder(scheduler)
    scheduler.start()
    scheduler.engine.executors["qt"].grace_seconds = 0.01
    driver = OtherThread(STEPS, scheduler, heard, then=application.quit)
    driver.start()
    application.exec()
    last = OtherThread([a_shutdown_after_the_event_loop_has_ended_does_not_wait_for_it], scheduler, heard)
    last.start()
    last.join(LIMIT)
    assert not driver.failed
    assert not last.failed
    assert not last.is_alive()


if __name__ == "__main__":
    main()
