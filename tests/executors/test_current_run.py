from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from goscheduler.executors.call import execute
from goscheduler.executors.context import current_run, id_of_current_run


def test_outside_of_a_run_there_is_none():
    with pytest.raises(RuntimeError, match="only works inside a running job"):
        current_run()
    assert id_of_current_run() is None


def test_a_running_job_sees_the_facts_of_its_run(new_run, clock):
    run = new_run(current_run, at=clock.now() - timedelta(seconds=12), attempt=3, fence=7)

    seen = execute(run, clock).result

    assert (seen.job_id, seen.run_id, seen.attempt, seen.fence) == ("job-1", run.id, 3, 7)
    assert seen.scheduled_at == seen.scheduled_run_time == run.scheduled_at
    assert seen.started_at == clock.now()
    assert seen.lateness == 12.0
    assert seen.fire_id == run.fire_id
    assert repr(seen) == f"<CurrentRun (job_id='job-1' run_id='{run.id}' attempt=3)>"


def test_it_is_over_when_the_job_is(new_run, clock):
    execute(new_run(current_run), clock)

    assert id_of_current_run() is None


def test_a_run_within_a_run_does_not_disturb_it(new_run, clock):
    def work():
        inner = execute(new_run(current_run), clock).result.run_id
        return inner, current_run().run_id

    run = new_run(work)
    inner, outer = execute(run, clock).result

    assert outer == run.id
    assert inner != run.id


def test_a_thread_started_by_the_job_has_none_of_its_own(new_run, clock):
    def work():
        seen = []
        thread = threading.Thread(target=lambda: seen.append(id_of_current_run()))
        thread.start()
        thread.join()
        return seen

    assert execute(new_run(work), clock).result == [None]
