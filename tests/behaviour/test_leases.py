"""Schedulers that share a store: each firing happens once, and who cannot be heard of gives up in time."""

from __future__ import annotations

import itertools
import logging
import threading

import pytest
from behaviour_doubles import Gate, HoldingExecutor, our_threads, within
from lease_doubles import FALLIBLE, LEASE, BegunExecutor, Cluster, LateExecutor, QueueingExecutor, SharedStore

from goscheduler import BackgroundScheduler, current_run
from goscheduler.events import EVENT_LEASE_LOST, EVENT_SCHEDULER_DEGRADED, EVENT_SCHEDULER_RECOVERED
from goscheduler.executors.pool import ThreadPoolExecutor
from goscheduler.jobstores.base import FireRequest
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.runs.model import JobState, OutcomeKind, Source
from goscheduler.runs.plan import FiringPlanner, admit
from goscheduler.testing import EventRecorder, ManualClock, ManualScheduler

OUT = ConnectionError("the network is gone")


@pytest.fixture
def cluster():
    made = Cluster()
    yield made
    for member in made.members:
        if member.running:
            member.shutdown(wait=False)


def threads_of(name="goscheduler-lease"):
    return [thread for thread in our_threads() if thread.name == name]


# Two at once


def test_two_schedulers_on_one_store_run_each_firing_once(cluster):
    calls = []
    first, _ = cluster.join(), cluster.join()
    first.add_job(calls.append, "interval", seconds=7, args=[1], id="job")
    cluster.advance(300)
    assert len(calls) == 42
    records = first.runs("job", limit=1000)
    assert [record.outcome for record in records] == [OutcomeKind.SUCCEEDED] * 42
    assert len({record.scheduled_at for record in records}) == 42
    assert len({record.owner for record in records}) == 2, "both had their share"


def test_one_who_joins_later_takes_part_and_one_who_leaves_is_not_missed(cluster):
    calls = []
    first = cluster.join()
    first.add_job(calls.append, "interval", seconds=10, args=[1], id="job")
    cluster.advance(60)
    cluster.join()
    cluster.advance(60)
    cluster.kill(first)
    first.shutdown()
    cluster.advance(60)
    assert len(calls) == 18


def test_an_owner_is_somebody_new_at_every_start(cluster):
    scheduler = cluster.join()
    owners = set()
    for _ in range(3):
        owners |= set(cluster.store.owner_ids(cluster.clock.now()))
        scheduler.shutdown()
        scheduler.start()
    assert len(owners) == 3


def test_an_owner_tells_the_store_what_it_can_do(cluster):
    scheduler = cluster.join()
    scheduler.register("resize", len)
    cluster.advance(LEASE / 4)
    (owner,) = cluster.store.owners(cluster.clock.now())
    assert owner.executors == ("default",)
    assert "resize" in owner.tasks
    assert owner.host
    assert owner.pid > 0


def test_a_job_is_left_to_the_process_that_has_its_executor(cluster):
    calls = []
    plain = cluster.join()
    plain.add_job(calls.append, "interval", seconds=10, args=[1], id="job", executor="gpu")
    cluster.advance(15)
    assert calls == []
    assert plain.get_job("job").suspended is None
    cluster.join(executors={"gpu": QueueingExecutor()})
    cluster.advance(1)
    assert plain.get_job("job").state is JobState.RUNNING, "somebody else has it"


# Zombies


def test_the_finish_of_a_zombie_is_refused_and_it_goes_on_as_somebody_new(cluster, caplog):
    executor = BegunExecutor()
    zombie = cluster.join(executor)
    heard = EventRecorder(zombie, EVENT_LEASE_LOST)
    zombie.add_job(print, "date", id="job")
    zombie.run_due()
    before = cluster.store.owner_ids(cluster.clock.now())
    cluster.kill(zombie)
    other = cluster.join()
    cluster.advance(LEASE + 8)
    assert cluster.outcomes() == [OutcomeKind.LOST, OutcomeKind.SUCCEEDED]

    executor.finish()
    zombie.run_due()

    assert cluster.outcomes() == [OutcomeKind.LOST, OutcomeKind.SUCCEEDED], "its word does not count"
    assert [event.job_id for event in heard.events] == ["job"]
    assert "Lease lost: run" in caplog.text
    assert "its result is discarded" in caplog.text
    after = cluster.store.owner_ids(cluster.clock.now())
    assert len(after) == 2
    assert before[0] not in after
    other.shutdown()
    cluster.members.remove(other)
    zombie.add_job(print, "date", id="next")
    zombie.run_due()
    assert [run.job.id for run in executor.held] == ["next"]


def test_a_zombie_tells_its_running_jobs_to_end_when_it_learns_of_it(cluster):
    executor = BegunExecutor()
    zombie = cluster.join(executor)
    zombie.add_job(print, "date", id="job")
    zombie.run_due()
    cluster.kill(zombie)
    cluster.join()
    cluster.advance(LEASE + 8)
    zombie.run_due()
    assert executor.told == ["its lease had lapsed and it was given to somebody else"]


@pytest.mark.parametrize("looks_first", [True, False])
def test_what_a_zombie_has_queued_is_not_started(cluster, looks_first):
    calls = []
    executor = QueueingExecutor()
    zombie = cluster.join(executor)
    zombie.add_job(calls.append, "date", args=["ran"], id="job")
    zombie.run_due()
    cluster.kill(zombie)
    cluster.join()
    cluster.advance(LEASE + 8)
    assert calls == ["ran"], "the other one has run it"
    if looks_first:
        zombie.run_due()
    executor.begin()
    zombie.run_due()
    assert calls == ["ran"]
    assert cluster.outcomes() == [OutcomeKind.LOST, OutcomeKind.SUCCEEDED]


@pytest.mark.parametrize("kind", [QueueingExecutor, LateExecutor])
def test_the_log_says_of_a_run_whose_lease_was_lost_before_it_began_that_it_was_so(cluster, caplog, kind):
    caplog.set_level("INFO")
    executor = kind()
    scheduler = cluster.join(executor)
    scheduler.add_job(print, "date", id="job")
    scheduler.run_due()
    cluster.store.faults["renew_owner"] = OUT
    cluster.advance(LEASE * 3 / 4)
    executor.begin()
    scheduler.run_due()
    assert "was put back: its lease was lost before it began" in caplog.text
    assert "removed" not in caplog.text
    assert "cancelled" not in caplog.text


def test_what_was_queued_and_given_up_goes_back_if_nobody_took_it_and_does_not_count_as_a_crash(cluster):
    calls = []
    executor = QueueingExecutor()
    scheduler = cluster.join(executor)
    scheduler.add_job(calls.append, "date", args=["ran"], id="job", on_crash="dead")
    scheduler.run_due()
    cluster.store.faults["renew_owner"] = OUT
    cluster.advance(LEASE * 3 / 4)
    executor.begin()
    assert calls == [], "the lease may be over before it would be"
    cluster.store.faults.clear()
    cluster.advance(LEASE / 4)
    executor.begin()
    scheduler.run_due()
    assert calls == ["ran"]
    assert cluster.outcomes() == [OutcomeKind.SNOOZED, OutcomeKind.SUCCEEDED]
    assert scheduler.dead_letters() == []


# A store that cannot be told


@pytest.mark.parametrize(("after", "fires"), [(1, True), (14, True), (16, False), (22, False), (40, False)])
def test_nothing_is_claimed_when_the_lease_was_not_renewed_for_half_its_length(cluster, after, fires):
    calls = []
    scheduler = cluster.join()
    cluster.store.faults["renew_owner"] = OUT
    cluster.advance(after)
    scheduler.add_job(calls.append, "date", args=[1])
    scheduler.run_due()
    assert bool(calls) is fires


def test_a_store_that_cannot_renew_is_told_of_once_and_so_is_its_return(cluster, caplog):
    scheduler = cluster.join()
    recorder = EventRecorder(scheduler, EVENT_SCHEDULER_DEGRADED | EVENT_SCHEDULER_RECOVERED)
    cluster.store.faults["renew_owner"] = OUT
    cluster.advance(60)
    assert [(event.code, event.alias) for event in recorder.events] == [(EVENT_SCHEDULER_DEGRADED, "default")]
    assert 'The lease in job store "default" could not be renewed: ConnectionError: the network is gone' in caplog.text
    cluster.store.faults.clear()
    cluster.advance(LEASE / 4)
    assert recorder.events[1].code == EVENT_SCHEDULER_RECOVERED
    assert len(recorder.events) == 2


def test_a_store_that_is_not_asked_for_want_of_a_lease_is_not_said_to_answer_again(cluster):
    scheduler = cluster.join()
    recorder = EventRecorder(scheduler, EVENT_SCHEDULER_RECOVERED)
    cluster.store.faults.update(renew_owner=OUT, fire_due=OUT)
    cluster.advance(90)
    assert recorder.events == []


@pytest.mark.parametrize(("after", "told"), [(22, []), (23, ["its lease could not be renewed"])])
def test_running_jobs_are_told_to_end_after_three_quarters_of_a_lease(cluster, after, told):
    executor = BegunExecutor()
    scheduler = cluster.join(executor)
    scheduler.add_job(print, "date", id="job")
    scheduler.run_due()
    cluster.store.faults["renew_owner"] = OUT
    cluster.advance(after, step=0.5)
    assert executor.told == told


class OutlivingExecutor(BegunExecutor):
    """Its work goes on without this process."""

    def __init__(self):
        super().__init__()
        self.let = []

    def let_go(self, run, reason):
        self.let.append(reason)
        return True


def test_work_that_outlives_its_scheduler_is_let_go_of_when_the_lease_is_lost_and_cancelled_otherwise(cluster):
    executor = OutlivingExecutor()
    scheduler = cluster.join(executor)
    for job in ("lost", "cancelled"):
        scheduler.add_job(print, "date", id=job)
    scheduler.run_due()
    (live,) = scheduler.live_runs("cancelled")
    scheduler.cancel_run(live.id)
    assert (executor.let, len(executor.told)) == ([], 1)

    executor.finish()
    executor.finish()
    scheduler.add_job(print, "date", id="next")
    scheduler.run_due()
    cluster.store.faults["renew_owner"] = OUT
    cluster.advance(23, step=0.5)

    assert executor.let == ["its lease could not be renewed"]
    assert len(executor.told) == 1


def test_a_paused_scheduler_gives_up_in_time_too(cluster):
    executor = BegunExecutor()
    scheduler = cluster.join(executor)
    scheduler.add_job(print, "date", id="job")
    scheduler.run_due()
    scheduler.pause()
    cluster.store.faults["renew_owner"] = OUT
    cluster.advance(23)
    assert executor.told == ["its lease could not be renewed"]


def test_a_running_job_sees_that_its_lease_was_lost(schedulers):
    clock, store, gate, seen = ManualClock(), SharedStore(), Gate(), []
    scheduler = schedulers(clock=clock, jobstores={"default": store})

    def job():
        gate()
        seen.append((current_run().cancelled, current_run().cancel_reason))

    scheduler.start()
    scheduler.add_job(job, "date", run_date=clock.now())
    assert gate.started.wait(60)
    store.faults["renew_owner"] = OUT
    clock.advance(LEASE * 3 / 4)
    scheduler.engine.leases.renew_all()
    gate.release()
    within(60, scheduler.shutdown)
    assert seen == [(True, "its lease could not be renewed")]


def test_runs_are_given_up_in_time_although_a_renewal_hangs(schedulers):
    clock, store, begun, told = ManualClock(), SharedStore(), threading.Event(), threading.Event()

    class Telling(BegunExecutor):
        def submit(self, run):
            super().submit(run)
            begun.set()

        def cancel(self, run, reason):
            told.set()
            return True

    scheduler = schedulers(clock=clock, jobstores={"default": store}, executors={"default": Telling()})
    scheduler.start()
    scheduler.add_job(print, "date", run_date=clock.now(), id="job")
    assert begun.wait(60)
    clock.advance(LEASE * 3 / 4)
    scheduler.wakeup()
    assert told.wait(60), "nobody has renewed, and nobody said that it failed"


def test_a_renewal_that_works_too_late_does_not_bring_back_what_was_given_up(cluster):
    executor = BegunExecutor()
    scheduler = cluster.join(executor)
    scheduler.add_job(print, "date", id="job")
    scheduler.run_due()
    lost = cluster.store.owner_ids(cluster.clock.now())[0]

    def take_long():
        cluster.store.during_renewal = None
        cluster.clock.advance(LEASE - 8)
        scheduler._process_jobs()

    cluster.clock.advance(LEASE / 4)
    cluster.store.during_renewal = take_long
    scheduler.engine.leases.renew_all()
    assert executor.told == ["its lease could not be renewed"]
    assert scheduler.engine.leases.owner_of("default") != lost
    assert not scheduler.engine.leases.may_claim("default", cluster.store), "the new one has no lease yet"
    cluster.advance(LEASE / 4)
    assert scheduler.engine.leases.may_claim("default", cluster.store)


@pytest.mark.parametrize("outage", [5, 14, 20, 29, 45, 300])
@pytest.mark.parametrize("what", [("renew_owner",), ("renew_owner", "fire_due", "claim_runs", "settle")])
def test_after_an_outage_everything_goes_on_and_nothing_is_lost_or_done_twice(cluster, outage, what):
    calls = []
    scheduler = cluster.join()
    scheduler.add_job(
        lambda: calls.append(current_run().scheduled_at), "interval", seconds=7, id="job", coalesce=False
    )
    cluster.advance(20)
    cluster.store.faults.update(dict.fromkeys(what, OUT))
    cluster.advance(outage)
    cluster.store.faults.clear()
    cluster.advance(60)
    began = calls[0]
    assert [round((time - began).total_seconds()) for time in sorted(calls)] == [7 * n for n in range(len(calls))]
    assert len(calls) == (20 + outage + 60) // 7


@pytest.mark.parametrize("outage", [4, 8, 9, 13, 16, 20, 26, 33, 47, 61, 300])
def test_firing_goes_on_within_seconds_after_an_outage_of_any_length(cluster, outage):
    calls = []
    scheduler = cluster.join()
    scheduler.add_job(calls.append, "interval", seconds=1, args=[1], id="job")
    cluster.advance(10)
    cluster.store.faults.update(dict.fromkeys(FALLIBLE, OUT))
    cluster.advance(outage, step=0.25)
    before = len(calls)
    cluster.store.faults.clear()
    cluster.advance(4.5, step=0.25)
    assert len(calls) > before


def test_a_store_that_renews_and_cannot_fire_is_left_alone_for_longer_and_longer(cluster):
    cluster.join()
    cluster.store.faults["fire_due"] = OUT
    cluster.advance(60)
    cluster.store.asked.clear()
    cluster.advance(300)
    assert cluster.store.asked.count("fire_due") <= 300 / 8


def test_an_outcome_that_could_not_be_written_is_written_if_nobody_took_the_run_meanwhile(cluster):
    executor = BegunExecutor()
    scheduler = cluster.join(executor)
    scheduler.add_job(print, "date", id="job")
    scheduler.run_due()
    cluster.store.faults.update(renew_owner=OUT, settle=OUT, fire_due=OUT, claim_runs=OUT)
    executor.finish()
    cluster.advance(60)
    assert cluster.outcomes() == []
    cluster.store.faults.clear()
    scheduler.run_due()
    assert cluster.outcomes() == [OutcomeKind.SUCCEEDED]


# The thread

#: A lease by the real clock: renewed every half second, and a machine may be busy for one more.
SHORT = 2.0


def renewed(store, times):
    return all(store.renewed.acquire(timeout=60) for _ in range(times))


def test_a_job_that_hogs_all_workers_does_not_stop_the_renewal(schedulers, gate):
    store = SharedStore()
    scheduler = schedulers(lease=SHORT, jobstores={"default": store}, executors={"default": ThreadPoolExecutor(1)})
    scheduler.start()
    scheduler.add_job(gate)
    assert gate.started.wait(60)
    assert renewed(store, 3)
    assert set(store.renewals) == {"MainThread", "goscheduler-lease"}


def test_a_store_that_hangs_does_not_stop_the_renewal_in_another_one(schedulers, gate):
    hanging, other = SharedStore(), SharedStore()
    scheduler = schedulers(lease=SHORT, jobstores={"default": hanging, "other": other})
    scheduler.start()
    hanging.during_renewal = gate
    assert gate.started.wait(60)
    before = other.renewals["goscheduler-lease"]
    assert renewed(other, before + 2)
    hanging.during_renewal = None
    gate.release()


def test_there_is_no_thread_for_leases_if_no_store_is_shared(schedulers):
    before = threads_of()
    scheduler = schedulers(jobstores={"default": MemoryJobStore()})
    scheduler.start()
    assert set(threads_of()) <= set(before)


def test_a_store_that_is_added_while_running_gets_its_lease_and_a_thread(schedulers):
    before = threads_of()  # of earlier tests some may be about to end
    scheduler, store = schedulers(lease=SHORT), SharedStore()
    scheduler.start()
    scheduler.add_jobstore(store, "shared")
    assert len(set(threads_of()) - set(before)) == 1
    assert renewed(store, 3)
    gate = Gate()
    gate.release()
    scheduler.add_job(gate, jobstore="shared")
    assert gate.started.wait(60)


def test_a_store_that_is_removed_is_left_in_good_order(cluster):
    executor = QueueingExecutor()
    leaving = cluster.join(executor)
    calls = []
    leaving.add_job(calls.append, "date", args=[1], id="job")
    leaving.run_due()
    leaving.remove_jobstore("default")
    assert cluster.store.owner_ids(cluster.clock.now()) == []
    cluster.kill(leaving)
    other = cluster.join()
    other.run_due()
    assert calls == [1]
    executor.begin()
    assert calls == [1], "what was queued belongs to somebody else now"


def test_a_shared_store_is_not_taken_for_lost_in_a_forked_child(cluster):
    executor = BegunExecutor()
    scheduler = cluster.join(executor)
    scheduler.add_job(print, "date", id="job")
    scheduler.run_due()
    scheduler._components.forget()
    assert [run.job.id for run in cluster.store.live_runs()] == ["job"], "they are those of the parent"


# An orderly end


def test_what_was_queued_is_taken_over_at_once_after_a_shutdown_and_is_no_crash(cluster):
    ending = cluster.join(HoldingExecutor())
    ending.add_job(print, "date", id="job")
    ending.run_due()
    executor = HoldingExecutor()
    other = cluster.join(executor)
    cluster.kill(ending)
    ending.shutdown()
    other.run_due()
    (run,) = executor.held
    assert (run.crashes, run.source, run.attempt) == (0, Source.SCHEDULE, 1)
    assert other.runs("job") == []


def test_the_owner_is_not_retired_while_its_jobs_still_run(cluster):
    ending = cluster.join(BegunExecutor())
    ending.add_job(print, "date", id="job")
    ending.run_due()
    executor = HoldingExecutor()
    cluster.join(executor)
    cluster.kill(ending)
    ending.shutdown(wait=False)
    cluster.advance(LEASE - 1)
    assert executor.held == [], "it goes on, for all that anybody knows"
    cluster.advance(10)
    assert [run.crashes for run in executor.held] == [1]


def test_the_owner_is_not_retired_if_an_outcome_could_not_be_written(cluster):
    executor = BegunExecutor()
    ending = cluster.join(executor)
    ending.add_job(print, "date", id="job", on_crash="dead")
    ending.run_due()
    executor.finish()
    cluster.store.faults["settle"] = OUT
    cluster.kill(ending)
    ending.shutdown()
    cluster.store.faults.clear()
    other = cluster.join()
    cluster.advance(LEASE + 8)
    assert [letter.run.job.id for letter in other.dead_letters()] == ["job"], "it has run, and may not run again"
    assert "retire_owner" not in cluster.store.asked


def test_heartbeats_stop_last(schedulers, gate):
    store = SharedStore()
    scheduler = schedulers(lease=SHORT, jobstores={"default": store})
    scheduler.start()
    scheduler.add_job(gate)
    assert gate.started.wait(60)
    ending = threading.Thread(target=scheduler.shutdown)
    ending.start()
    assert scheduler.engine.stopped.is_set() is False
    assert renewed(store, store.renewals.total() + 2), "while the shutdown waits for the job"
    gate.release()
    ending.join(60)
    last = [name for name in store.asked if name != "renew_owner"][-3:]
    assert last == ["settle", "retire_owner", "shutdown"]


def test_a_store_that_does_not_answer_does_not_stop_the_shutdown(cluster, caplog):
    scheduler = cluster.join()
    cluster.kill(scheduler)
    cluster.store.faults["retire_owner"] = OUT
    scheduler.shutdown()
    assert "other processes take over our runs when the lease ends" in caplog.text


# Looking for the lost


def test_lost_runs_are_looked_for_every_quarter_of_a_lease(cluster):
    cluster.join()
    cluster.store.asked.clear()
    cluster.advance(LEASE * 10)
    assert cluster.store.asked.count("recover_runs") == pytest.approx(40, abs=5)


def test_an_error_in_looking_for_lost_runs_is_logged_and_ends_nothing(cluster, caplog):
    calls = []
    scheduler = cluster.join()
    cluster.store.faults["recover_runs"] = OUT
    scheduler.add_job(calls.append, "interval", seconds=10, args=[1])
    with caplog.at_level(logging.WARNING):
        cluster.advance(60)
    assert len(calls) == 6
    assert 'Job store "default" could not search for lost runs: the network is gone' in caplog.text


def test_a_run_whose_owner_nobody_knows_is_lost(cluster):
    executor = HoldingExecutor()
    scheduler = cluster.join(executor)
    scheduler.add_job(print, "date", id="job")
    ids = (f"run-{number}" for number in itertools.count())
    planner = FiringPlanner("nobody", lambda job: None, lambda: next(ids))
    cluster.store.fire_due(FireRequest(cluster.clock.now(), "nobody", {"default": 9}, planner, admit))
    cluster.advance(LEASE / 4 + 1)
    assert [(run.id, run.crashes, run.source) for run in executor.held] == [("run-0", 1, Source.RECOVERED)]


def test_a_scheduler_without_a_shared_store_never_looks_for_lost_runs():
    class Watched(MemoryJobStore):
        asked = 0

        def recover_runs(self, now, decide):
            self.asked += 1
            return super().recover_runs(now, decide)

    store = Watched()
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        scheduler.advance("10m")
    assert store.asked == 0


def test_a_background_scheduler_recovers_on_its_own(schedulers):
    store, gate = SharedStore(), Gate()
    dead = ManualScheduler(lease=0.2, jobstores={"default": store}, executors={"default": HoldingExecutor()})
    living = schedulers(kind=BackgroundScheduler, lease=SHORT, poll_interval=0.1, jobstores={"default": store})
    dead.start()
    dead.add_job(gate, "date", id="job")
    dead.run_due()
    gate.release()
    living.start()
    assert gate.started.wait(60)


def test_a_scheduler_may_get_back_what_it_lost_while_the_old_attempt_still_goes_on(cluster):
    executor = BegunExecutor()
    zombie = cluster.join(executor)
    zombie.add_job(print, "interval", hours=9, id="job", on_crash="dead")
    zombie.run_now("job")
    zombie.run_due()
    other = cluster.join(HoldingExecutor(room=0))
    cluster.clock.advance(LEASE)
    other.run_due()
    zombie.run_due()
    assert executor.told == ["its lease had lapsed and it was given to somebody else"]
    zombie.redrive(executor.held[0].id)
    zombie.run_due()
    old, new = executor.held
    assert (new.id, new.fence > old.fence) == (old.id, True)
    executor.held.reverse()
    executor.finish()
    zombie.run_due()
    assert cluster.outcomes() == [OutcomeKind.LOST, OutcomeKind.SUCCEEDED]
