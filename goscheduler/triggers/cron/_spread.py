"""``H`` in a crontab line: a value that follows from the id of the job, so that jobs written alike do not all fire at
the same moment.

The value is the same in every process, at every start and in every version of Python. It depends on the id of the job
and on the field, and on nothing else.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from goscheduler.errors import InvalidArgument, shown

_ITEM = re.compile(r"h(?:\((?P<first>[0-9]{1,4})-(?P<last>[0-9]{1,4})\))?(?:/(?P<step>[0-9]{1,4}))?", re.IGNORECASE)
#: Field → from where to where ``H`` is chosen; every month has a day 28.
_RANGES = {
    "second": (0, 59), "minute": (0, 59), "hour": (0, 23), "day": (1, 28), "month": (1, 12),
    "day_of_week": (0, 6),
}  # fmt: skip
_FIELDS = ("second", "minute", "hour", "day", "month", "day_of_week")


class Spread(NamedTuple):
    """A crontab line with ``H`` in it, and whose job it was read for."""

    line: str
    dialect: str
    seconds: bool
    job_id: str = ""
    """Empty while no job has it."""

    @classmethod
    def from_state(cls, state: Any) -> Spread | None:
        """Return what a stored trigger has of it."""
        if state is None:
            return None
        names = {"line": str, "dialect": str, "seconds": bool, "job_id": str}
        if not isinstance(state, Mapping) or any(not isinstance(state.get(name), kind) for name, kind in names.items()):
            raise InvalidArgument(f"spread must have a line and whose it is, got {shown(state)}", field="spread")
        return cls(**{name: state[name] for name in names})

    def explain(self) -> str:
        """Return where the values come from."""
        whose = f"the id {shown(self.job_id)} of the job" if self.job_id else "the id of the job that will have it"
        return f"where H follows from {whose}"


def spread_line(expr: object, seconds: bool, job_id: str) -> str | None:
    """Return a crontab line with values in place of each ``H``, None if there is none.

    :raises InvalidArgument: naming the field
    """
    fields = expr.split() if isinstance(expr, str) and len(expr) <= 512 else []
    names = _FIELDS if seconds else _FIELDS[1:]
    if len(fields) != len(names) or not any(_ITEM.match(item) for text in fields for item in text.split(",")):
        return None
    return " ".join(_spread_field(name, text, job_id) for name, text in zip(names, fields, strict=True))


def _spread_field(name: str, text: str, job_id: str) -> str:
    return ",".join(_spread_item(name, item, job_id) for item in text.split(","))


def _spread_item(name: str, item: str, job_id: str) -> str:
    match = _ITEM.fullmatch(item)
    if match is None:
        return item  # the reader of the line says what is wrong with it, if anything is
    lowest, highest = _RANGES[name]
    first, last = int(match["first"] or lowest), int(match["last"] or highest)
    if not lowest <= first <= last <= max(highest, 31 if name == "day" else 0):
        raise _refused(name, item, f"H({lowest}-{highest}) or a range in it")
    step = int(match["step"] or 0)
    if match["step"] and not 1 <= step <= last - first + 1:
        raise _refused(name, item, f"a step from 1 to {last - first + 1}")
    if not step:
        return str(first + _number(job_id, name) % (last - first + 1))
    return ",".join(map(str, range(first + _number(job_id, name) % step, last + 1, step)))


def _number(job_id: str, field: str) -> int:
    digest = hashlib.sha256(f"{field}\0{job_id}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big")


def _refused(field: str, item: str, expected: str) -> InvalidArgument:
    return InvalidArgument(f"{field} must be {expected}, got {shown(item)}", field=field, value=item)
