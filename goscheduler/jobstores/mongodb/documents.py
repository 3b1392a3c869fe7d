"""The documents of the MongoDB store, and how jobs, runs and records become parts of them and come back.

A job and the runs of it that have not ended are **one document**, because one document is what MongoDB changes in one
step on every kind of server. Moments are whole microseconds since 1970. A field that says nothing is left out.

``jobs``, one for each job id:

==============  ======================================================================================================
``_id``         the id of the job
``v``           a token that is different after every change: a change names the token that was read
``here``        whether there is a job; false while only runs of it are left
``fence``       the highest fence so far
``definition``  the job text; also that of all its runs that have none of their own
``search``      ``words`` and ``name`` of the job, where they do not stand in its text, see ``mongodb.traits``
``state``       where the job stands: scheduled, paused, suspended, completed or failed
``lane``        executor, priority and task of the job, the last one empty where it has none
``next``        its next time, with ``zone``
``due``         ``lane`` with that time as ``at``, while the job can fire
``suspended``   why it cannot be run
``inbox``       the entry of the inbox that asked for it
``limits``      names of its limits
``life``        its statistics
``finished``    when it fired for the last time, where it is kept
``runs``        its runs: ``id``, ``text``, ``lane``, ``due``, ``fence``, ``firing`` (stands for a fire time) and, where
                it applies, ``owner``, ``by`` (a token of the claim), ``definition``, ``limits``, ``held`` (the key it
                is blocked on), ``freed`` (the key it waited for), ``cancel`` (why it is to end), ``revoked`` (its job
                was removed), ``unreadable`` (why)
``ready``       lane and time of the run to be claimed first
``told``        records on their way into the history
``marks``       what it is found by: "owner:" with an owner of a run, "end:" with the owner of a run that has a cancel
                request, "held:" with a key that runs are blocked on and when the first of these is due, "told",
                "suspended", "finished", and the traits of the job. One index for all of them costs less
==============  ======================================================================================================

An **end of a queue** is a document of no job, due at :data:`NEVER`; ``mongodb.due_work`` explains it. Its ``_id`` names
executor and priority. Another one ends the marks that the store searches for.

``jobs.history``: one for each record, ``jobs.dead``: one for each dead letter, ``jobs.owners``: one for each start of a
scheduler, ``jobs.limits``: one for each limit, ``jobs.meta``: the version of
all this, ``jobs.calls``: a ring of words that is added to when other processes are to look at once, ``jobs.notes``: one
for each note, ``jobs.inbox`` and ``jobs.refused``: what other programs ask for, see ``mongodb.inbox``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from goscheduler.codec import CodecError
from goscheduler.errors import InvalidArgument, described
from goscheduler.jobstores._shared.records import Records, changed_head, history_text, read_zone, run_head, zone_text
from goscheduler.jobstores.mongodb.traits import LASTING, following_traits, search_of, state_of, traits_of
from goscheduler.runs.model import NO_STATS, JobStats, OutcomeKind, Source
from goscheduler.runs.plan import PRIORITY_STEP_US
from goscheduler.times import EPOCH, UTC, from_micros, to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.model import Run
    from goscheduler.runs.records import Record

Document = dict[str, Any]

#: How large a job text may be. A document may have 16 MiB, and holds a second text while a run of an edited job lives.
MAX_TEXT_LENGTH = 4 * 1024 * 1024
#: How many runs of one job may wait.
MAX_RUNS_PER_JOB = 20_000
#: The marks of runs that are blocked until others end, and not because they cannot be read.
#: Not regular expressions: for those of Python the server looks through all marks.
ANY_BLOCKED: Document = {"$elemMatch": {"$gte": "held:job:", "$lt": "held:limit;"}}

PRIORITIES = list(range(10))
#: When the ends of queues are due. No time of a job comes near to it.
NEVER = 1 << 62

#: What ends a key in a mark, and what comes after every mark with that key. No name of a limit has either of them.
_AFTER_KEY, _BEYOND_KEY = "\x00", "\x01"

_JOB_FIELDS = ("lane", "next", "zone", "due", "suspended", "limits", "life", "finished", "inbox")


class DocumentCodec:
    """Writes and reads documents for one store."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self._last: tuple[int, str, datetime] = 0, "Z", EPOCH
        """The last time of a job that was read, because many jobs have the same."""

    def with_job(self, document: Document, job: Job) -> Document:
        """Return the document with this job in it, in place of what it said about one."""
        text = self._checked_text(job)
        changed = redefined(found_by(without_job(document), job, text), text)
        changed.update(here=True, lane=queue_of(job), zone="Z")
        if job.next_run_time is not None:
            changed.update(next=to_micros(job.next_run_time), zone=zone_text(job.next_run_time))
        if job.suspended is not None:
            changed["suspended"] = json_text(job.suspended)
        elif "next" in changed:
            changed["due"] = {**changed["lane"], "at": changed["next"]}
        if job.limits:
            changed["limits"] = [limit.name for limit in job.limits]
        _put_stats(changed, job.stats)
        return changed

    def _checked_text(self, job: Job) -> str:
        text = self.records.job_text(job)
        if len(text) > MAX_TEXT_LENGTH:
            raise InvalidArgument(
                f"Job {job.id!r} is too large to be stored: {len(text)} bytes, at most {MAX_TEXT_LENGTH} are taken",
                field="args",
            )
        return text

    def job(self, document: Document) -> Job:
        """Return the job of a document; one that cannot be read is suspended."""
        suspended = document.get("suspended")
        try:
            at = document.get("next")
            time = None if at is None else self._time(at, document["zone"])
            life, reason = stats_of(document), None if suspended is None else from_json_text(suspended)
        except Exception as error:
            time, life, reason = None, NO_STATS, f"its record cannot be read: {described(error)}"
        job = self.records.job(document["_id"], document.get("definition", ""), time, life, reason)
        if not self.records.signs:
            return job
        lane = document.get("lane", {})  # without the task, which depends on what this process has registered
        written = lane.get("executor"), lane.get("priority"), document.get("limits", [])
        return self.records.agreed(job, written, (job.executor, job.priority, [limit.name for limit in job.limits]))

    def _time(self, at: int, zone: str) -> datetime:
        last_at, last_zone, time = self._last
        if at != last_at or zone != last_zone:
            time = from_micros(at, read_zone(zone))
            self._last = at, zone, time
        return time

    def run_entry(self, run: Run, document: Document, fired: bool = False) -> Document:
        """Return a run as an entry of the document of its job; ``fired`` if the job is the one that is in there."""
        job = run.job
        text = document["definition"] if fired else self._checked_text(job)
        entry = {
            "id": run.id,
            "text": run_head(run),
            "lane": document["lane"] if fired else queue_of(job),
            "due": to_micros(run.due_at),
            "fence": run.fence,
            "firing": run.source is Source.SCHEDULE,
        }
        if run.owner is not None:
            entry["owner"] = run.owner
        if text != document.get("definition"):
            entry["definition"] = text
        if job.options.limits:
            entry["limits"] = [limit.name for limit in job.options.limits]
        return entry

    def run(self, entry: Document, document: Document) -> Run:
        """Return the run of an entry.

        :raises CodecError: if that cannot be read
        """
        try:
            text = full_text(entry, document)
            return self.records.run(entry["id"], text, entry.get("owner"), entry["fence"], entry["due"])
        except (KeyError, ValueError, TypeError) as error:
            raise CodecError(f"A run cannot be read: {described(error)}") from error


def full_text(entry: Document, document: Document) -> str:
    """Return the run text of an entry, with the text of its job."""
    definition: str = entry.get("definition") or document.get("definition", "")
    return changed_head(entry["text"]) + definition


def queue_of(job: Job) -> Document:
    """Return the queue of a job."""
    return {"executor": job.executor, "priority": job.priority, "task": job.task or ""}


def queue_ends(executors: Iterable[str]) -> list[Document]:
    """Return the documents that end the queues of executors, and the marks that the store searches for."""
    base: Document = {"v": "", "here": False}
    ends: list[Document] = [{"_id": {"end": "marks"}, **base, "marks": ["end;", "held;"]}]
    for executor in executors:
        for priority in PRIORITIES:
            place = {"executor": executor, "priority": priority, "at": NEVER, "task": ""}
            ends.append({"_id": {"end": [executor, priority]}, **base, "due": place, "ready": place})
    return ends


def rank_in(place: Document) -> tuple[int, int]:
    """Return the rank of an entry in a queue; see :func:`goscheduler.runs.plan.rank_of`."""
    return place["at"] + place["priority"] * PRIORITY_STEP_US, place["at"]


def without_job(document: Document) -> Document:
    """Return the document without what it says about a job; the definition stays for the runs that need it."""
    return {**without(document, *_JOB_FIELDS), "here": False}


def redefined(document: Document, text: str) -> Document:
    """Return the document with another job text; runs that went by the old one keep it."""
    old = document.get("definition")
    changed = {**document, "definition": text}
    if old is not None and old != text and "runs" in document:
        changed["runs"] = [{"definition": old, **entry} for entry in document["runs"]]
    return changed


def found_by(document: Document, job: Job, text: str) -> Document:
    """Return the document with the traits and words of a job that is written as ``text``."""
    changed, search = without(document, "search"), search_of(job, text)
    changed["marks"] = traits_of(job)
    if search is not None:
        changed["search"] = search
    return changed


def with_runs(document: Document, runs: Sequence[Document]) -> Document:
    """Return the document with these runs."""
    return {**document, "runs": list(runs)} if runs else without(document, "runs")


def indexed(document: Document) -> Document:
    """Return the document with the fields that follow from the others, by which it is found."""
    runs = document.get("runs", ())
    marks: list[str] = [name for name in ("told", "suspended", "finished") if name in document]
    if document["here"]:
        lasting = [mark for mark in document.get("marks", ()) if mark.startswith(LASTING)]
        marks = [*lasting, *following_traits(document), *marks]
    blocked: list[Document] = []
    for entry in runs:
        if "owner" in entry:
            marks.append(owner_mark(entry["owner"]))
            if "cancel" in entry:
                marks.append(end_mark(entry["owner"]))
        elif "held" in entry:
            blocked.append(entry)
    if blocked:
        marks += blocked_marks(blocked)
    changed = without(document, "ready", "marks", "state")
    if document["here"]:
        changed["state"] = state_of(document)
    if marks:
        changed["marks"] = marks if len(marks) == 1 else list(dict.fromkeys(marks))
    if claimable := [entry for entry in runs if is_claimable(entry)]:
        first = min(claimable, key=lambda entry: (entry["lane"] != document.get("lane"), entry["due"]))
        changed["ready"] = {**first["lane"], "at": first["due"]}
    return changed


def owner_mark(owner: str) -> str:
    """Return the mark of documents in which an owner has a run."""
    return f"owner:{owner}"


def end_mark(owner: str) -> str:
    """Return the mark of documents in which a run of an owner has a cancel request."""
    return f"end:{owner}"


def blocked_marks(entries: Iterable[Document]) -> list[str]:
    """Return the marks of a document with blocked runs; they sort by the run that is due first."""
    first: dict[str, int] = {}
    for entry in entries:
        first[entry["held"]] = min(entry["due"], first.get(entry["held"], NEVER))
    return [f"held:{key}{_AFTER_KEY}{due + NEVER:016x}" for key, due in first.items()]


def blocked_under(key: str) -> Document:
    """Return the condition for the marks of documents in which a run is blocked on a key.

    An earlier version has written the key and no time; these come first.
    """
    return {"$elemMatch": {"$gte": f"held:{key}", "$lt": f"held:{key}{_BEYOND_KEY}"}}


def blocked_key(mark: str) -> str:
    """Return the key of a mark that is one of :func:`blocked_marks`."""
    return mark.removeprefix("held:").rpartition(_AFTER_KEY)[0] or mark.removeprefix("held:")


#: Conditions for documents with live runs, and with pending ones.
LIVE: Document = {"marks": {"$elemMatch": {"$gte": "owner:", "$lt": "owner;"}}}
PENDING: Document = {
    "$or": [{"ready.at": {"$lt": NEVER}}, {"marks": {"$elemMatch": {"$gte": "held:", "$lt": "held;"}}}]
}


def broken(document: Document, error: Exception) -> Document:
    """Return a document that is not of the shape described above as that of a suspended job, with all that it held."""
    kept = without(document, "due", "ready", "marks", "runs", "told")
    marks = document.get("marks")
    kept["marks"] = [mark for mark in marks if isinstance(mark, str)] if isinstance(marks, list) else []
    reason = f"its document is broken: {described(error)}"
    told = document.get("told")
    return {**kept, "here": True, "suspended": json_text(reason), "broken": [document.get("runs"), told]}


def is_claimable(entry: Document) -> bool:
    """Tell whether a run waits for nothing but its time."""
    return "owner" not in entry and "held" not in entry


def is_empty(document: Document) -> bool:
    """Tell whether nothing is left to store about a job."""
    return not document["here"] and not document.get("runs") and not document.get("told")


def unblocked(runs: Iterable[Document], key: str, count: int = 1) -> list[Document]:
    """Return the runs, of which those that are held under ``key`` and were due first may try again."""
    result = list(runs)
    blocked = [index for index, entry in enumerate(result) if entry.get("held") == key]
    for index in sorted(blocked, key=lambda index: result[index]["due"])[:count]:
        result[index] = unblocked_entry(result[index])
    return result


def unblocked_entry(entry: Document) -> Document:
    """Return the entry of a blocked run that may try again."""
    return {**without(entry, "held"), "freed": entry["held"]}


def without(document: Document, *names: str) -> Document:
    """Return a document, or a part of one, without some of its fields."""
    changed = document.copy()
    for name in names:
        changed.pop(name, None)
    return changed


def history_document(record: Record, kind: str = "") -> Document:
    """Return a record as a document. Its id is the claim that it ends: of two that end one, the second is refused."""
    run_id, fence = record.run_id, record.fence
    document = {
        "_id": f"{run_id}:{fence}{kind}",
        "finished": to_micros(record.finished_at),
        "run_id": run_id,
        "fence": fence,
        "job_id": record.job_id,
        "outcome": str.__str__(record.outcome),
        "record": history_text(record),
    }
    if record.error_type is not None:
        document["error_type"] = record.error_type
    if record.tags:
        document["tags"] = list(record.tags)
    return document


def stats_of(document: Document) -> JobStats:
    """Return the statistics of a job."""
    life, finished = document.get("life"), document.get("finished")
    if life is None:
        return NO_STATS if finished is None else NO_STATS._replace(finished_at=from_micros(finished, UTC))
    outcome = life.get("outcome")
    if len(life) == 1 and "created" in life and finished is None:  # it has not fired yet
        return JobStats(created_at=from_micros(life["created"], UTC))
    return JobStats(
        life.get("count", 0), _time(life.get("last")), _time(life.get("success")), from_json_text(life.get("error")),
        None if outcome is None else OutcomeKind(outcome), from_json_text(life.get("paused_by")), _time(finished),
        from_json_text(life.get("pause_reason")), from_json_text(life.get("pause_id")), _time(life.get("created")),
        from_json_text(life.get("created_by")),
    )  # fmt: skip


def with_stats(document: Document, life: JobStats) -> Document:
    """Return the document with other statistics of its job."""
    changed = without(document, "life", "finished")
    _put_stats(changed, life)
    return changed


def _put_stats(document: Document, life: JobStats) -> None:
    if life.finished_at is not None:
        document["finished"] = to_micros(life.finished_at)
    told = {
        "count": life.run_count or None,
        "last": _moment(life.last_run),
        "success": _moment(life.last_success),
        "error": json_text(life.last_error),
        "outcome": None if life.last_outcome is None else life.last_outcome.value,
        "paused_by": json_text(life.paused_by),
        "pause_reason": json_text(life.pause_reason),
        "pause_id": json_text(life.pause_id),
        "created": _moment(life.created_at),
        "created_by": json_text(life.created_by),
    }
    kept = {name: value for name, value in told.items() if value is not None}
    if kept:
        document["life"] = kept


def json_text(words: str | None) -> str | None:
    """Return ``words`` as JSON, so that any character can be stored."""
    return None if words is None else json.dumps(words)


def from_json_text(text: str | None) -> str | None:
    """Return the text that :func:`json_text` was given."""
    return None if text is None else str(json.loads(text))


def _moment(time: datetime | None) -> int | None:
    return None if time is None else to_micros(time)


def _time(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else from_micros(microseconds, UTC)
