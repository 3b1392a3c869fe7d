"""What a check of health finds in stores, processes and jobs, and what it comes to."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from operation_doubles import ADMIN, nothing

from goscheduler import BackgroundScheduler
from goscheduler.executors.base import BaseExecutor
from goscheduler.executors.pool import ThreadPoolExecutor
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.messages import MessageScheduler
from goscheduler.observer import Observer
from goscheduler.ops.access import Forbidden, Principal
from goscheduler.ops.service import Operations
from goscheduler.ops.source import Source
from goscheduler.runs.health import Check, HealthStatus, StoreFacts, is_stuck, judge_store, merged, verdict
from goscheduler.schedulers import _health
from goscheduler.schedulers._health import Probe
from goscheduler.telemetry.server import MetricsServer
from goscheduler.testing import ManualClock, ManualScheduler

NOW = datetime(2026, 5, 1, tzinfo=timezone.utc)
HEALTHY, DEGRADED, UNHEALTHY = HealthStatus


def faults(checks):
    return {check.name: (check.status.value, check.message) for check in checks if check.status is not HEALTHY}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (StoreFacts("a"), {}),
        (StoreFacts("a", firing=0), {}),
        (StoreFacts("a", firing=2, overdue=300), {}),
        (StoreFacts("a", firing=None, overdue=300), {}),
        (StoreFacts("a", error="gone"), {"store": ("unhealthy", "the store cannot be asked: gone")}),
        (
            StoreFacts("a", firing=0, overdue=7),
            {"processes": ("unhealthy", "a job has been due for 7 seconds and no process fires")},
        ),
        (StoreFacts("a", firing=1, overdue=301), {"overdue": ("degraded", "a job has been due for 301 seconds")}),
        (StoreFacts("a", stuck=1), {"stuck": ("degraded", "1 run is stuck")}),
        (StoreFacts("a", stuck=2), {"stuck": ("degraded", "2 runs are stuck")}),
        (
            StoreFacts("a", lapsed=1),
            {"takeover": ("degraded", "1 run waits to be taken over from a process whose lease has lapsed")},
        ),
        (
            StoreFacts("a", executors=["gpu"]),
            {"executors": ("degraded", "no process has the executor 'gpu', which due jobs name")},
        ),
        (
            StoreFacts("a", tasks=list("abcdef")),
            {"tasks": ("degraded", "no process knows the task 'a', 'b', 'c', 'd', 'e' and 1 more, which due jobs name")}
        ),
        (StoreFacts("a", skew="they differ"), {"clocks": ("degraded", "they differ")}),
    ],
)  # fmt: skip
def test_what_is_found_in_a_store_decides_the_checks(found, expected):
    assert faults(judge_store(found, 300)) == expected


@pytest.mark.parametrize(
    ("due", "started", "timeout", "expected"),
    [
        (299, None, None, False),
        (301, None, None, True),
        (5000, 4000, None, False),
        (5000, 350, 60, False),
        (5000, 361, 60, True),
    ],
)
def test_a_run_is_stuck_if_it_has_not_begun_or_if_its_timeout_has_not_ended_it(due, started, timeout, expected):
    run = SimpleNamespace(due_at=NOW - timedelta(seconds=due), job=SimpleNamespace(timeout=timeout))
    started_at = None if started is None else NOW - timedelta(seconds=started)
    assert is_stuck(run, started_at, NOW, 300) is expected


def test_the_worst_check_decides_and_says_of_which_store_it_is():
    checks = merged({
        "a": [Check("store"), Check("stuck", DEGRADED, "1 run is stuck")],
        "b": [Check("store", UNHEALTHY, "no answer")],
        "c": [Check("store", UNHEALTHY, "gone"), Check("stuck", DEGRADED, "2 runs are stuck")],
    })  # fmt: skip
    assert checks == [
        Check("store", UNHEALTHY, "b: no answer; c: gone"),
        Check("stuck", DEGRADED, "a: 1 run is stuck; c: 2 runs are stuck"),
    ]
    assert verdict(checks) == (UNHEALTHY, "b: no answer; c: gone")
    assert verdict([]) == verdict([Check("store")]) == (HEALTHY, "")


# On stores


def overdue_job(scheduler, **options):
    """Add a job that is due for a long time."""
    return scheduler.add_job(
        nothing, "interval", hours=1, next_run_time=datetime(2020, 1, 1, tzinfo=timezone.utc), **options
    )


@pytest.fixture
def look(url_of):
    """Looks at a store from outside; each look is a new one."""

    def look(url, operation="health", **arguments):
        with Observer(url, read_only=True) as observer:
            return Operations(Source(observer)).call(operation, ADMIN, arguments)

    return look


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "redis", "mongodb", "etcd"])
def test_a_worker_at_work_is_healthy_seen_from_inside_and_from_outside(url_of, look, kind):
    url = url_of(kind)
    worker = BackgroundScheduler(jobstores={"default": url})
    worker.start()
    try:
        worker.add_job(nothing, "interval", hours=1)
        inside, outside = worker.health(), look(url)
    finally:
        worker.shutdown()
    assert (inside.status, inside.message, inside.pending, inside.stuck) == (HEALTHY, "", 1, 0)
    assert inside.latency > 0
    assert (outside["status"], outside["message"], outside["pending"], outside["stuck"]) == ("healthy", "", 1, 0)
    assert outside["details"]["processes_firing"] == "1"
    assert [check["name"] for check in outside["checks"]] == [
        "store", "processes", "overdue", "stuck", "takeover", "executors", "tasks", "clocks", "messages", "transport",
    ]  # fmt: skip


def test_nobody_who_fires_is_unhealthy_only_while_something_is_due(url_of, look):
    url = url_of("sqlite")
    worker = BackgroundScheduler(jobstores={"default": url})
    worker.start(paused=True)
    worker.add_job(nothing, "interval", hours=1)
    worker.shutdown()
    assert look(url)["status"] == "healthy"
    worker.start(paused=True)
    overdue_job(worker)
    worker.engine.leases.renew_all()  # and tell that it is paused
    found = look(url)
    worker.shutdown()
    assert found["status"] == "unhealthy"
    assert "no process fires" in found["message"]


def test_an_executor_and_a_task_that_nobody_has_degrade(url_of, look):
    url = url_of("sqlite")
    other = BackgroundScheduler(jobstores={"default": url}, executors={"gpu": ThreadPoolExecutor(1)})
    other.register("greet", nothing)
    other.start(paused=True)
    overdue_job(other, executor="gpu")
    other.add_job("greet", "interval", hours=1, next_run_time=datetime(2020, 1, 1, tzinfo=timezone.utc))
    other.shutdown()
    worker = BackgroundScheduler(jobstores={"default": url})
    worker.start()
    try:
        found = look(url)
    finally:
        worker.shutdown()
    told = {check["name"]: check["message"] for check in found["checks"] if check["status"] == "degraded"}
    assert found["status"] == "degraded"
    assert told["executors"] == "no process has the executor 'gpu', which due jobs name"
    assert told["tasks"] == "no process knows the task 'greet', which due jobs name"
    assert told["overdue"].startswith("a job has been due for")


class Queue(BaseExecutor):
    """Takes runs and begins none."""

    def submit(self, run):
        pass

    def shutdown(self, wait=True, timeout=None):
        pass


def test_runs_that_nobody_begins_are_stuck_and_those_of_a_lost_process_wait_to_be_taken_over(url_of):
    clock, url = ManualClock(), url_of("sqlite")
    worker = ManualScheduler(jobstores={"default": url}, executors={"default": Queue()}, clock=clock, lease=600)
    worker.start()
    worker.add_job(nothing, "interval", minutes=1, misfire_grace_time=None, id="waits")
    worker.advance("1m")
    with Observer(url, clock=clock) as observer:
        assert observer.health().status is HEALTHY
        worker.advance("301s")
        found = observer.health()
        assert (found.status, found.stuck, found.message) == (DEGRADED, 1, "1 run is stuck")
        assert worker.health().stuck == 1
        clock.advance("700s")
        assert faults(observer.health().checks)["takeover"][1].startswith("1 run waits to be taken over")


def test_a_clock_that_is_ahead_degrades(url_of):
    clock, url = ManualClock(), url_of("sqlite")
    ahead = ManualClock(clock.now() + timedelta(seconds=30))
    worker = ManualScheduler(jobstores={"default": url}, clock=ahead)
    worker.start()
    with Observer(url, clock=clock) as observer:
        assert "is ahead of this one" in faults(observer.health().checks)["clocks"][1]
    worker.shutdown()


def test_a_store_that_is_down_is_unhealthy_and_healthy_again_when_it_is_back(private_server):
    server = private_server("redis")
    with Observer(server.url) as observer:
        assert observer.health().status is HEALTHY
        server.stop()
        down = Operations(Source(observer)).call("health", ADMIN, {})
        deadline = threading.Event()
        while down["status"] == "healthy" and not deadline.wait(0.1):  # the answer from before serves for two seconds
            down = Operations(Source(observer)).call("health", ADMIN, {})
        assert (down["status"], down["pending"], down["stuck"]) == ("unhealthy", None, None)
        assert down["message"].startswith("the store cannot be asked")
        assert not observer.readiness().ok
        server.start()
        while observer.health().status is UNHEALTHY or not observer.readiness().ok:  # each serves for two seconds
            deadline.wait(0.1)


class Hanging(MemoryJobStore):
    """Answers when it is let go, and counts how often it is asked."""

    def __init__(self):
        super().__init__()
        self.go, self.asked = threading.Event(), 0
        self.go.set()

    def get_next_run_time(self):
        self.asked += 1
        assert self.go.wait(60)
        return super().get_next_run_time()


@pytest.fixture
def hanging(monkeypatch):
    monkeypatch.setattr(_health, "STORE_SECONDS", 0.05)
    store = Hanging()
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        yield scheduler, store
        store.go.set()


def test_a_store_that_hangs_is_unhealthy_keeps_nobody_waiting_and_is_asked_no_more(hanging):
    scheduler, store = hanging
    assert scheduler.health().status is HEALTHY
    store.go.clear()
    asked = store.asked
    for _ in range(3):
        scheduler.advance("1m")
        found = scheduler.health()
        assert (found.status, found.stuck) == (UNHEALTHY, None)
        assert "has not answered within" in found.message
        assert not scheduler.readiness().ok
    assert store.asked == asked + 1


def test_the_password_of_a_store_is_in_no_answer(monkeypatch):
    def fail(self):
        raise ConnectionError("cannot connect to postgresql://ann:hush@db/jobs")

    with ManualScheduler(jobstores={"default": Hanging()}) as scheduler:
        monkeypatch.setattr(Hanging, "get_next_run_time", fail)
        for told in (scheduler.health().message, scheduler.readiness().reason):
            assert "cannot connect to postgresql://" in told
            assert "hush" not in told


def test_an_answer_serves_all_who_ask_within_two_seconds(hanging):
    scheduler, store = hanging
    asked = store.asked
    scheduler.health()
    scheduler.clock.advance("1.9s")
    assert scheduler.health() is scheduler.health()
    assert store.asked == asked + 1
    scheduler.clock.advance("0.2s")
    scheduler.health()
    assert store.asked == asked + 2


def test_the_operation_asks_no_more_often(hanging):
    scheduler, store = hanging
    front = MessageScheduler(scheduler=scheduler, transport=lambda event_name, message: None, workers=0)
    operations = Operations(Source(scheduler, messages=front))
    asked = store.asked
    for _ in range(10):
        assert operations.call("health", ADMIN, {})["status"] == "healthy"
    assert store.asked == asked + 2  # once for the jobs, once for the messages


def test_who_asks_while_another_one_waits_gets_the_same_answer(hanging, monkeypatch):
    monkeypatch.setattr(_health, "STORE_SECONDS", 60)
    scheduler, store = hanging
    store.go.clear()
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(scheduler.health())) for _ in range(8)]
    for thread in threads:
        thread.start()
    store.go.set()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert len({id(answer) for answer in answers}) == 1


def test_a_transport_that_is_down_degrades():
    class Down:
        def publish(self, event_name, message):
            pass

        def healthy(self):
            return False

    with ManualScheduler() as scheduler:
        front = MessageScheduler(scheduler=scheduler, transport=Down(), workers=0)
        front.start()
        found = Operations(Source(scheduler, messages=front)).call("health", ADMIN, {})
        assert (found["status"], found["message"]) == (
            "degraded", "the transport takes no messages: it says that it is not healthy",
        )  # fmt: skip


def test_who_sees_a_part_of_the_jobs_is_not_told_how_all_fare(url_of):
    with Observer(url_of("sqlite")) as observer, pytest.raises(Forbidden):
        Operations(Source(observer)).call("health", Principal("sue", tags=frozenset({"billing"})), {})


def test_a_machine_without_a_living_process_is_unhealthy(url_of, look):
    url = url_of("sqlite")
    worker = BackgroundScheduler(jobstores={"default": url})
    worker.start()
    try:
        assert look(url, host=worker.engine.host)["status"] == "healthy"
        found = look(url, host="elsewhere")
    finally:
        worker.shutdown()
    assert (found["status"], found["message"]) == ("unhealthy", "no process on elsewhere has a lease")


# Probes


def test_a_loop_that_does_not_turn_is_not_alive_and_one_that_rests_or_is_paused_is():
    with ManualScheduler(poll_interval=10) as scheduler:
        assert scheduler.liveness().ok  # no round was to be expected yet
        scheduler.run_due()
        scheduler.clock.advance(35)
        assert scheduler.liveness().ok
        scheduler.clock.advance(1)
        found = scheduler.liveness()
        assert (found.ok, found.reason) == (False, "the loop has not turned for 36 seconds")
        scheduler.run_due()
        assert scheduler.liveness().ok
        scheduler.pause()
        scheduler.run_due()
        scheduler.clock.advance(1000)
        assert scheduler.liveness().ok
        scheduler.resume()
        assert scheduler.liveness().ok


def test_liveness_asks_no_store(hanging):
    scheduler, store = hanging
    asked = store.asked
    assert scheduler.liveness().ok
    assert store.asked == asked


def test_a_scheduler_is_ready_while_it_runs_and_its_lease_is_young(url_of):
    scheduler = ManualScheduler(jobstores={"default": url_of("sqlite")}, lease=60)
    assert (scheduler.readiness().ok, scheduler.health().status) == (False, UNHEALTHY)
    scheduler.start()
    assert scheduler.readiness().ok
    scheduler.clock.advance(31)
    found = scheduler.readiness()
    assert (found.ok, "the lease in job store" in found.reason) == (False, True)
    scheduler.run_due()
    assert scheduler.readiness().ok
    scheduler.shutdown()
    assert scheduler.readiness() == (False, "the scheduler does not run, or is shutting down")


def test_a_scheduler_that_drains_is_not_ready_and_is_alive():
    ending, begun = threading.Event(), threading.Event()

    def work():
        begun.set()
        assert ending.wait(60)

    scheduler = BackgroundScheduler()
    scheduler.add_job(work)
    scheduler.start()
    assert begun.wait(60)
    draining = threading.Thread(target=scheduler.shutdown)
    assert scheduler.readiness().ok
    draining.start()
    while scheduler.running:
        pass
    assert not scheduler.readiness().ok
    assert scheduler.liveness().ok
    ending.set()
    draining.join()


def test_a_worker_answers_probes_beside_its_metrics(caplog):
    probes = {"/livez": lambda: Probe(True), "/readyz": lambda: Probe(False, "the lease is old")}
    server = MetricsServer(lambda: "metrics", 0, "127.0.0.1", probes)
    server.start()
    try:
        with urlopen(f"http://127.0.0.1:{server.port}/livez", timeout=60) as answer:
            assert (answer.status, answer.read()) == (200, b"yes\n")
        with pytest.raises(HTTPError) as caught, urlopen(f"http://127.0.0.1:{server.port}/readyz?x=1", timeout=60):
            pass
        with caught.value as refusal:
            assert (refusal.code, refusal.read()) == (503, b"no\n")
    finally:
        server.stop()
    assert "the lease is old" in caplog.text
