"""The search box of the jobs page: ``state:paused tag:billing next:<1h last:failed`` and free text.

The same text says which jobs a list shows and which jobs an act on all of them means.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

#: Word in front of the colon → filter of the operation.
FILTERS = {
    "state": "state",
    "tag": "tag",
    "task": "task",
    "executor": "executor",
    "next": "due_before",
    "last": "last_outcome",
    "store": "jobstore",
    "pause": "pause_id",
}
_TERM = re.compile(r'(?:(?P<key>[a-z]+):)?(?:"(?P<quoted>[^"]*)"|(?P<plain>\S+))')
LONGEST_TEXT = 1000


@dataclass(frozen=True)
class JobSearch:
    """What a text looks for."""

    arguments: dict[str, str] = field(default_factory=dict)
    """Filters of ``find_jobs``, ``count_jobs`` and ``preview_bulk``."""
    mistakes: list[str] = field(default_factory=list)
    """What of the text cannot be meant, and why."""


def job_search(text: str) -> JobSearch:
    """Return what a text looks for. A word that is no filter is looked for in ids, names and tasks."""
    search, free = JobSearch(), []
    for term in _TERM.finditer(text[:LONGEST_TEXT]):
        key, value = term["key"], term["quoted"] if term["quoted"] is not None else term["plain"]
        if key not in FILTERS:
            free.append(term[0] if term["quoted"] is None else f"{key}:{value}" if key else value)
        elif value:
            _take(search, key, value)
        else:
            search.mistakes.append(f"{key}: needs a value behind the colon")
    if free:
        search.arguments["text"] = " ".join(free)
    return search


def _take(search: JobSearch, key: str, value: str) -> None:
    name = FILTERS[key]
    if name in search.arguments:
        search.mistakes.append(f"{key}: is given twice; only the first one counts")
        return
    search.arguments[name] = value.lstrip("<") if key == "next" else value.replace("-", " ") if key == "last" else value


def query_of(**filters: str | None) -> str:
    """Return the text that looks for something."""
    terms = [f"{key}:{_quoted(value)}" for key, value in filters.items() if value]
    return " ".join(terms)


def _quoted(value: str) -> str:
    return f'"{value}"' if re.search(r"\s", value) else value
