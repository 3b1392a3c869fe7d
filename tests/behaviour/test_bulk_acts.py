"""Acts on many jobs: done portion by portion, undone exactly, taken up where a process was lost."""

from __future__ import annotations

from datetime import timedelta

import pytest
from behaviour_doubles import LOCAL_STORES, note
from lease_doubles import Cluster

from goscheduler.errors import InvalidArgument
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.runs.bulk import (
    BULK,
    CLAIM_SECONDS,
    DONE,
    GOING_ON,
    PORTION,
    RUN_PORTION,
    STOPPED,
    Bulk,
    BulkResult,
    read_bulk,
)
from goscheduler.runs.model import JobState
from goscheduler.runs.queries import Note
from goscheduler.testing import ManualScheduler

MANY = 2 * PORTION + 50


def add(scheduler, count=MANY, **options):
    return scheduler.add_jobs([
        {"func": note, "trigger": "interval", "hours": 1, "id": f"{number:04}", "args": ["x"], "tags": ["t"], **options}
        for number in range(count)
    ])  # fmt: skip


def ids(jobs):
    return [job.id for job in jobs]


# One process


def test_all_that_fit_are_paused_and_no_other_one(scheduler):
    add(scheduler)
    scheduler.add_job(note, "interval", hours=1, id="other", tags=["u"])
    result = scheduler.pause_jobs(tag="t", by="Ada", reason="the move")
    assert (result.changed, result.unchanged, result.refused, result.done) == (MANY, 0, 0, True)
    assert scheduler.count_jobs(state="paused").number == MANY
    assert scheduler.get_job("other").next_run_time is not None
    job = scheduler.get_job("0007")
    assert (job.stats.paused_by, job.stats.pause_reason, job.stats.pause_id) == ("Ada", "the move", result.id)
    assert scheduler.why("0007") == "It was paused by Ada: the move."


def test_it_is_undone_exactly(scheduler, jobcalls):
    add(scheduler, 10)
    scheduler.pause_job("0003", by="Grace")
    first = scheduler.pause_jobs(tag="t")
    assert (first.changed, first.unchanged) == (9, 1)
    second = scheduler.pause_jobs(tag="t")
    assert (second.changed, second.unchanged) == (0, 10)
    assert scheduler.resume_jobs(pause_id=second.id).changed == 0
    scheduler.resume_job("0001")
    scheduler.pause_job("0001", by="Joan")  # by hand since: it is not the act's any more
    undone = scheduler.resume_jobs(pause_id=first.id)
    assert (undone.changed, undone.unchanged, undone.refused) == (8, 0, 0)
    assert ids(scheduler.get_jobs(state="paused", sort="id")) == ["0001", "0003"]
    assert scheduler.get_job("0003").stats.paused_by == "Grace"
    assert scheduler.resume_jobs(pause_id=first.id).changed == 0
    scheduler.advance("1h")
    assert len(jobcalls) == 8


def test_those_that_are_over_stay_as_they_are(scheduler):
    scheduler.add_job(note, "date", run_date=scheduler.clock.now(), id="over", auto_remove=False, tags=["t"])
    scheduler.run_due()
    add(scheduler, 2)
    paused = scheduler.pause_jobs(tag="t")
    assert (paused.changed, paused.unchanged) == (2, 1)
    resumed = scheduler.resume_jobs(tag="t")
    assert (resumed.changed, resumed.unchanged) == (2, 1)
    assert scheduler.job_state(scheduler.get_job("over")) is JobState.COMPLETED


def test_a_job_whose_time_is_over_when_it_is_resumed_goes(scheduler):
    end = scheduler.clock.now() + timedelta(hours=2)
    add(scheduler, 3, end_date=end)
    add_one = scheduler.add_job(note, "interval", hours=1, id="stays", tags=["t"])
    paused = scheduler.pause_jobs(tag="t")
    scheduler.advance("5h")
    resumed = scheduler.resume_jobs(pause_id=paused.id)
    assert (resumed.changed, resumed.unchanged, resumed.refused) == (4, 0, 0)
    assert ids(scheduler.get_jobs()) == [add_one.id]


def test_all_that_fit_are_removed(scheduler):
    add(scheduler)
    scheduler.add_job(note, "interval", hours=1, id="other")
    assert scheduler.remove_jobs(tag="t").changed == MANY
    assert ids(scheduler.get_jobs()) == ["other"]


def test_each_is_run_once_beside_its_schedule(scheduler, jobcalls):
    add(scheduler, PORTION + 5)
    result = scheduler.run_jobs(tag="t", by="Ada")
    assert result.changed == PORTION + 5
    scheduler.run_due()
    assert len(jobcalls) == PORTION + 5
    assert {record.source.value for record in scheduler.runs(limit=1000)} == {"manual"}
    assert scheduler.get_job("0000").next_run_time == scheduler.clock.now() + timedelta(hours=1)


def test_jobs_that_wait_for_the_start_are_paused_and_resumed():
    scheduler = ManualScheduler()
    add(scheduler, 3)
    paused = scheduler.pause_jobs(tag="t")
    assert paused.changed == 3
    assert scheduler.resume_jobs(pause_id=paused.id).changed == 3
    assert scheduler.remove_jobs(text="0001").changed == 1
    with pytest.raises(RuntimeError, match="started"):
        scheduler.run_jobs(tag="t")
    with scheduler:
        assert ids(scheduler.get_jobs(state="scheduled", sort="id")) == ["0000", "0002"]


def test_other_jobs_fire_meanwhile(scheduler, jobcalls):
    add(scheduler)
    scheduler.add_job(note, "interval", seconds=10, id="other", args=["other"])
    scheduler.pause_jobs(tag="t", progress=lambda bulk: scheduler.advance("10s"))
    assert jobcalls == ["other"] * 3


def test_its_progress_is_told(scheduler):
    add(scheduler)
    told = []
    scheduler.pause_jobs(tag="t", progress=told.append)
    assert [(bulk.changed, bulk.state) for bulk in told] == [
        (PORTION, GOING_ON), (2 * PORTION, GOING_ON), (MANY, DONE),
    ]  # fmt: skip


def test_it_is_stopped_after_the_portion_that_it_is_at(scheduler):
    add(scheduler)
    result = scheduler.pause_jobs(tag="t", progress=lambda bulk: scheduler.stop_bulk(bulk.id))
    assert (result.changed, result.done) == (2 * PORTION, False)
    assert scheduler.count_jobs(state="paused").number == 2 * PORTION
    (kept,) = scheduler.engine.stores["default"].notes(BULK)
    assert (read_bulk(kept.text).state, read_bulk(kept.text).changed) == (STOPPED, 2 * PORTION)
    assert not scheduler.stop_bulk(result.id)
    assert not scheduler.stop_bulk("nobody")
    assert scheduler.resume_jobs(pause_id=result.id).changed == 2 * PORTION


def test_all_stores_are_meant_unless_one_is_named():
    with ManualScheduler(jobstores={"default": MemoryJobStore(), "other": LOCAL_STORES[1]()}) as scheduler:
        add(scheduler, 3)
        scheduler.add_job(note, "interval", hours=1, id="there", jobstore="other", tags=["t"])
        assert scheduler.pause_jobs(tag="t", jobstore="other").changed == 1
        result = scheduler.pause_jobs(tag="t")
        assert (result.changed, result.unchanged, result.done) == (3, 1, True)
        assert scheduler.resume_jobs(tag="t").changed == 4
        with pytest.raises(KeyError, match="nowhere"):
            scheduler.pause_jobs(tag="t", jobstore="nowhere")


@pytest.mark.parametrize("method", ["pause_jobs", "resume_jobs", "remove_jobs", "run_jobs"])
def test_no_filter_is_not_all_jobs(scheduler, method):
    add(scheduler, 3)
    for filters in ({}, {"tag": None}, {"tag": None, "state": None}):
        with pytest.raises(InvalidArgument, match="needs a filter"):
            getattr(scheduler, method)(**filters)
    assert scheduler.count_jobs(state="scheduled").number == 3
    assert scheduler.engine.stores["default"].notes(BULK) == []


@pytest.mark.parametrize(("options", "field"), [
    ({"by": ""}, "by"), ({"by": 5}, "by"), ({"by": "a\nb"}, "by"), ({"reason": "x" * 256}, "reason"),
    ({"reason": 5}, "reason"),
])  # fmt: skip
def test_who_and_why_are_names(scheduler, options, field):
    add(scheduler, 1)
    with pytest.raises(InvalidArgument) as error:
        scheduler.pause_jobs(tag="t", **options)
    assert error.value.field == field
    assert scheduler.count_jobs(state="paused").number == 0


@pytest.mark.parametrize("bulk_id", ["", None, 5, "x" * 256, "a\0"])
def test_only_an_id_can_be_stopped(scheduler, bulk_id):
    with pytest.raises(InvalidArgument):
        scheduler.stop_bulk(bulk_id)


def test_a_job_that_cannot_be_changed_is_told_of_and_the_others_are_changed(scheduler):
    add(scheduler, 3)
    store = scheduler.engine.stores["default"]
    edit_job = store.edit_job

    def edit(job_id, edit):
        if job_id == "0001":
            raise InvalidArgument("this one is broken " + "x" * 5000, field="id")
        return edit_job(job_id, edit)

    store.edit_job = edit
    result = scheduler.pause_jobs(tag="t")
    assert (result.changed, result.unchanged, result.refused, result.done) == (2, 0, 1, True)
    assert list(result.reasons) == ["0001"]
    assert result.reasons["0001"].startswith("this one is broken")
    assert len(store.notes(BULK)[0].text) < 2000


# A process that is lost, a store that is down


@pytest.fixture
def cluster():
    cluster = Cluster()
    yield cluster
    for member in cluster.members:
        member.shutdown(wait=False)


class Lost(Exception):
    """The process is gone."""


def lose(bulk):
    raise Lost


#: What the jobs of the test are after the act.
ACTS = {
    "pause_jobs": lambda scheduler: scheduler.count_jobs(state="paused").number == MANY,
    "remove_jobs": lambda scheduler: scheduler.count_jobs(tag="t").number == 0,
    "run_jobs": lambda scheduler: len({record.job_id for record in scheduler.runs(limit=1000)}) == MANY,
}


@pytest.mark.parametrize("method", ACTS)
def test_another_process_goes_on_where_one_was_lost(cluster, method):
    first, second = cluster.join(), cluster.join()
    add(first)
    with pytest.raises(Lost):
        getattr(first, method)(tag="t", progress=lose)
    assert not ACTS[method](second)
    cluster.kill(first)
    cluster.advance(CLAIM_SECONDS - 8, step=2)
    assert not ACTS[method](second)
    cluster.advance(20, step=2)
    assert ACTS[method](second)
    (note_,) = cluster.store.notes(BULK)
    assert read_bulk(note_.text).state == DONE
    if method == "run_jobs":
        assert len(second.runs(limit=1000)) == MANY


#: Name of a method of the store, and at which of its calls it fails: before, in the middle of, after a portion.
FAILURES = [("find_jobs", 1), ("find_jobs", 2), ("edit_jobs", 1), ("edit_jobs", 2), ("put_note", 2), ("put_note", 3)]


@pytest.mark.parametrize("after", [False, True], ids=["nothing was written", "it was written"])
@pytest.mark.parametrize(("name", "call"), FAILURES)
def test_what_a_store_that_was_down_left_half_done_is_taken_up(cluster, name, call, after):
    member = cluster.join()
    add(member)
    member.pause_job("0001", by="Grace")
    method, calls = getattr(cluster.store, name), []

    def fail(*args, **options):
        if name != "put_note" or args[0].kind == BULK:
            calls.append(name)
        if len(calls) == call and (name != "put_note" or args[0].kind == BULK):
            if after:
                method(*args, **options)
            raise ConnectionError("the store is down")
        return method(*args, **options)

    setattr(cluster.store, name, fail)
    with pytest.raises(ConnectionError):
        member.pause_jobs(tag="t", by="Ada")
    setattr(cluster.store, name, method)
    cluster.advance(CLAIM_SECONDS + 20, step=2)
    assert member.count_jobs(state="paused").number == MANY
    (kept,) = cluster.store.notes(BULK)
    bulk = read_bulk(kept.text)
    assert (bulk.state, bulk.changed + bulk.unchanged, bulk.refused) == (DONE, MANY, 0)
    assert member.resume_jobs(pause_id=bulk.id).changed == MANY - 1
    assert ids(member.get_jobs(state="paused")) == ["0001"]


def test_a_run_is_asked_for_once_although_its_portion_is_done_twice(cluster, jobcalls):
    member = cluster.join()
    add(member)
    put_note = cluster.store.put_note

    def fail(note, expected=None):
        if note.kind == BULK and read_bulk(note.text).changed:
            raise ConnectionError("no")
        return put_note(note, expected)

    cluster.store.put_note = fail
    with pytest.raises(ConnectionError):
        member.run_jobs(tag="t")
    cluster.store.put_note = put_note
    member.run_due()
    assert len(jobcalls) == RUN_PORTION
    cluster.advance(CLAIM_SECONDS + 20, step=2)
    assert len(jobcalls) == len(member.runs(limit=1000)) == MANY


def test_who_was_given_up_while_it_stood_still_does_no_more(cluster):
    first, second = cluster.join(), cluster.join()
    add(first)

    def stand_still(bulk):
        if bulk.changed == PORTION:
            cluster.members.remove(first)
            cluster.advance(CLAIM_SECONDS + 20, step=2)

    result = first.pause_jobs(tag="t", progress=stand_still)
    assert result.changed == MANY
    assert result.done
    assert second.count_jobs(state="paused").number == MANY


def test_stores_that_were_not_reached_yet_are_not_forgotten():
    cluster = Cluster()
    other = type(cluster.store)()
    member = ManualScheduler(clock=cluster.clock, jobstores={"default": cluster.store, "other": other})
    member.start()
    cluster.members.append(member)
    add(member, 3)
    for number in range(3):
        member.add_job(note, "interval", hours=1, id=f"there-{number}", jobstore="other", tags=["t"])
    with pytest.raises(Lost):
        member.pause_jobs(tag="t", progress=lose)
    assert member.count_jobs(state="paused").number == 3
    cluster.advance(CLAIM_SECONDS + 20, step=2)
    assert member.count_jobs(state="paused").number == 6
    member.shutdown()


def test_a_note_that_cannot_be_read_here_is_left_alone(cluster):
    member = cluster.join()
    texts = ["", "{}", "[]", "null", "x", '{"id":"a","act":"pause","filters":{},"started_at":0,"colour":"red"}']
    for number, text in enumerate(texts):
        cluster.store.put_note(Note(BULK, f"f{number}", text))
    cluster.advance(60, step=5)
    assert [kept.text for kept in cluster.store.notes(BULK)] == texts[::-1]
    assert not member.stop_bulk("f0")


def test_a_result_adds_up_what_was_done_in_several_stores():
    done = Bulk("id", "pause", {}, 0, state=DONE, changed=3, unchanged=1)
    stopped = Bulk("id", "pause", {}, 0, state=STOPPED, changed=2, refused=1, reasons={"a": "no"})
    both = BulkResult("id").plus(done).plus(stopped)
    assert (both.changed, both.unchanged, both.refused, both.reasons, both.done) == (5, 1, 1, {"a": "no"}, False)
