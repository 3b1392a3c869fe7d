"""The part of the contract of a job store that is about its inbox: what programs in other languages ask for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from goscheduler.errors import InvalidArgument
from goscheduler.job import Job
from goscheduler.runs.queries import Drained, InboxEntry, JobQuery

if TYPE_CHECKING:
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.testing.contract import JobMaker

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=timezone.utc)
ODD = "näme ✓ 'quoted\\\" %s"


class InboxContract:
    """Derive the test class of a store with an inbox from this too, and write the two abstract methods."""

    @abstractmethod
    def put_in_inbox(self, store: BaseJobStore, request: str) -> None:
        """Ask for something as another program does, by the means of the database."""

    @abstractmethod
    def refused_in_inbox(self, store: BaseJobStore) -> list[tuple[str, str]]:
        """Return request and reason of what was refused, as another program reads it."""

    def test_what_other_programs_ask_for_is_added_once(self, store: BaseJobStore, make_job: JobMaker) -> None:
        asked = ["a", "b", ODD, "bad", "a", "taken"]
        store.add_job(make_job("taken"))
        for request in asked:
            self.put_in_inbox(store, request)
        seen: list[str] = []

        def read(entry: InboxEntry) -> Job:
            seen.append(entry.id)
            if entry.request == "bad":
                raise InvalidArgument("this is no job", field="request")
            return make_job(entry.request, due=NOW, tags=["asked"])

        first = store.drain_inbox(2, read)
        assert (ids(first.jobs), dict(first.refused), first.more) == (["a", "b"], {}, True)
        rest = store.drain_inbox(100, read)
        assert (ids(rest.jobs), len(rest.refused), rest.more) == ([ODD], 3, False)
        assert len(set(seen)) == len(asked)
        assert store.drain_inbox(100, read) == Drained([], {}, False)
        assert sorted(ids(store.find_jobs(JobQuery(tag="asked")).jobs)) == sorted(["a", "b", ODD])
        refused = sorted(self.refused_in_inbox(store))
        assert [request for request, _ in refused] == ["a", "bad", "taken"]
        assert "this is no job" in refused[1][1]
        assert "taken" in refused[2][1]

    def test_a_job_of_the_inbox_is_due_at_once(self, store: BaseJobStore, make_job: JobMaker) -> None:
        self.put_in_inbox(store, "a")
        store.drain_inbox(10, lambda entry: make_job(entry.request, due=NOW))
        assert ids(store.get_due_jobs(NOW)) == ["a"]

    def test_what_cannot_be_read_for_another_reason_stays_in_the_inbox(
        self, store: BaseJobStore, make_job: JobMaker
    ) -> None:
        self.put_in_inbox(store, "a")

        def read(entry: InboxEntry) -> Job:
            raise MemoryError

        with pytest.raises(MemoryError):
            store.drain_inbox(10, read)
        assert ids(store.drain_inbox(10, lambda entry: make_job(entry.request)).jobs) == ["a"]


def ids(jobs: Iterable[Job]) -> list[str]:
    return [job.id for job in jobs]
