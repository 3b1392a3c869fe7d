"""Computes how many runs a pool should be given ahead.

A run that waits in this process cannot be taken by another one, so a queue should be short; but if it runs dry before
the scheduler comes round again, workers idle. A tenth of a second's work serves both ends.
"""

from __future__ import annotations

AHEAD_SECONDS = 0.1
MAX_DEPTH = 5000

#: After how many runs their average weighs as much as everything before. What is assumed at first weighs as one run.
_HALF_WEIGHT = 10


def depth(workers: int, average_seconds: float) -> int:
    """Return how many runs should be queued or running: one for each worker, and more while runs are short."""
    if average_seconds * MAX_DEPTH <= workers * AHEAD_SECONDS:
        return max(workers, MAX_DEPTH)
    return max(workers, int(workers * AHEAD_SECONDS / average_seconds))


class Pace:
    """A moving average of how long runs take, fed with running totals."""

    def __init__(self, now: float) -> None:
        self.average_seconds = AHEAD_SECONDS
        self._finished = 0
        self._seconds = 0.0
        self._moved_at = now
        self.idle = True
        """Whether there was nothing to do when somebody looked last."""

    def begin(self, now: float) -> None:
        """Take in that there is something to do again."""
        self.idle, self._moved_at = False, now

    def observe(self, finished: int, seconds: float, live: int, now: float) -> None:
        """Take in that since the start ``finished`` runs took ``seconds`` altogether, and that ``live`` go on."""
        new = finished - self._finished
        if new:
            latest = (seconds - self._seconds) / new
            weight = min(_HALF_WEIGHT, 1 + self._finished)
            self.average_seconds += (latest - self.average_seconds) * new / (new + weight)
            self._finished, self._seconds = finished, seconds
        if new or not live:
            self._moved_at = now
        elif now - self._moved_at > AHEAD_SECONDS:  # for longer than the queue should last
            # Nothing has come to an end for a while: the runs at work are at least as long as that.
            self.average_seconds = max(self.average_seconds, now - self._moved_at)
        self.idle = not live
