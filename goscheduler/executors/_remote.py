"""The near side of executors on engines: pools, clusters and queues that somebody else has built.

The loop hands a run over by putting it on a queue; one thread talks to the engine, so a slow network costs the loop
nothing. Runs are handed over when they can begin and not before, because their timeout counts from then on: the room is
what the engine has free, and nothing waits in its queue.

A run ends in one of these ways:

=========================================  ========================================================================
what happens                               its outcome
=========================================  ========================================================================
the engine brings the reply of the job     as the reply says
the run cannot be packed                   failed
the engine does not take it                snoozed: it goes back to the store for a moment
the engine lost the worker                 lost: the job's ``on_crash`` and ``max_crashes`` say what follows
the executor is shut down meanwhile        cancelled, after the job was told
=========================================  ========================================================================

The engine must repeat nothing by itself: a repeated attempt has the fence of the first one, and neither ``on_crash``
nor the history would know of it.
"""

from __future__ import annotations

import pickle
import threading
import traceback
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.executors._child import pack_call
from goscheduler.executors._failures import WorkerLost
from goscheduler.executors._process import outcome_of, unsendable
from goscheduler.executors._workers import ABORT_SECONDS, SHUT_DOWN
from goscheduler.executors.around import begin_all, for_child
from goscheduler.executors.base import BaseExecutor, ExecutorHost
from goscheduler.executors.call import cancelled, failed, snoozed
from goscheduler.executors.context import attempt_key, enter_run, id_of_current_run, mark_given_up, unmark_given_up
from goscheduler.runs.model import Outcome, OutcomeKind

if TYPE_CHECKING:
    from datetime import datetime

    from goscheduler.executors.around import Around, End
    from goscheduler.runs.model import Run

#: How often the engine is asked how many runs it can take.
LOOK_SECONDS = 5.0
#: The delay of a run that the engine did not take.
PUT_BACK_SECONDS = 1.0
#: How long a shutdown waits for the thread that talks to the engine, which may hang in a network.
HANG_UP_SECONDS = 5.0
#: How often somebody who waits for runs looks whether only those are left that nobody waits for.
WAIT_SECONDS = 0.25
ENDED_BY_SHUTDOWN = "ended by the shutdown of the executor"


class EngineRefused(Exception):
    """The engine does not take a run now; the text says why. It goes back to the store for so many ``seconds``."""

    def __init__(self, reason: str, seconds: float = PUT_BACK_SECONDS) -> None:
        super().__init__(reason)
        self.seconds = seconds


class Flight:
    """A run that was submitted and has not been reported."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.begun = False
        """Whether it is about to be handed over, or has been: from then on it can be told to end."""
        self.told: str | None = None
        """Why it is to end."""
        self.given_up = False
        self.work: Any = None
        """What the engine calls it."""
        self.started_at: datetime | None = None
        self._since = 0.0
        self._context: Context | None = None
        self._end: End | None = None

    def begin(self, now: datetime, arounds: tuple[Around, ...]) -> bytes:
        """Return the message that asks for it, having begun what encloses it."""
        self.started_at, self._since = now, SYSTEM_CLOCK.monotonic()
        if not arounds:
            return pack_call(self.run, now)
        self._context = copy_context()
        self._context.run(enter_run, self.run, now)
        self._end = self._context.run(begin_all, arounds, self.run, now)
        return pack_call(self.run, now, self._context.run(for_child, arounds, self.run))

    def end(self, outcome: Outcome) -> Outcome:
        """Return the outcome, having ended what encloses it."""
        context, end = self._context, self._end
        if context is None or end is None:
            return outcome
        try:
            context.run(end, outcome)
        except BaseException as error:
            return failed(error, self.started_at)
        return outcome

    def seconds(self) -> float:
        """Return for how long the engine has had it."""
        return 0.0 if self.started_at is None else SYSTEM_CLOCK.monotonic() - self._since


class RemoteExecutor(BaseExecutor):
    """Hands runs to an engine. A subclass knows how the engine is talked to, on the one thread that does it."""

    look_seconds = LOOK_SECONDS
    in_other_processes = True

    def start(self, scheduler: ExecutorHost, alias: str) -> None:
        super().start(scheduler, alias)
        self._flights: dict[tuple[str, int], Flight] = {}
        self._reporting: set[Flight] = set()
        """Those that have ended and give no room away any more; a shutdown waits until they are reported."""
        self._changed = threading.Condition()
        self._closing = False
        self._slots = 0
        self._trouble = "it is not connected yet"
        self._prepare()
        self._errands: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        """What the thread is to do. A new one for each start: a thread that hangs keeps its old one."""
        self._thread = threading.Thread(
            target=self._talk, args=(self._errands,), name=f"goscheduler-{alias}-engine", daemon=True
        )
        self._thread.start()

    def submit(self, run: Run) -> None:
        with self._changed:  # with the mark of a shutdown, so that nothing is put behind its end of the queue
            closing = self._closing
            if not closing:
                self._flights[attempt_key(run)] = flight = Flight(run)
                self._errands.put(partial(self._hand_over, flight))
        if closing:
            self._put_back(run, SHUT_DOWN)

    def room(self) -> int:
        return 0 if self._closing else max(0, self._slots - len(self._flights))

    def live(self) -> int | None:
        return None if self._scheduler is None else len(self._flights)

    def cancel(self, run: Run, reason: str) -> bool:
        flight = self._flight_of(run)
        if flight is None or not flight.begun or flight.given_up:
            return False  # one that waits is refused when it is about to begin
        if flight.told is None:
            flight.told = reason
            self._errands.put(partial(self._tell_to_end, flight, reason))
        return True

    def give_up(self, run: Run) -> None:
        """Wait no longer for a run. It keeps its slot until it ends, because the engine has no other one for it."""
        flight = self._flight_of(run)
        if flight is None:
            return
        with self._changed:
            if attempt_key(run) in self._flights:
                flight.given_up = True
                mark_given_up(run)
            self._changed.notify_all()
        self._errands.put(partial(self._drop, flight))

    def shutdown(self, wait: bool = True, timeout: float | None = None) -> None:
        if self._scheduler is None:
            return
        deadline = None if timeout is None else SYSTEM_CLOCK.monotonic() + timeout
        with self._changed:
            if self._closing:
                return
            self._closing = True
        if not (wait and self._wait_for_flights(deadline)):
            self._end_flights()
        self._errands.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(HANG_UP_SECONDS)

    def _prepare(self) -> None:
        """Get ready as far as that needs no network; what it raises ends the start of the scheduler."""

    # What a subclass supplies; all that follows is called on the thread that talks to the engine.

    def _count_slots(self) -> int:
        """Return how many runs the engine has workers for, connecting to it first if need be.

        :raises EngineRefused: if it is out of reach
        """
        raise NotImplementedError

    def _send(self, flight: Flight, message: bytes) -> None:
        """Hand a run over, and see to it that :meth:`_answered` or :meth:`_lost` is called when it ends.

        :raises EngineRefused: if it is not taken now
        """
        raise NotImplementedError

    def _tell_to_end(self, flight: Flight, reason: str) -> None:
        """Tell a run to end, as well as the engine can."""

    def _drop(self, flight: Flight) -> None:
        """Give back the slot of a run that was given up, if the engine can do that."""

    def _hang_up(self) -> None:
        """Let go of the engine. Runs that are left are nobody's any more."""

    # How runs end; callable from any thread. Each returns False if the run was reported before.

    def _answered(self, flight: Flight, reply: bytes) -> bool:
        return self._end(flight, self._outcome_in(reply, flight))

    def _outcome_in(self, reply: bytes, flight: Flight) -> Outcome:
        try:
            return outcome_of(pickle.loads(reply), flight.started_at or self._host.clock.now())
        except BaseException as error:
            return failed(error, flight.started_at, flight.seconds(), "the reply could not be read")

    def _lost(self, flight: Flight, reason: str) -> bool:
        """Report a run whose worker is gone; one that was told to end has done so."""
        if flight.told is not None:
            outcome = cancelled(flight.told, flight.started_at, flight.seconds())
        else:
            error = WorkerLost(reason)
            outcome = Outcome(OutcomeKind.LOST, None, error, "", flight.started_at, flight.seconds(), reason)
        return self._end(flight, outcome)

    def _end(self, flight: Flight, outcome: Outcome) -> bool:
        """Report a run, unless it was reported before."""
        with self._changed:
            if self._flights.get(attempt_key(flight.run)) is not flight:
                return False
            if flight.given_up:
                unmark_given_up(flight.run)
            del self._flights[attempt_key(flight.run)]
            self._reporting.add(flight)
        try:
            self._report(flight.run, flight.end(outcome))
        finally:
            with self._changed:
                self._reporting.discard(flight)
                self._changed.notify_all()
        return True

    def _flight_of(self, run: Run) -> Flight | None:
        return None if self._scheduler is None else self._flights.get(attempt_key(run))

    def _talk(self, errands: SimpleQueue[Callable[[], None] | None]) -> None:
        look_at = SYSTEM_CLOCK.monotonic()
        while True:
            left = look_at - SYSTEM_CLOCK.monotonic()
            if left <= 0:
                self._look()
                look_at, left = SYSTEM_CLOCK.monotonic() + self.look_seconds, self.look_seconds
            try:
                errand = errands.get(timeout=left)
            except Empty:
                continue
            if errand is None:
                break
            self._carry_out(errand)
        self._carry_out(self._hang_up)

    def _carry_out(self, errand: Callable[[], None]) -> None:
        try:
            errand()
        except BaseException:
            try:
                self._logger.exception('Executor "%s" had trouble with its engine; it goes on', self._alias)
            except Exception:  # a handler of the user's must not end the thread
                traceback.print_exc()

    def _look(self) -> None:
        """Ask how many runs the engine can take, and have the scheduler come round if there are more than before."""
        before, trouble = self._slots, self._trouble
        try:
            self._slots, self._trouble = self._count_slots(), ""
        except Exception as error:
            self._slots, self._trouble = 0, _told(error)
        if self._trouble and self._trouble != trouble:
            self._logger.warning(
                'Executor "%s" takes no runs: %s; asking again every %g seconds', self._alias, self._trouble,
                self.look_seconds,
            )  # fmt: skip
        if self._slots > before:
            if trouble != self._trouble:
                self._logger.info('Executor "%s" has room for %d runs', self._alias, self._slots)
            wakeup = getattr(self._host, "wakeup", None)  # a scheduler that somebody else wrote may have none
            if wakeup is not None:
                wakeup()

    def _hand_over(self, flight: Flight) -> None:
        run = flight.run
        if self._closing or self._trouble:
            self._end(flight, snoozed(self._trouble or SHUT_DOWN, 0.0 if self._closing else PUT_BACK_SECONDS))
            return
        flight.begun = True  # first: who tells it to end looks at this, and then the scheduler asks
        not_started = self._begin(run)
        if not_started is not None:
            self._end(flight, not_started)
            return
        try:
            message = flight.begin(self._host.clock.now(), self._arounds())
        except BaseException as error:
            self._end(flight, failed(unsendable(run, error), flight.started_at))
            return
        try:
            self._send(flight, message)
        except EngineRefused as error:
            self._end(flight, snoozed(str(error), error.seconds))
        except Exception as error:
            self._end(flight, failed(error, reason=f'could not be submitted to executor "{self._alias}"'))

    def _wait_for_flights(self, deadline: float | None) -> bool:
        """Wait until no run is left that somebody waits for, and those that ended are reported; False if time ran out.

        A job that shuts the scheduler down, in this process, is not waited for by itself.
        """
        own = id_of_current_run()
        with self._changed:
            while self._awaited(own):
                left = WAIT_SECONDS if deadline is None else min(WAIT_SECONDS, deadline - SYSTEM_CLOCK.monotonic())
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def _awaited(self, own: str | None) -> bool:
        waited_for = [each for each in self._flights.values() if not each.given_up]
        return any(each.run.id != own for each in (*waited_for, *self._reporting))

    def _end_flights(self) -> None:
        """Tell the runs that are left to end; those that go on are reported as cancelled and left to the engine."""
        for flight in list(self._flights.values()):
            self.cancel(flight.run, ENDED_BY_SHUTDOWN)
        self._wait_for_flights(SYSTEM_CLOCK.monotonic() + ABORT_SECONDS)
        for flight in list(self._flights.values()):
            if flight.begun:
                self._end(flight, cancelled(ENDED_BY_SHUTDOWN, flight.started_at, flight.seconds()))
            else:
                self._end(flight, snoozed(SHUT_DOWN))


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, EngineRefused) else f"{type(error).__name__}: {error}"
