"""Answers that several share: who asks while another one waits for it, or shortly after, gets the same."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from goscheduler.clock import Clock

T = TypeVar("T")


class KeptAnswer(Generic[T]):
    """One answer, kept for some seconds."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._lock = threading.Lock()
        self._answer: Future[T] | None = None
        self._known_since = 0.0

    def get(self, ask: Callable[[], T]) -> T:
        """Return what ``ask`` returns: now, for another one who waits, or not long ago."""
        with self._lock:
            answer, ours = self._answer, False
            if answer is None or (answer.done() and not self._is_young()):
                answer, ours = Future(), True
                self._answer = answer
        if ours:
            fulfil(answer, partial(self._timed, ask))
        return answer.result()

    def last(self) -> T | None:
        """Return the last answer, however old it is, if there is one."""
        answer = self._answer
        return None if answer is None or not answer.done() or answer.exception() else answer.result()

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for the answer, and the next who asks gets another one."""
        answer = self._answer
        return answer is not None and answer.done() and not self._is_young()

    def _timed(self, ask: Callable[[], T]) -> T:
        """Ask, and note when that was before anybody can see the answer."""
        try:
            return ask()
        finally:
            self._known_since = self._clock.monotonic()

    def _is_young(self) -> bool:
        return 0 <= self._clock.monotonic() - self._known_since < self._seconds


class KeptAnswers(Generic[T]):
    """Answers to several questions. An error is told to those who wait for the answer, and not kept."""

    def __init__(self, clock: Clock, seconds: float, most: int) -> None:
        self._clock, self._seconds, self._most = clock, seconds, most
        self._lock = threading.Lock()
        self._answers: dict[Hashable, KeptAnswer[T]] = {}

    def get(self, key: Hashable, ask: Callable[[], T]) -> T:
        """Return the answer to a question."""
        with self._lock:
            kept = self._answers.get(key)
            if kept is None:
                self._make_room()
                kept = self._answers[key] = KeptAnswer(self._clock, self._seconds)
        try:
            return kept.get(ask)
        except BaseException:
            with self._lock:
                if self._answers.get(key) is kept:
                    del self._answers[key]
            raise

    def last(self, key: Hashable) -> T | None:
        """Return the last answer to a question, however old it is, if there is one."""
        kept = self._answers.get(key)
        return None if kept is None else kept.last()

    def forget(self, key: Hashable = None) -> None:
        """Ask a question anew from now on, all questions if none is named. Who waits for an answer still gets it."""
        with self._lock:
            if key is None:
                self._answers.clear()
            else:
                self._answers.pop(key, None)

    def _make_room(self) -> None:
        for key in [key for key, kept in self._answers.items() if kept.is_over]:
            del self._answers[key]
        while len(self._answers) >= self._most:
            del self._answers[next(iter(self._answers))]


def fulfil(answer: Future[T], ask: Callable[[], T]) -> None:
    """Have an answer be what ``ask`` returns or raises."""
    try:
        answer.set_result(ask())
    except BaseException as error:
        answer.set_exception(error)
