"""What one simulation consists of: processes, jobs, what people ask for, and faults. All of it follows from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

#: Seconds of a lease.
LEASE = 5.0
#: Until when jobs fire and faults happen; then the world heals.
UNTIL = 10.0

CRASHES = ("crash before", "crash after")
#: What can happen at a call of a store.
CALL_FAULTS = (*CRASHES, "not done", "answer lost", "late", "pause before", "pause after", "in part")
#: What happens at a time.
TIMED_FAULTS = ("outage", "clock jumps", "stop", "pause")
#: The calls that are worth a fault of their own, and how much so.
AIMS = {
    "fire_due": 6, "claim_runs": 5, "settle": 6, "renew_owner": 3, "recover_runs": 2, "remove_job": 2, "forget_job": 2,
    "live_runs": 1, "cancel_run": 2, "withdraw_cancel_requests": 2, "cancel_requests": 1, "add_run": 2,
    "edit_job": 1, "add_job": 1, "retire_owner": 1, "history": 1, "lookup_job": 1,
}  # fmt: skip


@dataclass(frozen=True)
class JobPlan:
    """A job, and what its function does."""

    id: str
    every: float | None
    """Seconds between two firings; None: it fires once."""
    first: float
    options: tuple[tuple[str, Any], ...] = ()
    attempts: int = 1
    failures: int = 0
    """How many attempts at each run fail."""
    seconds: float = 0.1
    polite: bool = True
    """Whether it ends when it is told to."""
    acts: tuple[tuple[str, str], ...] = ()
    """What it does on the way: (method, job id)."""
    limit: tuple[str, int] | None = None
    """The name of a limit, and how many may run under it at once."""


@dataclass(frozen=True)
class Op:
    """Something that a person asks of a process."""

    at: float
    node: int
    act: str
    job: str


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong in one process."""

    node: int
    kind: str
    call: str = ""
    """The method at whose call it happens; empty for any method."""
    number: int = 0
    """At which call of it; only such calls count as have something to do."""
    at: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class Plan:
    """One simulation."""

    seed: int
    """Of the order in which things happen."""
    nodes: int
    jobs: tuple[JobPlan, ...]
    ops: tuple[Op, ...] = ()
    faults: tuple[Fault, ...] = ()
    skews: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    hears: bool = True
    """Whether processes hear of what others have changed, or have to look."""
    workers: int = 2
    density: float = 0.4
    """The share of the rounds, renewals and settlings in which others come between."""


def plan_of(seed: int) -> Plan:
    """Return the simulation of a seed."""
    rng = Random(seed)
    nodes = rng.choice((2, 2, 3, 3, 4))
    jobs = tuple(_job(rng, number) for number in range(rng.randint(1, 4)))
    acts = ["remove", "remove", "pause", "resume", "run_now", "run_now", "cancel", "redrive", "add", "modify"]
    ops = [_op(rng, nodes, rng.choice(acts), rng.choice(jobs)) for _ in range(rng.randint(0, 5))]
    for op in ops[:2]:
        if rng.random() < 0.5:  # somebody else wants something of the same job at the same moment
            moment = round(max(0.2, op.at + rng.uniform(-0.04, 0.04)), 3)
            ops.append(Op(moment, rng.randrange(nodes), rng.choice(acts), op.job))
    faults = [_fault(rng, nodes) for _ in range(rng.choice((0, 1, 2, 2, 3, 4, 5, 7)))]
    skews = tuple(round(rng.choice((0.0, 0.0, rng.uniform(-4, 4))), 2) for _ in range(nodes))
    return Plan(
        seed, nodes, jobs, tuple(sorted(ops, key=lambda op: op.at)), tuple(faults), skews, rng.random() < 0.6,
        rng.choice((1, 1, 2, 3)), rng.choice((0.2, 0.3, 1.0)),
    )  # fmt: skip


def _op(rng: Random, nodes: int, act: str, job: JobPlan) -> Op:
    """Return something that is asked for, mostly about when the job fires."""
    near = job.first + rng.randrange(4) * (job.every or 1.0) + rng.uniform(-0.1, 0.7)
    at = near if rng.random() < 0.7 else rng.uniform(0.5, UNTIL)
    return Op(round(max(0.2, min(UNTIL, at)), 2), rng.randrange(nodes), act, job.id)


def _job(rng: Random, number: int) -> JobPlan:
    every = rng.choice((None, 1.0, 1.5, 2.0, 2.0, 2.7, 4.0))
    options: dict[str, Any] = {}
    if rng.random() < 0.5:
        options["max_instances"] = rng.randint(1, 2)
    if rng.random() < 0.5:
        options["overlap"] = rng.choice(("skip", "queue", "cancel_running", "allow"))
    options["coalesce"] = rng.random() < 0.5
    if rng.random() < 0.25:
        options["on_crash"] = rng.choice(("fail", "dead"))
    if rng.random() < 0.15:
        options["timeout"] = rng.choice((1.0, 3.0))
    if rng.random() < 0.15:
        options["misfire_grace_time"] = rng.choice((1.0, 5.0))
    if rng.random() < 0.2:
        options["priority"] = rng.randint(0, 9)
    attempts = rng.choice((1, 1, 2, 3))
    acts = ((rng.choice(("run_now", "remove", "pause", "add")), f"j{rng.randrange(4)}"),) if rng.random() < 0.2 else ()
    return JobPlan(
        f"j{number}", every, rng.choice((0.5, 1.0, 1.0, 2.0, 2.0, 3.2)), tuple(sorted(options.items())), attempts,
        rng.choice((0, 0, 1, attempts)), round(rng.choice((0.02, 0.3, 1.0, rng.uniform(0.1, 4.0), 6.0)), 2),
        rng.random() < 0.5, acts, (f"l{rng.randrange(2)}", rng.randint(1, 2)) if rng.random() < 0.3 else None,
    )  # fmt: skip


def _fault(rng: Random, nodes: int) -> Fault:
    node = rng.randrange(nodes)
    if rng.random() < 0.3:
        kind = rng.choice(TIMED_FAULTS)
        seconds = rng.uniform(-5, 5) if kind == "clock jumps" else rng.choice((0.4, 2.0, 3.5, 6.0, 7.0))
        return Fault(node, kind, at=round(rng.uniform(0.2, UNTIL), 2), seconds=round(seconds, 2))
    kind = rng.choice(CALL_FAULTS)
    seconds = round(rng.choice((0.4, 0.7, 1.1, 1.3, 1.6)) * LEASE, 2)
    if kind == "in part":
        return Fault(node, kind, "settle", rng.randint(0, 3))
    if kind == "late":
        seconds = round(rng.uniform(0.05, 0.8) * LEASE, 2)
    if rng.random() < 0.25:
        return Fault(node, kind, "", rng.randint(0, 100), seconds=seconds)
    aim = rng.choices(list(AIMS), list(AIMS.values()))[0]
    return Fault(node, kind, aim, min(rng.randint(0, 6), rng.randint(0, 6)), seconds=seconds)
