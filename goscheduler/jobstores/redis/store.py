"""A job store in Redis, which several processes may use at once.

Each atomic change is one call of a script; ``lua/common.lua`` lists all keys. All keys have one prefix and lie in one
slot, so that a cluster can be used too. A round that finds nothing due costs one call, one that fires costs two for any
number of jobs, and the end of any number of runs costs one.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from goscheduler._drivers.redis import check_prefix, close_client, made_safe, make_client
from goscheduler.codec import CodecError
from goscheduler.errors import ConflictingIdError, InvalidArgument, JobLookupError
from goscheduler.jobstores._shared.decisions import log_unreadable_run
from goscheduler.jobstores._shared.owner_info import owner_info, read_owner
from goscheduler.jobstores._shared.polling import Poll
from goscheduler.jobstores._shared.records import Records
from goscheduler.jobstores.base import Claimed, Fired, FireRequest, Requeued, SharedJobStore
from goscheduler.jobstores.redis.claiming import Claiming
from goscheduler.jobstores.redis.due_work import DueWorkReader, limit_usage
from goscheduler.jobstores.redis.facts import facts_of
from goscheduler.jobstores.redis.firing import Firing
from goscheduler.jobstores.redis.history import History
from goscheduler.jobstores.redis.listener import Listener
from goscheduler.jobstores.redis.orphans import Orphans
from goscheduler.jobstores.redis.reads import JOB_HASHES, MAX_EDIT_ATTEMPTS, RedisReads
from goscheduler.jobstores.redis.rows import (
    JobState,
    Rows,
    RunState,
    as_text,
    dumps,
    has_stats,
    json_text,
    new_jobs_text,
    read_json_text,
    record_row,
    stats_text,
)
from goscheduler.jobstores.redis.scripts import ScriptClient, is_outage
from goscheduler.jobstores.redis.settling import Settling
from goscheduler.references import maybe_ref
from goscheduler.runs.model import DeadLetter, JobStats, Owner, Run, Settlement
from goscheduler.runs.queries import LimitUse
from goscheduler.runs.records import HistoryQuery, Record, Retention, record_of
from goscheduler.times import UTC, from_micros, micros_of, to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.serializers import Serializer

__all__ = ["RedisJobStore"]

#: How many jobs or runs one command reads.
PAGE_SIZE = 1000


class RedisJobStore(RedisReads, SharedJobStore):
    """Keeps jobs, runs and history under keys that begin with ``{prefix}:``.

    Give ``url``, or what :class:`redis.Redis` takes (``host``, ``port``, ``db``, ``password``, ...), or ``client``,
    which is then not closed; one that would send things twice, wait for ever or ask Sentinel is not used itself, but
    its settings. ``serializer`` says how arguments are written. The clock of the server counts, not that of this
    machine, unless ``server_time`` is false.
    """

    lock_backend = "redis"

    def __init__(
        self,
        db: int = 0,
        jobs_key: str | None = None,
        run_times_key: str | None = None,
        pickle_protocol: int | None = None,
        *,
        url: str | None = None,
        client: Any = None,
        prefix: str = "goscheduler",
        serializer: Serializer | None = None,
        server_time: bool = True,
        **connect_args: Any,
    ) -> None:
        if client is not None and (url is not None or db or connect_args):
            raise InvalidArgument("Give client alone, or url, or host and the like", field="client")
        self._given = client = maybe_ref(client)
        if client is None:
            client = make_client(url, connect_args if url is not None else {"db": db, **connect_args})
        prefix = check_prefix(prefix if jobs_key is None else jobs_key)
        self._scripts = ScriptClient(made_safe(client), prefix, server_time)
        self._serializer = serializer
        self._poll = Poll()
        self._listener: Listener | None = None

    @classmethod
    def from_url(cls, url: str, **options: Any) -> RedisJobStore:
        """Return a store on the server at ``redis://``, ``rediss://``, ``unix://`` or ``redis+sentinel://``."""
        return cls(url=url, **options)

    @property
    def redis(self) -> Any:
        """The client, as it was given or made."""
        return self._scripts.client if self._given is None else self._given

    @property
    def prefix(self) -> str:
        """What all keys begin with, without the braces around it."""
        return self._scripts.keys[1:-2]

    def start(self, scheduler: Any, alias: str) -> None:
        super().start(scheduler, alias)
        self._rows = Rows(Records(scheduler, alias, self._serializer, self._scripts.keys))
        self._reader = DueWorkReader(self._scripts)
        self._firing = Firing(self._reader, self._rows)
        self._claiming = Claiming(self._reader, self._rows)
        self._settling = Settling(self._scripts, self._rows, self._logger)
        self._history = History(self._scripts, self._rows, self._logger)
        self._orphans = Orphans(self._scripts)
        self._scripts.begin(self._logger)
        self._begin_reading()

    def shutdown(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.stop()
        if self._scripts.client is not self._given:
            close_client(self._scripts.client)

    def is_outage(self, error: BaseException) -> bool:
        return is_outage(error) or super().is_outage(error)

    # Jobs

    def lookup_job(self, job_id: str) -> Job | None:
        return next(self._jobs_of([job_id]), None)

    def get_due_jobs(self, now: datetime) -> list[Job]:
        lanes = self._scripts.client.zrange(self._scripts.key("due"), 0, -1)
        ids = [
            as_text(job_id)
            for lane in lanes
            for job_id in self._scripts.client.zrangebyscore(
                self._scripts.key("due:") + as_text(lane), "-inf", to_micros(now)
            )
        ]  # fmt: skip
        return sorted(self._jobs_of(ids), key=_order)

    def get_next_run_time(self) -> datetime | None:
        first = self._scripts.client.zrange(self._scripts.key("due"), 0, 0, withscores=True)
        return from_micros(int(first[0][1]), UTC) if first else None

    def count_waiting(self, task: str | None = None) -> int:
        lanes = [as_text(lane) for lane in self._scripts.client.zrange(self._scripts.key("due"), 0, -1)]
        with self._scripts.client.pipeline(transaction=False) as pipeline:
            for lane in lanes:
                if task is None or json.loads(lane)[2] == task:
                    pipeline.zcard(self._scripts.key(f"due:{lane}"))
            return sum(pipeline.execute())

    def count_due_beside(self, executors: Collection[str], until: datetime) -> Mapping[str, int]:
        lanes = [as_text(lane) for lane in self._scripts.client.zrange(self._scripts.key("due"), 0, -1)]
        other_lanes = [lane for lane in lanes if json.loads(lane)[0] not in executors]
        with self._scripts.client.pipeline(transaction=False) as pipeline:
            for lane in other_lanes:
                pipeline.zcount(self._scripts.key(f"due:{lane}"), "-inf", to_micros(until))
            counts: Counter[str] = Counter()
            for lane, count in zip(other_lanes, pipeline.execute(), strict=True):
                counts[json.loads(lane)[0]] += count
        return +counts

    def get_all_jobs(self) -> list[Job]:
        found = self._scripts.client.hscan_iter(self._scripts.key("heads"), count=PAGE_SIZE)
        ids = {as_text(job_id) for job_id, _ in found}
        return sorted(self._jobs_of(list(ids)), key=_order)

    def _jobs_of(self, ids: Sequence[str]) -> Iterator[Job]:
        return (job for job, _ in self._jobs_and_states(ids))

    def _jobs_and_states(self, ids: Sequence[str]) -> Iterator[tuple[Job, Any]]:
        for first in range(0, len(ids), PAGE_SIZE):
            page = ids[first : first + PAGE_SIZE]
            texts = self._texts(page, *JOB_HASHES)
            for job_id, state_text, *rest in zip(page, *texts, strict=True):
                if state_text is not None:
                    yield self._read_job(job_id, state_text, *rest), state_text

    def _read_job(self, job_id: str, state_text: Any, definition: Any, stats: Any, facts: Any) -> Job:
        state = JobState.read(as_text(state_text))
        return self._rows.job(job_id, state, as_text(definition), as_text(stats), as_text(facts))

    def _texts(self, ids: Sequence[str], *names: str) -> list[Any]:
        """Return the values of these ids in several hashes, read in one transaction."""
        with self._scripts.client.pipeline(transaction=True) as pipeline:
            for name in names:
                pipeline.hmget(self._scripts.key(name), ids)
            return list(pipeline.execute())

    def add_job(self, job: Job) -> None:
        if self._put_job("add", job) == "taken":
            raise ConflictingIdError(job.id)

    def add_jobs(self, jobs: Sequence[Job]) -> None:
        batch, ids = uuid4().hex, [job.id for job in jobs]
        _require_different(ids)
        written = [
            (job, self._rows.job_state(job, f"{batch}-{number}"), self._rows.records.job_text(job))
            for number, job in enumerate(jobs)
        ]
        pages = [slice(first, first + PAGE_SIZE) for first in range(0, len(jobs), PAGE_SIZE)]
        if len(pages) > 1:  # a page is one step; nothing is written unless all of them seem free
            for page in pages:
                _require_free(self._scripts.call_text("find_taken", None, dumps(ids[page])))
        try:
            for page in pages:
                _require_free(self._write("add_jobs", new_jobs_text(written[page])))
        except BaseException:
            for page in pages:
                self._scripts.call("undo_add_jobs", None, batch, dumps(ids[page]))
            raise

    def update_job(self, job: Job) -> None:
        if self._put_job("replace", job) == "missing":
            raise JobLookupError(job.id)

    def edit_job(self, job_id: str, edit: Callable[[Job], Job]) -> Job:
        for _ in range(MAX_EDIT_ATTEMPTS):
            state_text, *rest = (values[0] for values in self._texts([job_id], *JOB_HASHES))
            if state_text is None:
                raise JobLookupError(job_id)
            edited = edit(self._read_job(job_id, state_text, *rest))
            answer = self._put_job("edit", edited, state_text)
            if answer == "done":
                edited._scheduler, edited._jobstore_alias = self._scheduler, self._alias
                return edited
        raise RuntimeError(f"Job {job_id!r} was not edited: other processes changed it {MAX_EDIT_ATTEMPTS} times")

    def _put_job(self, how: str, job: Job, expected: Any = "") -> str:
        stats = stats_text(job.stats) if has_stats(job) else ""
        state_text = self._rows.job_state(job, uuid4().hex).text
        definition = self._rows.records.job_text(job)
        return self._write("put_job", how, job.id, state_text, definition, stats, facts_of(job), expected)

    def remove_job(self, job_id: str) -> None:
        if not self.remove_jobs([job_id]):
            raise JobLookupError(job_id)

    def remove_all_jobs(self) -> None:
        self._write("clear_jobs")

    # Firing

    def fire_due(self, request: FireRequest) -> Fired:
        fired = self._firing.fire(request)
        self._poll.found(bool(fired.runs))
        return fired

    def claim_runs(self, request: FireRequest) -> Claimed:
        claimed, to_cancel = self._claiming.claim(request)
        return claimed._replace(to_cancel=self._to_cancel(request.owner)) if to_cancel else claimed

    def _to_cancel(self, owner: str) -> list[tuple[Run, str]]:
        runs = (self._read_run(*each) for each in self._scripts.call_json("to_cancel", None, owner))
        return [(run, read_json_text(state.cancel) or "") for run, state in filter(None, runs)]

    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settlement]:
        refused = self._settling.settle(settlements)
        self._reader.forget()
        return refused

    def add_run(self, run: Run, must_exist: bool = False) -> None:
        if self._write("add_run", run.id, *self._rows.pending(run), int(must_exist)) == "gone":
            raise JobLookupError(run.job.id)

    def discard_pending(self, job_id: str | None = None) -> bool:
        return int(self._scripts.call("discard", None, job_id or "", "0")) > 0

    def live_runs(self, job_id: str | None = None) -> list[Run]:
        return self._runs_that_are("live", job_id)

    def pending_runs(self, job_id: str | None = None) -> list[Run]:
        return self._runs_that_are("pending", job_id)

    def _runs_that_are(self, kind: str, job_id: str | None) -> list[Run]:
        found = list(self._scripts.call_json("runs", None, kind, job_id or ""))
        runs = []
        for first in range(0, len(found), PAGE_SIZE):
            page = found[first : first + PAGE_SIZE]
            texts = self._scripts.client.hmget(self._scripts.key("runs"), [run_id for run_id, _ in page])
            for (run_id, state_text), text in zip(page, texts, strict=True):
                read = None if text is None else self._read_run(run_id, state_text, as_text(text))
                if read is not None:
                    runs.append(read[0])
        return sorted(runs, key=lambda run: (to_micros(run.due_at), run.id))

    def _read_run(self, run_id: str, state_text: str, text: str) -> tuple[Run, RunState] | None:
        try:
            state = RunState.read(state_text)
            return self._rows.run(run_id, state, text), state
        except CodecError as error:
            log_unreadable_run(self._logger, run_id, error)
            return None

    def cancel_run(
        self, run_id: str, reason: str, end: Callable[[Run], Settlement], keep_existing_reason: bool = False
    ) -> Run | None:
        for _ in range(MAX_EDIT_ATTEMPTS):
            state_text, text = (values[0] for values in self._texts([run_id], "run_heads", "runs"))
            read = None if state_text is None else self._read_run(run_id, as_text(state_text), as_text(text))
            if read is None:
                return None
            run, state = read
            if keep_existing_reason and run.owner is not None and state.cancel:
                return run
            record = record_row(record_of(end(run).attempt)) if run.owner is None else None
            if self._write("cancel_run", run_id, state_text, json_text(reason), dumps(record)) == "done":
                return run
        raise RuntimeError(f"Run {run_id} was not cancelled: other processes changed it {MAX_EDIT_ATTEMPTS} times")

    def cancel_requests(self, job_id: str) -> Mapping[str, str]:
        found = self._scripts.call_json("runs", None, "live", job_id)
        states = {run_id: RunState.read(state_text) for run_id, state_text in found}
        return {run_id: read_json_text(state.cancel) or "" for run_id, state in states.items() if state.cancel}

    def withdraw_cancel_requests(self, owner: str, requests: Mapping[str, str]) -> Collection[str]:
        asked = [text for run_id, reason in requests.items() for text in (run_id, json_text(reason))]
        return list(self._scripts.call_json("withdraw_cancel_requests", None, owner, *asked))

    # Owners

    def renew_owner(self, owner: Owner, now: datetime, lease: timedelta) -> bool:
        alive = bool(self._scripts.call("renew", now, owner.id, micros_of(lease), owner_info(owner, now), owner.report))
        self._scripts.look_who_answers()
        return alive

    def detected_failover(self) -> bool:
        return self._scripts.was_replaced()

    def retire_owner(self, owner: str) -> None:
        self._write("retire", owner)

    def owners(self, now: datetime) -> list[Owner]:
        answer = self._scripts.call_json("owners", now)
        told = answer["owners"] or []  # where there are none, Redis writes an object
        names, values = told[::2], map(json.loads, told[1::2])
        return [
            read_owner(name, info)._replace(report="".join(report), expires_at=from_micros(int(expires), UTC))
            for name, (expires, info, *report) in zip(names, values, strict=True)
            if int(expires) > int(answer["now"])
        ]  # fmt: skip

    def limit_usage(self, now: datetime) -> list[LimitUse]:
        return limit_usage(self._scripts, now)

    def recover_runs(self, now: datetime, decide: Callable[[Run, str], Settlement]) -> Sequence[Settlement]:
        settlements = self._settling.recover(now, decide)
        self._reader.forget()
        return settlements

    def requeue_orphans(self, limit: int) -> Requeued:
        requeued = self._orphans.requeue(limit)
        if requeued.ids:
            self._reader.forget()
        return requeued

    # History

    def history(self, query: HistoryQuery) -> list[Record]:
        return self._history.records(query)

    def prune_history(self, retention: Retention, now: datetime, limit: int) -> int:
        return self._history.prune(retention, now, limit)

    def prune_finished_jobs(self, retention: Retention, now: datetime, limit: int) -> list[str]:
        youngest = to_micros(now) - micros_of(min(retention.succeeded, retention.others))
        finished = self._scripts.client.zrangebyscore(self._scripts.key("finished"), "-inf", youngest)
        ids = [as_text(job_id) for job_id in finished]
        over: list[Any] = []
        for job, state_text in self._jobs_and_states(ids):
            if retention.has_outlived(job.stats, now):
                over += [job.id, state_text]
            if len(over) >= 2 * limit:
                break
        return list(self._scripts.call_json("prune_jobs", now, *over)) if over else []

    def dead_letters(self, query: HistoryQuery) -> list[DeadLetter]:
        return self._history.dead_letters(query)

    def take_dead_letter(self, run_id: str, follow_up: Callable[[DeadLetter], Run] | None = None) -> bool:
        taken = self._history.take(run_id, follow_up)
        self._reader.forget()
        return taken

    # Suspension

    def suspensions(self) -> Mapping[str, str]:
        ids = sorted(as_text(job_id) for job_id in self._scripts.client.smembers(self._scripts.key("suspended")))
        return {job.id: job.suspended for job in self._jobs_of(ids) if job.suspended is not None}

    def release(self, job_id: str) -> bool:
        return bool(int(self._scripts.call("release_job", None, job_id)))

    def stats_of(self, job: Job) -> JobStats:
        return job.stats

    def forget_job(self, job_id: str) -> None:
        self._scripts.call("discard", None, job_id, "1")

    def subscribe(self, wake: Callable[[], None]) -> None:
        if self._listener is not None:
            self._listener.stop()
        self._listener = Listener(self._scripts, wake, self._logger)
        self._listener.start()

    def poll_after(self) -> float:
        return math.inf if self._listener is not None and self._listener.hears else self._poll.seconds

    def _write(self, step: str, *arguments: object) -> str:
        answer = self._scripts.call_text(step, None, *arguments)
        self._changed()
        return answer

    def _changed(self) -> None:
        self._reader.forget()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} ({self._scripts.keys} at {self._scripts.address})>"


def _require_different(ids: Sequence[str]) -> None:
    for job_id, count in Counter(ids).items():
        if count > 1:
            raise ConflictingIdError(job_id)


def _require_free(taken: str) -> None:
    if taken:
        raise ConflictingIdError(taken)


def _order(job: Job) -> tuple[bool, int, str]:
    time = job.next_run_time
    return time is None, 0 if time is None else to_micros(time), job.id
