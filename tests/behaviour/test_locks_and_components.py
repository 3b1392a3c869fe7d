"""No lock of the scheduler is held while a store, an executor, a job or a listener is waited for."""

from __future__ import annotations

import threading

import pytest
from behaviour_doubles import Gate, HoldingExecutor, PickledStore, note, within

from goscheduler.events import (
    EVENT_EXECUTOR_ADDED,
    EVENT_EXECUTOR_REMOVED,
    EVENT_JOB_ADDED,
    EVENT_JOB_EXECUTED,
    EVENT_JOBSTORE_ADDED,
    EVENT_JOBSTORE_REMOVED,
    EVENT_SCHEDULER_PAUSED,
    EVENT_SCHEDULER_RESUMED,
)
from goscheduler.executors.debug import DebugExecutor
from goscheduler.executors.pool import ThreadPoolExecutor
from goscheduler.testing import EventRecorder


def pause_and_resume(scheduler):
    scheduler.pause()
    scheduler.resume()


def test_a_job_may_use_its_scheduler_while_its_executor_is_being_removed(schedulers, gate):
    scheduler = schedulers(executors={"second": ThreadPoolExecutor(1)})
    recorder = EventRecorder(scheduler)

    def job():
        gate()
        pause_and_resume(scheduler)

    scheduler.start()
    scheduler.add_job(job, executor="second", id="job")
    assert gate.started.wait(60)
    removing = threading.Thread(target=scheduler.remove_executor, args=["second"], daemon=True)
    removing.start()
    removing.join(0.1)
    gate.release()
    removing.join(60)
    assert not removing.is_alive()
    recorder.wait_for(EVENT_JOB_EXECUTED, "job", timeout=60)


def test_a_job_may_remove_the_executor_that_runs_it(schedulers):
    scheduler = schedulers(executors={"second": ThreadPoolExecutor(1)})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(lambda: scheduler.remove_executor("second"), executor="second", id="job")
    recorder.wait_for(EVENT_JOB_EXECUTED, "job", timeout=60)
    scheduler.add_job(note, id="other")
    recorder.wait_for(EVENT_JOB_EXECUTED, "other", timeout=60)


CHANGES = {
    EVENT_EXECUTOR_ADDED: lambda scheduler: scheduler.add_executor(DebugExecutor(), "new"),
    EVENT_EXECUTOR_REMOVED: lambda scheduler: scheduler.remove_executor("old"),
    EVENT_JOBSTORE_ADDED: lambda scheduler: scheduler.add_jobstore(PickledStore(), "new"),
    EVENT_JOBSTORE_REMOVED: lambda scheduler: scheduler.remove_jobstore("old"),
    EVENT_JOB_ADDED: lambda scheduler: scheduler.add_job(note, "interval", hours=1),
    EVENT_SCHEDULER_PAUSED: lambda scheduler: scheduler.pause(),
    EVENT_SCHEDULER_RESUMED: lambda scheduler: (scheduler.pause(), scheduler.resume()),
}


@pytest.mark.parametrize("code", CHANGES, ids=lambda code: code.name)
def test_a_listener_may_wait_for_another_thread_that_uses_the_scheduler(schedulers, code):
    scheduler = schedulers(
        event_dispatch="sync", executors={"old": HoldingExecutor()}, jobstores={"old": PickledStore()}
    )
    scheduler.start()
    answered = []

    def listener(event):
        scheduler.remove_listener(listener)
        within(4, lambda: scheduler.get_jobs())
        within(4, lambda: scheduler.add_executor(DebugExecutor(), "from another thread"))
        answered.append(event.code)

    scheduler.add_listener(listener, code)
    within(60, lambda: CHANGES[code](scheduler))
    assert answered == [code]


@pytest.mark.parametrize("part", ["store", "executor"])
def test_a_part_that_is_slow_to_start_does_not_block_the_other_calls(schedulers, gate, part):
    class SlowStore(PickledStore):
        def start(self, scheduler, alias):
            super().start(scheduler, alias)
            gate()

    class SlowExecutor(HoldingExecutor):
        def start(self, scheduler, alias):
            super().start(scheduler, alias)
            gate()

    scheduler = schedulers()
    scheduler.start()
    add = scheduler.add_jobstore if part == "store" else scheduler.add_executor
    slow = SlowStore() if part == "store" else SlowExecutor()
    adding = threading.Thread(target=add, args=[slow, "slow"], daemon=True)
    adding.start()
    assert gate.started.wait(60)
    within(60, lambda: pause_and_resume(scheduler))
    gate.release()
    adding.join(60)
    assert not adding.is_alive()


def test_two_threads_that_add_the_same_alias_add_it_once(schedulers):
    scheduler = schedulers()
    scheduler.start()
    started = []

    class Counting(HoldingExecutor):
        def start(self, scheduler, alias):
            super().start(scheduler, alias)
            started.append(self)

    barrier = threading.Barrier(6)
    refused = []

    def add():
        barrier.wait()
        try:
            scheduler.add_executor(Counting(), "same")
        except ValueError:
            refused.append(1)

    threads = [threading.Thread(target=add) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(refused) == 5
    assert scheduler.engine.executors["same"] in started


def test_an_alias_that_is_taken_or_unknown_is_an_error_that_names_it(schedulers):
    scheduler = schedulers()
    scheduler.start()
    with pytest.raises(ValueError, match='executor by the alias of "default"'):
        scheduler.add_executor(DebugExecutor())
    with pytest.raises(ValueError, match='job store by the alias of "default"'):
        scheduler.add_jobstore(PickledStore())
    with pytest.raises(KeyError, match="No such executor: nowhere"):
        scheduler.remove_executor("nowhere")
    with pytest.raises(KeyError, match="No such job store: nowhere"):
        scheduler.remove_jobstore("nowhere")
    with pytest.raises(KeyError, match="No such job store: nowhere"):
        scheduler.add_job(note, jobstore="nowhere")


def test_jobs_wait_in_the_store_that_was_removed_and_go_on_when_it_is_added_again(schedulers, jobcalls):
    store = PickledStore()
    scheduler = schedulers(jobstores={"second": store})
    recorder = EventRecorder(scheduler)
    scheduler.start(paused=True)
    scheduler.add_job(note, jobstore="second", id="job")
    scheduler.remove_jobstore("second")
    scheduler.resume()
    assert set(store.rows) == {"job"}
    assert scheduler.get_job("job") is None
    scheduler.add_jobstore(store, "second")
    recorder.wait_for(EVENT_JOB_EXECUTED, "job", timeout=60)


def test_a_slow_listener_of_a_sync_scheduler_holds_up_nobody_but_its_own_thread(schedulers):
    slow = Gate()
    scheduler = schedulers(event_dispatch="sync")
    scheduler.start()
    scheduler.add_listener(lambda event: slow(), EVENT_JOB_ADDED)
    adding = threading.Thread(
        target=scheduler.add_job, args=[note, "interval"], kwargs={"hours": 1, "id": "slow"}, daemon=True
    )
    adding.start()
    assert slow.started.wait(60)
    within(60, lambda: pause_and_resume(scheduler))
    assert [job.id for job in within(60, scheduler.get_jobs)] == ["slow"]
    slow.release()
    adding.join(60)
    assert not adding.is_alive()
