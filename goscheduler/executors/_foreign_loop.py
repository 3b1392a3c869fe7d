"""What executors have in common that hand runs to a loop which is not theirs: of asyncio, gevent, Twisted or Qt.

A run that was handed over is kept until it is reported, because nobody else knows of it: a loop may stop before it
comes round to the run, may be closed while the run goes on, or may never have turned at all. A subclass says how
something is called on the loop, whether the loop still turns, and how a run begins there.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from goscheduler.clock import SYSTEM_CLOCK, Deadline
from goscheduler.executors._workers import ABORT_SECONDS, LOOK_SECONDS, SHUT_DOWN
from goscheduler.executors.base import UNKNOWN_ROOM, BaseExecutor, ExecutorHost
from goscheduler.executors.call import cancelled, snoozed
from goscheduler.executors.context import (
    attempt_key,
    clear_cancel,
    id_of_current_run,
    mark_given_up,
    tell_to_end,
    unmark_given_up,
)

if TYPE_CHECKING:
    from goscheduler.runs.model import Outcome, Run


class Task(Protocol):
    """What a loop has of a run that it has begun."""

    def cancel(self) -> object:
        """End it as soon as it lets itself be ended. Called on the loop."""
        ...


class Handed:
    """A run that was handed to the loop and has not been reported."""

    __slots__ = ("begun", "ended", "run", "task")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.task: Task | None = None
        """None before the run has begun, and for one that nothing can end but itself."""
        self.begun = False
        self.ended = False

    @property
    def can_be_awaited(self) -> bool:
        """Whether it ends soon once it is cancelled, or not begun at all."""
        return self.task is not None or not self.begun

    def cancel(self) -> None:
        """Cancel the task, if there is one yet. Called on the loop."""
        if self.task is not None:
            self.task.cancel()


class ForeignLoopExecutor(BaseExecutor):
    """Hands runs to a loop that somebody else turns, and reports how they ended.

    ``shutdown(wait=True)`` waits for the runs, unless it is called on the loop itself, which it must not block;
    ``wait=False``, or a wait that runs out of time, cancels them.
    """

    loop_name = "the event loop"
    _capacity = UNKNOWN_ROOM

    def start(self, scheduler: ExecutorHost, alias: str) -> None:
        super().start(scheduler, alias)
        self._stopped = False
        """Whether no more runs are taken."""
        self._begins_no_more = False
        """Whether those that were taken do not begin any more."""
        self._changed = threading.Condition()
        self._handed: set[Handed] = set()
        self._given_up: set[Handed] = set()
        """Kept because a loop may have only weak references to what it has begun."""

    def submit(self, run: Run) -> None:
        self._submit_to_loop(run)

    def room(self) -> int:
        return max(0, self._capacity - len(self._handed))

    def live(self) -> int | None:
        return None if self._scheduler is None else len(self._handed)

    def cancel(self, run: Run, reason: str) -> bool:
        handed = self._handed_for(run)
        if handed is None:
            return False
        tell_to_end(run.id, reason)
        # Asked for on the loop, where a task either exists or has yet to pass _refusal().
        with suppress(RuntimeError):  # closed in this very moment
            self._call_on_loop(handed.cancel)
        if handed.ended:
            clear_cancel(run.id)  # over by now, and may have been forgotten already
        return True

    def give_up(self, run: Run) -> None:
        handed = self._handed_for(run)
        if handed is not None:
            self._strike_off(handed)

    def shutdown(self, wait: bool = True, timeout: float | None = None) -> None:
        if self._scheduler is None:
            return
        self._stopped = True
        if self._is_on_loop():
            self._begins_no_more = True
            if not wait:
                self._cancel_tasks()
            return
        done = wait and self._wait_for_loop(Deadline(SYSTEM_CLOCK, timeout), lambda handed: True)
        self._begins_no_more = True
        if not done:
            self._cancel_tasks()
            self._wait_for_loop(Deadline(SYSTEM_CLOCK, ABORT_SECONDS), lambda handed: handed.can_be_awaited)
        if not self._turns():
            self._give_up_tasks()

    @abstractmethod
    def _call_on_loop(self, callback: Callable[..., object], *args: object) -> None:
        """Have the loop call ``callback``. Callable from any thread.

        :raises RuntimeError: if the loop is closed
        """

    @abstractmethod
    def _why_not(self) -> str:
        """Return why the loop can never take a run, or nothing. One that has not turned yet can."""

    @abstractmethod
    def _turns(self) -> bool:
        """Tell whether what was handed over will be called."""

    @abstractmethod
    def _is_on_loop(self) -> bool:
        """Tell whether the loop stands still while the caller waits."""

    @abstractmethod
    def _launch(self, handed: Handed) -> None:
        """Begin a run, unless :meth:`_refusal` says otherwise, and see to :meth:`_end`. Called on the loop."""

    def _submit_to_loop(self, run: Run) -> None:
        problem = SHUT_DOWN if self._stopped else self._why_not()
        if problem:
            self._put_back(run, problem)
            return
        handed = self._hand(run)
        try:
            self._call_on_loop(self._launch, handed)
        except RuntimeError as error:  # closed in this very moment
            self._end(handed, snoozed(f"{self.loop_name} does not take it: {error}"))

    def _hand(self, run: Run) -> Handed:
        handed = Handed(run)
        with self._changed:
            self._handed.add(handed)
        return handed

    def _refusal(self, handed: Handed) -> Outcome | None:
        """Return the outcome of a run that is not to begin after all, or None, having told of its start."""
        if handed not in self._handed:
            # Given up before the loop came round to it, and maybe reported by a shutdown.
            return cancelled("the run was given up before it was started")
        if self._begins_no_more:
            return snoozed(SHUT_DOWN)
        outcome = self._begin(handed.run)
        handed.begun = outcome is None
        return outcome

    def _end(self, handed: Handed, outcome: Outcome) -> None:
        """Report a run, unless somebody else was quicker, and only then strike it off: a shutdown waits for that."""
        with self._changed:
            given_up = handed in self._given_up
            if handed.ended and not given_up:
                return
            handed.ended = True
            if given_up:
                self._given_up.discard(handed)
                unmark_given_up(handed.run)
        self._report(handed.run, outcome)
        with self._changed:
            self._handed.discard(handed)
            self._changed.notify_all()

    def _handed_for(self, run: Run) -> Handed | None:
        if self._scheduler is None:
            return None
        key = attempt_key(run)
        with self._changed:
            return next((handed for handed in self._handed if attempt_key(handed.run) == key), None)

    def _strike_off(self, handed: Handed) -> None:
        """Go on without a run that was given up; what the loop has of it may end one day or never."""
        with self._changed:
            if handed.ended:
                return
            handed.ended = True
            mark_given_up(handed.run)
            self._given_up.add(handed)
            self._handed.discard(handed)
            self._changed.notify_all()

    def _wait_for_loop(self, deadline: Deadline, meant: Callable[[Handed], bool]) -> bool:
        """Wait until the loop has nothing left that is meant; False if time ran out or the loop stopped.

        A job that shuts the scheduler down, from a thread that it awaits, is not waited for by itself.
        """
        own = id_of_current_run()
        with self._changed:
            while any(handed.run.id != own and meant(handed) for handed in self._handed):
                left = deadline.left()
                if left == 0 or not self._turns():
                    return False
                self._changed.wait(LOOK_SECONDS if left is None else min(left, LOOK_SECONDS))
        return True

    def _cancel_tasks(self) -> None:
        with self._changed:
            begun = [handed for handed in self._handed if handed.task is not None]
        for handed in begun:
            with suppress(RuntimeError):  # closed
                self._call_on_loop(handed.cancel)

    def _give_up_tasks(self) -> None:
        """Report what the loop, which does not turn any more, will never report."""
        with self._changed:
            left = [handed for handed in self._handed if handed.can_be_awaited]
        for handed in left:
            stopped = cancelled(f"{self.loop_name} stopped while the job ran")
            self._end(handed, stopped if handed.begun else snoozed(SHUT_DOWN))
