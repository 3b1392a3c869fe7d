"""Counts attempts by address, so that nobody tries tokens or passwords without end."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque

from goscheduler.clock import Clock
from goscheduler.ops.errors import TooMany

ATTEMPTS, WITHIN = 5, 60.0
#: So many addresses are remembered; the one that was seen least lately is forgotten for another.
MOST_ADDRESSES = 10_000


class Throttle:
    """Lets an address make five attempts a minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()

    def attempt(self, address: str) -> None:
        """Count an attempt.

        :raises TooMany: if there were too many within the last minute
        """
        now = self._clock.monotonic()
        with self._lock:
            times = self._seen.setdefault(address, deque(maxlen=ATTEMPTS))
            self._seen.move_to_end(address)
            if len(self._seen) > MOST_ADDRESSES:
                self._seen.popitem(last=False)
            if len(times) == ATTEMPTS and now - times[0] < WITHIN:
                raise TooMany(f"{ATTEMPTS} attempts a minute are allowed: try again in a minute")
            times.append(now)
