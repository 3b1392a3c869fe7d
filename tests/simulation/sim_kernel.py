"""Simulated time, and actors that run one at a time.

Each actor is a thread, so that the code of the package runs as it is. Only one of them has the **baton**; it passes the
baton on when it sleeps, and every call of a store is such a moment. Who goes on is the actor whose time comes first, so
the order follows from the seed alone, and the machine has no part in it.

To pass the baton to another thread is what costs most. So a **ticker**, an actor that does the same step again and
again, has no thread of its own: it borrows one for a step, or does the step **in one go**, without sleeping, on the
thread of the actor that had the baton.
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
from collections.abc import Callable
from random import Random
from typing import Any, ClassVar

#: How long the real clock may run before a simulation counts as one that hangs.
HANGS_AFTER = 600.0


Step = Callable[[], "float | None"]


class Crash(BaseException):
    """Unwinds the code of a process that is dead."""


class Life:
    """One start of a process, as far as the kernel has to know it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.paused_until = 0.0
        self.actors: list[Actor] = []

    def enter(self) -> None:
        """Called when an actor of another process had the baton before."""

    def in_one_go(self) -> bool:
        """Tell whether the next step of a ticker is done without others coming between."""
        return False


class Actor:
    """Something that a process does beside other things."""

    __slots__ = ("life", "name", "over", "parked", "step", "token", "worker")

    def __init__(self, life: Life, name: str, step: Step | None = None) -> None:
        self.life = life
        self.name = name
        self.step = step
        """What a ticker does; it returns the seconds until the next time, or None if that was the last."""
        self.worker: _Worker | None = None
        self.token = 0
        """Changes whenever the actor is woken, so that older entries of the agenda count no more."""
        self.parked = False
        """Whether it can be woken."""
        self.over = False


class _Worker:
    """A thread that plays one actor after the other."""

    idle: ClassVar[list[_Worker]] = []

    def __init__(self) -> None:
        self.baton = threading.Lock()
        self.baton.acquire()
        self.role: Callable[[], None] = _nothing
        threading.Thread(target=self._play, name="simulation", daemon=True).start()

    def _play(self) -> None:
        while True:
            self.baton.acquire()
            self.role()

    @classmethod
    def hire(cls) -> _Worker:
        return cls.idle.pop() if cls.idle else cls()


def _nothing() -> None:
    """The role of a worker that has none."""


class Kernel:
    """The agenda, the clock and the baton."""

    def __init__(self, rng: Random) -> None:
        self.now = 0.0
        self.rng = rng
        self.stopped = False
        self.error: BaseException | None = None
        """What an actor has raised that it should not."""
        self.switches = 0
        self._agenda: list[tuple[float, float, int, Any, int]] = []
        self._order = itertools.count()
        self._current: Actor | None = None
        self._entered: Life | None = None
        self._in_one_go = False
        self._actors: list[Actor] = []
        self._main = threading.Lock()
        self._main.acquire()

    @property
    def current(self) -> Actor:
        """The actor that has the baton."""
        assert self._current is not None, "no actor has the baton"
        return self._current

    def at(self, when: float, action: Callable[[], object]) -> None:
        """Call ``action``, which must not sleep, when the time has come."""
        self._enter(when, action, 0)

    def spawn(self, life: Life, name: str, body: Callable[[], object]) -> Actor:
        """Begin something new in a process."""
        actor = Actor(life, name)
        self._employ(actor, body)
        life.actors.append(actor)
        self._actors.append(actor)
        self._enter(self.now, actor, actor.token)
        return actor

    def tick(self, life: Life, name: str, step: Step, seconds: float = 0.0) -> Actor:
        """Begin something in a process that is done again and again, for the first time in so many seconds."""
        actor = Actor(life, name, step)
        life.actors.append(actor)
        self._actors.append(actor)
        self._rest(actor, seconds)
        return actor

    def sleep(self, seconds: float) -> None:
        """Let the current actor go on in so many seconds; what is done in one go goes on at once."""
        me = self.current
        if self._in_one_go:
            if me.life.dead or self.stopped:
                raise Crash
            return
        self._enter(self.now + seconds, me, me.token)
        self._pass_on(me)

    def park(self, seconds: float = math.inf) -> None:
        """Let the current actor go on when it is woken, or in so many seconds."""
        me = self.current
        assert not self._in_one_go
        if seconds < math.inf:
            self._enter(self.now + seconds, me, me.token)
        me.parked = True
        self._pass_on(me)
        me.parked = False

    def wake(self, actor: Actor | None) -> None:
        """Let an actor go on that is parked, or whose process is dead."""
        if actor is not None and not actor.over and (actor.parked or actor.life.dead):
            actor.token += 1
            self._enter(self.now, actor, actor.token)

    def kill(self, life: Life) -> None:
        """Let a process die: none of its actors does anything any more."""
        life.dead = True
        for actor in life.actors:
            self.wake(actor)

    def stop(self) -> None:
        """End the simulation as soon as an actor passes the baton on."""
        self.stopped = True

    def run(self) -> None:
        """Run until :meth:`stop`, or until nothing is left to do. Then all actors are ended."""
        self._hand_to(self._next())
        self.stopped = True
        for actor in self._actors:
            actor.life.dead = True
        for actor in self._actors:
            if not actor.over and actor.worker is not None:
                self._hand_to(actor)
        if self.error is not None:
            raise self.error

    def _hand_to(self, actor: Actor | None) -> None:
        if actor is None:
            return
        self._begin(actor)
        if not self._main.acquire(timeout=HANGS_AFTER):
            raise RuntimeError(f"the simulation hangs in {actor.life.name}/{actor.name}")

    def _enter(self, when: float, target: Any, token: int) -> None:
        heapq.heappush(self._agenda, (when, self.rng.random(), next(self._order), target, token))

    def _employ(self, actor: Actor, body: Callable[[], object]) -> None:
        actor.worker = _Worker.hire()
        actor.worker.role = lambda: self._play(actor, body)

    def _rest(self, ticker: Actor, seconds: float) -> None:
        """Let a ticker wait for its next step."""
        ticker.parked = True
        if seconds < math.inf:
            self._enter(self.now + seconds, ticker, ticker.token)

    def _pass_on(self, me: Actor) -> None:
        if not me.life.dead:
            following = None if self.stopped else self._next()
            if following is me:
                self._enter_life(me.life)
            else:
                self.switches += 1
                worker = me.worker
                assert worker is not None
                self._begin(following)
                worker.baton.acquire()
        if me.life.dead:
            raise Crash

    def _begin(self, actor: Actor | None) -> None:
        self._current = actor
        if actor is None:
            self._main.release()
            return
        self._enter_life(actor.life)
        assert actor.worker is not None
        actor.worker.baton.release()

    def _enter_life(self, life: Life) -> None:
        if self._entered is not life:
            self._entered = life
            life.enter()

    def _next(self) -> Actor | None:
        """Return who goes on, having done what was to be done before."""
        agenda = self._agenda
        while agenda and not self.stopped:
            when, _, _, target, token = heapq.heappop(agenda)
            if not isinstance(target, Actor):
                self.now = when
                target()
            elif token == target.token and not target.over:
                if target.life.paused_until > when and not target.life.dead:
                    self._enter(target.life.paused_until, target, token)
                    continue
                self.now = when
                if target.step is None or target.worker is not None or self._do_in_one_go(target):
                    return target
        return None

    def _do_in_one_go(self, ticker: Actor) -> bool:
        """Do a step of a ticker at once; true if it got a thread instead, to which the baton is to be passed."""
        step, life = ticker.step, ticker.life
        assert step is not None
        ticker.token += 1
        ticker.parked = False
        if life.dead:
            self._leave(ticker)
        elif not life.in_one_go():
            self._employ(ticker, step)
            return True
        else:
            before, self._current, self._in_one_go = self._current, ticker, True
            self._enter_life(life)
            try:
                self._done(ticker, self._guarded(ticker, step))
            finally:
                self._current, self._in_one_go = before, False
        return False

    def _guarded(self, actor: Actor, body: Callable[[], object]) -> Any:
        """Return what ``body`` returns; None if its process has died."""
        try:
            return None if actor.life.dead else body()
        except Crash:
            if not actor.life.dead and not self.stopped:
                self._fail(RuntimeError(f"{actor.life.name}/{actor.name} crashed and is alive"))
        except BaseException as error:
            if not actor.life.dead:
                self._fail(error)
        return None

    def _done(self, actor: Actor, seconds: float | None) -> None:
        """Note that an actor has done its part, or a ticker one step."""
        actor.worker = None
        if actor.step is None or seconds is None or actor.life.dead:
            self._leave(actor)
        else:
            self._rest(actor, seconds)

    def _leave(self, actor: Actor) -> None:
        actor.over = True
        actor.life.actors.remove(actor)

    def _play(self, actor: Actor, body: Callable[[], object]) -> None:
        """The whole part of one actor, or one step of a ticker, on its worker."""
        worker = actor.worker
        assert worker is not None
        self._done(actor, self._guarded(actor, body))
        following = None
        if not self.stopped:
            try:
                following = self._next()
            except BaseException as error:
                self._fail(error)
        _Worker.idle.append(worker)
        self._begin(following)

    def _fail(self, error: BaseException) -> None:
        self.error = self.error or error
        self.stopped = True
