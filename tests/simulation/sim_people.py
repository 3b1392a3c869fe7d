"""What people ask of the schedulers, and what the functions of jobs do."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import sim_book
from sim_book import Violation
from sim_kernel import Crash
from sim_process import JobFailed, Process
from sim_store import Lost
from sim_workload import UNTIL, JobPlan, Op

from goscheduler._program import PROGRAM
from goscheduler.errors import ConflictingIdError, JobLookupError, NeverFires, RunLookupError
from goscheduler.executors.context import current_run
from goscheduler.runs.limits import Limit
from goscheduler.runs.retry import Retry
from goscheduler.testing.clock import START

if TYPE_CHECKING:
    from sim_world import World

RETRY_DELAY = 0.7

_REFUSALS = (JobLookupError, ConflictingIdError, NeverFires, RunLookupError)


#: The people of the simulation that is going on.
present: People | None = None


def work(job_id: str, number: int) -> None:
    """The function of every job."""
    assert present is not None
    present.perform(job_id)


PROGRAM.gave(f"{__name__}:work")  # now: what a process learns of its own code makes it ask its stores


class People:
    """Those who use the schedulers of a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.jobs = {job.id: job for job in world.plan.jobs}
        self.generations: dict[tuple[str, int], str] = {}
        """Job and generation → "asked", "added" or "unknown"."""
        self.touched: dict[str, set[str]] = defaultdict(set)
        """Job id → what was asked of it."""
        self._numbers: Counter[str] = Counter()

    def ask_for(self, op: Op) -> None:
        """Ask something of a process, or of another one if that is dead."""
        process = self._world.processes[op.node]
        if process is None or process.dead:
            process = next((other for other in self._world.processes if other is not None and not other.dead), None)
        if process is not None:
            process.spawn("client", lambda: self._when_begun(process, op))

    def _when_begun(self, process: Process, op: Op) -> None:
        while not process.begun:
            self._world.kernel.sleep(0.05)
        if not process.stopping:
            self.act(process, op.act, op.job)

    def act(self, process: Process, act: str, job_id: str) -> None:
        """Ask something of a scheduler, and note what came of it."""
        world = self._world
        self.touched[job_id].add(act)
        present = [key for key in world.book.first if key[0] == job_id]  # as far as the store has them
        answer = "ok"
        world.note(process, f"{act}?", job_id)
        try:
            self._do(process, act, job_id)
        except _REFUSALS as refusal:
            answer = type(refusal).__name__
        except Lost:
            answer = "unknown"
        except Exception as error:
            answer = type(error).__name__
            world.violate("an error of the scheduler itself", f"{act}: {answer}: {error}")
        known = process in world.leaving and "remove beside a shutdown" in sim_book.KNOWN
        if act == "remove" and answer == "ok" and not known:
            for key in present:
                world.book.removal_returned(key)
        world.note(process, act, f"{job_id}: {answer}")

    def _do(self, process: Process, act: str, job_id: str) -> None:
        scheduler = process.scheduler
        if act == "add":
            self._add(process, job_id)
        elif act == "modify":
            scheduler.modify_job(job_id, priority=3)
        elif act in ("pause", "resume"):
            if process.clock.skew <= 0:  # at the very moment of a fire time, also one that is right
                self._world.book.rewound.add(job_id)
            getattr(scheduler, f"{act}_job")(job_id)
        elif act == "remove":
            scheduler.remove_job(job_id)
        elif act == "run_now":
            scheduler.run_now(job_id)
        elif act == "cancel":
            for run in scheduler.live_runs(job_id)[:1]:
                scheduler.cancel_run(run.id)
        elif act == "redrive":
            scheduler.redrive_all(job_id=job_id)

    def _add(self, process: Process, job_id: str) -> None:
        job = self.jobs.get(job_id)
        if job is None:
            return
        self._numbers[job_id] += 1
        key = (job_id, self._numbers[job_id])
        trigger, times = trigger_of(job)
        options = {"misfire_grace_time": None, **dict(job.options), "retry": Retry(job.attempts, RETRY_DELAY)}
        if job.limit is not None:
            options["limits"] = Limit(job.limit[0], concurrency=job.limit[1])
        self.generations[key] = "asked"
        try:
            process.scheduler.add_job(work, trigger, args=key, id=job_id, **options, **times)
        except _REFUSALS:
            del self.generations[key]
            raise
        except Lost:
            self.generations[key] = "unknown"
            raise
        self.generations[key] = "added"

    def perform(self, job_id: str) -> None:
        """What the function of a job does."""
        world, me = self._world, current_run()
        process = world.kernel.current.life
        assert isinstance(process, Process)
        if process.dead:
            raise Crash
        job = self.jobs[job_id]
        try:
            out = world.book.started(process, me.run_id, me.fence)
        except Violation as violation:
            world.violate(violation.rule, str(violation).partition(": ")[2])
            world.kernel.sleep(0)
            raise
        world.note(process, "starts", f"{job_id} {me.run_id[-3:]}/{me.fence} try {me.attempt}")
        seconds = 0.02 if world.healed else job.seconds * world.rng.uniform(0.7, 1.3)
        for _ in range(2 if seconds > 0.5 else 1):
            world.kernel.sleep(seconds / (2 if seconds > 0.5 else 1))
            if job.polite and me.cancelled:
                out.body = "cancelled"
                me.check()
        for act, other in job.acts:
            if not process.stopping and not world.healed:
                self.act(process, act, other)
        failed = me.attempt <= job.failures
        out.body = "failed" if failed else "succeeded"
        world.note(process, "fails" if failed else "succeeds", f"{job_id} {me.run_id[-3:]}/{me.fence}")
        if failed:
            raise JobFailed(f"attempt {me.attempt}")


def trigger_of(job: JobPlan) -> tuple[str, dict[str, Any]]:
    """Return the trigger of a job: its name and its times."""
    first = START + timedelta(seconds=job.first)
    if job.every is None:
        return "date", {"run_date": first}
    return "interval", {"seconds": job.every, "start_date": first, "end_date": START + timedelta(seconds=UNTIL - 1)}
