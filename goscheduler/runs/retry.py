"""When a failed attempt is tried again: a policy that answers with a decision, and knows no clock.

A job says from inside what it wants by raising: :class:`RetryLater` (try again after so many seconds, as one more
attempt), :class:`Snooze` (the same, without counting as an attempt) or :class:`GiveUp` (no more attempts).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from goscheduler.errors import GoSchedulerError, InvalidArgument, shown

#: No delay is longer than this, whatever a backoff computes.
LONGEST_DELAY = 366 * 86_400.0
MOST_ATTEMPTS = 1_000_000
MOST_FACTOR = 1e6

_BASE_NAMES = {"fixed": "seconds", "linear": "step", "exponential": "base"}


class RetryLater(GoSchedulerError):
    """Raised by a job: this attempt failed; try again after ``seconds``, if attempts are left."""

    def __init__(self, seconds: float = 0.0, reason: str = "") -> None:
        super().__init__(_checked_delay("seconds", seconds), reason)
        self.seconds = seconds
        self.reason = reason


class Snooze(GoSchedulerError):
    """Raised by a job: not now; try again after ``seconds``, without counting this as an attempt."""

    def __init__(self, seconds: float, reason: str = "") -> None:
        super().__init__(_checked_delay("seconds", seconds), reason)
        self.seconds = seconds
        self.reason = reason


class GiveUp(GoSchedulerError):
    """Raised by a job: this run will never succeed; make no more attempts."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Backoff:
    """The wait between two attempts. Made by :func:`fixed`, :func:`linear` and :func:`exponential`."""

    kind: str
    base: float
    factor: float = 1.0
    cap: float = LONGEST_DELAY

    def __post_init__(self) -> None:
        if self.kind not in ("fixed", "linear", "exponential"):
            raise InvalidArgument(
                _expected("backoff", "fixed, linear or exponential", self.kind), field="backoff", value=self.kind
            )
        object.__setattr__(self, "base", _checked_delay(_BASE_NAMES[self.kind], self.base))
        object.__setattr__(self, "cap", _checked_delay("cap", self.cap))
        if not _is_number(self.factor) or not 1 <= self.factor <= MOST_FACTOR:
            raise InvalidArgument(
                _expected("factor", f"a number from 1 to {MOST_FACTOR:g}", self.factor),
                field="factor",
                value=self.factor,
            )
        if self.cap < self.base:
            raise InvalidArgument(
                _expected("cap", f"not below the first delay ({self.base:g})", self.cap), field="cap", value=self.cap
            )

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait after the ``attempt``-th attempt has failed, counted from 1."""
        if self.kind == "linear":
            return min(self.cap, self.base * attempt)
        if self.kind == "exponential":
            return min(self.cap, self._power(attempt))
        return min(self.cap, self.base)

    def _power(self, attempt: int) -> float:
        try:
            return self.base * float(self.factor) ** (attempt - 1)  # whole numbers do not overflow, they take hours
        except OverflowError:
            return self.cap if self.base else 0.0


def fixed(seconds: float) -> Backoff:
    """Return a backoff that always waits the same."""
    return Backoff("fixed", seconds)


def linear(step: float, cap: float = LONGEST_DELAY) -> Backoff:
    """Return a backoff that waits ``step`` longer each time, up to ``cap`` seconds."""
    return Backoff("linear", step, cap=cap)


def exponential(base: float, factor: float = 2.0, cap: float = LONGEST_DELAY) -> Backoff:
    """Return a backoff that waits ``base`` seconds, and ``factor`` times as long each time, up to ``cap``."""
    return Backoff("exponential", base, factor, cap)


class Decision(NamedTuple):
    """The decision after a failed attempt."""

    delay: float | None
    """Seconds until the next attempt; None for no more."""
    reason: str
    """Why, in a sentence."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The policy for retries of a failed run: how often and when."""

    max_attempts: int | None = 3
    """How many attempts there are altogether, the first included; None for no end of them."""
    backoff: Backoff = field(default_factory=lambda: exponential(1, factor=2, cap=300))
    """How long to wait between two attempts; a number of seconds stands for a fixed delay."""
    jitter: float = 0.0
    """Up to this share of the delay is added at random, so that many jobs do not come back at once."""
    retry_on: tuple[str, ...] = ("builtins.Exception",)
    """Only failures of these types are tried again. Given as types, kept as names: a record can hold them."""
    give_up_on: tuple[str, ...] = ()
    """Failures of these types are never tried again."""
    deadline: float | None = None
    """No attempt begins later than this many seconds after the fire time."""

    def __post_init__(self) -> None:
        _check_attempts(self.max_attempts)
        if not isinstance(self.backoff, Backoff):
            object.__setattr__(self, "backoff", fixed(_checked_delay("backoff", self.backoff)))
        if not _is_number(self.jitter) or not 0 <= self.jitter <= 1:
            raise InvalidArgument(_expected("jitter", "a share between 0 and 1", self.jitter), field="jitter")
        if self.deadline is not None and _checked_delay("deadline", self.deadline) == 0:
            raise InvalidArgument(_expected("deadline", "above 0", self.deadline), field="deadline")
        for name in ("retry_on", "give_up_on"):
            object.__setattr__(self, name, _names_of_types(name, getattr(self, name)))

    @classmethod
    def of(cls, value: Any) -> Retry | None:
        """Return the policy that an option describes: a policy, a number of attempts, or None for none."""
        if value is None or isinstance(value, cls):
            return value
        if isinstance(value, str) and value.strip().isdecimal():
            value = int(value)  # from an ini file
        if isinstance(value, int) and not isinstance(value, bool):
            return cls(max_attempts=value)
        raise InvalidArgument(_expected("retry", "None, a number of attempts or a Retry", value), field="retry")

    def decide(
        self, attempt: int, error: BaseException | None, age: float, draw: Callable[[], float] = random.random
    ) -> Decision:
        """Return whether to try again after the ``attempt``-th attempt, ``age`` seconds after the fire time.

        ``random_number`` gives a random number from 0 to 1 for the jitter. An attempt without an error, such as one
        that ran out of time, counts as a failure that may be tried again.
        """
        if isinstance(error, GiveUp):
            reason = getattr(error, "reason", "")
            reason = reason if isinstance(reason, str) else shown(reason)
            return Decision(None, f"the job gave up: {reason}" if reason else "the job gave up")
        if self.max_attempts is not None and attempt > self.max_attempts:
            return Decision(None, f"attempt {attempt} failed, beyond the {self.max_attempts} of its policy")
        account = f"attempt {attempt}{'' if self.max_attempts is None else f' of {self.max_attempts}'} failed"
        if attempt == self.max_attempts:
            return Decision(None, account)
        if error is not None and not isinstance(error, RetryLater) and not self._is_worth_retrying(error):
            return Decision(None, f"{type(error).__name__} is not tried again")
        asked = asked_seconds(error) if isinstance(error, RetryLater) else self.backoff.delay(attempt)
        delay = min(LONGEST_DELAY, asked * (1 + self.jitter * draw()))
        if self.deadline is not None and age + delay > self.deadline:
            return Decision(None, f"the next attempt would begin over {self.deadline:g} seconds after the fire time")
        return Decision(delay, account)

    def _is_worth_retrying(self, error: BaseException) -> bool:
        names = {*lineage(type(error)), *getattr(error, "lineage", ())}
        return names.isdisjoint(self.give_up_on) and not names.isdisjoint(self.retry_on)


def lineage(cls: type) -> tuple[str, ...]:
    """Return the names of a class and of all that it derives from, by which a policy knows them."""
    return tuple(f"{base.__module__}.{base.__qualname__}" for base in cls.__mro__)


def asked_seconds(error: RetryLater | Snooze) -> float:
    """Return the delay that a job asked for; 0 for one that makes no sense, as a subclass may have."""
    seconds = getattr(error, "seconds", 0.0)
    return min(LONGEST_DELAY, seconds) if _is_number(seconds) and seconds >= 0 else 0.0


def _check_attempts(value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgument(_expected("max_attempts", "a whole number or None", value), field="max_attempts")
    if not 1 <= value <= MOST_ATTEMPTS:
        raise InvalidArgument(_expected("max_attempts", f"between 1 and {MOST_ATTEMPTS}", value), field="max_attempts")


def _checked_delay(field: str, value: Any) -> float:
    if not _is_number(value) or not 0 <= value <= LONGEST_DELAY:
        raise InvalidArgument(
            _expected(field, f"a number of seconds from 0 to {LONGEST_DELAY:g}", value), field=field, value=value
        )
    return float(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def _names_of_types(field: str, value: Any) -> tuple[str, ...]:
    given = tuple(value) if isinstance(value, (list, tuple, set, frozenset)) else (value,)
    for one in given:
        named = isinstance(one, str) and "." in one
        if not named and not (isinstance(one, type) and issubclass(one, BaseException)):
            raise InvalidArgument(
                _expected(field, 'exception types, or their full names as "module.Name"', one), field=field, value=value
            )
    return tuple(one if isinstance(one, str) else lineage(one)[0] for one in given)


def _expected(field: str, what: str, value: object) -> str:
    return f"{field} must be {what}, got {shown(value)}"
