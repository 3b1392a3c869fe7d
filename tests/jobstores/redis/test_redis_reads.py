"""What people and other programs ask of the Redis store: what is special to it."""

from __future__ import annotations

import json
import subprocess
from datetime import timedelta

import pytest

from goscheduler.job import copy_with
from goscheduler.jobstores.redis import RedisJobStore, merging, reading
from goscheduler.runs.model import JobState, OutcomeKind
from goscheduler.runs.queries import Count, JobPosition, JobQuery
from goscheduler.runs.transitions import asked_for
from goscheduler.testing.clock import ManualClock
from goscheduler.testing.contract import NOW, SECOND, JobMaker, Requests, succeeded
from goscheduler.testing.contract_reads import failure, ids, pages
from goscheduler.testing.scheduler import ManualScheduler
from goscheduler.times import to_micros
from goscheduler.triggers.date import DateTrigger


class TestPages:
    """However a page is read, it is the one that the query itself makes of all jobs."""

    @pytest.mark.parametrize(("most_sorted", "looked_at"), [(0, 1000), (0, 9), (5000, 9)])
    def test_every_way_to_read_finds_the_same(self, store, make_job, requests, monkeypatch, most_sorted, looked_at):
        monkeypatch.setattr(reading, "MAX_SORTED", most_sorted)
        monkeypatch.setattr(reading, "FIRST_SIFTED", 2)
        monkeypatch.setattr(merging, "MIN_LOOKED_AT", 2)
        for module in (reading, merging):
            monkeypatch.setattr(module, "MAX_LOOKED_AT", looked_at)
        self.fill(store, make_job, requests)
        jobs, running = store.get_all_jobs(), {run.job.id for run in store.live_runs()}
        assert running
        for query in queries():
            expected = query._replace(limit=1000).page(jobs, running).jobs
            assert pages(store, query._replace(limit=7)) == ids(expected), query
            assert store.count_jobs(query, 1000) == Count(len(expected)), query

    def fill(self, store, make_job, requests):
        outcomes = [None, OutcomeKind.SUCCEEDED, OutcomeKind.FAILED]
        jobs = []
        for number in range(90):
            due = None if number % 5 == 0 else NOW + timedelta(minutes=1 + number // 20)
            job = make_job(
                f"{'é' if number % 2 else 'z'}-{number * 7919 % 97:02}", due=due, priority=number % 3 + 1,
                executor="special" if number % 4 == 0 else "default", tags=["x"] if number % 3 else ["x", "y ✓"],
            )  # fmt: skip
            finished = NOW if number % 10 == 0 else None
            job.stats = job.stats._replace(run_count=1, last_outcome=outcomes[number % 3], finished_at=finished)
            jobs.append(job)
        store.add_jobs(jobs)
        store.add_jobs([make_job(f"live-{number}", due=NOW, tags=["y ✓"]) for number in range(3)])
        assert len(requests.fire(store).runs) == 3

    def test_jobs_of_the_same_time_go_on_behind_one_that_is_gone(self, store, make_job):
        store.add_jobs([make_job(f"job-{number:03}", due=NOW, priority=number % 2 + 1) for number in range(100)])
        for number in (0, 49, 50, 98):
            store.remove_job(f"job-{number:03}")
            after = JobPosition(to_micros(NOW), f"job-{number:03}")
            found = ids(store.find_jobs(JobQuery(after=after, limit=1)).jobs)
            assert found == [f"job-{number + 1:03}"]

    def test_a_search_that_gives_up_says_how_far_it_came(self, store, make_job, monkeypatch):
        store.add_jobs([make_job(f"job-{number:04}", due=NOW) for number in range(3000)])
        store.add_job(make_job("paused", due=None))
        monkeypatch.setattr(reading, "SEARCH_SECONDS", -1.0)
        query, found, gave_up = JobQuery(text="PAUS"), [], 0
        while True:
            page = store.find_jobs(query)
            found += ids(page.jobs)
            if page.next is None:
                break
            assert not page.complete
            assert query.after is None or page.next > query.after
            query, gave_up = query._replace(after=page.next), gave_up + 1
        assert found == ["paused"]
        assert gave_up > 2

    def test_a_job_that_ends_otherwise_than_before_changes_its_list(self, store, make_job, requests):
        store.add_job(make_job("a", start=NOW))
        for number, (end, outcome) in enumerate([
            (succeeded, OutcomeKind.SUCCEEDED), (failure, OutcomeKind.FAILED), (succeeded, OutcomeKind.SUCCEEDED),
        ]):  # fmt: skip
            (run,) = requests.fire(store, NOW + timedelta(minutes=number)).runs
            assert not store.settle([end(run)])
            found = {kind: ids(store.find_jobs(JobQuery(last_outcome=kind)).jobs) for kind in OutcomeKind}
            assert found == {kind: ["a"] if kind is outcome else [] for kind in OutcomeKind}


def queries():
    yield from (JobQuery(sort=sort) for sort in ("next_run", "id"))
    some = [
        {"tag": "y ✓"}, {"executor": "special"}, {"task": "goscheduler.testing.contract:nothing"}, {"text": "É-1"},
        {"due_before": NOW + timedelta(minutes=3)}, {"last_outcome": OutcomeKind.FAILED}, {"tag": "none"},
        *({"state": state} for state in (
            JobState.SCHEDULED, JobState.RUNNING, JobState.PAUSED, JobState.SUSPENDED, JobState.COMPLETED,
            JobState.FAILED,
        )),
    ]  # fmt: skip
    for one in some:
        for other in some:
            for sort in ("next_run", "id"):
                yield JobQuery(**{**one, **other}, sort=sort)


class TestManyEdits:
    def test_a_job_that_another_process_changes_meanwhile_is_edited_again(self, store, other, make_job):
        store.add_jobs([make_job(name) for name in ("a", "b")])
        seen = []

        def edit(job):
            seen.append((job.id, job.name))
            if len(seen) == 1:
                other.edit_job("a", lambda job: copy_with(job, name="theirs"))
                other.remove_job("b")
            return copy_with(job, tags=["t"])

        edited = store.edit_jobs(["a", "b"], edit)
        assert [(job.id, job.name) for job in edited.changed] == [("a", "theirs")]
        assert list(edited.missing) == ["b"]
        assert seen[-1] == ("a", "theirs")
        assert ids(store.find_jobs(JobQuery(tag="t")).jobs) == ["a"]


class TestUpgrade:
    def test_the_jobs_of_an_earlier_version_are_found_while_another_process_changes_them(
        self, url, store, other, make_job, requests, monkeypatch, scheduler
    ):
        store.add_job(make_job("failing", start=NOW))
        (run,) = requests.fire(store).runs
        assert not store.settle([failure(run)])
        store.add_jobs([make_job(f"job-{number:04}", due=NOW + SECOND, tags=["t"]) for number in range(1200)])
        store.add_jobs([make_job("paused", due=None), make_job("gone"), make_job("edited", tags=["old"])])
        self.age(store)
        steps = []
        real = type(store._scripts).call

        def call(scripts, name, *arguments):
            first, steps[:] = "index_jobs" not in steps, [*steps, name]
            if name == "index_jobs" and first:
                other.edit_job("edited", lambda job: copy_with(job, tags=["new"]))
                other.remove_job("gone")
                other.add_job(make_job("added", tags=["t"]))
            return real(scripts, name, *arguments)

        monkeypatch.setattr(type(store._scripts), "call", call)
        newer = RedisJobStore(url=url, server_time=False)
        newer.start(scheduler, "default")
        assert steps.count("index_jobs") > 1
        assert newer.count_jobs(JobQuery(tag="t"), 9999) == Count(1201)
        assert ids(newer.find_jobs(JobQuery(state=JobState.PAUSED)).jobs) == ["paused"]
        assert ids(newer.find_jobs(JobQuery(last_outcome=OutcomeKind.FAILED)).jobs) == ["failing"]
        assert {tag: ids(newer.find_jobs(JobQuery(tag=tag)).jobs) for tag in ("old", "new")} == {
            "old": [], "new": ["edited"],
        }  # fmt: skip
        assert newer.count_jobs(JobQuery(sort="id", text="JOB-"), 9999) == Count(1200)
        del steps[:]
        other.start(scheduler, "default")
        assert "index_jobs" not in steps
        newer.shutdown()

    def age(self, store):
        """Leave what version 3 would have left."""
        key, client = store._scripts.key, store._scripts.client
        for names in ("kinds", "labels", "idle"):
            client.delete(*(key(name.decode()) for name in client.smembers(key(names))), key(names))
        client.delete(key("facts"))
        client.hset(key("meta"), "schema", 3)


class TestOtherPrograms:
    def test_they_read_what_became_of_a_job(self, url, store, make_job, requests):
        show = lambda job_id: shown(url, job_id)  # noqa: E731
        assert show("näme") == {}
        store.add_job(make_job("näme", name="event", due=NOW, trigger=DateTrigger(NOW), retry=2, dead_letter=True))
        told = show("näme")
        assert (told["status"], told["name"], told["due"]) == ("scheduled", "event", str(to_micros(NOW)))
        assert told["task"] == "goscheduler.testing.contract:nothing"
        (run,) = requests.fire(store).runs
        told = show("näme")
        assert (told["status"], told["owner"], told["attempts"], told["run"]) == ("running", "owner-1", "1", run.id)
        assert not store.settle([failure(run, ValueError("nö"))])
        assert (show("näme")["status"], show("näme")["attempts"]) == ("pending", "2")
        (run,) = requests.claim(store, now=NOW + timedelta(hours=1)).runs
        assert not store.settle([succeeded(run)])
        told = show("näme")
        assert (told["status"], told["attempts"], told["owner"]) == ("succeeded", "2", "owner-1")

    def test_they_read_the_error_of_a_job_that_goes_on(self, url, store, make_job, requests):
        store.add_job(make_job("a", start=NOW))
        (run,) = requests.fire(store).runs
        assert not store.settle([failure(run, ValueError("nö"))])
        told = shown(url, "a")
        assert (told["status"], told["last error"], told["last outcome"]) == ("scheduled", "ValueError: nö", "failed")
        store.edit_job("a", lambda job: copy_with(job, next_run_time=None))
        assert shown(url, "a")["status"] == "paused"
        store.add_run(asked_for(make_job("a"), "run-1", NOW))
        assert shown(url, "a")["status"] == "pending"


def shown(url, job_id):
    """Return what the command line of Redis shows of a job."""
    script = redis_cli(url, "GET", "{goscheduler}:show").removesuffix("\n")
    words = json.loads(redis_cli(url, "--json", "EVAL", script, "1", "{goscheduler}:", job_id))
    return dict(zip(words[::2], words[1::2], strict=True))


def redis_cli(url, *arguments):
    done = subprocess.run(["redis-cli", "-u", url, *arguments], capture_output=True, check=True, timeout=60)
    return done.stdout.decode()


@pytest.fixture
def url(redis_server, fresh):
    return fresh(redis_server).url


@pytest.fixture
def scheduler():
    return ManualScheduler(clock=ManualClock(NOW))


@pytest.fixture
def make_job(scheduler):
    return JobMaker(scheduler)


@pytest.fixture
def requests():
    return Requests()


@pytest.fixture
def store(url, scheduler):
    store = RedisJobStore(url=url, server_time=False)
    store.start(scheduler, "default")
    yield store
    store.shutdown()


@pytest.fixture
def other(url, scheduler):
    store = RedisJobStore(url=url, server_time=False)
    store.start(scheduler, "default")
    yield store
    store.shutdown()
