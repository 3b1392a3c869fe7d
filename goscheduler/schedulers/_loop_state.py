"""The state of a scheduler's loop; other threads decide by it whether to wake the loop.

The loop and the settling thread write here, and every thread may read. Each write is one assignment, so there is no
lock; the order of the assignments matters where a comment says so.
"""

from __future__ import annotations

import math


class LoopState:
    """The loop of one start of a scheduler."""

    def __init__(self) -> None:
        self.idle = True
        """Whether no round goes on."""
        self.wants_capacity = False
        """Whether work waits for a full executor or for other runs to end: the next end of a run calls for a round."""
        self.sleeping_until = 0.0
        """Timestamp of the moment when the loop looks for work by itself."""
        self.turned_at: float | None = None
        """When a round began or ended last (monotonic); None if none has, or none is to be expected."""
        self.seconds_until_due = math.inf
        """How long, as of the last round, nothing is due."""
        self.settled_batches = 0
        """How often ends of runs were written."""
        self.claim_first: set[str] = set()
        """Aliases of the stores whose pending runs have the next turn, because firings went before them."""
        self._batches_before_round = 0

    def begin_round(self, now: float) -> None:
        """Note that a round begins. Called before any store is asked: a run may end, or a job come, meanwhile."""
        self.turned_at = now
        self.wants_capacity, self.idle, self.sleeping_until = True, False, math.inf
        self._batches_before_round = self.settled_batches

    def stores_processed(self, seconds_until_due: float, wants_capacity: bool) -> None:
        """Note what the stores have left for later rounds."""
        self.wants_capacity, self.seconds_until_due = wants_capacity, seconds_until_due

    def end_round(self, sleeping_until: float, now: float) -> None:
        """Note that a round has ended. From now on the settling thread wakes the loop itself."""
        self.turned_at = now
        self.sleeping_until = sleeping_until
        self.idle = True

    def rest(self) -> None:
        """Note that the loop is not to turn: it is paused, and only looks for runs that are to end."""
        self.sleeping_until, self.turned_at = math.inf, None

    def runs_ended_during_round(self) -> bool:
        """Tell whether ends were written since the round began. Asked after :meth:`end_round`, it misses none."""
        return self.settled_batches != self._batches_before_round

    def batch_settled(self) -> None:
        """Note that ends of runs were written."""
        self.settled_batches += 1
