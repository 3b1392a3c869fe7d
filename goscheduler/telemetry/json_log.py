"""Log lines as JSON objects, one on each line."""

from __future__ import annotations

import json
import math
import sys
from datetime import datetime, timezone
from logging import Formatter, LogRecord
from typing import Any

#: Key of the object → attribute of the record that has it. A run is the job of a schedule, so its id is the job id.
FIELDS = {
    "schedule_id": "job_id", "job_name": "task", "job_id": "run_id", "priority": "priority", "next_run": "next_run",
    "run_id": "run_id", "attempt": "attempt", "owner": "owner", "outcome": "outcome", "seconds": "seconds",
    "lateness": "lateness", "error_type": "error_type", "trace_id": "trace_id", "span_id": "span_id",
}  # fmt: skip
#: What the names of our loggers begin with.
PACKAGE = "goscheduler."

_OWN = frozenset(FIELDS.values()) | {"summary", "message", "asctime", "taskName"}
_STANDARD = frozenset(vars(LogRecord("", 0, "", 0, "", (), None))) | _OWN


class JSONFormatter(Formatter):
    """Formats a record as one JSON object on one line, in ASCII.

    ``time``, ``level``, ``msg`` and ``component`` are always there. A line about a job or a run also has
    ``schedule_id`` (the id of the job), ``job_name`` (its task or function), ``job_id`` (the id of the run) and what
    else is known; other fields that a program gave as ``extra`` stand under their names.
    """

    def format(self, record: LogRecord) -> str:
        """Return the line."""
        return json.dumps(self.fields(record), default=str, separators=(",", ":"), skipkeys=True)

    def fields(self, record: LogRecord) -> dict[str, Any]:
        """Return the object."""
        text = record.getMessage()
        summary = getattr(record, "summary", text)
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname, "msg": summary, "component": record.name.removeprefix(PACKAGE),
        }  # fmt: skip
        if summary != text:
            fields["text"] = text
        given = {key: vars(record).get(name) for key, name in FIELDS.items()}
        if given["trace_id"] is None:
            given.update(_ids_of_span())
        fields.update((key, _plain(value)) for key, value in given.items() if value is not None)
        fields.update((name, _plain(value)) for name, value in vars(record).items() if name not in _STANDARD)
        trace = self._trace(record)
        return {**fields, "error": trace} if trace else fields

    def _trace(self, record: LogRecord) -> str:
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        return record.exc_text or ""


def _ids_of_span() -> dict[str, str]:
    """Return the ids of the span that goes on here, if the program traces."""
    trace = sys.modules.get("opentelemetry.trace")
    context = None if trace is None else trace.get_current_span().get_span_context()
    if context is None or not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
