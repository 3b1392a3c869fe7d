"""The settings of a scheduler of messages, checked."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from goscheduler.errors import InvalidArgument, shown
from goscheduler.executors.pool import positive_int
from goscheduler.jobstores._polling import Poll
from goscheduler.runs.retry import MOST_ATTEMPTS, Retry, exponential

#: The largest payload, with its metadata, in bytes, unless another limit is given; SQS has the same.
MAX_PAYLOAD = 256 * 1024
#: Five retries with these delays go on for about six minutes.
BACKOFF = exponential(1, factor=4, cap=300)
#: A message is not to blame when a process dies that has it.
MAX_CRASHES = 1000


def retry_of(max_retries: int, backoff: Any, jitter: float) -> Retry:
    """Return the policy of a number of retries, 0 for no end of them, and a backoff or a number of seconds."""
    if isinstance(max_retries, bool) or not isinstance(max_retries, int) or not 0 <= max_retries < MOST_ATTEMPTS:
        raise InvalidArgument(
            f"max_retries must be a whole number from 0 (for ever) to {MOST_ATTEMPTS - 1}, got {shown(max_retries)}",
            field="max_retries",
            value=max_retries,
        )
    delay: Any = backoff.total_seconds() if isinstance(backoff, timedelta) else backoff
    attempts = max_retries + 1 if max_retries else MOST_ATTEMPTS
    return Retry(attempts, delay, jitter, give_up_on=("goscheduler.errors.MessageRejected",))


def poll_of(shortest: float, longest: float) -> Poll:
    """Return how often a store is asked that cannot tell of changes."""
    for field, value in (("min_poll_interval", shortest), ("max_poll_interval", longest)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            raise InvalidArgument(f"{field} must be a number of seconds above 0, got {shown(value)}", field=field)
    if shortest > longest:
        raise InvalidArgument(
            f"min_poll_interval ({shortest:g}) must not be above max_poll_interval ({longest:g})",
            field="min_poll_interval",
            value=shortest,
        )
    return Poll(shortest, longest)


def checked_workers(value: Any) -> int:
    """Return a number of threads, which may be none."""
    return 0 if value == 0 and not isinstance(value, bool) else positive_int("workers", value)
