"""What becomes of a document that was processed. Pure: the time is given, nothing is stored.

=======================================================================  ===========================================
the document                                                             afterwards
=======================================================================  ===========================================
has no ``interval``                                                      is over
has one; its first time after ``sleepUntil`` and the reprocess delay is
… later than ``repeatUntil``                                             is over
… earlier than now                                                       is due now; what was missed is not made up
… later                                                                  is due then
has one that makes no sense                                              is parked
is over and has a true ``autoRemove``                                    is removed
is over                                                                  stays, ``sleepUntil`` null
=======================================================================  ===========================================
"""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any, NamedTuple

from goscheduler.documents.model import Document, in_utc
from goscheduler.errors import InvalidArgument, shown
from goscheduler.triggers.cron import CronTrigger
from goscheduler.util import asbool


class NextState(NamedTuple):
    """The state that is written when a document has been processed."""

    sleep_until: datetime | None
    """When it is due again; None for never."""
    remove: bool = False


PARKED = NextState(None)
REMOVED = NextState(None, remove=True)


def after_processing(document: Document, now: datetime, reprocess_delay: timedelta, zone: tzinfo) -> NextState:
    """Return what becomes of a document whose processing has ended just now.

    :raises ValueError: if its fields do not say when it is due again; it is to be parked then
    """
    following = _next_time(document, reprocess_delay, zone)
    if following is not None:
        return NextState(max(following, now))
    return REMOVED if _is_true(document.auto_remove) else PARKED


def _next_time(document: Document, reprocess_delay: timedelta, zone: tzinfo) -> datetime | None:
    if document.interval is None or document.interval == "":
        return None
    last = _last_time(document.repeat_until)
    schedule = _schedule(_checked(document.interval), zone)
    available = document.sleep_until + reprocess_delay
    following = schedule.get_next_fire_time(available, available)
    if following is None:
        return None
    following = in_utc(following)
    return None if last is not None and following > last else following


def _checked(interval: Any) -> str:
    if isinstance(interval, str):
        return interval
    raise InvalidArgument(f"interval must be a crontab line, got {shown(interval)}", field="interval", value=interval)


def _last_time(repeat_until: Any) -> datetime | None:
    if repeat_until is None or isinstance(repeat_until, datetime):
        return None if repeat_until is None else in_utc(repeat_until)
    raise InvalidArgument(
        f"repeatUntil must be a date and time, got {shown(repeat_until)}", field="repeat_until", value=repeat_until
    )


@lru_cache(maxsize=1024)
def _schedule(interval: str, zone: tzinfo) -> CronTrigger:
    """Return the schedule of a crontab line of five fields, or of six with the seconds first."""
    return CronTrigger.from_crontab(interval, zone, seconds=len(interval.split()) == 6)


def _is_true(auto_remove: Any) -> bool:
    """Tell whether a document may be removed. What is neither true nor false removes nothing."""
    try:
        return asbool(auto_remove)
    except InvalidArgument:
        return False
