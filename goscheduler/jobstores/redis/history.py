"""History and dead letters in the Redis store: read page by page, and pruned."""

from __future__ import annotations

import heapq
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from goscheduler.codec import CodecError
from goscheduler.jobstores._shared.records import history_record
from goscheduler.jobstores.redis.rows import Rows, as_text, digits, dumps, read_json_text
from goscheduler.jobstores.redis.scripts import ScriptClient
from goscheduler.runs.model import DeadLetter, OutcomeKind
from goscheduler.runs.queries import MOST_LETTERS, LetterGroup, letter_groups
from goscheduler.runs.records import HistoryQuery, Record, Retention
from goscheduler.times import micros_of, to_micros

if TYPE_CHECKING:
    from goscheduler.runs.model import Run

#: How many records one command reads.
PAGE_SIZE = 500
_SUCCEEDED = OutcomeKind.SUCCEEDED
#: When a record ended, and its place.
Spot = tuple[float, str]


class History:
    """Reads and prunes the history of one store."""

    def __init__(self, scripts: ScriptClient, rows: Rows, logger: logging.Logger) -> None:
        self._scripts = scripts
        self._rows = rows
        self._logger = logger

    # Records

    def records(self, query: HistoryQuery) -> list[Record]:
        """Return the records that the query asks for, newest first."""
        return list(islice(filter(query.matches, self._records(query)), query.limit))

    def _records(self, query: HistoryQuery) -> Iterator[Record]:
        """Yield records from the newest on, of one job or of all; they need not fit the rest of the query."""
        places = self._places_of_job(query) if query.job_id is not None else self._places(query)
        for chunk in _chunks(places):
            texts = self._scripts.client.hmget(self._scripts.key("records"), chunk)
            for place, text in zip(chunk, texts, strict=True):
                record = None if text is None else self._read(place, as_text(text))
                if record is not None:
                    yield record

    def _read(self, place: str, text: str) -> Record | None:
        try:
            return history_record(text)
        except CodecError as error:
            self._logger.error("History record %r cannot be read and is left out; its text is kept: %s", place, error)
            return None

    def _places(self, query: HistoryQuery) -> Iterator[str]:
        names = [
            name for name, wanted in (
                ("history:good", query.outcomes is None or _SUCCEEDED in query.outcomes),
                ("history:other", query.outcomes is None or bool(query.outcomes - {_SUCCEEDED})),
            ) if wanted
        ]  # fmt: skip
        found = heapq.merge(*(self._walk(name, query) for name in names), reverse=True)
        return (place for _, place in found)

    def _walk(self, name: str, query: HistoryQuery) -> Iterator[Spot]:
        """Yield what one sorted set has, from the latest on, beginning where the query does."""
        latest, earliest, passed = _latest(query), _earliest(query), 0
        while True:
            spots = self._scripts.client.zrevrangebyscore(
                self._scripts.key(name), latest, earliest, start=passed, num=PAGE_SIZE, withscores=True
            )
            for place, time in spots:
                yield time, as_text(place)
            if len(spots) < PAGE_SIZE:
                return
            last = spots[-1][1]
            same = sum(time == last for _, time in spots)
            passed = passed + same if latest == f"{last:.0f}" else same
            latest = f"{last:.0f}"

    def _places_of_job(self, query: HistoryQuery) -> Iterator[str]:
        job_id, skipped = str(query.job_id), 0
        newest = job_id + "\0" + (digits(int(latest)) if (latest := _latest(query)) != "+inf" else "") + "\xff"
        oldest = job_id + "\0" + (digits(int(earliest)) if (earliest := _earliest(query)) != "-inf" else "")
        while True:
            found = self._scripts.client.zrevrangebylex(
                self._scripts.key("history:jobs"), f"[{newest}", f"[{oldest}", start=skipped, num=PAGE_SIZE
            )
            for member in found:
                yield _place(as_text(member))
            if len(found) < PAGE_SIZE:
                return
            newest, skipped = as_text(found[-1]), 1

    # Forgetting

    def prune(self, retention: Retention, now: datetime, limit: int) -> int:
        """Forget records that are not to be kept, oldest first, at most ``limit``; return how many."""
        spots = set(self._older("history:good", to_micros(now) - micros_of(retention.succeeded), limit))
        spots |= set(self._older("history:other", to_micros(now) - micros_of(retention.others), limit))
        spots |= set(self._crowded(retention.succeeded_per_job, limit))
        places = [place for _, place in sorted(spots)[:limit]]
        if not places:
            return 0
        texts = self._scripts.client.hmget(self._scripts.key("records"), places)
        items = []
        for place, text in zip(places, texts, strict=True):
            record = None if text is None else self._read(place, as_text(text))
            items.append([place, record.job_id, digits(to_micros(record.finished_at))] if record else [place, "", ""])
        return int(self._scripts.call("prune", now, dumps(items)))

    def _older(self, name: str, cutoff: int, limit: int) -> list[Spot]:
        found = self._scripts.client.zrangebyscore(
            self._scripts.key(name), "-inf", f"({cutoff}", start=0, num=limit, withscores=True
        )
        return [(time, as_text(place)) for place, time in found]

    def _crowded(self, most: int, limit: int) -> Iterator[Spot]:
        """Yield the oldest successes of jobs of which more are kept than shall be."""
        jobs = self._scripts.client.zrangebyscore(
            self._scripts.key("successes"), f"({most}", "+inf", start=0, num=limit, withscores=True
        )
        left = limit
        for job_id, count in jobs:
            found = list(islice(self._successes_of(as_text(job_id)), min(left, int(count) - most)))
            yield from found
            left -= len(found)
            if left <= 0:
                return

    def _successes_of(self, job_id: str) -> Iterator[Spot]:
        """Yield the successes of a job, oldest first."""
        oldest, sign = job_id + "\0", "["
        while True:
            found = self._scripts.client.zrangebylex(
                self._scripts.key("history:jobs"), sign + oldest, f"[{job_id}\0\xff", start=0, num=PAGE_SIZE
            )
            places = [_place(as_text(member)) for member in found]
            times = self._scripts.client.zmscore(self._scripts.key("history:good"), places) if places else []
            yield from ((time, place) for place, time in zip(places, times, strict=True) if time is not None)
            if len(found) < PAGE_SIZE:
                return
            oldest, sign = as_text(found[-1]), "("

    # Of one run

    def attempts(self, run_id: str, job_id: str | None) -> list[Record]:
        """Return the records of a run, newest first. Without the id of its job all of the history is looked through."""
        job_id = self._job_of(run_id) if job_id is None else job_id
        places: list[str] = []
        newest: Any = job_id is not None
        while newest:
            found, newest = self._scripts.call_json("attempts", None, run_id, job_id, "" if newest is True else newest)
            places += found
        texts = self._scripts.client.hmget(self._scripts.key("records"), places) if places else []
        records = [self._read(place, as_text(text)) for place, text in zip(places, texts, strict=True) if text]
        return sorted(filter(None, records), key=lambda record: record.position, reverse=True)

    def _job_of(self, run_id: str) -> str | None:
        """Return the id of the job of a run that has records."""
        for name in ("history:other", "history:good"):
            first: Any = 0
            while first is not None:
                place, first = self._scripts.call_json("find_record", None, run_id, name, first)
                text = self._scripts.client.hget(self._scripts.key("records"), place) if place else None
                record = None if text is None else self._read(place, as_text(text))
                if record is not None:
                    return record.job_id
        return None

    def dead_letter(self, run_id: str) -> DeadLetter | None:
        """Return the dead letter of a run, or None."""
        text = self._scripts.client.hget(self._scripts.key("dead"), run_id)
        return None if text is None else self._letter(run_id, as_text(text))

    # Dead letters

    def letter_groups(self, query: HistoryQuery) -> list[LetterGroup]:
        """Return dead letters in groups, by the records of their last attempts."""
        records = (record for record in self._records_of_letters(query) if query.matches(record))
        return letter_groups(islice(records, min(query.limit, MOST_LETTERS)))

    def _records_of_letters(self, query: HistoryQuery) -> Iterator[Record]:
        for run_id, text in self._texts_of_letters(query):
            try:
                yield history_record(json.loads(text)[3])
            except (CodecError, LookupError, TypeError, ValueError) as error:
                self._log_unreadable_letter(run_id, error)

    def dead_letters(self, query: HistoryQuery) -> list[DeadLetter]:
        """Return the dead letters that the query asks for, newest first."""
        letters = (letter for letter in self._letters(query) if query.matches(letter.record))
        return list(islice(letters, query.limit))

    def _letters(self, query: HistoryQuery) -> Iterator[DeadLetter]:
        letters = (self._letter(run_id, text) for run_id, text in self._texts_of_letters(query))
        return (letter for letter in letters if letter is not None)

    def _texts_of_letters(self, query: HistoryQuery) -> Iterator[tuple[str, str]]:
        for chunk in _chunks(place for _, place in self._walk("dead:times", query)):
            ids = [place.partition("\0")[0] for place in chunk]
            texts = self._scripts.client.hmget(self._scripts.key("dead"), ids)
            yield from ((run_id, as_text(text)) for run_id, text in zip(ids, texts, strict=True) if text is not None)

    def _letter(self, run_id: str, text: str) -> DeadLetter | None:
        try:
            _, _, run_text, record_text, reason = json.loads(text)
            record = history_record(record_text)
            run = self._rows.records.run(run_id, run_text, record.owner, record.fence)
            return DeadLetter(run, record, read_json_text(reason) or "")
        except (CodecError, TypeError, ValueError) as error:
            self._log_unreadable_letter(run_id, error)
            return None

    def _log_unreadable_letter(self, run_id: str, error: Exception) -> None:
        self._logger.error("Dead letter %s cannot be read and is left out; its text is kept: %s", run_id, error)

    def take(self, run_id: str, follow_up: Callable[[DeadLetter], Run] | None) -> bool:
        """Remove a dead letter, and write what follows it."""
        stored = self._scripts.client.hget(self._scripts.key("dead"), run_id)
        if stored is None:
            return False
        following: Sequence[str] = ()
        if follow_up is not None:
            letter = self._letter(run_id, as_text(stored))
            if letter is None:
                return False
            following = self._rows.pending(follow_up(letter))
        return bool(self._scripts.call("take_dead", None, run_id, stored, *following))


def _place(of_job: str) -> str:
    """Return the place of a record whose place among those of its job is this."""
    _, finished, rest = of_job.split("\0", 2)
    return f"{rest}\0{finished}"


def _latest(query: HistoryQuery) -> str:
    """Return the latest time that can be asked for: what ends right then is left to the query to judge."""
    times = [to_micros(time) for time in (query.until, query.before and query.before.finished_at) if time is not None]
    return str(min(times)) if times else "+inf"


def _earliest(query: HistoryQuery) -> str:
    return "-inf" if query.since is None else str(to_micros(query.since))


def _chunks(places: Iterator[str]) -> Iterator[list[str]]:
    while chunk := list(islice(places, PAGE_SIZE)):
        yield chunk


