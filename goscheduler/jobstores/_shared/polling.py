"""How often a store is asked that cannot tell when others have changed it."""

from __future__ import annotations

MIN_POLL_SECONDS = 0.1
MAX_POLL_SECONDS = 1.0


class Poll:
    """An interval that shrinks by a quarter when something was found, and grows by half when nothing was."""

    def __init__(self, shortest: float = MIN_POLL_SECONDS, longest: float = MAX_POLL_SECONDS) -> None:
        self._shortest = shortest
        self._longest = longest
        self.seconds = longest

    def found(self, something: bool) -> None:
        """Take in what a look at the store has brought."""
        self.seconds = (
            max(self._shortest, self.seconds * 0.75) if something else min(self._longest, self.seconds * 1.5)
        )
