"""The settings of a scheduler of messages, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from goscheduler.errors import InvalidArgument, shown
from goscheduler.executors.pool import positive_int
from goscheduler.jobstores._shared.polling import MAX_POLL_SECONDS, MIN_POLL_SECONDS, Poll
from goscheduler.runs.retry import LONGEST_DELAY, MOST_ATTEMPTS, Retry, exponential, fixed

#: The largest payload, with its metadata, in bytes, unless another limit is given; SQS has the same.
MAX_PAYLOAD = 256 * 1024
#: Five retries with these delays go on for about six minutes.
BACKOFF = exponential(1, factor=4, cap=300)
#: A message is not to blame when a process dies that has it.
MAX_CRASHES = 1000


def retry_of(max_retries: int, backoff: Any, jitter: float, poll_interval: float) -> Retry:
    """Return the policy of a number of retries, 0 for no end of them, and a backoff or a number of seconds.

    A message that is tried for ever without a delay is tried once every ``poll_interval`` seconds: a broker that is
    away for a night would be asked as often as the machine can, for each message.
    """
    if isinstance(max_retries, bool) or not isinstance(max_retries, int) or not 0 <= max_retries < MOST_ATTEMPTS:
        raise InvalidArgument(
            f"max_retries must be a whole number from 0 (for ever) to {MOST_ATTEMPTS - 1}, got {shown(max_retries)}",
            field="max_retries",
            value=max_retries,
        )
    delay: Any = backoff.total_seconds() if isinstance(backoff, timedelta) else backoff
    attempts = max_retries + 1 if max_retries else None
    policy = Retry(attempts, delay, jitter, give_up_on=("goscheduler.errors.MessageRejected",))
    is_restless = attempts is None and policy.backoff.base == 0
    return replace(policy, backoff=fixed(min(poll_interval, LONGEST_DELAY))) if is_restless else policy


def refuse_settings(settings: Mapping[str, Any], advice: str) -> None:
    """Refuse settings that would do nothing beside a scheduler that the user has made.

    :raises InvalidArgument: naming those that are not None
    """
    if names := list(given(settings)):
        raise InvalidArgument(f"{', '.join(names)} cannot be given together with scheduler: {advice}", field=names[0])


def given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a user has given; the others have their defaults further down."""
    return {name: value for name, value in settings.items() if value is not None}


def poll_of(min_poll_interval: float = MIN_POLL_SECONDS, max_poll_interval: float = MAX_POLL_SECONDS) -> Poll:
    """Return how often a store is asked that cannot tell of changes."""
    for field, value in (("min_poll_interval", min_poll_interval), ("max_poll_interval", max_poll_interval)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            raise InvalidArgument(f"{field} must be a number of seconds above 0, got {shown(value)}", field=field)
    if min_poll_interval > max_poll_interval:
        raise InvalidArgument(
            f"min_poll_interval ({min_poll_interval:g}) must not be above max_poll_interval ({max_poll_interval:g})",
            field="min_poll_interval",
            value=min_poll_interval,
        )
    return Poll(min_poll_interval, max_poll_interval)


def checked_workers(value: Any) -> int:
    """Return a number of threads, which may be none."""
    return 0 if value == 0 and not isinstance(value, bool) else positive_int("workers", value)
