"""A job store in MongoDB: a standalone server or a replica set, shared by any number of processes.

A job and its runs are one document. A firing changes this document, and only if no other process has changed it since
it was read. That needs neither transactions nor locks, and a crash at any point leaves either the job as it was or a
run that has an owner. Where a step changes a second document, one of the two decides and the other follows.

=====================================  ===============================================================================
step                                   a crash after it
=====================================  ===============================================================================
``fire_due``: permits of limits        the job is due as before; the permits are released within seconds
``fire_due``: the document             runs with an owner, which other processes run again when the lease has lapsed.
                                       Records of missed and skipped firings wait in it; the next recovery of lost runs
                                       moves them into the history
``claim_runs``                         as for the document
``settle``: the record                 a run that has a record does not run again. A recovery applies the record to the
                                       job when the lease has lapsed
``settle``: the document               a permit of a limit, which is released within seconds
``settle``: the permit                 a run that stays blocked until a scheduler checks for orphans, within minutes
``cancel_run`` of a pending run        the record waits in the document of the job
``take_dead_letter``: marked           after a minute it is a dead letter again, unless its run is there
``take_dead_letter``: the run          after a minute the dead letter is gone
``recover_runs``                       as for ``settle``: the next recovery goes on
=====================================  ===============================================================================

A round that finds nothing due costs one question. A round that fires costs four for any number of jobs, and the end of
any number of runs costs two.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

try:
    from pymongo import MongoClient
    from pymongo.errors import ConnectionFailure, PyMongoError
except ImportError as error:
    raise ImportError(f'MongoDBJobStore requires PyMongo: pip install "goscheduler[mongodb]" ({error})') from error

from goscheduler._drivers.mongodb import create_client, database_of, deadline, given_client
from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import InvalidArgument, JobLookupError
from goscheduler.jobstores._shared.polling import Poll
from goscheduler.jobstores._shared.records import Records
from goscheduler.jobstores.base import Claimed, Fired, FireRequest, Requeued
from goscheduler.jobstores.mongodb.documents import NEVER, Document, DocumentCodec, from_json_text, without, without_job
from goscheduler.jobstores.mongodb.due_work import DueWork, DueWorkReader
from goscheduler.jobstores.mongodb.firing import Claiming, Firing, StoreContext
from goscheduler.jobstores.mongodb.history import History
from goscheduler.jobstores.mongodb.indexes import check_name, collections_of, prepare
from goscheduler.jobstores.mongodb.jobs import DOCUMENTS_PER_INSERT, Adding
from goscheduler.jobstores.mongodb.listener import Listener
from goscheduler.jobstores.mongodb.orphans import Orphans
from goscheduler.jobstores.mongodb.owners import Owners
from goscheduler.jobstores.mongodb.packed_runs import unpack_runs
from goscheduler.jobstores.mongodb.read_side import ReadSide
from goscheduler.jobstores.mongodb.runs import Runs
from goscheduler.jobstores.mongodb.settling import Settling
from goscheduler.jobstores.mongodb.upgrade import upgrade
from goscheduler.jobstores.mongodb.writer import Change, Writer
from goscheduler.runs.model import DeadLetter, JobStats, Owner, Run, Settlement
from goscheduler.runs.records import HistoryQuery, Record, Retention
from goscheduler.times import UTC, from_micros, to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.serializers import Serializer

__all__ = ["MongoDBJobStore"]


class MongoDBJobStore(ReadSide):
    """Keeps jobs, runs and history in collections of one database whose names begin with ``collection``.

    Give ``client``, which is then not closed, or ``url``, or what :class:`pymongo.MongoClient` takes. ``serializer``
    says how arguments are written. The time of the server counts, unless ``server_time`` is false.
    """

    lock_backend = "mongodb"

    def __init__(
        self,
        database: str = "goscheduler",
        collection: str = "jobs",
        client: MongoClient[Document] | str | None = None,
        pickle_protocol: int | None = None,
        *,
        url: str | None = None,
        serializer: Serializer | None = None,
        server_time: bool = True,
        **connect_args: Any,
    ) -> None:
        if client is not None and (url is not None or connect_args):
            raise InvalidArgument("Give either a client, or a url and what it is connected with", field="client")
        self._database = check_name("database", database)
        self._prefix = check_name("collection", collection)
        self._connect = None if client is not None else (url, connect_args)
        self.client = create_client(url, connect_args) if client is None else given_client(client)
        self._process = os.getpid()
        self._serializer = serializer
        self._server_time = server_time
        self._poll = Poll()
        self._listener: Listener | None = None
        self._peeked: tuple[str, FireRequest, DueWork] | None = None
        """What ``fire_due`` or ``claim_runs`` has read last, for the other step, which is named, of the same round."""

    @classmethod
    def from_url(cls, url: str, **options: Any) -> MongoDBJobStore:
        """Return a store for a URL; the database that it names is used, if it names one."""
        named = {} if (database := database_of(url)) is None else {"database": database}
        return cls(**{"url": url, **named, **options})

    def start(self, scheduler: Any, alias: str) -> None:
        super().start(scheduler, alias)
        if self._process != os.getpid():
            self._leave_to_the_parent()
        self._open(Records(scheduler, alias, self._serializer, f"{self._database}.{self._prefix}"))
        try:
            prepare(self.client, self._collections, self._logger)
            with deadline():
                unpack_runs(self._collections, self._writer)
            upgrade(self._context, self._logger)
        except BaseException:
            self.shutdown()  # or its connections would stay open
            raise

    def _open(self, records: Records) -> None:
        self._collections = collections_of(self.client, self._database, self._prefix)
        self._writer = Writer(self._collections)
        self._reader = DueWorkReader(self._collections, self._server_time, self._hears)
        self._context = StoreContext(self._collections, DocumentCodec(records), self._writer, self._reader)
        self._adding = Adding(self._context)
        self._owners = Owners(self._collections, self._reader, self._server_time)
        self._settling = Settling(self._context)
        self._orphans = Orphans(self._context)
        self._unfinished = Runs(self._context, self._logger)
        self._history = History(self._context, self._unfinished)
        self._open_read_side()

    def _leave_to_the_parent(self) -> None:
        """Use new connections in a forked process, unless the user has given the client."""
        self._process, self._listener = os.getpid(), None
        if self._connect is not None:
            self._parents_client, self.client = self.client, create_client(*self._connect)

    def shutdown(self) -> None:
        if self._listener is not None:
            self._listener.stop()
            self._listener = None
        if self._connect is not None:
            self.client.close()
            self.client = create_client(*self._connect)

    def is_outage(self, error: BaseException) -> bool:
        unanswered = isinstance(error, ConnectionFailure) or (isinstance(error, PyMongoError) and error.timeout)
        return unanswered or super().is_outage(error)

    # Jobs

    def lookup_job(self, job_id: str) -> Job | None:
        with deadline():
            document = self._collections.jobs.find_one({"_id": str(job_id), "here": True})
        return None if document is None else self._job(document)

    def get_due_jobs(self, now: datetime) -> list[Job]:
        jobs = self._jobs_where({"due.at": {"$lte": to_micros(now)}})
        return sorted(jobs, key=_time_order)

    def get_next_run_time(self) -> datetime | None:
        with deadline():
            found = list(self._collections.jobs.find({"due.at": {"$lt": NEVER}}).sort("due.at", 1).limit(1))
        return from_micros(found[0]["due"]["at"], UTC) if found else None

    def count_waiting(self, task: str | None = None) -> int:
        with deadline():
            wanted = {"due.at": {"$lt": NEVER}} | ({} if task is None else {"due.task": task})
            return int(self._collections.jobs.count_documents(wanted))

    def count_due_beside(self, executors: Collection[str], until: datetime) -> Mapping[str, int]:
        with deadline():
            return self._reader.count_due_beside(executors, until)

    def get_all_jobs(self) -> list[Job]:
        return sorted(self._jobs_where({"here": True}), key=_time_order)

    def _jobs_where(self, condition: Document) -> list[Job]:
        return [self._job(document) for document in self._collections.jobs.find(condition)]

    def _job(self, document: Document) -> Job:
        return self._context.codec.job(document)

    def add_job(self, job: Job) -> None:
        with self._making_due():
            self._adding.add(job)

    def add_jobs(self, jobs: Sequence[Job]) -> None:
        with self._making_due():
            self._adding.add_all(jobs)

    def update_job(self, job: Job) -> None:
        self._edit(job.id, lambda document: self._context.codec.with_job(_present(job.id, document), job))

    def edit_job(self, job_id: str, edit: Callable[[Job], Job]) -> Job:
        edited: list[Job] = []

        def change(document: Document | None) -> Document:
            before = _present(job_id, document)
            edited.append(edit(self._job(before)))
            return self._context.codec.with_job(before, edited[-1])

        self._edit(job_id, change)
        edited[-1]._scheduler, edited[-1]._jobstore_alias = self._scheduler, self._alias
        return edited[-1]

    def remove_job(self, job_id: str) -> None:
        self._edit(job_id, lambda document: without_job(_present(job_id, document)), notify=False)

    def remove_all_jobs(self) -> None:
        while documents := list(self._collections.jobs.find({"here": True}).limit(DOCUMENTS_PER_INSERT)):
            with deadline():
                self._writer.write([Change(document, without_job(document)) for document in documents])

    def _edit(self, job_id: str, edit: Callable[[Document | None], Document], notify: bool = True) -> Document:
        with deadline(), self._making_due():
            return self._writer.edit(job_id, edit, notify)

    @contextmanager
    def _making_due(self) -> Iterator[None]:
        """Do something by which a job may be due earlier than was work."""
        try:
            yield
        finally:
            self._peeked = None
            self._reader.forget()

    # Firing

    def fire_due(self, request: FireRequest) -> Fired:
        with deadline():
            work = self._already_peeked("fire_due", request) or self._reader.peek(request)
            fired = Fired()
            if work.job_due is not None and work.job_due <= to_micros(work.now):
                fired = Firing(self._context, request, work.now).fire()
                if fired.error is not None:
                    return fired
                try:
                    work = self._reader.peek_after(request, fired.runs, work)
                except PyMongoError as error:
                    return fired._replace(error=error)
        self._poll.found(bool(fired.runs))
        self._peeked = ("claim_runs", request, work)
        return fired._replace(next_due=_time(work.job_due), more=work.jobs_left, now=work.now)

    def claim_runs(self, request: FireRequest) -> Claimed:
        with deadline():
            work = self._already_peeked("claim_runs", request) or self._reader.peek(request)
            claimed = Claimed()
            if work.run_due is not None and work.run_due <= to_micros(work.now):
                claimed = Claiming(self._context, request, work.now).claim()
                if claimed.error is not None:
                    return claimed
                try:
                    work = self._reader.peek_after(request, claimed.runs, work)
                except PyMongoError as error:
                    return claimed._replace(error=error)
            elif work.job_due is not None:
                self._peeked = ("fire_due", request, work)
            return claimed._replace(
                next_due=_time(work.run_due), more=claimed.more or work.runs_left or work.blocked,
                to_cancel=self._unfinished.to_cancel(request.owner) if work.to_cancel else (),
            )  # fmt: skip

    def _already_peeked(self, step: str, request: FireRequest) -> DueWork | None:
        """Return what the other step of this round has read for ``step``, once; each round has a plan of its own."""
        (for_step, earlier, work), self._peeked = self._peeked or (None, request, None), None
        return work if (for_step, earlier.now) == (step, request.now) and earlier.plan is request.plan else None

    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settlement]:
        if not settlements:
            return []
        with deadline():
            refused, freed_limits = self._settling.settle(settlements, settlements[0].attempt.run.owner)
        if freed_limits:
            self._peeked = None
        return refused

    def add_run(self, run: Run, must_exist: bool = False) -> None:
        self._peeked = None
        with deadline():
            self._unfinished.add(run, must_exist)

    def discard_pending(self, job_id: str | None = None) -> bool:
        with deadline():
            return self._unfinished.discard_all(job_id)

    def live_runs(self, job_id: str | None = None) -> list[Run]:
        with deadline():
            self._writer.catch_up()
            return self._unfinished.live(job_id)

    def pending_runs(self, job_id: str | None = None) -> list[Run]:
        with deadline():
            return self._unfinished.pending(job_id)

    def cancel_run(
        self, run_id: str, reason: str, end: Callable[[Run], Settlement], keep_existing_reason: bool = False
    ) -> Run | None:
        self._peeked = None
        with deadline():
            return self._unfinished.cancel(run_id, reason, end, keep_existing_reason)

    def cancel_requests(self, job_id: str) -> Mapping[str, str]:
        with deadline():
            return self._unfinished.cancel_requests(job_id)

    def withdraw_cancel_requests(self, owner: str, requests: Mapping[str, str]) -> Collection[str]:
        with deadline():
            return self._unfinished.withdraw_cancel_requests(owner, requests)

    # Owners

    def renew_owner(self, owner: Owner, now: datetime, lease: timedelta) -> bool:
        with deadline():
            return self._owners.renew(owner, now, lease)

    def retire_owner(self, owner: str) -> None:
        self._peeked = None
        with deadline():
            self._settling.retire(owner)
            self._owners.forget(owner)

    def owners(self, now: datetime) -> list[Owner]:
        with deadline():
            return self._owners.alive(now)

    def recover_runs(self, now: datetime, decide: Callable[[Run, str], Settlement]) -> Sequence[Settlement]:
        self._peeked = None
        with deadline():
            moment = self._reader.now(now)
            unpack_runs(self._collections, self._writer)
            self._history.mend(moment)
            return self._settling.recover(moment, decide)

    def requeue_orphans(self, limit: int) -> Requeued:
        self._peeked = None
        with deadline():
            return self._orphans.put_back(limit)

    # History

    def history(self, query: HistoryQuery) -> list[Record]:
        with deadline():
            return self._history.page(query)

    def prune_history(self, retention: Retention, now: datetime, limit: int) -> int:
        with deadline():
            return self._history.prune(retention, now, limit)

    def prune_finished_jobs(self, retention: Retention, now: datetime, limit: int) -> list[str]:
        idle: Document = {"marks": "finished", "runs": {"$exists": False}}
        with deadline():
            rows = self._collections.jobs.find(idle).sort("finished", 1).limit(limit)
            over = [row for row in rows if retention.has_outlived(self._job(row).stats, now)]
            made = self._writer.write([Change(row, without_job(row)) for row in over])
        return [change.before["_id"] for change in made]

    def dead_letters(self, query: HistoryQuery) -> list[DeadLetter]:
        with deadline():
            return self._history.letters(query)

    def take_dead_letter(self, run_id: str, follow_up: Callable[[DeadLetter], Run] | None = None) -> bool:
        self._peeked = None
        with deadline():
            return self._history.take(run_id, follow_up, self._reader.now(SYSTEM_CLOCK.now()))

    # Suspension

    def suspensions(self) -> Mapping[str, str]:
        with deadline():
            rows = self._collections.jobs.find({"marks": "suspended"}, {"suspended": 1})
            return {row["_id"]: from_json_text(row["suspended"]) or "" for row in rows}

    def release(self, job_id: str) -> bool:
        released: list[bool] = []

        def edit(document: Document | None) -> Document:
            if document is None or "suspended" not in document:
                return document or {"_id": job_id, "here": False}
            released.append(True)
            after = without(document, "suspended")
            due = {"due": {**document["lane"], "at": document["next"]}} if "next" in document else {}
            return {**after, **due}

        self._edit(job_id, edit)
        return bool(released)

    def stats_of(self, job: Job) -> JobStats:
        return job.stats

    def forget_job(self, job_id: str) -> None:
        with deadline():
            self._unfinished.discard(job_id, revoke=True)

    def subscribe(self, wake: Callable[[], None]) -> None:
        def hear() -> None:
            self._reader.forget()
            wake()

        if self._listener is None:
            self._listener = Listener(self._collections.calls, self._writer, hear, self._logger)

    def poll_after(self) -> float:
        return math.inf if self._hears() else self._poll.seconds

    def _hears(self) -> bool:
        """Tell whether this process hears at once that another one has made something due."""
        return self._listener is not None and self._listener.listening.is_set()

    def __repr__(self) -> str:
        return f"<MongoDBJobStore ({self._database}.{self._prefix})>"


def _present(job_id: str, document: Document | None) -> Document:
    if document is None or not document["here"]:
        raise JobLookupError(job_id)
    return document


def _time_order(job: Job) -> tuple[bool, int, str]:
    time = job.next_run_time
    return time is None, 0 if time is None else to_micros(time), job.id


def _time(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else from_micros(microseconds, UTC)
