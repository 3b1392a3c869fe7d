"""Removing and changing jobs while they run, wait in a queue, or are about to fire."""

from __future__ import annotations

import asyncio
import itertools
import threading
from datetime import timedelta

import pytest
from behaviour_doubles import START, HoldingExecutor, PickledStore, note, within
from lease_doubles import LEASE, BegunExecutor, Cluster, QueueingExecutor

from goscheduler import BackgroundScheduler, current_run
from goscheduler.errors import JobLookupError
from goscheduler.events import (
    EVENT_ALL_JOBS_REMOVED,
    EVENT_JOB_EXECUTED,
    EVENT_JOB_MODIFIED,
    EVENT_JOB_REMOVED,
    EVENT_JOB_SUBMITTED,
)
from goscheduler.executors.pool import ThreadPoolExecutor
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.runs.model import OutcomeKind
from goscheduler.schedulers.asyncio import AsyncIOScheduler
from goscheduler.testing import EventRecorder, ManualScheduler
from goscheduler.triggers.interval import IntervalTrigger

STORES = {"memory store": None, "simple store": PickledStore}


@pytest.fixture(params=STORES.values(), ids=STORES)
def stores(request):
    return {} if request.param is None else {"default": request.param()}


@pytest.fixture
def manual(schedulers, stores):
    scheduler = schedulers(ManualScheduler, jobstores=stores)
    scheduler.start()
    return scheduler


@pytest.mark.parametrize("remove", ["remove_job", "remove_all_jobs"])
def test_a_due_job_that_waits_for_room_does_not_start_after_it_was_removed(schedulers, stores, jobcalls, remove):
    narrow = HoldingExecutor(room=1)
    scheduler = schedulers(ManualScheduler, executors={"default": narrow}, jobstores=stores)
    scheduler.start()
    scheduler.add_job(note, "date", run_date=START, id="first")
    scheduler.add_job(note, "interval", hours=1, id="waiting", next_run_time=START + timedelta(seconds=1))
    scheduler.clock.advance(5)
    scheduler._process_jobs()
    if remove == "remove_job":
        scheduler.remove_job("waiting")
    else:
        scheduler.remove_all_jobs("default")
    narrow.finish()
    scheduler.run_due()
    assert [run.job.id for run in narrow.taken] == ["first"]


def test_a_run_of_a_removed_job_that_its_executor_gives_back_does_not_come_back(schedulers, stores):
    holding = HoldingExecutor()
    scheduler = schedulers(ManualScheduler, executors={"default": holding}, jobstores=stores)
    scheduler.start()
    scheduler.add_job(note, "interval", hours=1, id="job", next_run_time=START)
    scheduler._process_jobs()
    scheduler.remove_job("job")
    holding.finish(OutcomeKind.SNOOZED)
    for _ in range(3):
        scheduler.run_due()
        scheduler.clock.advance(1)
    assert len(holding.taken) == 1
    assert holding.held == []


def test_no_run_begins_after_remove_job_has_returned(schedulers, stores):
    scheduler = schedulers(jobstores=stores, job_defaults={"max_instances": 10})
    recorder = EventRecorder(scheduler, EVENT_JOB_EXECUTED)
    scheduler.start()
    for number in range(30):
        job_id = str(number)
        entered.clear()
        scheduler.add_job(enter, "interval", seconds=0.002, id=job_id, args=[job_id])
        recorder.wait_for(EVENT_JOB_EXECUTED, job_id, timeout=60)
        scheduler.remove_job(job_id)
        count = entered.count(job_id)
        scheduler.add_job(note, id=f"after {number}")
        recorder.wait_for(EVENT_JOB_EXECUTED, f"after {number}", timeout=60)
        # One may have been past the last check when remove_job looked; none is taken from a queue any more.
        assert entered.count(job_id) <= count + 1


entered: list[str] = []


def enter(job_id):
    entered.append(job_id)


def test_a_run_in_the_queue_of_the_pool_does_not_start_after_its_job_was_removed(schedulers, gates, jobcalls):
    scheduler = schedulers(executors={"default": ThreadPoolExecutor(2)})
    recorder = EventRecorder(scheduler)
    first, second = gates(), gates()
    scheduler.start(paused=True)
    for number, job in enumerate((first, second)):
        scheduler.add_job(job, "date", run_date=START + timedelta(seconds=number))
    scheduler.resume()
    assert first.started.wait(60)
    assert second.started.wait(60)
    pool = scheduler.engine.executors["default"]
    pool.room = lambda: 100  # as when runs were short until now
    scheduler.add_job(note, "interval", hours=1, id="queued", next_run_time=START, args=["queued"])
    recorder.wait_for(EVENT_JOB_SUBMITTED, "queued", timeout=60)
    scheduler.remove_job("queued")
    first.release()
    second.release()
    scheduler.add_job(note, id="after", args=["after"])
    recorder.wait_for(EVENT_JOB_EXECUTED, "after", timeout=60)
    scheduler.shutdown()
    assert jobcalls == ["after"]
    assert not recorder.of(EVENT_JOB_EXECUTED, "queued")


def test_a_coroutine_handed_to_the_loop_does_not_start_after_its_job_was_removed(jobcalls):
    async def main():
        scheduler = AsyncIOScheduler(timezone="UTC")
        recorder = EventRecorder(scheduler)
        scheduler.start()

        async def job():
            note("queued")

        scheduler.add_job(job, "interval", hours=1, id="queued", next_run_time=START)
        recorder.wait_for(EVENT_JOB_SUBMITTED, "queued", timeout=60)  # blocks the loop, so the task cannot begin
        scheduler.remove_job("queued")
        scheduler.add_job(note, id="after", args=["after"])
        await asyncio.to_thread(recorder.wait_for, EVENT_JOB_EXECUTED, "after", timeout=60)
        await scheduler.shutdown()

    asyncio.run(main())
    assert jobcalls == ["after"]


def test_runs_that_wait_for_their_turn_are_gone_with_their_job(schedulers, stores):
    holding = HoldingExecutor()
    scheduler = schedulers(ManualScheduler, executors={"default": holding}, jobstores=stores)
    scheduler.start()
    scheduler.add_job(note, "interval", seconds=10, id="job", coalesce=False)
    scheduler.clock.advance(50)
    scheduler._process_jobs()
    scheduler.remove_job("job")
    holding.finish()
    scheduler.run_due()
    assert len(holding.taken) == 1


def test_a_running_job_that_is_removed_finishes_and_does_not_come_back(schedulers, stores):
    holding = HoldingExecutor()
    scheduler = schedulers(ManualScheduler, executors={"default": holding}, jobstores=stores)
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(note, "interval", seconds=10, id="job")
    scheduler.clock.advance(10)
    scheduler._process_jobs()
    scheduler.remove_job("job")
    holding.finish()
    scheduler.advance(60)
    assert scheduler.get_job("job") is None
    assert recorder.of(EVENT_JOB_EXECUTED, "job")
    assert len(holding.taken) == 1


def test_what_is_remembered_about_removed_jobs_is_forgotten_when_their_runs_end(schedulers):
    holding = HoldingExecutor()
    scheduler = schedulers(ManualScheduler, executors={"default": holding})
    scheduler.start()
    for number in range(20):
        scheduler.add_job(note, "date", run_date=START, id=str(number))
        scheduler.add_job(note, "interval", seconds=1, next_run_time=START, id=f"i{number}")
    scheduler._process_jobs()
    for number in range(20):
        scheduler.remove_job(f"i{number}")
    while holding.held:
        holding.finish()
    scheduler.run_due()
    assert not scheduler.engine.revoked


def test_a_job_can_remove_itself(manual):
    runs = []
    removed = []

    def once():
        runs.append(1)
        manual.remove_job(current_run().job_id)
        removed.append(manual.get_job("job"))

    globals()["_once"] = once
    manual.add_job(f"{__name__}:run_once", "interval", seconds=10, id="job")
    manual.advance(60)
    assert runs == [1]
    assert removed == [None]
    assert manual.get_jobs() == []


def run_once():
    globals()["_once"]()


def test_a_job_can_pause_itself(manual):
    globals()["_once"] = lambda: manual.pause_job(current_run().job_id)
    recorder = EventRecorder(manual)
    manual.add_job(f"{__name__}:run_once", "interval", seconds=10, id="job")
    manual.advance(60)
    assert len(recorder.of(EVENT_JOB_EXECUTED, "job")) == 1
    assert manual.get_job("job").next_run_time is None


def test_a_job_can_reschedule_itself(manual):
    globals()["_once"] = lambda: manual.reschedule_job(current_run().job_id, trigger="interval", seconds=30)
    recorder = EventRecorder(manual)
    manual.add_job(f"{__name__}:run_once", "interval", seconds=10, id="job")
    manual.advance(70)
    assert [event.scheduled_run_time for event in recorder.of(EVENT_JOB_EXECUTED, "job")] == [
        START + timedelta(seconds=10), START + timedelta(seconds=40), START + timedelta(seconds=70),
    ]


def test_the_same_id_can_be_used_again_while_the_old_job_still_runs(schedulers):
    holding = HoldingExecutor()
    scheduler = schedulers(ManualScheduler, executors={"holding": holding})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(note, "date", run_date=START, id="job", executor="holding")
    scheduler._process_jobs()
    scheduler.add_job(note, "interval", seconds=10, id="job", max_instances=2)
    scheduler.clock.advance(10)
    scheduler.run_due()
    assert recorder.of(EVENT_JOB_EXECUTED, "job")
    holding.finish()
    scheduler.run_due()
    assert scheduler.get_job("job").next_run_time == START + timedelta(seconds=20)


# Runs that another scheduler has


@pytest.fixture
def cluster():
    made = Cluster()
    yield made
    for member in made.members:
        if member.running:
            member.shutdown(wait=False)


def give_a_run_to(cluster, executor, **options):
    """Return a scheduler that has a run of "job" in its executor, and another one on the same store."""
    owner, remover = cluster.join(executor), cluster.join(HoldingExecutor(room=0))
    owner.add_job(note, "interval", hours=1, id="job", next_run_time=cluster.clock.now(), **options)
    owner.run_due()
    assert len(executor.held) == 1
    return owner, remover


@pytest.mark.parametrize("remove", [lambda scheduler: scheduler.remove_job("job"),
                                    lambda scheduler: scheduler.remove_all_jobs()], ids=["one", "all"])
def test_a_run_that_another_scheduler_has_queued_does_not_start(cluster, jobcalls, remove):
    executor = QueueingExecutor()
    owner, remover = give_a_run_to(cluster, executor)
    remove(remover)
    owner.run_due()
    assert cluster.store.cancel_requests("job") == {}, "that is its answer"
    executor.begin()
    cluster.advance(60)
    assert jobcalls == []
    assert cluster.outcomes() == [OutcomeKind.CANCELLED]
    assert not owner.engine.revoked
    assert not remover.engine.revoked


def test_a_run_that_goes_on_in_another_scheduler_comes_to_its_end(cluster):
    executor = BegunExecutor()
    owner, remover = give_a_run_to(cluster, executor, retry=3)
    remover.remove_job("job")
    cluster.advance(executor.grace_seconds * 2)
    assert executor.told == []
    executor.finish(OutcomeKind.FAILED)
    cluster.advance(60)
    assert cluster.outcomes() == [OutcomeKind.FAILED]
    assert len(executor.taken) == 1
    assert not owner.engine.revoked


@pytest.mark.parametrize("order", [["cancel", "remove"], ["remove", "cancel"]], ids=" then ".join)
@pytest.mark.parametrize("begun", [False, True], ids=["queued", "going on"])
def test_a_run_that_was_cancelled_as_well_is_told_so(cluster, jobcalls, order, begun):
    executor = BegunExecutor() if begun else QueueingExecutor()
    owner, remover = give_a_run_to(cluster, executor)
    (run,) = cluster.store.live_runs()
    for step in order:
        if step == "cancel":
            assert remover.cancel_run(run.id, "enough")
        else:
            remover.remove_job("job")
    owner.run_due()
    if begun:
        assert executor.told == ["enough"]
        executor.finish(OutcomeKind.FAILED)
    else:
        executor.begin()
    owner.run_due()
    assert jobcalls == []
    assert [(record.outcome, record.reason) for record in owner.runs("job")] == [(OutcomeKind.CANCELLED, "enough")]


def test_a_run_can_be_cancelled_with_the_words_that_schedulers_use_among_each_other(cluster):
    executor = BegunExecutor()
    owner, remover = give_a_run_to(cluster, executor)
    (run,) = cluster.store.live_runs()
    assert remover.cancel_run(run.id, "its job was removed")
    owner.run_due()
    assert executor.told == ["its job was removed"]


@pytest.mark.parametrize("act", [lambda scheduler, _: scheduler.remove_job("job"),
                                 lambda scheduler, run: scheduler.cancel_run(run.id)], ids=["removed", "cancelled"])
def test_a_scheduler_that_is_paused_hears_of_it(cluster, jobcalls, act):
    executor = QueueingExecutor()
    owner, remover = give_a_run_to(cluster, executor)
    (run,) = cluster.store.live_runs()
    owner.pause()
    act(remover, run)
    owner.run_due()
    executor.begin()
    owner.run_due()
    assert jobcalls == []
    assert cluster.outcomes() == [OutcomeKind.CANCELLED]


def test_a_paused_scheduler_whose_store_does_not_answer_asks_again(cluster, jobcalls):
    executor = QueueingExecutor()
    owner, remover = give_a_run_to(cluster, executor)
    owner.pause()
    remover.remove_job("job")
    cluster.store.faults["claim_runs"] = ConnectionError("the network is gone")
    assert owner._process_jobs() == 1.0
    cluster.store.faults.clear()
    owner.run_due()
    executor.begin()
    assert jobcalls == []


def test_removing_waits_until_the_other_scheduler_has_heard(cluster, jobcalls):
    executor = QueueingExecutor()
    owner, remover = give_a_run_to(cluster, executor)
    heard = []

    def rest(seconds):
        heard.append(seconds)
        if len(heard) == 12:
            owner.run_due()

    remover.engine.sleep = rest
    remover.remove_job("job")
    assert len(heard) == 12
    assert heard == sorted(heard)
    assert (heard[0], heard[-1]) == (0.02, 0.25)
    executor.begin()
    assert jobcalls == []


def test_a_cancellation_that_comes_while_a_removal_waits_does_not_get_lost(cluster, jobcalls):
    executor = QueueingExecutor()
    owner, remover = give_a_run_to(cluster, executor)
    (run,) = cluster.store.live_runs()
    steps = iter([lambda: remover.cancel_run(run.id, "enough"), lambda: None, owner.run_due])
    remover.engine.sleep = lambda seconds: next(steps)()
    remover.remove_job("job")
    assert next(steps, None) is None, "it has waited for the answer to both"
    executor.begin()
    owner.run_due()
    assert jobcalls == []
    assert [(record.outcome, record.reason) for record in owner.runs("job")] == [(OutcomeKind.CANCELLED, "enough")]


def test_who_does_not_answer_is_waited_for_until_a_dead_one_would_have_been_found(cluster, caplog):
    _, remover = give_a_run_to(cluster, QueueingExecutor())
    pauses = []
    remover.engine.sleep = pauses.append
    remover.remove_job("job")
    assert LEASE * 5 / 4 < sum(pauses) < LEASE * 5 / 4 + 1
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith('Job "job" was removed, but the process that has 1 of its runs does not answer')
    assert remover.get_job("job") is None


def test_a_removal_that_waits_ends_with_the_owner_that_is_given_up(cluster, caplog):
    owner, remover = give_a_run_to(cluster, QueueingExecutor())
    cluster.kill(owner)
    remover.engine.sleep = lambda seconds: cluster.advance(LEASE / 4)
    remover.remove_job("job")
    assert cluster.store.live_runs() == cluster.store.pending_runs() == []
    assert not [record for record in caplog.records if "does not answer" in record.getMessage()]


def test_a_removal_outlives_a_store_that_does_not_answer_for_a_while(cluster, monkeypatch):
    owner, remover = give_a_run_to(cluster, QueueingExecutor())
    asked = cluster.store.cancel_requests
    answers = iter([ConnectionError, ConnectionError])

    def cancel_requests(job_id):
        error = next(answers, None)
        if error is not None:
            raise error("the network is gone")
        owner.run_due()
        return asked(job_id)

    monkeypatch.setattr(cluster.store, "cancel_requests", cancel_requests)
    remover.engine.sleep = lambda seconds: None
    remover.remove_job("job")
    assert cluster.store.cancel_requests("job") == {}


def test_many_jobs_are_removed_with_one_wait_for_all(cluster, jobcalls):
    executor = QueueingExecutor()
    owner, remover = cluster.join(executor), cluster.join(HoldingExecutor(room=0))
    for number in range(5):
        owner.add_job(note, "interval", hours=1, id=str(number), next_run_time=cluster.clock.now())
    owner.run_due()
    rests = []

    def rest(seconds):
        rests.append({number: len(cluster.store.cancel_requests(str(number))) for number in range(5)})
        owner.run_due()

    remover.engine.sleep = rest
    remover.remove_all_jobs()
    assert rests == [dict.fromkeys(range(5), 1)]
    executor.begin()
    assert jobcalls == []


def test_what_ended_before_its_owner_could_answer_is_not_remembered(cluster, monkeypatch):
    executor = BegunExecutor()
    owner, remover = give_a_run_to(cluster, executor)
    remover.remove_job("job")
    claim = cluster.store.claim_runs

    def claim_slowly(request):
        claimed = claim(request)
        if executor.held:
            executor.finish()
            owner.engine.settler.settle_reported()
        return claimed

    monkeypatch.setattr(cluster.store, "claim_runs", claim_slowly)
    owner.run_due()
    assert not owner.engine.revoked
    assert cluster.outcomes() == [OutcomeKind.SUCCEEDED]


def test_a_run_is_noted_as_begun_before_it_is_looked_up_whether_it_may(cluster):
    owner = cluster.join(QueueingExecutor())
    owner.add_job(note, "interval", hours=1, id="job", next_run_time=cluster.clock.now())
    owner.run_due()
    (run,) = cluster.store.live_runs()

    class Watched(set):
        def __contains__(self, key):
            started.append(owner.engine.running.started_at(run))
            return super().__contains__(key)

    started = []
    owner.engine.revoked = Watched([("another", 1)])
    assert owner.may_start(run)
    owner.engine.revoked.add((run.id, run.fence))
    assert not owner.may_start(run)
    assert started == [cluster.clock.now()] * 2
    assert owner.engine.running.started_at(run) is None


def test_a_scheduler_that_waits_for_its_last_jobs_hears_of_it(cluster, gates, jobcalls, monkeypatch):
    monkeypatch.setattr("goscheduler.schedulers._cancellation.MAX_LOOK_SECONDS", 0.01)
    pool = ThreadPoolExecutor(1)
    owner = BackgroundScheduler(clock=cluster.clock, jobstores={"default": cluster.store},
                                executors={"default": pool}, timezone="UTC")
    recorder = EventRecorder(owner)
    owner.start()
    pool.room = lambda: 100  # as when runs were short until now
    gate = gates()
    owner.add_job(gate, "interval", hours=1, id="busy", next_run_time=cluster.clock.now())
    assert gate.started.wait(60)
    owner.add_job(note, "interval", hours=1, id="job", next_run_time=cluster.clock.now())
    recorder.wait_for(EVENT_JOB_SUBMITTED, "job", timeout=60)
    shutdown = threading.Thread(target=owner.shutdown)
    shutdown.start()
    assert owner._loop.ended.wait(60)
    remover = cluster.join(HoldingExecutor(room=0))
    remover.engine.sleep = threading.Event().wait
    within(60, lambda: remover.remove_job("job"))
    gate.release()
    shutdown.join(60)
    assert not shutdown.is_alive()
    assert jobcalls == []


UNKNOWN = {
    "remove_job": lambda scheduler: scheduler.remove_job("unknown"),
    "modify_job": lambda scheduler: scheduler.modify_job("unknown", name="x"),
    "reschedule_job": lambda scheduler: scheduler.reschedule_job("unknown", trigger="interval", seconds=1),
    "pause_job": lambda scheduler: scheduler.pause_job("unknown"),
    "resume_job": lambda scheduler: scheduler.resume_job("unknown"),
    "remove_job in a store": lambda scheduler: scheduler.remove_job("unknown", "default"),
    "pause_job in an unknown store": lambda scheduler: scheduler.pause_job("unknown", "nowhere"),
}


@pytest.mark.parametrize("act", UNKNOWN.values(), ids=UNKNOWN)
@pytest.mark.parametrize("running", [True, False], ids=["running", "stopped"])
def test_an_unknown_job_is_a_lookup_error_and_a_key_error(manual, act, running):
    recorder = EventRecorder(manual)
    if not running:
        manual.shutdown()
    before = len(recorder.events)
    with pytest.raises(JobLookupError, match="No job by the id of unknown was found"):
        act(manual)
    with pytest.raises(KeyError):
        act(manual)
    assert len(recorder.events) == before


def test_a_removed_job_is_unknown(manual):
    job = manual.add_job(note, "interval", seconds=10, id="job")
    job.remove()
    for act in (job.remove, job.pause, job.resume, lambda: job.modify(name="x"),
                lambda: job.reschedule("interval", seconds=1)):
        with pytest.raises(JobLookupError):
            act()


def test_a_paused_job_does_not_fire_and_a_resumed_one_fires_from_now_on(manual, jobcalls):
    manual.add_job(note, "interval", seconds=10, id="job")
    manual.pause_job("job")
    manual.advance(95)
    assert jobcalls == []
    manual.resume_job("job")
    assert manual.get_job("job").next_run_time == START + timedelta(seconds=100)
    manual.advance(10)
    assert jobcalls == ["called"]


def test_pausing_twice_and_resuming_twice_is_fine(manual, jobcalls):
    manual.add_job(note, "interval", seconds=10, id="job")
    for method in (manual.pause_job, manual.pause_job, manual.resume_job, manual.resume_job):
        method("job")
    manual.advance(10)
    assert jobcalls == ["called"]


def test_resuming_a_job_whose_trigger_has_ended_removes_it(manual):
    recorder = EventRecorder(manual)
    manual.add_job(note, "interval", seconds=10, end_date=START + timedelta(seconds=30), id="job")
    manual.pause_job("job")
    manual.advance(60)
    assert manual.resume_job("job") is None
    assert manual.get_job("job") is None
    assert recorder.of(EVENT_JOB_REMOVED, "job")


def test_a_change_that_is_refused_changes_nothing_and_tells_nobody(manual):
    manual.add_job(note, "interval", seconds=10, id="job")
    recorder = EventRecorder(manual)
    for changes in (
        {"name": "new", "max_instances": 0},
        {"name": "new", "trigger": "interval"},
        {"name": "new", "id": "other"},
        {"name": "new", "no_such_thing": 1},
        {"name": "new", "args": "text"},
    ):
        with pytest.raises((TypeError, ValueError, AttributeError)):
            manual.modify_job("job", **changes)
    assert manual.get_job("job").name == "note"
    assert recorder.events == []


def test_a_new_trigger_gives_a_new_next_run_time_and_leaves_a_paused_job_paused(manual):
    manual.add_job(note, "interval", seconds=10, id="job")
    manual.modify_job("job", trigger=IntervalTrigger(seconds=3, timezone="UTC"))
    assert manual.get_job("job").next_run_time == START + timedelta(seconds=3)
    manual.pause_job("job")
    manual.modify_job("job", trigger=IntervalTrigger(seconds=4, timezone="UTC"))
    assert manual.get_job("job").next_run_time is None


def test_replacing_a_job_keeps_its_next_run_time_unless_the_trigger_changed(manual):
    manual.add_job(note, "interval", hours=1, id="job")
    manual.advance(1800)
    manual.add_job(note, "interval", hours=1, id="job", replace_existing=True, args=["new"])
    assert manual.get_job("job").next_run_time == START + timedelta(hours=1)
    assert manual.get_job("job").args == ("new",)
    manual.add_job(note, "interval", hours=2, id="job", replace_existing=True)
    assert manual.get_job("job").next_run_time == START + timedelta(hours=2, seconds=1800)


def test_replacing_a_paused_job_leaves_it_paused_and_a_due_run_is_not_lost(manual, jobcalls):
    manual.add_job(note, "interval", seconds=10, id="paused")
    manual.pause_job("paused")
    manual.add_job(note, "interval", seconds=10, id="due", args=["due"])
    manual.clock.advance(15)
    for name in ("paused", "due"):
        manual.add_job(note, "interval", seconds=10, id=name, args=[name], replace_existing=True)
    manual.run_due()
    assert jobcalls == ["due"]
    assert manual.get_job("paused").next_run_time is None


def test_the_job_that_replacing_returns_goes_on_showing_what_is_stored(schedulers):
    scheduler = schedulers(ManualScheduler)
    scheduler.start()
    scheduler.add_job(note, "interval", seconds=10, id="job")
    job = scheduler.add_job(note, "interval", seconds=10, id="job", replace_existing=True)
    scheduler.advance(10)
    assert job.next_run_time == scheduler.get_job("job").next_run_time == START + timedelta(seconds=20)


def test_removing_all_jobs_of_one_store_leaves_the_others(schedulers):
    scheduler = schedulers(ManualScheduler, jobstores={"other": PickledStore()})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(note, "interval", hours=1, id="a")
    scheduler.add_job(note, "interval", hours=1, id="b", jobstore="other")
    scheduler.remove_all_jobs("other")
    assert [job.id for job in scheduler.get_jobs()] == ["a"]
    assert [event.alias for event in recorder.of(EVENT_ALL_JOBS_REMOVED)] == ["other"]
    scheduler.remove_all_jobs()
    assert scheduler.get_jobs() == []


def test_modifying_a_running_job_tells_of_it_and_does_not_disturb_the_run(schedulers):
    holding = HoldingExecutor()
    scheduler = schedulers(ManualScheduler, executors={"default": holding})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(note, "interval", seconds=10, id="job")
    scheduler.clock.advance(10)
    scheduler._process_jobs()
    scheduler.modify_job("job", name="other name")
    holding.finish()
    scheduler.run_due()
    assert recorder.of(EVENT_JOB_MODIFIED, "job")
    assert recorder.of(EVENT_JOB_EXECUTED, "job")
    assert scheduler.get_job("job").next_run_time == START + timedelta(seconds=20)


@pytest.mark.parametrize("make_store", STORES.values(), ids=STORES)
def test_edits_while_a_job_fires_neither_lose_nor_double_a_firing(schedulers, make_store):
    stores = {} if make_store is None else {"default": make_store()}
    # Many, because none is to be skipped when the editors leave the scheduler no time for a while.
    scheduler = schedulers(jobstores=stores, job_defaults={"coalesce": False, "max_instances": 5000})
    recorder = EventRecorder(scheduler, EVENT_JOB_EXECUTED)
    scheduler.start()
    period = timedelta(milliseconds=10)
    job = scheduler.add_job(note, "interval", seconds=period.total_seconds(), id="job")
    first = job.next_run_time
    stop = threading.Event()
    problems = []

    def edit(tag):
        try:
            for number in itertools.count():
                if stop.is_set():
                    return
                scheduler.modify_job("job", name=f"{tag}-{number}")
        except BaseException as error:
            problems.append(error)

    editors = [threading.Thread(target=edit, args=[tag], daemon=True) for tag in "ab"]
    for editor in editors:
        editor.start()
    recorder.wait_for(EVENT_JOB_EXECUTED, "job", count=150, timeout=60)
    stop.set()
    for editor in editors:
        editor.join(60)
    within(60, scheduler.shutdown)
    times = sorted(event.scheduled_run_time for event in recorder.of(EVENT_JOB_EXECUTED))
    assert problems == []
    assert times == [first + number * period for number in range(len(times))]


def test_jobs_added_and_removed_by_many_threads_leave_nothing_behind(schedulers, stores):
    scheduler = schedulers(jobstores=stores)
    recorder = EventRecorder(scheduler)
    scheduler.start()
    problems = []

    def churn(tag):
        try:
            for number in range(40):
                scheduler.add_job(note, "interval", seconds=0.01, id=f"{tag}-{number}")
                scheduler.modify_job(f"{tag}-{number}", name="changed")
                scheduler.remove_job(f"{tag}-{number}")
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=churn, args=[tag]) for tag in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert scheduler.get_jobs() == []
    scheduler.add_job(note, id="last")
    recorder.wait_for(EVENT_JOB_EXECUTED, "last", timeout=60)


def test_what_a_removed_job_has_pending_is_dropped_although_the_scheduler_ends_meanwhile(schedulers):
    class Ending(MemoryJobStore):
        def remove_job(self, job_id):
            super().remove_job(job_id)
            scheduler.engine.jobs.started = False  # the end of the scheduler comes in between, on another thread

        def shutdown(self):
            return

    store = Ending()
    scheduler = schedulers(ManualScheduler, jobstores={"default": store})
    scheduler.start()
    scheduler.add_job(print, "interval", hours=1, id="job")
    scheduler.run_now("job")
    assert store.pending_runs("job")
    try:
        scheduler.remove_job("job")
    finally:
        scheduler.engine.jobs.started = True
    assert not store.pending_runs("job")
