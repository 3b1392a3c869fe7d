"""A scheduler and a few lines of arithmetic are driven by the same random steps and must agree."""

from __future__ import annotations

from datetime import timedelta

from behaviour_doubles import START, PickledStore, note
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from goscheduler.errors import ConflictingIdError, JobLookupError
from goscheduler.events import EVENT_JOB_EXECUTED
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.testing import EventRecorder, ManualScheduler

IDS = st.sampled_from("abcd")
PERIODS = st.integers(1, 40)


class ModelJob:
    """An interval job: the grid of its times, and the next one."""

    def __init__(self, now, period):
        self.anchor = now + period
        self.period = period
        self.next = self.anchor

    def first_from(self, now):
        steps = max(0, -((self.anchor - now) // self.period))
        return self.anchor + steps * self.period


class SchedulerMachine(RuleBasedStateMachine):
    make_store = MemoryJobStore

    @initialize()
    def start(self):
        self.scheduler = ManualScheduler(jobstores={"default": self.make_store()})
        self.recorder = EventRecorder(self.scheduler, EVENT_JOB_EXECUTED)
        self.scheduler.start()
        self.jobs = {}
        self.now = 0
        self.fired = []
        self.paused = False

    def teardown(self):
        if hasattr(self, "scheduler") and self.scheduler.running:
            self.scheduler.shutdown()

    @rule(job_id=IDS, period=PERIODS)
    def add(self, job_id, period):
        try:
            self.scheduler.add_job(note, "interval", seconds=period, id=job_id)
        except ConflictingIdError:
            assert job_id in self.jobs
        else:
            assert job_id not in self.jobs
            self.jobs[job_id] = ModelJob(self.now, period)

    @rule(job_id=IDS, period=PERIODS)
    def replace(self, job_id, period):
        self.scheduler.add_job(note, "interval", seconds=period, id=job_id, replace_existing=True)
        known = self.jobs.get(job_id)
        if known is None or known.period != period:
            self.jobs[job_id] = ModelJob(self.now, period)

    @rule(job_id=IDS)
    def remove(self, job_id):
        self.known_or_refused(job_id, lambda: self.scheduler.remove_job(job_id))
        self.jobs.pop(job_id, None)

    @rule(job_id=IDS)
    def pause_one(self, job_id):
        if self.known_or_refused(job_id, lambda: self.scheduler.pause_job(job_id)):
            self.jobs[job_id].next = None

    @rule(job_id=IDS)
    def resume_one(self, job_id):
        if self.known_or_refused(job_id, lambda: self.scheduler.resume_job(job_id)):
            self.jobs[job_id].next = self.jobs[job_id].first_from(self.now)

    @rule(job_id=IDS, period=PERIODS)
    def reschedule(self, job_id, period):
        act = lambda: self.scheduler.reschedule_job(job_id, trigger="interval", seconds=period)  # noqa: E731
        if self.known_or_refused(job_id, act):
            self.jobs[job_id] = ModelJob(self.now, period)

    @rule(job_id=IDS, name=st.sampled_from(["x", "y"]))
    def rename(self, job_id, name):
        self.known_or_refused(job_id, lambda: self.scheduler.modify_job(job_id, name=name))

    @rule(seconds=st.integers(0, 100))
    def live_through(self, seconds):
        self.scheduler.advance(seconds)
        self.now += seconds
        if not self.paused:
            for job_id, job in self.jobs.items():
                while job.next is not None and job.next <= self.now:
                    self.fired.append((job_id, job.next))
                    job.next += job.period

    @rule(seconds=st.integers(0, 300))
    def sleep_through(self, seconds):
        self.scheduler.clock.advance(seconds)
        self.scheduler.run_due()
        self.now += seconds
        self.catch_up()

    @rule()
    def pause_or_resume_everything(self):
        self.paused = not self.paused
        if self.paused:
            self.scheduler.pause()
        else:
            self.scheduler.resume()
            self.scheduler.run_due()
            self.catch_up()

    def catch_up(self):
        """What has gathered runs as one."""
        for job_id, job in self.jobs.items():
            if not self.paused and job.next is not None and job.next <= self.now:
                latest = job.next + (self.now - job.next) // job.period * job.period
                self.fired.append((job_id, latest))
                job.next = latest + job.period

    def known_or_refused(self, job_id, act):
        try:
            act()
        except JobLookupError:
            assert job_id not in self.jobs
            return False
        assert job_id in self.jobs
        return True

    @invariant()
    def both_have_fired_the_same(self):
        if not hasattr(self, "scheduler"):
            return
        heard = [(e.job_id, (e.scheduled_run_time - START).total_seconds()) for e in self.recorder.events]
        assert sorted(heard) == sorted(self.fired)

    @invariant()
    def both_have_the_same_jobs_and_times(self):
        if not hasattr(self, "scheduler"):
            return
        times = {
            job.id: None if job.next_run_time is None else (job.next_run_time - START) / timedelta(seconds=1)
            for job in self.scheduler.get_jobs()
        }
        assert times == {job_id: job.next for job_id, job in self.jobs.items()}


class SimpleStoreMachine(SchedulerMachine):
    make_store = PickledStore


FEW = settings(max_examples=25, stateful_step_count=30, deadline=None)
SchedulerMachine.TestCase.settings = SimpleStoreMachine.TestCase.settings = FEW
TestMemoryStoreAgainstTheModel = SchedulerMachine.TestCase
TestSimpleStoreAgainstTheModel = SimpleStoreMachine.TestCase
