"""Which jobs an alert is about: ``"tag:billing"``, ``"job:nightly job:weekly"``, ``"task:reports.make"``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from goscheduler.errors import InvalidArgument, UnknownOption, shown

if TYPE_CHECKING:
    from goscheduler.runs.records import Record

#: Word before the colon → filter of the list of jobs.
FILTERS = {"tag": "tag", "task": "task", "executor": "executor", "store": "jobstore", "text": "text"}
JOB = "job"


class Match(NamedTuple):
    """What is meant: these jobs by their ids, or those that fit the filters; all without any."""

    jobs: tuple[str, ...] = ()
    filters: Mapping[str, str] = {}

    def fits(self, record: Record) -> bool:
        """Tell whether a record of the history is about what is meant, as far as it says."""
        wanted = self.filters
        return (
            (not self.jobs or record.job_id in self.jobs)
            and wanted.get("tag", None) in (None, *record.tags)
            and wanted.get("task") in (None, record.task)
            and wanted.get("executor") in (None, record.executor)
            and wanted.get("text", "").lower() in f"{record.job_id} {record.job_name} {record.task}".lower()
        )

    @property
    def title(self) -> str:
        """What is meant, as one target of a rule that is about all of it together."""
        words = [f"{JOB}:{job}" for job in self.jobs]
        words += [f"{word}:{self.filters[name]}" for word, name in FILTERS.items() if name in self.filters]
        return " ".join(words) or "all jobs"

    def query(self, **more: Any) -> dict[str, Any]:
        """Return the filters for a list of jobs."""
        return {**self.filters, **more}


def read_match(text: str) -> Match:
    """Return what a text means.

    :raises InvalidArgument: for what is no text, or a word that is given twice
    :raises UnknownOption: for a word that there is not
    """
    if not isinstance(text, str):
        raise InvalidArgument(f'match must be a text such as "tag:billing", got {shown(text)}', field="match")
    jobs: list[str] = []
    filters: dict[str, str] = {}
    for word in _words(text):
        name, colon, value = word.partition(":")
        if not colon:
            name, value = "text", word
        if name == JOB:
            jobs.append(value)
            continue
        if name not in FILTERS:
            raise UnknownOption(name, (*FILTERS, JOB), where="match")
        if not value or FILTERS[name] in filters:
            raise InvalidArgument(f"match: {name} must be given once, with a value, got {shown(text)}", field="match")
        filters[FILTERS[name]] = value
    if jobs and filters.keys() - {"jobstore"}:
        raise InvalidArgument("match: job stands alone, or with store", field="match", value=text)
    return Match(tuple(jobs), filters)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InvalidArgument(f"match: {error}, in {shown(text)}", field="match", value=text) from error
