"""Jobs found, counted and listed by what they have in common; processes, limits and states of many at once."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta, timezone

import pytest
from behaviour_doubles import HoldingExecutor, note
from lease_doubles import BegunExecutor, Cluster
from retry_doubles import play

from goscheduler import Limit
from goscheduler.errors import InvalidArgument, UnknownOption
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.runs.job_filters import FILTERS, LONGEST_FILTER
from goscheduler.runs.model import JobState
from goscheduler.runs.queries import NEVER, JobPosition, JobQuery
from goscheduler.testing import ManualScheduler

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


@pytest.fixture
def filled(scheduler):
    """A scheduler with jobs in several states."""
    scheduler.add_job(note, "interval", hours=1, id="hourly", tags=["x"], name="Every Hour")
    scheduler.add_job(note, "interval", hours=2, id="later", tags=["x", "y"])
    scheduler.add_job(note, "interval", hours=1, id="paused", tags=["y"])
    scheduler.pause_job("paused", by="Ada")
    scheduler.add_job(note, "interval", seconds=30, id="elsewhere", executor="gpu")
    scheduler.add_job(play, "interval", minutes=1, id="failing", args=[ValueError("no")], tags=["z"])
    scheduler.add_job(note, "date", run_date=START, id="over", auto_remove=False, tags=["z"])
    scheduler.advance("1m")
    return scheduler


def ids(jobs):
    return [job.id for job in jobs]


# What is found


@pytest.mark.parametrize(("filters", "found"), [
    ({"sort": "id"}, ["elsewhere", "failing", "hourly", "later", "over", "paused"]),
    ({"tag": "x"}, ["hourly", "later"]),
    ({"tag": "y", "sort": "id"}, ["later", "paused"]),
    ({"tag": "x", "text": "LAT"}, ["later"]),
    ({"text": "every h"}, ["hourly"]),
    ({"state": "scheduled"}, ["failing", "hourly", "later"]),
    ({"state": JobState.PAUSED}, ["paused"]),
    ({"state": "suspended"}, ["elsewhere"]),
    ({"state": "completed"}, ["over"]),
    ({"executor": "gpu"}, ["elsewhere"]),
    ({"task": "retry_doubles:play"}, ["failing"]),
    ({"last_outcome": "failed"}, ["failing"]),
    ({"due_before": START + timedelta(minutes=90)}, ["failing", "hourly"]),
    ({"due_before": "2026-01-01 01:30"}, ["failing", "hourly"]),
    ({"pause_id": "none"}, []),
    ({"tag": None, "state": None, "executor": "gpu"}, ["elsewhere"]),
])  # fmt: skip
def test_jobs_are_found_by_what_they_have_in_common(filled, filters, found):
    assert ids(filled.get_jobs(**filters)) == found
    assert ids(filled.find_jobs(**filters).jobs) == found
    assert filled.count_jobs(**{name: value for name, value in filters.items() if name != "sort"}) == (len(found), True)


def test_without_a_filter_there_are_all_of_them(filled):
    assert sorted(ids(filled.get_jobs())) == sorted(ids(filled.get_jobs(sort="id")))
    assert ids(filled.get_jobs("default", tag="x")) == ["hourly", "later"]
    assert filled.get_jobs("nowhere", tag="x") == []


def test_pages_follow_each_other(filled):
    everything = ids(filled.get_jobs(sort="next_run", limit=100))
    for sort in ("next_run", "id"):
        whole, found, cursor = ids(filled.get_jobs(sort=sort, limit=100)), [], None
        while True:
            page = filled.find_jobs(sort=sort, limit=2, after=cursor)
            assert page.complete
            assert len(page.jobs) <= 2
            found += ids(page.jobs)
            cursor = page.next
            if cursor is None:
                break
        assert found == whole
        assert sorted(found) == sorted(everything)


def test_the_last_job_of_a_page_gives_the_next(filled):
    first = filled.get_jobs(sort="id", limit=3)
    assert ids(first) == ["elsewhere", "failing", "hourly"]
    assert ids(filled.get_jobs(sort="id", limit=3, after=first[-1])) == ["later", "over", "paused"]


def test_more_than_a_page_is_read_when_it_is_wanted(scheduler):
    scheduler.add_jobs([{"func": note, "trigger": "interval", "hours": 1, "id": f"{n:05}"} for n in range(1100)])
    assert len(scheduler.get_jobs(sort="id")) == 1100
    assert len(scheduler.get_jobs(limit=1050)) == 1050
    assert len(scheduler.get_jobs(limit=10**6)) == 1100
    assert scheduler.count_jobs(cap=100) == (100, False)
    assert scheduler.count_jobs(cap=1100) == (1100, True)


def test_several_stores_are_one_list():
    stores = {alias: MemoryJobStore() for alias in ("default", "other", "third")}
    with ManualScheduler(jobstores=stores) as scheduler:
        for number in range(30):
            alias = ("default", "other", "third")[number % 3]
            scheduler.add_job(note, "interval", hours=number % 4 + 1, id=f"{number:02}", jobstore=alias, tags=["t"])
        for sort in ("id", "next_run"):
            whole, found, cursor = ids(scheduler.get_jobs(sort=sort, tag="t")), [], None
            assert len(whole) == 30
            while True:
                page = scheduler.find_jobs(sort=sort, tag="t", limit=4, after=cursor)
                found += ids(page.jobs)
                cursor = page.next
                if cursor is None:
                    break
            assert found == whole
        assert scheduler.count_jobs(tag="t") == (30, True)
        assert scheduler.count_jobs(tag="t", cap=30) == (30, True)
        assert scheduler.count_jobs(tag="t", cap=29) == (29, False)
        assert scheduler.count_jobs(tag="t", cap=10) == (10, False)
        assert scheduler.count_jobs(tag="t", jobstore="other") == (10, True)


def test_jobs_of_the_same_id_and_time_in_two_stores_are_both_found():
    stores = {alias: MemoryJobStore() for alias in ("default", "other")}
    with ManualScheduler(jobstores=stores) as scheduler:
        for alias in stores:
            for job_id in ("a", "b", "c"):
                scheduler.add_job(note, "interval", hours=1, id=job_id, jobstore=alias)
        found, cursor = [], None
        for _ in range(6):
            page = scheduler.find_jobs(sort="id", limit=1, after=cursor)
            found += ids(page.jobs)
            cursor = page.next
            if cursor is None:
                break
        assert found == ["a", "a", "b", "b", "c", "c"]


def test_jobs_that_wait_for_the_start_are_found():
    scheduler = ManualScheduler()
    for job_id in ("b", "a", "c"):
        scheduler.add_job(note, "interval", hours=1, id=job_id, tags=["x"] if job_id != "c" else [])
    assert ids(scheduler.get_jobs(tag="x", sort="id")) == ["a", "b"]
    assert ids(scheduler.find_jobs(limit=1, tag="x", sort="id").jobs) == ["a"]
    assert scheduler.count_jobs(tag="x") == (2, True)
    assert scheduler.job_states(scheduler.get_jobs(sort="id")) == [JobState.PENDING] * 3


# What makes no sense


FORGED = base64.urlsafe_b64encode(f"{JobQuery(limit=50).digest}.{10**30}.x".encode()).decode().rstrip("=")
STEERING = base64.urlsafe_b64encode(f"{JobQuery(limit=50).digest}.5.a\0b".encode()).decode().rstrip("=")
BAD_VALUES = [
    ({"tag": ""}, "tag"), ({"tag": 5}, "tag"), ({"tag": ["x"]}, "tag"), ({"tag": "x" * (LONGEST_FILTER + 1)}, "tag"),
    ({"text": "x" * 1_000_000}, "text"), ({"text": "a\0b"}, "text"), ({"text": "\ud800"}, "text"),
    ({"text": ""}, "text"), ({"text": 1}, "text"),
    ({"state": "resting"}, "state"), ({"state": "queued"}, "state"), ({"state": 5}, "state"), ({"state": []}, "state"),
    ({"executor": True}, "executor"), ({"task": b"x"}, "task"), ({"pause_id": "a\nb"}, "pause_id"),
    ({"last_outcome": "well"}, "last_outcome"), ({"last_outcome": 1}, "last_outcome"),
    ({"due_before": "soon"}, "due_before"), ({"due_before": "2026-13-01"}, "due_before"),
    ({"sort": "name"}, "sort"), ({"sort": None}, "sort"), ({"sort": ["id"]}, "sort"),
    ({"limit": 0}, "limit"), ({"limit": -1}, "limit"), ({"limit": True}, "limit"), ({"limit": "5"}, "limit"),
    ({"limit": 2.5}, "limit"),
    ({"after": ""}, "after"), ({"after": "x"}, "after"), ({"after": "ä"}, "after"), ({"after": 5}, "after"),
    ({"after": "x" * 1_000_000}, "after"), ({"after": "AAAA"}, "after"), ({"after": FORGED}, "after"),
    ({"after": STEERING}, "after"), ({"after": f"{FORGED}\n"}, "after"), ({"after": b"AAAA"}, "after"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "field"), BAD_VALUES, ids=lambda value: ascii(value)[:40])
def test_a_value_that_makes_no_sense_is_refused_by_name(filled, options, field):
    for method in (filled.get_jobs, filled.find_jobs):
        with pytest.raises(InvalidArgument) as error:
            method(**options)
        assert error.value.field == field
        assert len(str(error.value)) < 500
    if field in FILTERS:
        for method in (filled.count_jobs, filled.pause_jobs, filled.resume_jobs, filled.remove_jobs, filled.run_jobs):
            with pytest.raises(InvalidArgument) as error:
                method(**options)
            assert error.value.field == field
    assert filled.count_jobs().number == 6


def test_a_date_of_another_type_is_refused(filled):
    with pytest.raises(TypeError, match="due_before"):
        filled.get_jobs(due_before=5)


@pytest.mark.parametrize("limit", [1001, 1_000_000])
def test_a_page_has_a_longest_size(filled, limit):
    with pytest.raises(InvalidArgument, match="limit"):
        filled.find_jobs(limit=limit)


@pytest.mark.parametrize("cap", [0, -1, 1_000_001, True, 2.5, "5", None])
def test_a_count_has_a_sensible_end(filled, cap):
    with pytest.raises(InvalidArgument) as error:
        filled.count_jobs(cap=cap)
    assert error.value.field == "cap"


@pytest.mark.parametrize(("name", "near"), [("tags", "tag"), ("stat", "state"), ("excutor", "executor"), ("zzz", None)])
def test_the_near_filter_is_suggested(filled, name, near):
    methods = [filled.get_jobs, filled.find_jobs, filled.count_jobs, filled.pause_jobs, filled.resume_jobs,
               filled.remove_jobs, filled.run_jobs]  # fmt: skip
    for method in methods:
        with pytest.raises(UnknownOption) as error:
            method(**{name: "x"})
        assert (error.value.name, error.value.suggestion) == (name, near)


def test_the_cursor_of_another_query_is_refused(filled):
    cursor = filled.find_jobs(tag="x", limit=1).next
    assert cursor is not None
    assert ids(filled.find_jobs(tag="x", limit=7, after=cursor).jobs) == ["later"]
    for other in ({"tag": "y"}, {}, {"tag": "x", "sort": "id"}, {"tag": "x", "state": "scheduled"}):
        with pytest.raises(InvalidArgument, match="same filters and order"):
            filled.find_jobs(**other, after=cursor)


def test_a_position_at_the_edge_of_time_is_one(filled):
    for due in (NEVER, -NEVER):
        cursor = JobQuery(limit=50).cursor(JobPosition(due, "x"))
        assert isinstance(filled.find_jobs(after=cursor).jobs, list)


# The states of many


def test_the_states_of_many_are_those_of_each(filled):
    jobs = filled.get_jobs()
    assert filled.job_states(jobs) == [filled.job_state(job) for job in jobs]
    assert filled.job_states(jobs[::-1]) == [filled.job_state(job) for job in jobs[::-1]]
    assert filled.job_states([]) == []
    assert filled.job_states([jobs[0], jobs[0]]) == [filled.job_state(jobs[0])] * 2


def test_the_states_of_jobs_that_run_or_wait(local_store):
    executor = HoldingExecutor()
    with ManualScheduler(jobstores={"default": local_store()}, executors={"default": executor}) as scheduler:
        scheduler.add_job(note, "interval", minutes=1, id="queued")
        scheduler.add_job(note, "interval", hours=1, id="scheduled")
        scheduler.advance("1m")
        jobs = scheduler.get_jobs(sort="id")
        assert scheduler.job_states(jobs) == [JobState.QUEUED, JobState.SCHEDULED]


def test_states_are_told_with_few_questions():
    cluster = Cluster()
    member = cluster.join()
    member.add_jobs([{"func": note, "trigger": "interval", "hours": 1, "id": str(n), "args": ["x"]} for n in range(50)])
    jobs, asked = member.get_jobs(), []
    for name in ("run_counts", "owners", "live_runs", "pending_runs", "lookup_job", "history"):
        method = getattr(cluster.store, name)
        setattr(cluster.store, name, lambda *args, name=name, method=method: (asked.append(name), method(*args))[1])
    assert member.job_states(jobs) == [JobState.SCHEDULED] * 50
    assert sorted(name for name in asked if name in ("run_counts", "owners", "lookup_job", "history")) == [
        "owners", "run_counts",
    ]  # fmt: skip
    member.shutdown()


@pytest.mark.parametrize("jobs", [["job"], [None], "job"])
def test_only_jobs_have_states(filled, jobs):
    with pytest.raises(TypeError, match="must be jobs"):
        filled.job_states(jobs)


# Processes and limits


def test_processes_tell_of_themselves_and_do_what_they_are_asked():
    cluster = Cluster()
    first, second = cluster.join(BegunExecutor()), cluster.join(BegunExecutor())
    second.add_executor("debug", "gpu")
    first.add_job(note, "interval", minutes=1, id="job")
    cluster.advance(70, step=5)
    told = {process.owner: process for process in first.processes()}
    assert told.keys() == {member.engine.leases.owner_of("default") for member in (first, second)}
    mine = told[first.engine.leases.owner_of("default")]
    assert mine.report.state == "running"
    assert mine.report.version
    assert set(told[second.engine.leases.owner_of("default")].executors) == {"default", "gpu"}
    assert [run.job_id for process in told.values() for run in process.report.runs] == ["job"]
    second.ask_process(mine.owner, "pause")
    first.engine.leases._carry_out_request("default", cluster.store)
    assert {process.owner: process.report.state for process in second.processes()}[mine.owner] == "paused"
    for member in (first, second):
        member.shutdown(wait=False)


@pytest.mark.parametrize("action", ["", "stop", "kill -9", None, 5, "PAUSE"])
def test_a_process_is_asked_only_what_it_can_do(action):
    cluster = Cluster()
    member = cluster.join()
    with pytest.raises(InvalidArgument) as error:
        member.ask_process(member.processes()[0].owner, action)
    assert error.value.field == "action"
    with pytest.raises(LookupError, match="no process"):
        member.ask_process("nobody", "pause")
    member.shutdown()


def test_a_store_of_one_process_has_no_processes(scheduler):
    assert scheduler.processes() == []


def test_what_is_used_of_limits_is_told():
    with ManualScheduler(executors={"default": BegunExecutor()}) as scheduler:
        for job_id in ("a", "b", "c"):
            scheduler.add_job(note, "interval", minutes=1, id=job_id, limits=Limit("few", concurrency=2))
        scheduler.advance("1m")
        (use,) = scheduler.limit_usage()
        assert (use.name, use.live, use.waiting) == ("few", 2, 1)
        assert scheduler.limit_usage("nowhere") == []
