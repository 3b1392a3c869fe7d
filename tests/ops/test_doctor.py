"""What the doctor finds on real servers: missing executors and tasks, processes, settings that lose jobs."""

from __future__ import annotations

import pytest
from operation_doubles import ADMIN, nothing

from goscheduler import BackgroundScheduler
from goscheduler.executors.pool import ThreadPoolExecutor
from goscheduler.observer import Observer
from goscheduler.ops.service import Operations
from goscheduler.ops.source import Source


def findings(url):
    with Observer(url, read_only=True) as observer:
        found = Operations(Source(observer)).call("doctor", ADMIN)
    return {each["check"]: (each["verdict"], each["message"]) for each in found}


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "redis"])
def test_a_healthy_worker_is_found_healthy(url_of, kind):
    url = url_of(kind)
    worker = BackgroundScheduler(jobstores={"default": url})
    worker.register("greet", nothing)
    worker.start()
    try:
        worker.add_job("greet", "interval", hours=1, id="plain")
        found = findings(url)
    finally:
        worker.shutdown()
    verdicts = {check: verdict for check, (verdict, _) in found.items() if check != "settings"}
    assert set(verdicts.values()) == {"ok"}
    assert "1 alive" in found["processes"][1]


def test_what_keeps_jobs_from_running_is_found(url_of):
    url = url_of("sqlite")
    worker = BackgroundScheduler(jobstores={"default": url}, executors={"gpu": ThreadPoolExecutor(1)})
    worker.register("greet", nothing)
    worker.start(paused=True)
    worker.add_job("greet", "interval", hours=1, id="elsewhere", executor="gpu")
    worker.add_job("greet", "date", run_date="2020-01-01", id="late")
    worker.shutdown()
    assert findings(url)["processes"] == ("problem", "no process fires the jobs of this store")
    assert findings(url)["tasks"][0] == "unknown"
    other = BackgroundScheduler(jobstores={"default": url})
    other.start(paused=True)
    other.engine.leases.renew_all()  # and tell that it is paused
    try:
        found = findings(url)
    finally:
        other.shutdown()
    assert found["processes"] == ("problem", "1 alive, and all of them are paused")
    assert found["tasks"] == ("problem", "no process knows 'greet', which jobs are to run")
    assert found["executors"] == ("problem", "no process has the executor 'gpu', which jobs are to run in")
    assert (found["overdue"][0], "'late'" in found["overdue"][1]) == ("warning", True)


def test_settings_that_lose_jobs_are_found(private_server):
    server = private_server("redis", "--appendonly", "no", "--maxmemory-policy", "allkeys-lru")
    with Observer(server.url, read_only=True) as observer:
        found = Operations(Source(observer)).call("doctor", ADMIN)
    told = [each["message"] for each in found if (each["check"], each["verdict"]) == ("settings", "warning")]
    assert len(told) == 2
    assert "append-only" in told[0]
    assert "allkeys-lru" in told[1]
