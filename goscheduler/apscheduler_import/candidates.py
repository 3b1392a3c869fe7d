"""What of a stored job can be moved, and what its user should know before."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from importlib.machinery import PathFinder
from types import FunctionType
from typing import Any, NamedTuple

from goscheduler.apscheduler_import.reader import LegacyReader
from goscheduler.apscheduler_import.sources import StoredJob
from goscheduler.codec import CodecError
from goscheduler.errors import described, shown
from goscheduler.options import OPTION_NAMES, check_job_id
from goscheduler.references import check_reference
from goscheduler.times import utc_timestamp
from goscheduler.triggers.base import BaseTrigger
from goscheduler.triggers.combining import AndTrigger, OrTrigger
from goscheduler.triggers.cron import CronTrigger

#: What APScheduler gives to a job that says nothing about it.
THEIR_GRACE_TIME = 1

_NUMBER_OF_A_DAY = re.compile(r"(?<![/\d])\d")


class Candidate(NamedTuple):
    """A job that can be moved."""

    id: str
    func: str
    """The reference to its function; nothing has been imported to check it."""
    trigger: BaseTrigger
    next_run_time: datetime | None
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    name: str
    options: Mapping[str, Any]


class Unreadable(NamedTuple):
    """A job that cannot be moved, and why."""

    id: str
    reason: str


def read_candidates(stored: Iterable[StoredJob]) -> tuple[list[Candidate], list[Unreadable]]:
    """Return the jobs that can be moved, and those that cannot."""
    candidates: list[Candidate] = []
    unreadable: list[Unreadable] = []
    with LegacyReader() as reader:
        for job in stored:
            try:
                candidates.append(read_candidate(job, reader))
            except Exception as error:  # whatever is wrong with one job, the others are read
                reason = str(error) if isinstance(error, ValueError) else described(error)
                unreadable.append(Unreadable(job.id, reason))
    return candidates, unreadable


def read_candidate(stored: StoredJob, reader: LegacyReader) -> Candidate:
    """Return a job as it is here.

    :raises ValueError: if it cannot be read, or contains what is not allowed
    """
    state = reader.read_pickle(stored.pickled)
    if state["id"] != stored.id:
        raise CodecError(f"it calls itself {shown(state['id'])}")
    check_job_id(stored.id)
    check_reference(state["func"])
    next_run_time = state["next_run_time"]
    if next_run_time is not None and (not isinstance(next_run_time, datetime) or next_run_time.utcoffset() is None):
        raise CodecError(f"{shown(next_run_time)} is no next_run_time")
    return Candidate(
        stored.id,
        state["func"],
        state["trigger"],
        next_run_time,
        state["args"],
        state["kwargs"],
        state["name"],
        {name: state[name] for name in OPTION_NAMES if name in state},
    )


def without_their_grace_time(candidate: Candidate) -> Candidate:
    """Return a job without the grace time that APScheduler gives to a job that says nothing about it."""
    if candidate.options.get("misfire_grace_time") != THEIR_GRACE_TIME:
        return candidate
    options = {name: value for name, value in candidate.options.items() if name != "misfire_grace_time"}
    return candidate._replace(options=options)


def notes_on(
    candidate: Candidate,
    now: datetime,
    executors: Collection[str] | None = None,
    is_foreign: Callable[[str], bool] = lambda ref: False,
) -> list[str]:
    """Return what will be different for a job, or needs a look.

    ``executors`` are the aliases that its new scheduler has, where that is known; ``is_foreign`` tells whether a
    function is not the code of its new program.
    """
    return [
        *_notes_on_time(candidate, now),
        *_notes_on_options(candidate.options, executors),
        *_notes_on_weekdays(candidate.trigger),
        *_notes_on_function(candidate.func, is_foreign),
    ]


def _notes_on_time(candidate: Candidate, now: datetime) -> Iterator[str]:
    grace = candidate.options.get("misfire_grace_time")
    if grace == THEIR_GRACE_TIME:
        yield (
            "keeps misfire_grace_time=1, the default there: a run that is later is missed; "
            "the default here is None, and --drop-default-grace leaves the old one out"
        )
    if candidate.next_run_time is None or utc_timestamp(candidate.next_run_time) >= utc_timestamp(now):
        return
    late = utc_timestamp(now) - utc_timestamp(candidate.next_run_time)
    if isinstance(grace, (int, float)) and late > grace:
        yield "is overdue: that run will be missed, because it is later than misfire_grace_time"
    else:
        yield "is overdue: it will run as soon as a worker has it"


def _notes_on_options(options: Mapping[str, Any], executors: Collection[str] | None) -> Iterator[str]:
    instances = options.get("max_instances", 1)
    if instances != 1:
        yield f"max_instances={instances} holds for all processes together, not for each"
    executor = options.get("executor", "default")
    if executors is not None and executor not in executors:
        yield f"is suspended until its scheduler has an executor {shown(executor)}"


def _notes_on_weekdays(trigger: BaseTrigger) -> Iterator[str]:
    if any(_has_numbered_weekdays(part) for part in _parts(trigger)):
        yield "weekday numbers count from 0 for Monday, as APScheduler counted them, also if it read a crontab line"


def _parts(trigger: BaseTrigger) -> Iterator[BaseTrigger]:
    yield trigger
    if isinstance(trigger, (AndTrigger, OrTrigger)):
        for child in trigger.triggers:
            yield from _parts(child)


def _has_numbered_weekdays(trigger: BaseTrigger) -> bool:
    if not isinstance(trigger, CronTrigger):
        return False
    weekdays = str(trigger.fields[CronTrigger.FIELD_NAMES.index("day_of_week")])
    return _NUMBER_OF_A_DAY.search(weekdays) is not None


def _notes_on_function(ref: str, is_foreign: Callable[[str], bool]) -> Iterator[str]:
    module, path = check_reference(ref)
    if module in sys.modules:
        if not is_defined(ref):
            yield f"is suspended until there is a function {shown(path)} in module {shown(module)}"
    elif not _module_exists(module):
        yield f"is suspended until there is a module {shown(module)}; there is none here"
        return
    if is_foreign(ref):
        yield (
            f"will be refused, because {shown(module)} is not code of the program: give its scheduler "
            f"allowed_modules=[{shown(module)}]"
        )


def is_defined(ref: str) -> bool:
    """Tell whether a module that is loaded already has what a reference names, without running any of its code."""
    module, path = check_reference(ref)
    found: Any = sys.modules[module]
    for name in path.split("."):
        places = [vars(cls) for cls in found.__mro__] if isinstance(found, type) else [getattr(found, "__dict__", {})]
        place = next((place for place in places if name in place), None)
        if place is None:
            return "__getattr__" in vars(sys.modules[module])
        found = place[name]
    return True


def loaded_function(ref: str) -> FunctionType | None:
    """Return the plain function that a reference names at the top of a module that is loaded already, or None."""
    module, path = check_reference(ref)
    found = vars(sys.modules[module]).get(path) if module in sys.modules else None
    return found if isinstance(found, FunctionType) else None


def _module_exists(name: str) -> bool:
    """Tell whether a module could be imported, without importing it or the packages that it is in."""
    if name.partition(".")[0] in sys.builtin_module_names:
        return True
    places: list[str] | None = None
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:count]), places)
        if spec is None:
            return False
        places = list(spec.submodule_search_locations or [])
    return True
