"""One small scenario in which every call of a store is a point to die at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sim_workload import CRASHES, Fault, JobPlan, Op, Plan
from sim_world import World

#: Two processes; a job that comes again, one that fails once, one that somebody wants now, one that is removed.
SCENARIO = Plan(
    seed=7,
    nodes=2,
    jobs=(
        JobPlan("j0", 2.0, 1.0, (("max_instances", 1), ("overlap", "queue")), seconds=0.4),
        JobPlan("j1", None, 1.0, attempts=3, failures=1, seconds=0.3),
        JobPlan("j2", 2.0, 1.0, seconds=1.2, polite=False, limit=("l0", 1)),
    ),
    ops=(Op(1.3, 1, "run_now", "j0"), Op(3.1, 0, "remove", "j2"), Op(3.2, 1, "run_now", "j1")),
    workers=1,
)


def crashes() -> Iterator[Plan]:
    """Yield the scenario with one crash, at each call of each process, before and after the store has done it."""
    calls = World(SCENARIO).run().calls_of
    for node in range(SCENARIO.nodes):
        for number in range(calls[node]):
            for kind in CRASHES:
                yield replace(SCENARIO, faults=(Fault(node, kind, "", number),))
