"""The world of one simulation: machines with clocks, one store, people who ask for things, and what goes wrong."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import Any

import sim_people
from sim_book import Book, Violation
from sim_checks import check_at_the_end
from sim_kernel import Crash, Kernel
from sim_people import People
from sim_process import Ear, NodeClock, Process
from sim_store import READS, Lost, Truth, tells
from sim_workload import CALL_FAULTS, LEASE, UNTIL, Fault, Op, Plan

from goscheduler.runs.model import Run
from goscheduler.schedulers import _engine, _lease, _lifecycle, _outages
from goscheduler.testing.clock import START

#: Seconds that a call of the store is under way, each way, at most.
LATENCY = 0.02
#: How long after the world has healed everything has to be over.
PATIENCE = 8 * LEASE


class World:
    """One simulation. :meth:`run` returns what it was worth."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rng = Random(plan.seed * 2 + 1)
        self.kernel = Kernel(Random(plan.seed * 2))
        self.trace: list[tuple[float, str, str, Any]] = []
        """Time, who, what, and text or what a call of the store was about; see :mod:`sim_timeline`."""
        self.violation: Violation | None = None
        self.book = Book(lambda: self.kernel.now, self.store_now)
        self.book.excused = self._is_excused
        self.truth = Truth(self.book, self.store_now)
        self.healed = False
        self.calls = 0
        self.calls_of: Counter[int] = Counter()
        self.happened: Counter[str] = Counter()
        """Kind of fault → how often it happened."""
        self._ids = count(1)
        self._lives = count(1)
        self._seen: Counter[tuple[int, str]] = Counter()
        self._wakes: dict[Process, Callable[[], None]] = {}
        self._outages: dict[int, float] = {}
        self._troubles: dict[Process, list[float]] = defaultdict(list)
        """When something happened to a process that may cost it its lease."""
        self.leaving: set[Process] = set()
        self._faults = [fault for fault in plan.faults if fault.kind in CALL_FAULTS]
        self.clocks = [NodeClock(lambda: self.kernel.now, skew) for skew in plan.skews[: plan.nodes]]
        self.people = People(self)
        self.processes: list[Process | None] = [None] * plan.nodes
        self.all_processes: list[Process] = []

    def store_now(self) -> datetime:
        return START + timedelta(seconds=self.kernel.now)

    def run(self) -> World:
        """Run to the end."""
        try:
            with _in_place(self):
                self._arrange()
                self.kernel.run()
            if self.violation is None:
                check_at_the_end(self)
        except Violation as violation:
            self.violation = violation
        finally:
            for process in self.all_processes:
                process.scheduler.forget()
        return self

    def _arrange(self) -> None:
        kernel, plan = self.kernel, self.plan
        for node in range(plan.nodes):
            kernel.at(0.01 * node, lambda node=node: self.boot(node))
        for job in plan.jobs:
            kernel.at(0.05, lambda job=job: self.people.ask_for(Op(0.05, 0, "add", job.id)))
        for op in plan.ops:
            kernel.at(op.at, lambda op=op: self.people.ask_for(op))
        for fault in plan.faults:
            if fault.kind not in CALL_FAULTS:
                kernel.at(fault.at, lambda fault=fault: self._happen(fault))
        kernel.at(UNTIL, self._heal)

    # Processes

    def boot(self, node: int) -> None:
        """Start a process on a machine that has none."""
        before = self.processes[node]
        if before is not None and not before.dead:
            return
        process = Process(self, node, next(self._lives), self.clocks[node])
        self.processes[node] = process
        self.all_processes.append(process)
        self.note(process, "boots", "")

    def crash(self, process: Process) -> None:
        """Let a process die; its machine starts another one in a while."""
        self.note(process, "dies", "")
        self.kernel.kill(process)
        self._wakes.pop(process, None)
        if self.healed:
            self.boot(process.node)
        else:
            pause = self.rng.uniform(0.1, 1.8 * LEASE)
            self.kernel.at(self.kernel.now + pause, lambda: self.boot(process.node))

    def pause(self, process: Process, seconds: float) -> None:
        """Let a process stand still."""
        self.note(process, "stands still", f"for {seconds:g} s")
        process.paused_until = self.kernel.now + seconds
        self._troubles[process].append(process.paused_until)

    def _heal(self) -> None:
        self.healed = True
        self._outages.clear()
        self.trace.append((self.kernel.now, "world", "heals", ""))
        for node, process in enumerate(self.processes):
            if process is None or process.dead:
                self.boot(node)
            elif process.paused_until > self.kernel.now:
                process.paused_until = self.kernel.now
                self.kernel.at(self.kernel.now, lambda process=process: _resume(self.kernel, process))
        self.kernel.at(self.kernel.now + 0.5, self._look)

    def _look(self) -> None:
        """End the simulation when all is done, or when it should be."""
        kernel = self.kernel
        if kernel.now > UNTIL + PATIENCE or (self.truth.is_idle() and self._has_settled_down()):
            kernel.stop()
        else:
            kernel.at(kernel.now + 0.5, self._look)

    def _has_settled_down(self) -> bool:
        return all(
            process is not None and not process.dead and process.last_round > UNTIL and not process.executor._busy
            and not process.scheduler.engine.settler._unwritten and process.scheduler.engine.settler._queue.empty()
            for process in self.processes
        ) and not any(actor.name == "client" and not actor.over for actor in self.kernel._actors)  # fmt: skip

    def _happen(self, fault: Fault) -> None:
        process = self.processes[fault.node]
        if self.healed or process is None or process.dead:
            return
        self.happened[fault.kind] += 1
        if fault.kind == "clock jumps":
            self.note(process, "clock jumps", f"by {fault.seconds:g} s")
            process.clock.skew += fault.seconds
        elif fault.kind == "pause":
            self.pause(process, fault.seconds)
        elif fault.kind == "outage":
            self.note(process, "is cut off", f"for {fault.seconds:g} s")
            self._outages[fault.node] = self.kernel.now + fault.seconds
            self._troubles[process].append(self.kernel.now + fault.seconds)
        elif process.begun and process not in self.leaving:
            self._stop(process, fault.seconds)

    def _stop(self, process: Process, seconds: float) -> None:
        self.note(process, "is shut down", "")
        self.leaving.add(process)

        def stopped() -> None:
            if process.dead:
                self.boot(process.node)
            else:
                self.kernel.at(self.kernel.now + 1.0, stopped)

        process.spawn("client", process.shut_down)
        self.kernel.at(self.kernel.now + seconds, stopped)

    def _is_excused(self, owner: str) -> bool:
        process = self.book.owners.get(owner)
        if process is None or process.dead:
            return True
        since = self.kernel.now - 2 * LEASE
        return any(until >= since for until in self._troubles[process])

    # The store

    def subscribe(self, process: Process, wake: Callable[[], None]) -> None:
        self._wakes[process] = wake

    def ask(self, process: Process, name: str, args: tuple[Any, ...], convert: Any = None) -> Any:
        """Call the store for a process."""
        if process.dead:
            raise Crash
        kernel = self.kernel
        self.calls += 1
        if self.rng.random() < 0.7:
            kernel.sleep(self.rng.random() * LATENCY)
        fault = self._fault_at(process, name)
        kind = "" if fault is None else fault.kind
        if self._outages.get(process.node, 0.0) > kernel.now:
            self.note(process, name, "no answer: cut off")
            kernel.sleep(0.2)
            raise Lost("the store cannot be reached")
        if fault is not None and kind not in ("crash after", "answer lost", "pause after", "in part"):
            self._before(process, name, args, fault)
        done = self._done(process, name, args, convert, some=self.rng.random() if kind == "in part" else None)
        if kernel.stopped:
            kernel.sleep(0)  # for good
        if kind == "crash after":
            self.crash(process)
            kernel.sleep(0)
        if kind == "pause after" and fault is not None:
            self.pause(process, fault.seconds)
            kernel.sleep(0)
        elif kind == "answer lost":
            self.note(process, name, "its answer is lost")
            if name == "renew_owner":
                self._troubles[process].append(kernel.now)
            kernel.sleep(0.2)
            raise Lost("the answer was lost")
        elif self.rng.random() < 0.3:
            kernel.sleep(self.rng.random() * LATENCY)
        return done()

    def _before(self, process: Process, name: str, args: tuple[Any, ...], fault: Fault) -> None:
        """Let something happen before a call is done; raises if it is not done."""
        kernel = self.kernel
        if fault.kind == "crash before":
            self.crash(process)
            kernel.sleep(0)
        if fault.kind == "pause before":
            self.pause(process, fault.seconds)
            kernel.sleep(0)
            return
        if name == "renew_owner":
            self._troubles[process].append(kernel.now)
        if fault.kind == "late" and name not in READS:
            self.note(process, name, f"no answer: it arrives {fault.seconds:g} s later")
            kernel.at(kernel.now + fault.seconds, lambda: self._done(process, name, args, None))
        else:
            self.note(process, name, "no answer: not done")
        kernel.sleep(0.2)
        raise Lost("the call was lost")

    def _done(
        self, process: Process, name: str, args: tuple[Any, ...], convert: Any, some: float | None = None
    ) -> Callable[[], Any]:
        """Have the store do something at once, and return what tells the result, which may be an error."""
        if name == "renew_owner":
            self.book.owners[args[0].id] = process
        answer, error = None, None
        try:
            if some is not None and name == "settle":
                answer = self.truth.settle_some(args[0], int(some * len(args[0])))
            else:
                answer = getattr(self.truth, name)(*args)
            if convert is not None:
                answer = convert(answer)
        except Violation as violation:
            self.violate(violation.rule, str(violation).partition(": ")[2])
        except Exception as raised:
            error = raised
        self.trace.append((self.kernel.now, process.name, name, (args, answer, error)))
        if self.plan.hears and error is None and tells(name, args, answer):
            self._tell_others(process)

        def result() -> Any:
            if error is not None:
                raise error
            return answer

        return result

    def _tell_others(self, process: Process) -> None:
        for other, wake in list(self._wakes.items()):
            if other is not process and not other.dead:
                self.kernel.at(self.kernel.now + self.rng.random() * LATENCY, wake)

    def in_one_go(self, process: Process) -> bool:
        """Tell whether a step of a process is done without others coming between; it cannot stand still then."""
        if self.rng.random() < self.plan.density:
            return False
        return not any(fault.node == process.node and fault.kind.startswith("pause") for fault in self._faults)

    def _fault_at(self, process: Process, name: str) -> Fault | None:
        """Return what goes wrong at this call."""
        node = process.node
        number = self.calls_of[node]
        self.calls_of[node] += 1
        if self.healed or not self._faults:
            return None
        aimed = -1
        if self.truth.has_work(name):
            aimed = self._seen[node, name]
            self._seen[node, name] += 1
        for fault in self._faults:
            if fault.node == node and fault.call in ("", name) and fault.number == (aimed if fault.call else number):
                self._faults.remove(fault)
                self.happened[fault.kind] += 1
                return fault
        return None

    # What is kept

    def given_up(self, run: Run) -> None:
        """Note that an executor waits no longer for a run."""
        for out in self.book.chains[run.id].outs:
            if out.run.fence == run.fence:
                out.given_up = True

    def note(self, process: Process, what: str, text: str) -> None:
        self.trace.append((self.kernel.now, process.name, what, text))

    def violate(self, rule: str, text: str) -> None:
        """Note the first thing that went wrong, and end the simulation."""
        if self.violation is None and not self.kernel.stopped:
            self.violation = Violation(rule, text)
            self.trace.append((self.kernel.now, "world", "VIOLATION", f"{rule}: {text}"))
            self.kernel.stop()

    def logger_of(self, process: Process) -> logging.Logger:
        logger = logging.Logger(process.name, logging.WARNING)
        logger.addHandler(Ear(process))
        return logger

    def new_id(self) -> Any:
        number = next(self._ids)
        return SimpleNamespace(hex=f"{number:016x}{number:016x}")


def _resume(kernel: Kernel, process: Process) -> None:
    for actor in process.actors:
        kernel.wake(actor)


@contextmanager
def _in_place(world: World) -> Iterator[None]:
    """Have what the package draws at random come from the seed."""
    before = _engine.uuid4, _lease.uuid4, _outages.CHANCE, _lifecycle.PROGRAM
    sim_people.present = world.people
    _engine.uuid4 = _lease.uuid4 = world.new_id
    _outages.CHANCE = world.rng
    _lifecycle.PROGRAM = SimpleNamespace(made_scheduler=lambda frame: None)  # looks around in the file system each time
    try:
        yield
    finally:
        _engine.uuid4, _lease.uuid4, _outages.CHANCE, _lifecycle.PROGRAM = before
        sim_people.present = None
