"""What a module does while it is imported touches the jobs that name it and nothing else."""

from __future__ import annotations

import json
import sqlite3
import sys
import threading

import import_gate
import pytest

from goscheduler import BackgroundScheduler, _resolver
from goscheduler.events import EVENT_JOB_EXECUTED, EVENT_JOB_SUSPENDED
from goscheduler.schedulers._housekeeping import STRAYS_INTERVAL
from goscheduler.testing import EventRecorder, ManualClock, ManualScheduler
from goscheduler.testing.contract import Requests

CALLED = 'import import_gate\ndef work():\n    import_gate.calls.append("worked")\n'
SLOW = "import import_gate\nimport_gate.began.set()\nimport_gate.go_on.wait()\n" + CALLED
EXITS = "import sys\nsys.exit('no arguments given')\n"
RAISES = "raise KeyboardInterrupt\n"
#: Starts a scheduler on the same store, and waits.
NESTED = """
import import_gate
from goscheduler import BackgroundScheduler
scheduler = BackgroundScheduler(jobstores={{"default": {url!r}}})
scheduler.start()
scheduler.shutdown()
""" + SLOW


def fine() -> None:
    import_gate.calls.append("fine")


@pytest.fixture(autouse=True)
def _gate():
    import_gate.reset()
    yield
    import_gate.go_on.set()


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def stored(tmp_path, monkeypatch, url):
    """Return a function that writes a module and a store with a job of it, and one of ours that is due later."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name, code):
        (tmp_path / f"{name}.py").write_text(code)
        with ManualScheduler(jobstores={"default": url}) as scheduler:
            for job_id in ("theirs", "ours"):
                scheduler.add_job(fine, "date", id=job_id)
        with sqlite3.connect(tmp_path / "jobs.db") as database:
            (text,) = database.execute("SELECT definition FROM goscheduler_jobs WHERE id = 'theirs'").fetchone()
            text = json.dumps({**json.loads(text), "func": f"{name}:work"})
            database.execute("UPDATE goscheduler_jobs SET definition = ? WHERE id = 'theirs'", [text])
        database.close()
        return name

    return write


@pytest.fixture
def start(url):
    started = []

    def start_it(*allowed):
        scheduler = BackgroundScheduler(jobstores={"default": url}, allowed_modules=allowed, timezone="UTC")
        heard = EventRecorder(scheduler, EVENT_JOB_EXECUTED | EVENT_JOB_SUSPENDED)
        started.append(scheduler)
        scheduler.start()
        return scheduler, heard

    yield start_it
    for scheduler in started:
        if scheduler.running:
            scheduler.shutdown()


@pytest.mark.parametrize(("name", "code"), [("module_that_exits", EXITS), ("module_that_interrupts", RAISES)])
def test_a_module_that_ends_the_program_suspends_only_its_job(stored, start, name, code):
    scheduler, heard = start(stored(name, code))
    heard.wait_for(EVENT_JOB_EXECUTED)
    suspended = heard.wait_for(EVENT_JOB_SUSPENDED)
    assert import_gate.calls == ["fine"]
    assert suspended.job_id == "theirs"
    assert "could not import module" in suspended.reason
    assert [job.id for job in scheduler.get_jobs()] == ["theirs"]


@pytest.mark.parametrize("code", [SLOW, NESTED], ids=["slow", "starts a scheduler"])
def test_while_a_module_is_imported_the_others_fire_and_the_store_is_free(stored, start, url, tmp_path, code):
    name = "slow_module" if code is SLOW else "nested_module"
    scheduler, heard = start(stored(name, code.format(url=url) if code is NESTED else code))
    heard.wait_for(EVENT_JOB_EXECUTED)
    assert import_gate.calls == ["fine"]
    assert import_gate.began.wait(30)
    with sqlite3.connect(tmp_path / "jobs.db", timeout=30) as other:
        other.execute("CREATE TABLE somebody_elses (id INTEGER)")
    other.close()
    assert scheduler.get_job("theirs").suspended is None
    import_gate.go_on.set()
    heard.wait_for(EVENT_JOB_EXECUTED, count=2)
    assert import_gate.calls == ["fine", "worked"]


def test_shutdown_ends_while_a_module_is_imported(stored, start):
    scheduler, heard = start(stored("slow_at_the_end", SLOW))
    heard.wait_for(EVENT_JOB_EXECUTED)
    assert import_gate.began.wait(30)
    ended = threading.Thread(target=scheduler.shutdown)
    ended.start()
    ended.join(30)
    assert not ended.is_alive()
    assert import_gate.calls == ["fine"]


def test_an_import_that_takes_too_long_suspends_its_job_until_it_has_ended(stored, start, monkeypatch):
    monkeypatch.setattr(_resolver, "IMPORT_SECONDS", 0.0)
    scheduler, heard = start(stored("slower_module", SLOW))
    suspended = heard.wait_for(EVENT_JOB_SUSPENDED)
    assert suspended.job_id == "theirs"
    assert "slower_module" in suspended.reason
    assert "is still being imported" in scheduler.why("theirs")
    import_gate.go_on.set()
    heard.wait_for(EVENT_JOB_EXECUTED, count=2)
    assert sorted(import_gate.calls) == ["fine", "worked"]


def test_a_pending_run_waits_for_its_module(stored, start, url):
    name = stored("module_of_a_run", SLOW)
    with ManualScheduler(jobstores={"default": url}, allowed_modules=[name]) as scheduler:
        scheduler.pause_job("theirs")
        scheduler.run_now("theirs")
    assert name not in sys.modules
    _, heard = start(name)
    heard.wait_for(EVENT_JOB_EXECUTED)
    assert import_gate.began.wait(30)
    import_gate.go_on.set()
    heard.wait_for(EVENT_JOB_EXECUTED, count=2)
    assert import_gate.calls == ["fine", "worked"]


def test_a_job_that_a_dead_process_suspended_because_of_a_slow_import_is_tried_by_another(url):
    clock = ManualClock()
    with ManualScheduler(jobstores={"default": url}, clock=clock) as scheduler:
        scheduler.add_job(fine, "interval", hours=1)
        scheduler.run_due()  # knows the module now, and has looked for such jobs a first time
        scheduler.add_job(fine, "date", id="put off")
        store = scheduler.engine.stores["default"]
        now = clock.now()
        Requests().fire(store, now=now, obstacles={"put off": f"{_resolver.IMPORTING}it was slow elsewhere"})
        scheduler.run_due()
        assert import_gate.calls == []
        scheduler.advance(STRAYS_INTERVAL)
        assert import_gate.calls == ["fine"]
