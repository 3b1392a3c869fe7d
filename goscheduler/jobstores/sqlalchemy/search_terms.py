"""What stands in the index of a job so that it is found by tag, task, bulk operation or text without its row.

The **terms** of a job are short digests of its function, its task, its tags and the operation that has paused it. Its
**words** are its name and function, and its id where that has capital letters, in small letters. A job that has more
of them than there is room for is looked at itself.
"""

from __future__ import annotations

import unicodedata
from base64 import b64encode
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

from goscheduler.jobstores.sqlalchemy.tables import ANY_TERM, TERMS, WORDS, WORDS_BYTES
from goscheduler.runs.queries import follows

if TYPE_CHECKING:
    from goscheduler.job import Job

TASK, TAG, PAUSE = "task", "tag", "pause"
#: The kind of the term that jobs have which wait for others, while they have no next time.
FOLLOWS = "follows"


@lru_cache(maxsize=4096)
def term(kind: str, value: str) -> str:
    """Return what stands for a value among the terms of a job."""
    digest = blake2b(f"{kind}\0{value}".encode("utf-8", "backslashreplace"), digest_size=6).digest()
    return f"#{b64encode(digest, b'-.').decode('ascii')}"


def terms_of(job: Job) -> str:
    """Return the terms of a job."""
    return _terms(job.func_ref, job.task, job.tags, job.stats.pause_id, follows(job))


@lru_cache(maxsize=1024)
def _terms(
    func_ref: str | None, task: str | None, tags: Sequence[str], pause_id: str | None, follower: bool
) -> str:
    found = [term(TASK, name) for name in dict.fromkeys((func_ref, task)) if name is not None]
    found += [term(PAUSE, pause_id)] if pause_id is not None else []
    found += [term(FOLLOWS, "")] if follower else []
    text = "".join([*found, *(term(TAG, tag) for tag in dict.fromkeys(tags))])
    return text if len(text) <= TERMS else ANY_TERM


def words_of(job: Job) -> str | None:
    """Return the words of a job; None if there is no room for them."""
    words, lower = _words(job.name, job.func_ref), job.id.lower()
    return words if lower == job.id or words is None else _short(f"{words}\n{lower}")


@lru_cache(maxsize=1024)
def _words(name: str, func_ref: str | None) -> str | None:
    name, function = name.lower(), (func_ref or "").lower()
    return _short(function if name in function else f"{function}\n{name}")


def _short(words: str) -> str | None:
    fits = is_findable(words.replace("\n", "")) and len(words) <= WORDS and len(words.encode()) <= WORDS_BYTES
    return words if fits else None


def is_findable(text: str) -> bool:
    """Tell whether a text may be part of a name or an id, none of which has control characters or half ones."""
    return all(unicodedata.category(character) not in ("Cc", "Cs") for character in text)
