"""What people find jobs of the MongoDB store by: state, traits, words.

A job has one of five stored states, and a **trait** for each tag, its executor, its task, its function and the bulk
operation that has paused it. One index has them all, with the state and the id behind each: a page of jobs with a trait
is read in the order of ids. A firing changes none of them, so it does not touch this index.

The **words** are what a search through text looks into, in small letters. The name is there for the views.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from goscheduler.runs.model import JobState, OutcomeKind

if TYPE_CHECKING:
    from goscheduler.job import Job

#: The names of indexes.
MARKS, QUEUE, READY = "goscheduler_marks", "goscheduler_queue", "goscheduler_ready"
TRAITS, OUTCOME = "goscheduler_traits", "goscheduler_outcome"
_SUCCEEDED = OutcomeKind.SUCCEEDED.value
SCHEDULED = JobState.SCHEDULED.value
#: The states of jobs that wait for no time, in the order in which queries name them.
IDLE_STATES = [each.value for each in (JobState.COMPLETED, JobState.FAILED, JobState.PAUSED, JobState.SUSPENDED)]
STATES = [*IDLE_STATES, SCHEDULED]


def search_of(job: Job) -> dict[str, Any]:
    """Return what a job is found by."""
    traits = [executor_trait(job.executor), *map(tag_trait, job.tags)]
    traits += [called_trait(name) for name in dict.fromkeys((job.task, job.func_ref)) if name]
    if job.stats.pause_id is not None:
        traits.append(pause_trait(job.stats.pause_id))
    words = dict.fromkeys(text for text in (job.id, job.name, job.func_ref) if text is not None)
    return {
        "traits": traits,
        "words": [plain(text.lower()) for text in words],
        "name": plain(job.name),
    }


def state_of(document: dict[str, Any]) -> str:
    """Return the stored state of the job of a document."""
    if "suspended" in document:
        return JobState.SUSPENDED.value
    if "due" in document:
        return SCHEDULED
    if "finished" not in document:
        return JobState.PAUSED.value
    succeeded = document.get("life", {}).get("outcome") == _SUCCEEDED
    return JobState.COMPLETED.value if succeeded else JobState.FAILED.value


def tag_trait(tag: str) -> str:
    """Return the trait of jobs with a tag."""
    return plain(f"tag:{tag}")


def executor_trait(executor: str) -> str:
    """Return the trait of jobs that name an executor."""
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
    return {"search.words": {"$regex": pattern}}
