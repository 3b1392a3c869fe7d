"""The part of the contract of a job store that is about what people read: pages, counts, groups, notes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from goscheduler.errors import InvalidArgument
from goscheduler.job import Job, copy_with
from goscheduler.runs.limits import Limit
from goscheduler.runs.model import JobState, Outcome, OutcomeKind, Owner, Settlement
from goscheduler.runs.queries import MAX_NOTE, Count, JobPosition, JobQuery, Note, RunCounts
from goscheduler.runs.records import HistoryQuery
from goscheduler.runs.transitions import asked_for, settle
from goscheduler.triggers.date import DateTrigger

if TYPE_CHECKING:
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.model import Run
    from goscheduler.testing.contract import JobMaker, Requests

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=timezone.utc)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
LEASE = timedelta(seconds=30)


class QueryContract:
    """``StoreContract`` is derived from this, and has the fixtures."""

    def test_jobs_are_found_by_every_filter(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        self.fill(store, make_job, requests)
        found = {query: ids(store.find_jobs(query).jobs) for query in FOUND}
        assert found == FOUND
        assert {query: store.count_jobs(query, 100) for query in FOUND} == {
            query: Count(len(job_ids)) for query, job_ids in FOUND.items()
        }

    def test_found_jobs_have_their_statistics_and_suspensions(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        self.fill(store, make_job, requests)
        jobs = {job.id: job for job in store.find_jobs(JobQuery()).jobs}
        assert jobs["broken"].suspended == "it cannot be run"
        assert (jobs["failing"].stats.run_count, jobs["failing"].stats.last_error) == (1, "ValueError: no")
        for job_id, job in jobs.items():
            known = store.lookup_job(job_id)
            assert known is not None
            assert (job.next_run_time, job.stats) == (known.next_run_time, store.stats_of(known))

    @pytest.mark.parametrize("sort", ["next_run", "id"])
    def test_pages_of_jobs_neither_repeat_nor_lose_one(
        self, store: BaseJobStore, make_job: JobMaker, sort: str
    ) -> None:
        for number in range(7):
            store.add_job(make_job(f"job-{number}", due=NOW - (number // 3) * MINUTE, priority=number % 3 + 1))
        store.add_job(make_job("Paused", due=None))
        store.add_job(make_job("also paused", due=None))
        waiting = ["job-6", "job-3", "job-4", "job-5", "job-0", "job-1", "job-2"]
        expected = [*waiting, "Paused", "also paused"]
        if sort == "id":
            expected = sorted(expected)
        for limit in (1, 2, 3, 8, 9, 10):
            assert pages(store, JobQuery(sort=sort, limit=limit)) == expected

    def test_a_page_ends_where_nothing_follows(self, store: BaseJobStore, make_job: JobMaker) -> None:
        store.add_jobs([make_job(f"job-{number}") for number in range(4)])
        assert store.find_jobs(JobQuery(limit=4)).next is None
        first = store.find_jobs(JobQuery(limit=3))
        assert first.next is not None
        assert first.complete
        rest = store.find_jobs(JobQuery(after=first.next, limit=3))
        assert (ids(rest.jobs), rest.next) == (["job-3"], None)

    def test_filtered_pages_go_on_behind_a_job_that_is_gone(self, store: BaseJobStore, make_job: JobMaker) -> None:
        store.add_jobs([
            make_job(f"job-{number}", due=NOW + number * SECOND, tags=["even"] if number % 2 == 0 else [])
            for number in range(10)
        ])  # fmt: skip
        page = store.find_jobs(JobQuery(tag="even", limit=2))
        assert ids(page.jobs) == ["job-0", "job-2"]
        store.remove_job("job-2")
        rest = store.find_jobs(JobQuery(tag="even", limit=9, after=page.next))
        assert ids(rest.jobs) == ["job-4", "job-6", "job-8"]

    def test_more_jobs_than_are_to_be_counted_are_not_counted(self, store: BaseJobStore, make_job: JobMaker) -> None:
        store.add_jobs([make_job(f"job-{number}", tags=["t"]) for number in range(5)])
        for query in (JobQuery(), JobQuery(tag="t"), JobQuery(state=JobState.SCHEDULED), JobQuery(text="JOB")):
            assert store.count_jobs(query, 4) == Count(4, exact=False)
            assert store.count_jobs(query, 5) == Count(5)

    def test_tags_follow_the_job(self, store: BaseJobStore, make_job: JobMaker) -> None:
        store.add_job(make_job("a", tags=["old", "both"]))
        store.edit_job("a", lambda job: copy_with(job, tags=["both", "new ✓ 'quoted' %"]))
        assert {tag: ids(store.find_jobs(JobQuery(tag=tag)).jobs) for tag in ("old", "both", "new ✓ 'quoted' %")} == {
            "old": [], "both": ["a"], "new ✓ 'quoted' %": ["a"],
        }  # fmt: skip
        store.remove_job("a")
        store.add_job(make_job("a"))
        assert store.find_jobs(JobQuery(tag="both")).jobs == []

    def test_a_text_is_found_as_it_stands(self, store: BaseJobStore, make_job: JobMaker) -> None:
        store.add_job(make_job("100%_sure", name="Nightly ÄRGER"))
        store.add_job(make_job("100 percent", name="nightly"))
        texts = ("100%", "%", "_", "NIGHTLY", "ärger", "no such", "sure.*", "NoThing")
        found = {text: ids(store.find_jobs(JobQuery(text=text, sort="id")).jobs) for text in texts}
        assert found == {
            "100%": ["100%_sure"], "%": ["100%_sure"], "_": ["100%_sure"], "NIGHTLY": ["100 percent", "100%_sure"],
            "ärger": ["100%_sure"], "no such": [], "sure.*": [],
            "NoThing": ["100 percent", "100%_sure"],  # the function
        }  # fmt: skip

    def test_runs_are_counted_for_the_jobs_of_a_page(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_job(make_job("live", due=NOW))
        requests.fire(store)
        store.add_job(make_job("asked", due=None))
        store.add_job(make_job("idle", due=None))
        store.add_run(asked_for(make_job("asked"), "now", NOW))
        store.add_run(asked_for(make_job("asked"), "later", NOW + MINUTE))
        store.add_run(asked_for(make_job("other"), "other", NOW))
        assert store.run_counts(["live", "asked", "idle", "nobody"], NOW) == {
            "live": RunCounts(live=1), "asked": RunCounts(due=1, waiting=1),
        }  # fmt: skip

    def test_the_attempts_of_a_run_are_found(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_jobs([make_job(job_id, due=NOW, retry=2) for job_id in ("a", "b")])
        run, other = requests.fire(store).runs
        assert not store.settle([failure(run), failure(other)])
        again = next(again for again in requests.claim(store, now=NOW + MINUTE).runs if again.id == run.id)
        assert not store.settle([success(again, NOW + 2 * MINUTE)])
        expected = [(run.id, 2, OutcomeKind.SUCCEEDED), (run.id, 1, OutcomeKind.FAILED)]
        for job_id in (None, run.job.id):
            found = store.attempts(run.id, job_id)
            assert [(record.run_id, record.attempt, record.outcome) for record in found] == expected
        assert store.attempts("nobody") == store.attempts(run.id, "another job") == []

    def test_a_dead_letter_is_found_by_its_run(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_jobs([make_job(job_id, due=NOW, dead_letter=True) for job_id in ("a", "b")])
        run, other = requests.fire(store).runs
        assert not store.settle([failure(run), failure(other)])
        letters = {letter.run.id: letter for letter in store.dead_letters(HistoryQuery())}
        found = store.dead_letter(run.id)
        assert found is not None
        assert (found.run.id, found.record, found.reason) == (
            run.id, letters[run.id].record, letters[run.id].reason,
        )  # fmt: skip
        assert store.dead_letter("nobody") is None

    def test_dead_letters_come_in_groups(self, store: BaseJobStore, make_job: JobMaker, requests: Requests) -> None:
        jobs = [make_job(f"job-{number}", due=NOW, dead_letter=True, tags=["t"]) for number in range(5)]
        store.add_jobs(jobs)
        runs = {run.job.id: run for run in requests.fire(store).runs}
        errors: list[Exception] = [
            ValueError("order 17 of 'Ann' is broken"), ValueError("order 4711 of 'Bob' is broken"),
            ValueError("order 1 of 'Cy' is broken"), KeyError("gone"), ValueError("something else"),
        ]  # fmt: skip
        for number, error in enumerate(errors):
            assert not store.settle([failure(runs[f"job-{number}"], error, NOW + number * SECOND)])
        groups = store.letter_groups(HistoryQuery())
        assert [(group.error_type, group.size) for group in groups] == [
            ("ValueError", 3), ("KeyError", 1), ("ValueError", 1),
        ]  # fmt: skip
        assert (groups[0].first, groups[0].last) == (NOW, NOW + 2 * SECOND)
        assert list(groups[0].job_ids) == ["job-2", "job-1", "job-0"]
        assert groups[0].run_id == runs["job-2"].id
        assert [group.size for group in store.letter_groups(HistoryQuery("job-3"))] == [1]
        assert [group.size for group in store.letter_groups(HistoryQuery(limit=2))] == [1, 1]

    def test_what_is_used_of_limits_is_told(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        few, often = Limit("few", concurrency=1), Limit("often", rate="10/1m")
        store.add_jobs([make_job(job_id, due=NOW, limits=[few, often]) for job_id in ("a", "b", "c")])
        runs = requests.fire(store).runs
        assert len(runs) == 1
        requests.claim(store)
        usage = {use.name: use for use in store.limit_usage(NOW)}
        assert (usage["few"].live, usage["few"].waiting) == (1, 2)
        assert (usage["often"].live, dict(usage["often"].starts)) == (1, {60.0: 1})
        assert not store.settle([success(runs[0])])
        assert {use.name: use.live for use in store.limit_usage(NOW)}.get("few", 0) == 0
        assert {use.name: dict(use.starts) for use in store.limit_usage(NOW + 2 * MINUTE)}.get("often", {}) in (
            {}, {60.0: 0},
        )  # fmt: skip

    def test_owners_tell_when_their_lease_ends_and_what_they_report(self, store: BaseJobStore) -> None:
        report = '{"room": {"default": 10}, "host": "näme ✓"}'
        store.renew_owner(Owner("owner-1", "machine", 17, NOW, ("default",), ("task",), "{}"), NOW, LEASE)
        store.renew_owner(Owner("owner-1", "machine", 17, NOW, ("default",), ("task",), report), NOW, LEASE)
        store.renew_owner(Owner("owner-2", "machine", 18, NOW), NOW, LEASE)
        owners = {owner.id: owner for owner in store.owners(NOW)}
        assert (owners["owner-1"].report, owners["owner-2"].report) == (report, "")
        for owner in owners.values():
            assert owner.expires_at is not None
            assert owner.expires_at.tzinfo is not None
            assert self.length_of_lease(owner) > timedelta(0)

    def length_of_lease(self, owner: Owner) -> timedelta:
        """Return a length that is positive while the lease lasts; a store goes by its own clock."""
        assert owner.expires_at is not None
        return owner.expires_at - NOW

    # Several jobs at once

    def test_several_jobs_are_edited_each_by_itself(self, store: BaseJobStore, make_job: JobMaker) -> None:
        store.add_jobs([make_job(job_id, tags=["t"]) for job_id in ("a", "b", "c", "d")])

        def edit(job: Job) -> Job:
            if job.id == "b":
                return job
            if job.id == "c":
                raise InvalidArgument("not this one", field="id")
            edited = copy_with(job, next_run_time=None)
            edited.stats = job.stats._replace(paused_by="me", pause_reason="néver ✓", pause_id="bulk-1")
            return edited

        edited = store.edit_jobs(["a", "b", "nobody", "c", "d"], edit)
        assert sorted(ids(edited.changed)) == ["a", "d"]
        assert (list(edited.unchanged), list(edited.missing)) == (["b"], ["nobody"])
        assert edited.refused == {"c": "not this one"}
        paused = store.find_jobs(JobQuery(pause_id="bulk-1")).jobs
        assert [(job.id, job.next_run_time, job.stats.paused_by, job.stats.pause_reason) for job in paused] == [
            ("a", None, "me", "néver ✓"), ("d", None, "me", "néver ✓"),
        ]  # fmt: skip
        assert ids(store.find_jobs(JobQuery(state=JobState.SCHEDULED)).jobs) == ["b", "c"]
        assert sorted(ids(store.get_due_jobs(NOW))) == ["b", "c"]
        store.edit_jobs(["a", "d"], resumed)
        assert ids(store.find_jobs(JobQuery(pause_id="bulk-1")).jobs) == []
        assert ids(store.find_jobs(JobQuery(state=JobState.SCHEDULED, sort="id")).jobs) == ["a", "b", "c", "d"]

    def test_many_jobs_are_edited_and_removed(self, store: BaseJobStore, make_job: JobMaker) -> None:
        names = [f"job-{number:04}" for number in range(450)]
        store.add_jobs([make_job(name, due=NOW, tags=["t"]) for name in names])
        assert len(store.edit_jobs(names, lambda job: copy_with(job, next_run_time=None)).changed) == 450
        assert store.get_due_jobs(NOW) == []
        assert sorted(store.remove_jobs([*names[:-1], "nobody"])) == names[:-1]
        assert ids(store.find_jobs(JobQuery(tag="t")).jobs) == [names[-1]]

    def test_who_added_a_job_and_when_is_kept(self, store: BaseJobStore, make_job: JobMaker) -> None:
        job = make_job("a")
        job.stats = job.stats._replace(created_at=NOW, created_by="äda")
        plain = make_job("b")
        store.add_jobs([job, plain])
        store.edit_job("a", lambda job: copy_with(job, name="another"))
        found = {job.id: job.stats for job in store.find_jobs(JobQuery()).jobs}
        assert (found["a"].created_at, found["a"].created_by) == (NOW, "äda")
        assert (found["b"].created_at, found["b"].created_by) == (None, None)

    # Notes

    def test_a_note_is_written_if_it_is_the_expected_one(self, store: BaseJobStore) -> None:
        key = "a/b.c:d ✓ %"
        assert store.read_note("audit", key) is None
        assert not store.put_note(Note("audit", key, "x"), expected="y")
        assert store.put_note(Note("audit", key, "x"), expected=None)
        assert not store.put_note(Note("audit", key, "y"), expected=None)
        assert store.put_note(Note("audit", key, "yé"), expected="x")
        assert store.read_note("audit", key) == "yé"
        assert store.put_note(Note("audit", key, ""))
        assert store.read_note("audit", key) == ""
        assert store.put_note(Note("audit", key, "z"), expected="")
        assert store.read_note("alert", key) is None
        store.remove_note("audit", key)
        store.remove_note("audit", key)
        assert store.read_note("audit", key) is None

    def test_notes_are_listed_and_forgotten_by_key(self, store: BaseJobStore) -> None:
        for number in (3, 1, 2, 5, 4):
            store.put_note(Note("audit", f"k{number}", str(number)))
        store.put_note(Note("auditor", "k9", "of another kind"))
        assert store.notes("audit", limit=2) == [Note("audit", "k5", "5"), Note("audit", "k4", "4")]
        assert [note.text for note in store.notes("audit", before="k4")] == ["3", "2", "1"]
        assert store.prune_notes("audit", "k4", 2) == 2
        assert store.prune_notes("audit", "k4", 2) == 1
        assert store.prune_notes("audit", "k4", 2) == 0
        assert [note.key for note in store.notes("audit")] == ["k5", "k4"]
        assert [note.key for note in store.notes("auditor")] == ["k9"]

    def test_a_note_that_is_too_long_is_refused(self, store: BaseJobStore) -> None:
        assert store.put_note(Note("audit", "k", "ä" * MAX_NOTE))
        with pytest.raises(InvalidArgument):
            store.put_note(Note("audit", "k", "x" * (MAX_NOTE + 1)))
        assert store.read_note("audit", "k") == "ä" * MAX_NOTE

    def fill(self, store: BaseJobStore, make_job: JobMaker, requests: Requests) -> None:
        """Leave jobs in every state that a store can tell."""
        store.add_job(make_job("failing", due=NOW - MINUTE, name="It fails", start=NOW - MINUTE, tags=["x"]))
        (run,) = requests.fire(store).runs
        assert not store.settle([failure(run)])
        over = DateTrigger(NOW - MINUTE)
        store.add_job(make_job("over", due=NOW - MINUTE, trigger=over, auto_remove=False, tags=["x", "y"]))
        (run,) = requests.fire(store).runs
        assert not store.settle([success(run)])
        store.add_job(make_job("broken", due=NOW - MINUTE, start=NOW - MINUTE))
        requests.fire(store, obstacles={"broken": "it cannot be run"})
        store.add_job(make_job("running", due=NOW, tags=["y"]))
        assert [run.job.id for run in requests.fire(store).runs] == ["running"]
        store.add_job(make_job("paused", due=None, tags=["x"]))
        store.add_job(make_job("later", due=NOW + 9 * MINUTE, executor="special", name="Comes Later"))


class ReadContract(QueryContract):
    """The same, for a class that names it before ``StoreContract``."""


#: What is found in the store that ``fill`` leaves. Failing and running fire again a minute after their last time.
FOUND = {
    JobQuery(): ["failing", "running", "later", "broken", "over", "paused"],
    JobQuery(sort="id"): ["broken", "failing", "later", "over", "paused", "running"],
    JobQuery(tag="x"): ["failing", "over", "paused"],
    JobQuery(tag="y", sort="id"): ["over", "running"],
    JobQuery(tag="no"): [],
    JobQuery(state=JobState.SCHEDULED): ["failing", "running", "later"],
    JobQuery(state=JobState.RUNNING): ["running"],
    JobQuery(state=JobState.PAUSED): ["paused"],
    JobQuery(state=JobState.SUSPENDED): ["broken"],
    JobQuery(state=JobState.COMPLETED): ["over"],
    JobQuery(state=JobState.FAILED): [],
    JobQuery(executor="special"): ["later"],
    JobQuery(executor="default", state=JobState.SCHEDULED): ["failing", "running"],
    JobQuery(task="goscheduler.testing.contract:nothing", tag="x"): ["failing", "over", "paused"],
    JobQuery(task="goscheduler.testing.contract:some"): [],
    JobQuery(text="LATE"): ["later"],
    JobQuery(text="it f"): ["failing"],
    JobQuery(due_before=NOW + 2 * MINUTE): ["failing", "running"],
    JobQuery(last_outcome=OutcomeKind.FAILED): ["failing"],
    JobQuery(last_outcome=OutcomeKind.SUCCEEDED): ["over"],
    JobQuery(tag="x", state=JobState.PAUSED, text="pau"): ["paused"],
    JobQuery(pause_id="none"): [],
}


def ids(jobs: Iterable[Job]) -> list[str]:
    return [job.id for job in jobs]


def pages(store: BaseJobStore, query: JobQuery) -> list[str]:
    """Return the ids of all jobs, read page by page; no page is longer than is wanted."""
    found: list[str] = []
    after: JobPosition | None = None
    while True:
        page = store.find_jobs(query._replace(after=after))
        assert len(page.jobs) <= query.limit
        found += ids(page.jobs)
        if page.next is None:
            return found
        assert page.next != after
        after = page.next


def resumed(job: Job) -> Job:
    edited = copy_with(job, next_run_time=NOW)
    edited.stats = job.stats.resumed()
    return edited


def success(run: Run, at: datetime = NOW + SECOND) -> Settlement:
    return settle(run, Outcome(OutcomeKind.SUCCEEDED, started_at=NOW), at)


def failure(run: Run, error: Exception | None = None, at: datetime = NOW) -> Settlement:
    return settle(run, Outcome(OutcomeKind.FAILED, error=error or ValueError("no"), started_at=NOW), at)
