"""One process of a cluster: a scheduler on a shared store. Ends when its standard input is closed.

Its clock may be wrong by some seconds, and it may be told to kill itself at one step of the path of a firing.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from datetime import timedelta

import cluster_jobs

from goscheduler import BackgroundScheduler, ThreadPoolExecutor
from goscheduler.clock import SystemClock
from goscheduler.events import (
    EVENT_JOB_DEAD_LETTERED,
    EVENT_LEASE_LOST,
    EVENT_SCHEDULER_DEGRADED,
    EVENT_SCHEDULER_RECOVERED,
)
from goscheduler.runs.queries import Edited


class WrongClock(SystemClock):
    """A clock that is always wrong by the same amount."""

    def __init__(self, seconds: float) -> None:
        self._error = timedelta(seconds=seconds)

    def now(self):
        return super().now() + self._error

    __slots__ = ("_error",)


class Queueing(ThreadPoolExecutor):
    """Takes so many runs in advance as if all of them were short, and tells of each."""

    def __init__(self, workers, most):
        super().__init__(workers)
        self._most = most

    def room(self):
        return self._most

    def submit(self, run):
        super().submit(run)
        cluster_jobs.say("queued", run.job.id)


def end() -> None:
    """End as if the machine had lost its power."""
    os.kill(os.getpid(), signal.SIGKILL)


def when_planning(scheduler, store):
    """In the middle of the store's step, before anything is written."""
    fire = store.fire_due

    def fire_due(request):
        plan = request.plan

        def last_plan(*args):
            plan(*args)
            end()

        return fire(request._replace(plan=last_plan))

    store.fire_due = fire_due


def when_fired(scheduler, store):
    """After the firing was written, before anything is handed over."""
    fire = store.fire_due

    def fire_due(request):
        fired = fire(request)
        if fired.runs:
            end()
        return fired

    store.fire_due = fire_due


def when_submitted(scheduler, store):
    """After the hand-over, before the job's function is called."""
    scheduler.may_start = lambda run: end()


def when_reported(scheduler, store):
    """After the job's function has returned, before its end is written."""
    store.settle = lambda settlements: end()


def when_settled(scheduler, store):
    """After the end was written, before anybody is told."""
    settle = store.settle

    def settled(settlements):
        settle(settlements)
        end()

    store.settle = settled


def when_following(scheduler, store):
    """When a follower is about to be fired, because another job has ended."""
    store.edit_jobs = lambda job_ids, edit: end()


def when_followed(scheduler, store):
    """After a follower was given its time, before anybody is told."""
    edit_jobs = store.edit_jobs

    def edited(job_ids, edit):
        if edit_jobs(job_ids, edit).changed:
            end()
        return Edited(unchanged=job_ids)

    store.edit_jobs = edited


#: Steps at which a node can end. The job "die" ends it while it runs.
STEPS = {
    "planning": when_planning,
    "fired": when_fired,
    "submitted": when_submitted,
    "running": lambda scheduler, store: None,
    "reported": when_reported,
    "settled": when_settled,
    "following": when_following,
    "followed": when_followed,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--pipe", type=int, required=True)
    parser.add_argument("--skew", type=float, default=0.0)
    parser.add_argument("--lease", type=float, default=30.0)
    parser.add_argument("--executors", default="default")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--queue", type=int, default=0)
    parser.add_argument("--step", choices=STEPS)
    options = parser.parse_args()
    cluster_jobs.write_to(options.pipe)
    scheduler = BackgroundScheduler(
        jobstores={"default": options.url},
        executors={alias: executor(options) for alias in options.executors.split(",")},
        clock=WrongClock(options.skew),
        lease=options.lease,
        timezone="UTC",
    )
    scheduler.register("work", cluster_jobs.work)
    scheduler.register("wait", cluster_jobs.wait_for)
    events = EVENT_JOB_DEAD_LETTERED | EVENT_LEASE_LOST | EVENT_SCHEDULER_DEGRADED | EVENT_SCHEDULER_RECOVERED
    scheduler.add_listener(lambda event: cluster_jobs.say("event", event.code.name, os.getpid()), events)
    if options.step:
        STEPS[options.step](scheduler, scheduler.engine.stores["default"])
    scheduler.start()
    cluster_jobs.say("ready", os.getpid())
    sys.stdin.read()
    scheduler.shutdown()


def executor(options):
    return Queueing(options.workers, options.queue) if options.queue else ThreadPoolExecutor(options.workers)


if __name__ == "__main__":
    main()
