"""Pings for Healthchecks and services that take the same: a check that gets no ping in time raises the alarm.

::

    Pings(scheduler, "https://hc-ping.com", {"nightly": "2f5c…-uuid", "invoices": "my-project-key/invoices"})

A ping goes out when an attempt begins (``/start``), has succeeded, or has failed (``/fail``, with the error as its
body). Those of one run have the same ``rid``, so that the service measures how long it took. The events thread sends
them: a run never waits for a ping, and a ping that fails is a WARNING.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen
from uuid import NAMESPACE_OID, uuid5

from goscheduler.errors import InvalidArgument, shown
from goscheduler.events import EventCode
from goscheduler.logs import guarded_logger

if TYPE_CHECKING:
    from goscheduler.events import JobExecutionEvent, JobStartEvent
    from goscheduler.schedulers.base import BaseScheduler

_LOGGER = guarded_logger("goscheduler.contrib.healthchecks")
_PATHS = {
    EventCode.JOB_STARTED: "/start",
    EventCode.JOB_EXECUTED: "",
    EventCode.JOB_ERROR: "/fail",
    EventCode.JOB_CANCELLED: "/fail",
    EventCode.JOB_MISSED: "/fail",
    EventCode.JOB_DEAD_LETTERED: "/fail",
}
#: The service keeps so much of a body.
MOST_BYTES = 10_000


class Pings:
    """Pings one check for each job that ``checks`` names, from its id to the path of its check.

    If a failed attempt is tried again, the service gets the error for its log (``/log``), and ``/fail`` when the run is
    a dead letter.
    """

    def __init__(
        self, scheduler: BaseScheduler, base: str, checks: Mapping[str, str], *, timeout: float = 5.0
    ) -> None:
        """Begin to listen. ``timeout`` is for one ping, in seconds; one that fails is sent once more.

        :raises InvalidArgument: if the address is not one of HTTP, or a check is no path
        """
        if not isinstance(base, str) or not base.startswith(("https://", "http://")):
            raise InvalidArgument(
                f"base must be an address such as 'https://hc-ping.com', got {shown(base)}", field="base", value=base
            )
        for job_id, path in checks.items():
            if not isinstance(path, str) or not path.strip("/"):
                raise InvalidArgument(
                    f"checks[{shown(job_id)}] must be the UUID of a check, or 'ping-key/slug', got {shown(path)}",
                    field="checks",
                    value=path,
                )
        self._scheduler, self._timeout = scheduler, timeout
        self._urls = {job_id: f"{base.rstrip('/')}/{quote(path.strip('/'))}" for job_id, path in checks.items()}
        mask = 0
        for code in _PATHS:
            mask |= code
        scheduler.add_listener(self, mask)

    def close(self) -> None:
        """Stop listening."""
        self._scheduler.remove_listener(self)

    def __call__(self, event: Any) -> None:
        url = self._urls.get(event.job_id)
        if url is not None:
            code = EventCode(event.code)
            path = "/log" if code is EventCode.JOB_ERROR and self._has_more_to_come(event) else _PATHS[code]
            rid = uuid5(NAMESPACE_OID, str(event.run_id))
            self._send(f"{url}{path}?rid={rid}", _body_of(event, code), event.job_id)

    def _has_more_to_come(self, event: JobExecutionEvent) -> bool:
        """Tell whether another attempt follows, or else an event that says that the run is a dead letter."""
        job = self._scheduler.get_job(event.job_id, event.jobstore)
        return job is not None and job.dead_letter

    def _send(self, url: str, body: bytes, job_id: str) -> None:
        for is_last in (False, True):
            try:
                with urlopen(Request(url, data=body, method="POST"), timeout=self._timeout):
                    return
            except (OSError, ValueError) as error:
                if is_last or (isinstance(error, HTTPError) and error.code < 500):
                    _LOGGER.warning('A ping for job "%s" failed: %s. It is not sent again.', job_id, error)
                    return


def _body_of(event: JobStartEvent | JobExecutionEvent, code: EventCode) -> bytes:
    if code in (EventCode.JOB_STARTED, EventCode.JOB_EXECUTED):
        return b""
    if code is EventCode.JOB_MISSED:
        return f"The run of {event.scheduled_run_time} was missed".encode()
    error = getattr(event, "exception", None)
    text = f"{getattr(event, 'traceback', None) or ''}{type(error).__name__}: {error}" if error else "It was cancelled"
    return text.encode(errors="replace")[-MOST_BYTES:]
