"""Plays the operations of a workload, by a scheduler that fires nothing, and records what came of each.

The first line on standard output says that the standing jobs are there. SIGTERM ends it when what is going on has
ended.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import queue
import signal
import threading
import time
import zlib
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from places import Documents
from workload import Spec, Step, operations, standing

from goscheduler import BackgroundScheduler, Limit, Retry, fixed
from goscheduler.errors import ConflictingIdError, JobLookupError, MessageNotFound
from goscheduler.messages import Message, MessageScheduler
from goscheduler.periodic import Schedule, ScheduleRegistry

#: What tells for certain that nothing was done.
REFUSALS = (ConflictingIdError, JobLookupError, MessageNotFound)
WORKERS = 4
#: After so many seconds an addition comes too late to be of use.
TOO_LATE = 3.0
TRY_AGAIN_AFTER = 0.5


class TooLate(Exception):
    """A message may have been delivered before it could be taken back."""


class Client:
    """Performs operations, each on the thread that all operations on the same id are on."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._record = os.open(options.record, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._scheduler = BackgroundScheduler(jobstores={"default": options.url}, lease=options.lease, timezone="UTC")
        self._outbox = MessageScheduler(scheduler=self._scheduler)
        self._documents = Documents(options.store, options.url)
        self._warnings = threading.local()
        self._never = threading.Event()
        self._does: dict[str, Callable[[str, Spec], Any]] = {
            "add_job": self._add_job, "add_jobs": self._add_jobs, "schedule_message": self._schedule,
            "cancel_message": self._cancel, "add_document": self._add_document, "sync_periodic": self._sync,
            "remove_job": lambda job, spec: self._scheduler.remove_job(job),
            "pause_job": lambda job, spec: self._scheduler.pause_job(job),
            "resume_job": lambda job, spec: self._scheduler.resume_job(job),
            "run_now": lambda job, spec: self._scheduler.run_now(job),
        }  # fmt: skip

    def start(self) -> None:
        catcher = logging.Handler(logging.WARNING)
        catcher.emit = self._caught  # type: ignore[method-assign]
        logging.getLogger("goscheduler").addHandler(catcher)
        self._scheduler.start(paused=True)

    def stop(self) -> None:
        self._scheduler.shutdown()

    def set_up(self, share: float) -> None:
        """Add the standing jobs; again and again, if the server is away."""
        jobs = standing(self._options.seed, self._options.lease, share)
        for name, spec in jobs.items():
            while self.perform(Step(0, "add_job", name, dict(spec))) == "unknown":
                self._never.wait(TRY_AGAIN_AFTER)

    def perform(self, step: Step) -> str:
        """Do it, write what came of it, and return that: "ok", "fail" (it was not done) or "unknown"."""
        self._warnings.text = None
        _fix_times(step.spec, time.time())
        t0, result, told, error = time.monotonic(), "ok", None, None
        try:
            told = self._does[step.op](step.id, step.spec)
        except REFUSALS as refusal:
            result, error = "fail", repr(refusal)
        except Exception as problem:
            result, error = "unknown", repr(problem)[:300]
        if result == "ok" and self._warnings.text and step.op == "remove_job":
            result, error = "unknown", self._warnings.text  # it says itself that a run may still start
        line = {"t0": t0, "t1": time.monotonic(), "op": step.op, "id": step.id, "spec": step.spec, "result": result,
                "error": error, "run": told if step.op == "run_now" else None}  # fmt: skip
        os.write(self._record, (json.dumps(line) + "\n").encode())
        return result

    def _add_job(self, job: str, spec: Spec) -> None:
        self._scheduler.add_job(**_definition(job, spec))

    def _add_jobs(self, batch: str, spec: Spec) -> None:
        self._scheduler.add_jobs([_definition(job, one) for job, one in spec["jobs"].items()])

    def _schedule(self, message: str, spec: Spec) -> None:
        due = datetime.fromtimestamp(spec["at"], timezone.utc)
        self._outbox.schedule(Message("workload", str(spec["fails"]), scheduled_at=due, id=message))

    def _cancel(self, message: str, spec: Spec) -> None:
        if not self._outbox.cancel(message, timeout=5.0):
            raise TooLate(message)

    def _add_document(self, document: str, spec: Spec) -> None:
        self._documents.add(document, spec["at"], spec["seconds"])

    def _sync(self, name: str, spec: Spec) -> None:
        registry = ScheduleRegistry("workload")
        for schedule in spec["schedules"]:
            registry.register(Schedule(schedule, spec["cron"], "jobs:work", {"kind": "cron"}))
        self._scheduler.sync(registry)

    def _caught(self, record: logging.LogRecord) -> None:
        self._warnings.text = record.getMessage()[:300]


def _fix_times(spec: Spec, now: float) -> None:
    """Turn times that are counted from now into moments, of whole milliseconds, which every number can hold."""
    for one in [spec, *spec.get("jobs", {}).values()]:
        delay = one.pop("in", None)
        if one.get("kind") == "interval":
            one["first"] = round(now + one["first"], 3)
        elif delay is not None:
            one["at"] = round(now + delay, 3)


def _definition(job: str, spec: Spec) -> dict[str, Any]:
    """Return the arguments of ``add_job``."""
    kwargs = {"kind": spec["work"], "seconds": spec["seconds"]}
    if "lock" in spec:
        function, kwargs = "jobs:guard", {**kwargs, "name": spec["lock"], "ttl": spec["ttl"]}
    else:
        function, kwargs = "jobs:work", {**kwargs, "fails": spec["fails"]}
    times = (
        {"trigger": "date", "run_date": datetime.fromtimestamp(spec["at"], timezone.utc)}
        if spec["kind"] == "date"
        else {"trigger": "interval", "seconds": spec["every"],
              "start_date": datetime.fromtimestamp(spec["first"], timezone.utc)}
    )  # fmt: skip
    retry = Retry(spec["attempts"], fixed(spec["retry_delay"]), jitter=0) if spec["attempts"] > 1 else None
    return {
        "func": function, "kwargs": kwargs, "id": job, "retry": retry, "max_instances": spec["max_instances"],
        "coalesce": spec["coalesce"], "overlap": spec["overlap"], "on_crash": spec["on_crash"],
        "limits": [Limit(name, concurrency=most) for name, most in spec["limits"]], **times,
    }  # fmt: skip


def play(client: Client, options: argparse.Namespace, ended: threading.Event) -> None:
    """Let steps be done at their times by some threads."""
    queues: list[queue.Queue[tuple[float, Step] | None]] = [queue.Queue() for _ in range(WORKERS)]
    workers = [threading.Thread(target=_work, args=(client, one, ended)) for one in queues]
    for worker in workers:
        worker.start()
    begun = time.monotonic()
    for step in operations(options.seed, options.lease, options.share):
        if step.op == "add_document" and not options.documents:
            continue
        if ended.wait(max(0.0, begun + step.after - time.monotonic())):
            break
        queues[zlib.crc32(step.id.encode()) % WORKERS].put((begun + step.after, step))
    for one in queues:
        one.put(None)
    for worker in workers:
        worker.join()


def _work(client: Client, steps: queue.Queue[tuple[float, Step] | None], ended: threading.Event) -> None:
    while (given := steps.get()) is not None:
        moment, step = given
        late = time.monotonic() - moment
        if not ended.is_set() and (late < TOO_LATE or step.op in ("remove_job", "resume_job")):
            client.perform(step)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--store", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--record", required=True)
    parser.add_argument("--lease", type=float, default=3.0)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--documents", action="store_true")
    options = parser.parse_args()
    os.setsid()  # a share of the processor of its own, as a machine of its own has it
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: ended.set())
    client = Client(options)
    client.start()
    client.set_up(options.share)
    print("set up", flush=True)
    play(client, options, ended)
    client.stop()


if __name__ == "__main__":
    main()
