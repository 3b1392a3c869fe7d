"""A Twisted program that does with a TwistedScheduler all that there is to do, and fails where a promise breaks.

    python twisted_program.py STORE_URL

It prints the name of each step that went well. A reactor cannot be started twice in one process.
"""

from __future__ import annotations

import sys
import threading
from datetime import datetime, timedelta, timezone
from functools import partial

from twisted.internet import reactor
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.python.threadable import isInIOThread

from goscheduler import TwistedScheduler, current_run
from goscheduler.events import (
    EVENT_JOB_CANCELLED,
    EVENT_JOB_ERROR,
    EVENT_JOB_EXECUTED,
    EVENT_JOB_MISSED,
    EVENT_JOB_STARTED,
    EVENT_JOB_SUBMITTED,
    EVENT_SCHEDULER_RESUMED,
)
from goscheduler.testing import EventRecorder

LIMIT = 60


def soon():
    return deferLater(reactor, 0, lambda: None)


def in_a_thread():
    return isInIOThread(), current_run().job_id


async def in_a_coroutine():
    await soon()
    return isInIOThread(), current_run().job_id


@inlineCallbacks
def in_a_generator():
    yield soon()
    return isInIOThread(), current_run().job_id


def annotated() -> Deferred[str]:
    return soon().addCallback(lambda _: isInIOThread())


def returned_by_a_thread():
    assert not isInIOThread()
    later = Deferred()
    reactor.callFromThread(later.callback, "in the end")
    return later


def fail():
    raise LookupError("on purpose")


async def fail_later():
    await soon()
    raise LookupError("on purpose")


async def endless():
    await Deferred()


@inlineCallbacks
def stubborn(let_go, told):
    while not let_go.called:
        try:
            yield Deferred()
        except BaseException:
            told.append(current_run().cancel_reason)
            yield let_go


class Steps:
    def __init__(self):
        self.scheduler = TwistedScheduler(timezone="UTC")
        self.recorder = EventRecorder(self.scheduler)
        self.heard_on = []
        self.scheduler.add_listener(self.hear, EVENT_JOB_EXECUTED)

    async def hear(self, event):
        self.heard_on.append(isInIOThread())

    def heard(self, code, job_id):
        """Return a Deferred of the event, without blocking the reactor."""
        return deferToThread(self.recorder.wait_for, code, job_id)

    async def each_kind_of_function_runs_where_it_should(self):
        expected = {
            "thread": (in_a_thread, (False, "thread")), "coroutine": (in_a_coroutine, (True, "coroutine")),
            "generator": (partial(in_a_generator), (True, "generator")), "annotated": (annotated, True),
            "returned": (returned_by_a_thread, "in the end"),
        }  # fmt: skip
        for name, (func, _) in expected.items():
            self.scheduler.add_job(func, id=name)
        for name, (_, result) in expected.items():
            assert (await self.heard(EVENT_JOB_EXECUTED, name)).retval == result
        await deferToThread(self.scheduler.engine.bus.flush, LIMIT)
        assert self.heard_on == [True] * 5
        for func in (fail, fail_later):
            self.scheduler.add_job(func, id=func.__name__)
            assert isinstance((await self.heard(EVENT_JOB_ERROR, func.__name__)).exception, LookupError)

    async def a_cancelled_run_has_its_deferred_cancelled(self):
        self.scheduler.add_job(endless, id="endless")
        run_id = (await self.heard(EVENT_JOB_STARTED, "endless")).run_id
        assert self.scheduler.cancel_run(run_id, "not needed")
        await self.heard(EVENT_JOB_CANCELLED, "endless")

    async def a_run_out_of_time_is_cancelled_and_one_that_goes_on_is_given_up(self):
        let_go, told = Deferred(), []
        self.scheduler.add_job(endless, id="slow", timeout=0.01)
        self.scheduler.add_job(stubborn, args=[let_go, told], id="stubborn", timeout=0.01)
        for name in ("slow", "stubborn"):
            assert isinstance((await self.heard(EVENT_JOB_ERROR, name)).exception, TimeoutError)
        assert [reason.split(" of ")[0] for reason in told] == ["it ran longer than its timeout"]
        let_go.callback(None)

    async def a_paused_scheduler_waits_and_a_late_run_is_missed(self):
        self.scheduler.pause()
        self.scheduler.add_job(in_a_coroutine, id="patient")
        hour_ago = datetime.now(timezone.utc) - timedelta(hours=1)
        self.scheduler.add_job(
            in_a_thread, "interval", hours=2, next_run_time=hour_ago, misfire_grace_time=1, id="late"
        )
        self.scheduler.resume()
        await self.heard(EVENT_JOB_EXECUTED, "patient")
        await self.heard(EVENT_JOB_MISSED, "late")
        events, of = self.recorder.events, self.recorder.of
        assert events.index(of(EVENT_SCHEDULER_RESUMED)[0]) < events.index(of(EVENT_JOB_SUBMITTED, "patient")[0])
        assert not self.recorder.of(EVENT_JOB_STARTED, "late")

    async def a_stored_job_runs(self):
        self.scheduler.add_jobstore(sys.argv[1], "file")
        self.scheduler.add_job(in_a_coroutine, jobstore="file", id="stored")
        assert (await self.heard(EVENT_JOB_EXECUTED, "stored")).retval == (True, "stored")

    async def a_shutdown_on_the_reactor_waits_for_jobs_and_the_scheduler_starts_again(self):
        go_on, release = Deferred(), threading.Event()

        async def last():
            await go_on

        self.scheduler.add_job(last, id="last")
        self.scheduler.add_job(release.wait, args=[LIMIT], id="last-thread")
        await self.heard(EVENT_JOB_STARTED, "last")
        await self.heard(EVENT_JOB_STARTED, "last-thread")
        done = self.scheduler.shutdown()
        reactor.callLater(0, go_on.callback, None)
        reactor.callLater(0, release.set)
        await done
        assert self.recorder.of(EVENT_JOB_EXECUTED, "last")
        assert self.recorder.of(EVENT_JOB_EXECUTED, "last-thread")
        self.scheduler.start()
        self.scheduler.add_job(in_a_thread, id="again")
        await self.heard(EVENT_JOB_EXECUTED, "again")

    async def a_shutdown_without_waiting_cancels(self):
        self.scheduler.add_job(endless, id="cancelled")
        await self.heard(EVENT_JOB_STARTED, "cancelled")
        await self.scheduler.shutdown(wait=False)
        assert self.recorder.of(EVENT_JOB_CANCELLED, "cancelled")
        self.scheduler.start()

    async def a_reactor_that_stops_waits_for_jobs(self):
        go_on = Deferred()

        async def outlasting():
            await go_on

        self.scheduler.add_job(outlasting, id="outlasting")
        await self.heard(EVENT_JOB_STARTED, "outlasting")
        reactor.callLater(0, reactor.stop)
        # Called when the reactor has begun to stop, while it waits for the scheduler.
        reactor.addSystemEventTrigger("before", "shutdown", go_on.callback, None)

    async def all(self):
        try:
            for step in (
                self.each_kind_of_function_runs_where_it_should, self.a_cancelled_run_has_its_deferred_cancelled,
                self.a_run_out_of_time_is_cancelled_and_one_that_goes_on_is_given_up,
                self.a_paused_scheduler_waits_and_a_late_run_is_missed, self.a_stored_job_runs,
                self.a_shutdown_on_the_reactor_waits_for_jobs_and_the_scheduler_starts_again,
                self.a_shutdown_without_waiting_cancels, self.a_reactor_that_stops_waits_for_jobs,
            ):  # fmt: skip
                await step()
                print(step.__name__)
        except BaseException:
            reactor.stop()
            raise


def main():
    steps = Steps()
    steps.scheduler.start()  # before the reactor runs, as programs do
    steps.scheduler.engine.executors["default"].grace_seconds = 0.01
    ended = []
    reactor.callWhenRunning(lambda: Deferred.fromCoroutine(steps.all()).addErrback(ended.append))
    reactor.run()
    for failure in ended:
        failure.printTraceback(sys.stderr)
    assert not ended
    assert not steps.scheduler.running
    assert steps.recorder.of(EVENT_JOB_EXECUTED, "outlasting")
    print("the_reactor_has_stopped")


if __name__ == "__main__":
    main()
