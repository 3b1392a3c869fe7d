"""Stores that do not answer: when to try them again."""

from __future__ import annotations

from dataclasses import dataclass

from goscheduler._chance import CHANCE

FIRST_RETRY = 0.5


@dataclass(slots=True)
class Outage:
    """A store that has failed ``failures`` times in a row and is left alone until ``retry_at`` (monotonic)."""

    failures: int
    retry_at: float


class Outages:
    """The outages of one scheduler's stores, by alias."""

    def __init__(self) -> None:
        self._current: dict[str, Outage] = {}

    def __contains__(self, alias: str) -> bool:
        return alias in self._current

    def remaining(self, alias: str, now: float) -> float:
        """Return how many seconds a store is to be left alone; 0 if it may be asked."""
        outage = self._current.get(alias)
        return 0.0 if outage is None else max(0.0, outage.retry_at - now)

    def failed(self, alias: str, now: float, longest: float) -> float:
        """Note a failure and return the seconds until the next try: doubling up to ``longest``, with jitter."""
        outage = self._current.setdefault(alias, Outage(0, now))
        pause = min(longest, FIRST_RETRY * 2.0 ** min(outage.failures, 30)) * CHANCE.uniform(0.8, 1.0)
        outage.failures += 1
        outage.retry_at = now + pause
        return pause

    def may_be_over(self, alias: str, now: float) -> None:
        """Let a store be asked at once, because it has answered something else."""
        outage = self._current.get(alias)
        if outage is not None:
            outage.retry_at = min(outage.retry_at, now)

    def ended(self, alias: str) -> bool:
        """Note a success; true if that ends an outage."""
        return self._current.pop(alias, None) is not None
