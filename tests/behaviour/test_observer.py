"""Observers: look into the stores of others and act on them, take no part, and import nothing that a store names."""

from __future__ import annotations

import inspect
import sqlite3
import sys
import threading
from datetime import timedelta
from functools import partial

import pytest
from behaviour_doubles import note
from inbox_doubles import InboxStore
from lease_doubles import BegunExecutor, QueueingExecutor

from goscheduler.errors import InvalidArgument, JobLookupError, ReadOnly, StoreUnavailable
from goscheduler.job import Job
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.observer import CHANGING, Observer
from goscheduler.runs.model import JobState
from goscheduler.schedulers.base import BaseScheduler
from goscheduler.testing import ManualClock, ManualScheduler
from goscheduler.triggers.interval import IntervalTrigger


class World:
    """A store, a clock, workers on it, and an observer."""

    def __init__(self, **options):
        self.clock, self.store = ManualClock(), InboxStore()
        self.store.keeps_objects = False  # as in a database
        self.workers = []
        self.observer = Observer(self.store, clock=self.clock, timezone="UTC", **options)
        self.observer.start()

    def worker(self, executor=None, **options):
        if executor is not None:
            options["executors"] = {"default": executor}
        worker = ManualScheduler(clock=self.clock, jobstores={"default": self.store}, **options)
        worker.register("note", note)
        worker.start()
        self.workers.append(worker)
        return worker

    def advance(self, seconds):
        for _ in range(round(seconds)):
            self.clock.advance(1)
            for worker in self.workers:
                worker.run_due()

    def close(self):
        for worker in self.workers:
            worker.shutdown(wait=False)
        self.observer.shutdown()


@pytest.fixture
def worlds():
    made = []

    def make(**options):
        made.append(World(**options))
        return made[-1]

    yield make
    for world in made:
        world.close()


@pytest.fixture
def world(worlds):
    return worlds()


# It takes no part


def test_it_fires_nothing_and_is_nobody(world):
    world.observer.add_job("note", "interval", seconds=1, id="job", args=["x"])
    before = threading.active_count()
    world.clock.advance(100)
    assert world.observer._process_jobs() is None
    assert world.observer.runs() == []
    assert world.store.owners(world.clock.now()) == []
    assert world.observer.processes() == []
    assert world.observer.engine.executors == {}
    assert threading.active_count() == before
    world.observer.wakeup()
    with pytest.raises(ReadOnly, match="fires nothing"):
        world.observer.resume()


def test_it_does_nothing_to_the_store_when_it_comes_and_goes(worlds):
    world = worlds()
    worker = world.worker(BegunExecutor())
    worker.add_job(note, "interval", seconds=10, id="running")
    worker.add_job(note, "interval", seconds=10, id="suspended", executor="gpu")
    world.store.ask(task="note")
    world.advance(4)
    state = worker.get_job("suspended").suspended, len(worker.live_runs()), worker.processes()[0].owner
    for _ in range(3):
        with Observer(world.store, clock=world.clock) as observer:
            assert observer.count_jobs().number == len(worker.get_jobs())
    assert (worker.get_job("suspended").suspended, len(worker.live_runs()), worker.processes()[0].owner) == state
    assert world.store.asked.count("retire_owner") == 0


def test_a_store_in_the_memory_of_a_process_cannot_be_looked_into():
    with pytest.raises(InvalidArgument, match="from outside") as error:
        Observer(MemoryJobStore())
    assert error.value.field == "stores"


@pytest.mark.parametrize("stores", [{}, None, 5, "nosuch://x", {"a": "sqlite://nowhere", "b": 5}])
def test_stores_that_make_no_sense_are_refused(stores):
    with pytest.raises((ValueError, TypeError, LookupError)):
        Observer(stores)


def test_a_store_that_does_not_answer_is_waited_for_a_while_only():
    with pytest.raises(StoreUnavailable):
        Observer("redis://127.0.0.1:1/0", start_timeout=0.1).start()


def test_it_looks_into_several_stores(tmp_path):
    urls = {alias: f"sqlite:///{tmp_path}/{alias}.db" for alias in ("one", "two")}
    with Observer(urls) as observer:
        assert observer.count_jobs().number == 0
        assert sorted(observer.engine.stores) == ["one", "two"]


# It acts


def test_it_changes_what_is_in_the_store(world, jobcalls):
    worker = world.worker()
    worker.add_jobs([{"func": note, "trigger": "interval", "hours": 1, "id": str(n), "args": [n], "tags": ["t"]}
                     for n in range(5)])  # fmt: skip
    observer = world.observer
    result = observer.pause_jobs(tag="t", by="Ada")
    assert (result.changed, worker.count_jobs(state="paused").number) == (5, 5)
    assert observer.resume_jobs(pause_id=result.id).changed == 5
    observer.pause_job("0", by="Ada", reason="why not")
    assert worker.why("0") == observer.why("0") == "It was paused by Ada: why not."
    observer.remove_job("1")
    observer.modify_job("2", name="Other")
    run_id = observer.run_now("2")
    observer.run_jobs(text="3")
    world.advance(2)
    assert jobcalls == [2, 3]
    assert worker.get_job("2").name == "Other"
    assert observer.runs("2")[0].run_id == run_id
    with pytest.raises(JobLookupError):
        observer.remove_job("1")
    asked = observer.add_request({"task": "note", "args": ["asked"], "id": "asked"}, by="Ada")
    assert (asked.created_by, asked.task) == ("Ada", "note")
    world.advance(2)
    assert jobcalls == [2, 3, "asked"]


def test_it_cancels_a_run_of_another_process(world):
    executor = BegunExecutor()
    worker = world.worker(executor)
    worker.add_job(note, "interval", seconds=5, id="job", max_instances=1)
    world.advance(6)
    (run,) = world.observer.live_runs()
    assert world.observer.cancel_run(run.id, "enough")
    world.advance(15)
    assert executor.told == ["enough"]


def test_it_adds_no_function(world):
    for func in (note, "behaviour_doubles:note"):
        with pytest.raises(InvalidArgument):
            world.observer.add_job(func, "interval", hours=1)
    assert world.observer.get_jobs() == []


def test_one_that_is_read_only_changes_nothing(worlds):
    world = worlds(read_only=True)
    world.worker().add_job(note, "interval", hours=1, id="job", tags=["t"])
    before = world.store.get_all_jobs()[0].__getstate__()
    arguments = {
        "add_job": ("note",), "add_jobs": ([],), "add_request": ({"task": "note"},), "modify_job": ("job",),
        "reschedule_job": ("job",), "ask_process": ("x", "pause"), "sync": (None,), "import_jobs": ("nowhere",),
        "remove_all_jobs": (), "redrive_all": (), "stop_bulk": ("x",),
    }  # fmt: skip
    for name in CHANGING:
        call = getattr(world.observer, name)
        by_filter = name.endswith("_jobs") and name not in arguments
        given, filters = ((), {"tag": "t"}) if by_filter else (arguments.get(name, ("job",)), {})
        with pytest.raises(ReadOnly, match=f"^{name}"):
            call(*given, **filters)
    with pytest.raises(ReadOnly):
        world.observer.scheduled_job("interval", hours=1)(note)
    assert world.observer.get_jobs()[0].__getstate__() == before
    assert world.observer.why("job").startswith("It is not due until")


#: Public methods of a scheduler that change nothing in a store.
ASKING = {
    "add_executor", "remove_executor", "add_jobstore", "remove_jobstore", "register", "add_listener", "remove_listener",
    "add_around", "remove_around",
    "get_job", "get_jobs", "find_jobs", "count_jobs", "job_state", "job_states", "why", "print_jobs", "export_jobs",
    "runs", "dead_letters", "live_runs", "processes", "limit_usage", "stats", "schedule_state", "configure", "start",
    "shutdown", "pause", "resume", "wakeup", "ensure_default_executor", "may_start", "report",
    "backfills", "blackouts", "calendars", "health", "liveness", "readiness",
    "scheduled_job", "every",  # by way of add_job
}  # fmt: skip


def test_every_method_of_a_scheduler_is_known_to_change_something_or_not():
    methods = {
        name for name, value in inspect.getmembers(BaseScheduler, inspect.isfunction) if not name.startswith("_")
    }
    assert methods == ASKING | set(CHANGING)


# What it says


def test_it_knows_where_a_job_stands_that_others_run(world):
    observer, executor = world.observer, BegunExecutor()
    observer.add_job("note", "interval", seconds=60, id="job")

    def said():
        state, (of_many,) = observer.job_state(observer.get_job("job")), observer.job_states(observer.get_jobs())
        return state, of_many, observer.why("job")

    assert said() == (JobState.SCHEDULED, JobState.SCHEDULED, "It is not due until 2026-01-01 00:01:00 UTC.")
    world.clock.advance(61)
    nobody = "It is due, but no process fires the jobs of its store."
    assert said()[2] == nobody
    worker = world.worker(executor)
    assert said() == (JobState.QUEUED, JobState.QUEUED, "It is due, and about to be started.")
    worker.run_due()
    unknown = "A process has 1 run of it; whether that is running is not known yet."
    assert said() == (JobState.RUNNING, JobState.RUNNING, unknown)
    assert [run.state for run in observer.live_runs()] == ["claimed"]
    world.advance(8)
    assert said() == (JobState.RUNNING, JobState.RUNNING, "It is running: 1 run.")
    (run,) = observer.live_runs()
    assert (run.state, run.started_at) == ("running", worker.live_runs()[0].started_at)
    executor.finish()
    world.advance(1)
    assert said()[0] is JobState.SCHEDULED
    assert observer.get_job("job").run_count == 1


def test_where_no_process_fires_that_is_what_a_due_run_waits_for_and_not_an_executor(world):
    observer = world.observer
    observer.add_job("note", "interval", seconds=60, id="job")
    observer.run_now("job")
    job = observer.get_job("job")
    assert (observer.job_state(job), observer.job_states([job])) == (JobState.QUEUED, [JobState.QUEUED])
    assert observer.why("job") == "It is due, but no process fires the jobs of its store."


def test_a_run_that_waits_in_another_process_is_not_said_to_run(world):
    executor = QueueingExecutor()
    worker = world.worker(executor)
    worker.add_job(note, "interval", seconds=60, id="job")
    world.advance(75)
    assert world.observer.why("job") == "A process has 1 run of it; whether that is running is not known yet."
    assert [run.state for run in world.observer.live_runs()] == ["claimed"]


def test_processes_that_are_paused_fire_nothing(world):
    worker = world.worker()
    worker.add_job(note, "interval", seconds=60, id="job")
    world.advance(10)
    world.observer.ask_process(world.observer.processes()[0].owner, "pause")
    worker.engine.leases._carry_out_request("default", world.store)
    assert worker.state != 1
    world.clock.advance(10)
    worker.engine.leases.renew_all()
    world.clock.advance(15)
    worker.engine.leases.renew_all()
    world.clock.advance(20)
    worker.engine.leases.renew_all()
    world.clock.advance(10)
    observer = world.observer
    assert observer.why("job") == "It is due, but all processes that share its job store are paused."
    assert observer.job_states(observer.get_jobs()) == [observer.job_state(observer.get_job("job"))]
    assert observer.processes()[0].report.state == "paused"


def test_it_knows_what_keeps_a_job_from_running(world):
    worker, observer = world.worker(), world.observer
    worker.add_job(note, "interval", hours=1, id="paused")
    worker.pause_job("paused", by="Grace")
    observer.add_job("note", "interval", seconds=5, id="elsewhere", executor="gpu")
    world.advance(10)
    assert observer.why("paused") == "It was paused by Grace."
    assert observer.job_state(observer.get_job("elsewhere")) in (JobState.NO_EXECUTOR, JobState.SUSPENDED)
    assert "gpu" in observer.why("elsewhere")


def test_it_adds_up_the_figures_of_the_workers(world):
    worker = world.worker()
    worker.add_job(note, "interval", seconds=10, id="job", args=["x"])
    world.advance(200)
    worker.engine.leases.renew_all()
    stats = world.observer.stats(minutes=10)
    assert sum(each.counts["succeeded"] for each in stats) == len(world.observer.runs()) == 20


def test_one_that_is_lost_leaves_an_act_to_the_workers(world):
    worker = world.worker()
    worker.add_jobs([{"func": note, "trigger": "interval", "hours": 1, "id": f"{n:03}", "tags": ["t"]}
                     for n in range(300)])  # fmt: skip

    def lose(bulk):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.observer.pause_jobs(tag="t", progress=lose)
    assert worker.count_jobs(state="paused").number == 200
    world.advance(60)
    assert worker.count_jobs(state="paused").number == 300


# It imports nothing


CANARY = "open({path!r}, 'w').close()\ndef boom(*args): raise SystemExit\n"
CANARY_STORES = ["sqlite", "postgresql", "mariadb", "redis", "mongodb", "etcd", "zookeeper"]


@pytest.fixture
def canary(tmp_path, monkeypatch):
    """A module that can be imported, and leaves a file if it is; return the path of the file."""
    folder = tmp_path / "modules"
    folder.mkdir()
    trace = tmp_path / "it was imported"
    (folder / "evil_canary.py").write_text(CANARY.format(path=str(trace)))
    monkeypatch.syspath_prepend(str(folder))
    yield trace
    sys.modules.pop("evil_canary", None)


def put_evil_job(url, job_id, due):
    """Leave a row in a store that names the canary, as somebody does who can write to the database."""
    with Observer(url) as writer:
        writer.register("note", note)
        job = Job(writer, job_id, func=note, args=["x"], trigger=IntervalTrigger(hours=1, timezone="UTC"))
        job.func_ref, job.task, job.options = "evil_canary:boom", None, writer.engine.jobs.defaults
        job.next_run_time = writer.clock.now() + due
        writer.engine.stores["default"].add_job(job)


@pytest.mark.parametrize("kind", CANARY_STORES)
def test_nothing_that_a_store_names_is_imported(kind, url_of, canary):
    url = url_of(kind)
    for job_id, due in (("a", timedelta(hours=-1)), ("b", timedelta(hours=1)), ("c", timedelta(hours=1))):
        put_evil_job(url, job_id, due)
    with Observer(url) as observer:
        assert [job.func_ref for job in observer.get_jobs(sort="id")] == ["evil_canary:boom"] * 3
        assert len(observer.find_jobs(task="evil_canary:boom").jobs) == 3
        assert observer.count_jobs(text="EVIL_canary").number == 3
        job = observer.get_job("a")
        assert "a" in repr(job)
        assert (job.name, job.args, job.state) != (None, None, None)
        assert observer.job_states(observer.get_jobs())
        assert observer.why("a") + observer.why("b")
        observer.print_jobs(out=None)
        observer.pause_job("a", by="Ada")
        observer.resume_job("a")
        observer.modify_job("b", name="Other")
        observer.reschedule_job("b", trigger="interval", hours=2)
        assert observer.run_now("b")
        assert observer.live_runs()
        assert observer.runs() == []
        paused = observer.pause_jobs(text="evil")
        assert (paused.changed, paused.refused) == (3, 0)
        assert observer.resume_jobs(pause_id=paused.id).changed == 3
        assert observer.run_jobs(text="evil").changed == 3
        for run in observer.live_runs():
            assert observer.cancel_run(run.id)
        observer.remove_job("a")
        assert observer.remove_jobs(text="evil").changed == 2
        assert observer.get_jobs() == []
    assert "evil_canary" not in sys.modules
    assert not canary.exists()


#: Kind of a store → its URL for somebody who may only read.
READ_ONLY_URLS = {
    "sqlite": lambda url: f"{url.replace('sqlite:///', 'sqlite:///file:')}?mode=ro&uri=true",
    "postgresql": lambda url: f"{url}?options=-cdefault_transaction_read_only%3Don",
}


@pytest.mark.parametrize("kind", READ_ONLY_URLS)
def test_a_database_that_takes_no_writes_can_be_looked_into(kind, url_of):
    url = url_of(kind)
    with Observer(url) as writer:
        writer.add_job("note", "interval", hours=1, id="job")
    with Observer(READ_ONLY_URLS[kind](url), read_only=True) as observer:
        assert [job.id for job in observer.find_jobs(state="scheduled").jobs] == ["job"]
        assert observer.job_states(observer.get_jobs()) == [JobState.SCHEDULED]
        assert observer.why("job").startswith("It is not due until")
        assert observer.runs() + observer.dead_letters() + observer.live_runs() + observer.processes() == []
        assert len(observer.stats()) == 60
        assert observer.limit_usage() == []


def test_the_canary_sings(canary):
    __import__("evil_canary")
    assert canary.exists()


def test_the_jobs_of_an_observer_that_is_read_only_are_so_too(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    with Observer(url) as writer:
        writer.add_job("note", "interval", hours=1, id="job")
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        before = list(connection.iterdump())
    with Observer(url, read_only=True) as observer:
        job = observer.get_job("job")
        others = partial(job.modify, name="x"), partial(job.reschedule, "date")
        for change in (job.pause, job.resume, job.remove, *others):
            with pytest.raises(ReadOnly):
                change()
        assert observer.job_state(job) is JobState.SCHEDULED
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        assert list(connection.iterdump()) == before
