"""What people find jobs of the MongoDB store by: state, traits, words.

A job has one of five stored states, and a **trait** for each tag, its task, its function, the bulk operation that has
paused it and the outcome of its last attempt. A job that waits for no time also has one for its executor; the others
stand in the queue of that. Traits are marks: the index of marks has them all, with the state and the id behind each, so
that a page of jobs with a trait is read in the order of ids, and a firing has no other index to look after.

A search through text looks into id, name and function. Nearly all jobs have plain ones, which it finds where they
stand. Where these have other letters, or the job text is no JSON, the document has **words**, in small letters, and the
name for the views.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from goscheduler.runs.model import JobState, OutcomeKind
from goscheduler.runs.queries import follows

if TYPE_CHECKING:
    from goscheduler.job import Job

#: The names of indexes.
MARKS, QUEUE, READY = "goscheduler_found", "goscheduler_queue", "goscheduler_ready"
#: What the traits begin with that a job keeps until it is edited. The others follow from its document.
LASTING = ("tag:", "calls:", "pause:", "follows:")
#: The trait of jobs that wait for others, while they have no next time.
FOLLOWS = "follows:"
_SUCCEEDED = OutcomeKind.SUCCEEDED.value
SCHEDULED = JobState.SCHEDULED.value
#: How the text of a job begins whose function and name are plain.
PLAIN_HEAD = re.compile(r'^\{"schema":\d+,"func":"([ !#-\[\]-~]*)","name":"([ !#-\[\]-~]*)"')
_PLAIN = re.compile(r"[ !#-\[\]-~]*")
#: The states of jobs that wait for no time, in the order in which queries name them.
IDLE_STATES = [
    each.value
    for each in (JobState.COMPLETED, JobState.FAILED, JobState.PAUSED, JobState.SUSPENDED, JobState.WAITING)
]
STATES = [*IDLE_STATES, SCHEDULED]


def traits_of(job: Job) -> list[str]:
    """Return the traits that a job keeps until it is edited."""
    traits = [tag_trait(tag) for tag in job.tags]
    traits += [called_trait(name) for name in dict.fromkeys((job.task, job.func_ref)) if name]
    if job.stats.pause_id is not None:
        traits.append(pause_trait(job.stats.pause_id))
    if follows(job):
        traits.append(FOLLOWS)
    return traits


def search_of(job: Job, text: str) -> dict[str, Any] | None:
    """Return the words and the name of a job; None if they are found in its text."""
    head = PLAIN_HEAD.match(text)
    if head is not None and head.groups() == (job.func_ref, job.name) and job.id.isascii():
        return None
    words = dict.fromkeys(text for text in (job.id, job.name, job.func_ref) if text is not None)
    return {"words": [plain(text.lower()) for text in words], "name": plain(job.name)}


def state_of(document: dict[str, Any]) -> str:
    """Return the stored state of the job of a document."""
    if "suspended" in document:
        return JobState.SUSPENDED.value
    if "due" in document:
        return SCHEDULED
    if "finished" not in document:
        waits = FOLLOWS in document.get("marks", ())
        return JobState.WAITING.value if waits else JobState.PAUSED.value
    succeeded = document.get("life", {}).get("outcome") == _SUCCEEDED
    return JobState.COMPLETED.value if succeeded else JobState.FAILED.value


def following_traits(document: dict[str, Any]) -> list[str]:
    """Return the traits of a job that its document tells."""
    traits = [outcome_trait(document["life"]["outcome"])] if "outcome" in document.get("life", ()) else []
    if "due" not in document:
        lane = document.get("lane")
        executor = lane.get("executor") if isinstance(lane, dict) else None
        traits.append(executor_trait(executor if isinstance(executor, str) else "default"))
    return traits


def outcome_trait(outcome: str) -> str:
    """Return the trait of jobs whose last attempt ended like this."""
    return f"outcome:{outcome}"


def tag_trait(tag: str) -> str:
    """Return the trait of jobs with a tag."""
    return plain(f"tag:{tag}")


def executor_trait(executor: str) -> str:
    """Return the trait of jobs that name an executor and wait for no time."""
    return plain(f"executor:{executor}")


def called_trait(name: str) -> str:
    """Return the trait of jobs of a task, or of a function."""
    return plain(f"calls:{name}")


def pause_trait(pause_id: str) -> str:
    """Return the trait of jobs that a bulk operation has paused."""
    return plain(f"pause:{pause_id}")


def plain(text: str) -> str:
    """Return a text that MongoDB can store: halves of characters, which it refuses, are spelled out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def words_with(part: str) -> dict[str, Any]:
    """Return the condition for jobs with a text in their words."""
    # Not a regular expression of the driver: it takes no NUL.
    pattern = re.escape(plain(part.lower())).replace("\0", r"\x00")
    in_words = {"search.words": {"$regex": pattern}}
    if not _PLAIN.fullmatch(part.lower()):
        return in_words
    # Up to the end of a text in quotation marks: neither the pattern nor the text has any.
    in_head = rf'^\{{"schema":\d+,"func":"(?:[^"]*|[^"]*","name":"[^"]*){pattern}'
    found = [{"_id": {"$regex": pattern, "$options": "i"}}, {"definition": {"$regex": in_head, "$options": "i"}}]
    return {"$or": [in_words, {"search": {"$exists": False}, "$or": found}]}
