"""Jobs to and from a file, so that they can be moved between schedulers and stores.

The file is JSON: ``{"version": 1, "scheduler_version": …, "jobs": [state, …]}``, each state as
:mod:`goscheduler.codec` writes it. Files of APScheduler 3.11 are read too. A file is read as a whole or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from goscheduler._files import write_private
from goscheduler.apscheduler_import.reader import LegacyReader
from goscheduler.codec import CodecError, decode, encode
from goscheduler.errors import InvalidArgument, shown
from goscheduler.job import Job
from goscheduler.triggers.base import BaseTrigger

PathOrFile: TypeAlias = str | PathLike[str] | TextIO

VERSION = 1

_REQUIRED = ("id", "func", "trigger", "args", "kwargs", "name", "next_run_time")


def write_jobs(states: Iterable[Mapping[str, Any]], outfile: PathOrFile, scheduler_version: str) -> None:
    """Write the states of jobs to a path or a text file. Nothing is written if one of them cannot be.

    A file at a path is for its owner alone, and replaces what was there at once.

    :raises InvalidArgument: naming the job and the argument that cannot be stored
    :raises OSError: if the path cannot be written, is a symbolic link or no regular file
    """
    jobs = [_encode_state(state) for state in states]
    document = {"version": VERSION, "scheduler_version": scheduler_version, "jobs": jobs}
    text = json.dumps(document, allow_nan=False) + "\n"
    if isinstance(outfile, (str, PathLike)):
        write_private(outfile, text)
    else:
        outfile.write(text)


def definition_of(job: Job) -> dict[str, Any]:
    """Return what a file has of a job: not what it has lived through, but whether a follower is paused or waits."""
    definition = job.__getstate__()
    life = definition.pop("life")
    return {**definition, "paused_by": life["paused_by"]} if job.trigger.upstream else definition


def _encode_state(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: encode(value, f"job {state['id']!r}: {name}") for name, value in state.items()}


def read_jobs(infile: PathOrFile) -> list[dict[str, Any]]:
    """Return the states of the jobs in a file, each with its trigger in it.

    :raises ValueError: if the file is no export, is of another version, or a job in it cannot be read
    """
    document = _parse(_text_of(infile))
    if document.get("version") != VERSION:
        raise InvalidArgument(
            f"Unsupported version of exported jobs: {shown(document.get('version'))}, expected {VERSION}",
            field="version",
            value=document.get("version"),
        )
    jobs = document.get("jobs")
    if not isinstance(jobs, list):
        raise CodecError(f"Exported jobs must be a list, got {shown(jobs)}")
    with LegacyReader() as legacy:
        states = [_read_state(state, number, legacy) for number, state in enumerate(jobs, 1)]
    _refuse_duplicates(states)
    return states


def _text_of(infile: PathOrFile) -> str:
    if isinstance(infile, (str, PathLike)):
        return Path(infile).read_text(encoding="utf-8")
    if not hasattr(infile, "read"):
        raise TypeError(f"infile must be a path or an open text file, got {shown(infile)}")
    return infile.read()


def _parse(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"The file of exported jobs is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise CodecError(f"The file of exported jobs must contain an object, got {shown(document)}")
    return document


def _read_state(state: Any, number: int, legacy: LegacyReader) -> dict[str, Any]:
    name = shown(state["id"]) if isinstance(state, dict) and "id" in state else f"number {number}"
    try:
        return _checked(legacy.read_state(state) if _is_legacy(state) else decode(state))
    except Exception as error:  # whatever is wrong with one job, the reader must learn which one it is
        raise CodecError(f"Job {name} cannot be imported: {error}") from error


def _is_legacy(state: Mapping[str, Any]) -> bool:
    """Tell whether APScheduler wrote this job."""
    trigger = state.get("trigger")
    return isinstance(trigger, Mapping) and "__apscheduler_class__" in trigger


def _checked(state: dict[str, Any]) -> dict[str, Any]:
    for name in _REQUIRED:
        if name not in state:
            raise CodecError(f"it has no {name}")
    for name, expected in (("id", str), ("func", str), ("trigger", BaseTrigger), ("kwargs", dict)):
        if not isinstance(state[name], expected):
            raise CodecError(f"{shown(state[name])} is no {name}")
    return state


def _refuse_duplicates(states: list[dict[str, Any]]) -> None:
    seen: set[str] = set()
    for state in states:
        if state["id"] in seen:
            raise CodecError(f"Job {shown(state['id'])} is in the file twice")
        seen.add(state["id"])
