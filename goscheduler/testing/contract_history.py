"""The part of the contract of a job store that is about what it remembers: history and dead letters."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from goscheduler.job import copy_with
from goscheduler.runs.model import Outcome, OutcomeKind, Progress, Run, Settlement, Source
from goscheduler.runs.records import HistoryQuery, Record, Retention, record_of
from goscheduler.runs.transitions import redriven, settle
from goscheduler.triggers.date import DateTrigger

if TYPE_CHECKING:
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.testing.contract import JobMaker, Requests

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=timezone.utc)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


class HistoryContract:
    """``StoreContract`` is derived from this, and has the fixtures."""

    long_history = 1100
    """How many records are more than a store reads at once."""

    def test_a_record_is_read_back_equal_in_every_field(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_job(make_job("a", name="näme ✓", tags=("x", "y"), description="words", retry=3))
        (run,) = requests.fire(store).runs
        error = ValueError("line one\nline two ✓ \0 \ud800" + "long" * 1000)
        outcome = Outcome(OutcomeKind.FAILED, None, error, "  File ...\n", NOW + SECOND / 3, 1.25, "because")
        settlement = settle(run, outcome, NOW + MINUTE / 7, progress=Progress(0.5, "half"), host="machine")
        assert not store.settle([settlement])
        (again,) = requests.claim(store, now=NOW + DAY).runs
        ended = settle(again, Outcome(OutcomeKind.SUCCEEDED, ["result"], None, "", NOW + DAY, 2.5), NOW + DAY)
        assert not store.settle([ended])
        assert store.history(HistoryQuery()) == [record_of(ended.attempt), record_of(settlement.attempt)]

    def test_a_record_tells_the_name_that_the_job_had(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        self.run_once(store, make_job, requests, "a", NOW)
        store.edit_job("a", lambda job: copy_with(job, name="another", tags=["another"]))
        (record,) = store.history(HistoryQuery())
        assert (record.job_name, record.tags) == ("nothing", ())

    def test_history_comes_newest_first_and_is_bounded_by_the_limit(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        for number in (2, 0, 3, 1):
            self.run_once(store, make_job, requests, f"job-{number}", NOW + number * MINUTE)
        assert self.jobs_of(store, HistoryQuery()) == ["job-3", "job-2", "job-1", "job-0"]
        assert self.jobs_of(store, HistoryQuery(limit=3)) == ["job-3", "job-2", "job-1"]
        assert self.jobs_of(store, HistoryQuery("nobody")) == []

    def test_history_is_found_by_job_outcome_tag_error_and_time(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        no, gone = ValueError("no"), KeyError("gone")
        self.run_once(store, make_job, requests, "a", NOW, tags=["odd"])
        self.run_once(store, make_job, requests, "b", NOW + MINUTE, no, tags=["even", "of two"])
        self.run_once(store, make_job, requests, "c", NOW + 2 * MINUTE, gone, tags=["odd"])
        found = {query: self.jobs_of(store, query) for query in EXPECTED}
        assert found == EXPECTED

    def test_a_long_history_is_complete(self, store: BaseJobStore, make_job: JobMaker, requests: Requests) -> None:
        many = self.long_history
        store.add_jobs([make_job(f"job-{number}", due=NOW, trigger=DateTrigger(NOW)) for number in range(many)])
        runs: list[Run] = []
        while fired := requests.fire(store, room={"default": 2000}).runs:
            runs += fired
        done = Outcome(OutcomeKind.SUCCEEDED, started_at=NOW)
        assert not store.settle([settle(run, done, NOW + number % 700 * SECOND) for number, run in enumerate(runs)])
        found = {record.job_id for record in store.history(HistoryQuery(limit=2000))}
        assert found == {f"job-{number}" for number in range(many)}

    def test_pages_neither_repeat_nor_lose_a_record_even_of_one_moment(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        for number in range(7):
            self.run_once(store, make_job, requests, f"job-{number}", NOW + (number // 3) * MINUTE)
        everything = store.history(HistoryQuery())
        assert [record.position for record in everything] == sorted(
            (record.position for record in everything), reverse=True
        )
        for limit in (1, 2, 3, 7):
            assert pages(store, HistoryQuery(limit=limit)) == everything

    def test_records_that_are_not_to_be_kept_are_forgotten_oldest_first_in_batches(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        for age in (9, 8, 2, 1):
            self.run_once(store, make_job, requests, f"fine-{age}", NOW - age * DAY)
            self.run_once(store, make_job, requests, f"bad-{age}", NOW - age * DAY + SECOND, ValueError("no"))
        retention = Retention(succeeded=3 * DAY, others=8.5 * DAY)
        assert store.prune_history(retention, NOW, 2) == 2
        assert self.jobs_of(store, HistoryQuery())[-2:] == ["bad-8", "fine-8"]
        assert store.prune_history(retention, NOW, 2) == 1
        assert store.prune_history(retention, NOW, 2) == 0
        assert self.jobs_of(store, HistoryQuery()) == ["bad-1", "fine-1", "bad-2", "fine-2", "bad-8"]

    def test_of_one_job_the_newest_successes_are_kept_and_all_failures(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_job(make_job("a"))
        for number in range(6):
            (run,) = requests.fire(store, now=NOW + number * MINUTE).runs
            store.settle([ended(run, NOW + number * MINUTE, ValueError("no") if number == 1 else None)])
        self.run_once(store, make_job, requests, "b", NOW)
        assert store.prune_history(Retention(succeeded_per_job=2), NOW + 6 * MINUTE, 100) == 3
        minutes = [(record.finished_at - NOW) // MINUTE for record in store.history(HistoryQuery("a"))]
        assert minutes == [5, 4, 1]
        assert self.jobs_of(store, HistoryQuery("b")) == ["b"]

    def test_dead_letters_come_newest_first_and_are_taken_once(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        for number, job_id in enumerate("abc"):
            self.run_once(store, make_job, requests, job_id, NOW + number * SECOND, ValueError("no"), retry=1)
        assert self.dead_jobs_of(store, HistoryQuery()) == ["c", "b", "a"]
        assert self.dead_jobs_of(store, HistoryQuery(limit=2)) == ["c", "b"]
        (letter,) = store.dead_letters(HistoryQuery("b"))
        assert [letter.record] == store.history(HistoryQuery("b"))
        assert (letter.run.id, letter.reason) == (letter.record.run_id, "attempt 1 of 1 failed")
        results: list[bool] = []
        threads = [
            threading.Thread(target=lambda: results.append(store.take_dead_letter(letter.run.id))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(results) == [False] * 7 + [True]
        assert store.dead_letters(HistoryQuery("b")) == []
        assert not requests.claim(store, now=NOW + MINUTE).runs

    def test_dead_letters_are_found_by_tag_error_and_time_page_by_page(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        for number, error in enumerate((ValueError("no"), KeyError("gone"), ValueError("no"), ValueError("no"))):
            options = {"tags": ["odd" if number % 2 else "even"], "retry": 1}
            self.run_once(store, make_job, requests, f"job-{number}", NOW + number * SECOND, error, **options)
        assert self.dead_jobs_of(store, HistoryQuery(error_type="KeyError")) == ["job-1"]
        assert self.dead_jobs_of(store, HistoryQuery(tag="even")) == ["job-2", "job-0"]
        between = HistoryQuery(since=NOW + SECOND, until=NOW + 3 * SECOND)
        assert self.dead_jobs_of(store, between) == ["job-2", "job-1"]
        first = store.dead_letters(HistoryQuery(limit=3))
        assert self.dead_jobs_of(store, HistoryQuery(before=first[-1].record.position)) == ["job-0"]

    def test_dead_letters_stay_when_the_history_is_forgotten(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        self.run_once(store, make_job, requests, "a", NOW, ValueError("no"), retry=1)
        assert store.prune_history(Retention(others=SECOND), NOW + DAY, 100) == 1
        assert store.history(HistoryQuery()) == []
        assert self.dead_jobs_of(store, HistoryQuery()) == ["a"]

    def test_a_redriven_dead_letter_is_pending_and_can_die_again(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        run = self.run_once(store, make_job, requests, "a", NOW, ValueError("no"), retry=1)
        assert store.take_dead_letter(run.id, lambda letter: redriven(letter, NOW + SECOND))
        assert store.dead_letters(HistoryQuery()) == []
        (again,) = requests.claim(store, now=NOW + SECOND).runs
        assert (again.id, again.attempt, again.source) == (run.id, 2, Source.REDRIVE)
        store.settle([ended(again, NOW, ValueError("no"))])
        assert [letter.record.attempt for letter in store.dead_letters(HistoryQuery("a"))] == [2]

    def run_once(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests, job_id: str, at: datetime,
        error: Exception | None = None, **options: Any,
    ) -> Run:  # fmt: skip
        """Let a new job run once, and its run end at a given moment; return the run."""
        store.add_job(make_job(job_id, due=NOW, **options))
        (run,) = requests.fire(store).runs
        assert not store.settle([ended(run, at, error)])
        return run

    def jobs_of(self, store: BaseJobStore, query: HistoryQuery) -> list[str]:
        return [record.job_id for record in store.history(query)]

    def dead_jobs_of(self, store: BaseJobStore, query: HistoryQuery) -> list[str]:
        return [letter.record.job_id for letter in store.dead_letters(query)]


def ended(run: Run, at: datetime, error: Exception | None = None) -> Settlement:
    """Return the settlement of a run that failed, or went well if there is no error."""
    kind = OutcomeKind.SUCCEEDED if error is None else OutcomeKind.FAILED
    return settle(run, Outcome(kind, None, error, "", at, 0.5), at)


def pages(store: BaseJobStore, query: HistoryQuery) -> list[Record]:
    """Return all that a query finds, gathered page by page."""
    found: list[Record] = []
    while page := store.history(query):
        assert len(page) <= query.limit
        found += page
        query = query._replace(before=page[-1].position)
    return found


#: What is found among: "a", which went well at 12:00, tagged "odd"; "b", which raised a ValueError at 12:01, tagged
#: "even" and "of two"; "c", which raised a KeyError at 12:02, tagged "odd".
EXPECTED = {
    HistoryQuery("b"): ["b"],
    HistoryQuery(outcomes=frozenset({OutcomeKind.SUCCEEDED})): ["a"],
    HistoryQuery(outcomes=frozenset({OutcomeKind.SUCCEEDED, OutcomeKind.FAILED})): ["c", "b", "a"],
    HistoryQuery(outcomes=frozenset({OutcomeKind.MISSED})): [],
    HistoryQuery(outcomes=frozenset()): [],
    HistoryQuery(tag="odd"): ["c", "a"],
    HistoryQuery(tag="of two"): ["b"],
    HistoryQuery(tag="of"): [],
    HistoryQuery(error_type="ValueError"): ["b"],
    HistoryQuery(error_type="Error"): [],
    HistoryQuery(since=NOW + MINUTE): ["c", "b"],
    HistoryQuery(until=NOW + MINUTE): ["a"],
    HistoryQuery(since=NOW + MINUTE, until=NOW + 2 * MINUTE): ["b"],
    HistoryQuery(since=(NOW + MINUTE).astimezone(timezone(timedelta(hours=5)))): ["c", "b"],
    HistoryQuery("c", frozenset({OutcomeKind.FAILED}), NOW, NOW + DAY, "odd", "KeyError"): ["c"],
    HistoryQuery("c", tag="even"): [],
    HistoryQuery(tag="odd", limit=1): ["c"],
}
