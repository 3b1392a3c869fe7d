"""``start(only_adds=True)``: a process that adds and asks, and leaves it to others to run the jobs."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from goscheduler import AsyncIOScheduler, BackgroundScheduler, BlockingScheduler, ThreadPoolExecutor
from goscheduler.errors import InvalidArgument, OnlyAdds, SchedulerNotRunningError, StoreUnavailable
from goscheduler.events import EVENT_JOB_ADDED, EVENT_JOB_EXECUTED, EVENT_SCHEDULER_SHUTDOWN
from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from goscheduler.observer import Observer

FAR = {"trigger": "interval", "hours": 1}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.sqlite'}"


@pytest.fixture
def scheduler(url: str) -> Any:
    scheduler = BackgroundScheduler(jobstores={"default": url}, executors={"default": ThreadPoolExecutor(1)})
    yield scheduler
    if scheduler.running:
        scheduler.shutdown()


def note() -> None:
    """The job of these tests."""


def path_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def test_the_start_opens_nothing_and_has_no_thread_no_owner_and_no_events(scheduler, url):
    events: list[Any] = []
    scheduler.add_listener(events.append)
    before = threading.enumerate()
    scheduler.start(only_adds=True)
    assert scheduler.running
    assert not path_of(url).exists()
    assert (threading.enumerate(), events) == (before, [])
    scheduler.add_job(note, id="a", **FAR)
    assert path_of(url).exists()
    assert {thread.name for thread in set(threading.enumerate()) - set(before)} == {"goscheduler-events"}
    assert scheduler.processes() == []
    scheduler.shutdown()
    assert [event.code for event in events] == [EVENT_JOB_ADDED, EVENT_SCHEDULER_SHUTDOWN]
    with pytest.raises(SchedulerNotRunningError):
        scheduler.shutdown()


def test_what_it_adds_and_changes_is_run_by_another_process_and_it_can_ask_for_that(scheduler, url):
    scheduler.start(only_adds=True)
    scheduler.add_job(note, id="a", **FAR)
    scheduler.modify_job("a", name="renamed")
    assert scheduler.pause_job("a").next_run_time is None
    assert scheduler.resume_job("a").next_run_time is not None
    assert scheduler.why("a").endswith("; no process fires the jobs of its store, and this one only adds.")
    run_id = scheduler.run_now("a")
    assert scheduler.why("a") == (
        "It is due, but no process fires the jobs of its store, and this one only adds."
    )
    ended = threading.Event()
    other = BackgroundScheduler(jobstores={"default": url})
    other.add_listener(lambda event: ended.set(), EVENT_JOB_EXECUTED)
    other.start()
    assert ended.wait(60)
    other.shutdown()
    assert [record.run_id for record in scheduler.runs("a")] == [run_id]
    assert (scheduler.get_job("a").name, scheduler.readiness().ok) == ("renamed", True)
    scheduler.remove_job("a")
    assert scheduler.get_jobs() == []


def test_it_never_fires_whatever_is_asked_and_can_be_started_to_fire_afterwards(scheduler):
    scheduler.start(only_adds=True)
    with pytest.raises(OnlyAdds, match=r"to have it fire, call shutdown\(\) and start\(\)"):
        scheduler.resume()
    scheduler.pause()
    scheduler.wakeup()
    scheduler.add_executor(ThreadPoolExecutor(1), "second")
    scheduler.add_job(note, id="a", executor="second")
    scheduler.shutdown()
    ended = threading.Event()
    scheduler.add_listener(lambda event: ended.set(), EVENT_JOB_EXECUTED)
    scheduler.start()
    assert ended.wait(60)


def test_jobs_from_before_the_start_are_added_at_the_first_call_and_a_store_that_is_added_is_used(scheduler, tmp_path):
    added: list[str] = []
    scheduler.add_listener(lambda event: added.append(event.job_id), EVENT_JOB_ADDED)
    scheduler.add_job(note, id="a", **FAR)
    scheduler.start(only_adds=True)
    assert [job.id for job in scheduler.get_jobs()] == ["a"]
    scheduler.add_jobstore("sqlalchemy", "second", url=f"sqlite:///{tmp_path / 'second.sqlite'}")
    scheduler.add_job(note, id="b", jobstore="second", **FAR)
    with pytest.raises(InvalidArgument, match="'memory' is a MemoryJobStore, for one process alone"):
        scheduler.add_jobstore("memory", "memory")
    assert [job.id for job in scheduler.get_jobs()] == ["a", "b"]
    assert scheduler.processes() == []
    scheduler.shutdown()
    assert added == ["a", "b"]


def test_no_other_thread_sees_the_stores_before_what_was_waiting_is_in_them(scheduler):
    begun, jobs = threading.Event(), scheduler.engine.jobs
    scheduler.add_job(note, id="a", **FAR)
    scheduler.start(only_adds=True)
    begin, found = jobs.begin, []
    asker = threading.Thread(target=lambda: (begun.wait(60), found.append(scheduler.get_job("a"))))

    def begin_slowly(patience):
        begun.set()
        asker.join(0.2)  # one that does not wait is through by then
        begin(patience)

    jobs.begin = begin_slowly
    asker.start()
    assert scheduler.get_job("a") is not None
    asker.join(60)
    assert [job is not None for job in found] == [True]


def test_what_was_waiting_is_added_by_the_shutdown_if_no_call_came_and_by_that_at_the_exit(url, tmp_path):
    script = (
        "import logging, sys; from goscheduler import BackgroundScheduler as B; logging.basicConfig();"
        "b = B(jobstores={'default': sys.argv[1]}); b.register('t', print);"
        "b.add_job('t', 'interval', hours=1, id=sys.argv[2]); b.start(only_adds=True);"
    )
    for job_id, end in (("shutdown", "b.shutdown()"), ("exit", "")):
        ended = subprocess.run([sys.executable, "-c", script + end, url, job_id], timeout=120, capture_output=True)
        assert (ended.returncode, ended.stderr) == (0, b"")
    with Observer(url) as observer:
        assert {job.id for job in observer.get_jobs()} == {"shutdown", "exit"}
    folder = tmp_path / "later"
    scheduler = BackgroundScheduler(jobstores={"default": f"sqlite:///{folder / 'jobs.sqlite'}"})
    scheduler.add_job(note, id="a", **FAR)
    scheduler.start(only_adds=True)
    with pytest.raises(StoreUnavailable, match=r'^Job store "default" could not be reached: '):
        scheduler.shutdown()
    folder.mkdir()
    scheduler.start(only_adds=True)
    assert scheduler.get_job("a") is not None, "it went on waiting"
    scheduler.shutdown()


def test_a_job_joins_the_transaction_of_the_caller(url):
    store = SQLAlchemyJobStore(url)
    scheduler = BackgroundScheduler(jobstores={"default": store})
    scheduler.start(only_adds=True)
    assert scheduler.get_jobs() == []
    with sqlite3.connect(path_of(url)) as connection:
        scheduler.add_job(note, id="a", connection=connection, **FAR)
        connection.rollback()
        scheduler.add_job(note, id="b", connection=connection, **FAR)
    connection.close()
    assert [job.id for job in scheduler.get_jobs()] == ["b"]
    scheduler.shutdown()


def test_forked_children_open_connections_of_their_own_whether_or_not_the_parent_has(scheduler):
    scheduler.start(only_adds=True)
    for generation in ("closed", "open"):
        pid = os.fork()
        if pid == 0:
            try:
                scheduler.add_job(note, id=f"child-{generation}", **FAR)
                os._exit(0 if scheduler.running else 2)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        scheduler.add_job(note, id=f"parent-{generation}", **FAR)
    expected = {f"{who}-{generation}" for who in ("child", "parent") for generation in ("closed", "open")}
    assert {job.id for job in scheduler.get_jobs()} == expected


def test_a_store_that_does_not_answer_is_an_error_of_the_call_and_the_next_call_tries_again(tmp_path):
    folder = tmp_path / "later"
    scheduler = BackgroundScheduler(jobstores={"default": f"sqlite:///{folder / 'jobs.sqlite'}"})
    scheduler.start(only_adds=True)
    with pytest.raises(StoreUnavailable, match=r'^Job store "default" could not be reached: '):
        scheduler.add_job(note, id="a", **FAR)
    folder.mkdir()
    scheduler.add_job(note, id="a", **FAR)
    assert [job.id for job in scheduler.get_jobs()] == ["a"]
    scheduler.shutdown()


@pytest.mark.parametrize(
    ("options", "start", "text"),
    [
        ({}, {}, "needs a job store that the processes share which run the jobs"),
        ({"jobstores": {"default": {"type": "memory"}}}, {}, "'default' is a MemoryJobStore, for one process alone"),
        ({"jobstores": {"default": "sqlite:///x"}}, {"paused": True}, "leave out paused=True"),
    ],
)
def test_a_start_that_makes_no_sense_is_refused_and_the_scheduler_stays_stopped(options, start, text):
    scheduler = BackgroundScheduler(**options)
    with pytest.raises(InvalidArgument, match=text):
        scheduler.start(only_adds=True, **start)
    assert not scheduler.running


def test_asyncio_schedulers_do_it_off_the_loop_and_need_no_loop_and_blocking_ones_do_not_block(url):
    async def main() -> list[str]:
        scheduler = AsyncIOScheduler(jobstores={"default": url})
        await scheduler.aio.start(only_adds=True)
        await scheduler.aio.add_job(note, id="a", **FAR)
        jobs = await scheduler.aio.get_jobs()
        await scheduler.shutdown()
        return [job.id for job in jobs]

    assert asyncio.run(main()) == ["a"]
    for cls in (AsyncIOScheduler, BlockingScheduler):
        scheduler = cls(jobstores={"default": url})
        scheduler.start(only_adds=True)
        assert scheduler.get_job("a") is not None
        scheduler.shutdown()
