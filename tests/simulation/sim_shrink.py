"""A smaller simulation that goes wrong in the same way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sim_workload import JobPlan, Plan
from sim_world import World

#: How many simulations are tried at most.
MOST_TRIES = 600
#: How many orders of events are tried of a smaller plan, beside its own.
OTHER_ORDERS = 3


def shrunk(plan: Plan, rule: str) -> World:
    """Return the smallest simulation that was found in which the same rule is violated."""
    best, tries, running = World(plan).run(), 1, True
    while running and tries < MOST_TRIES:
        running = False
        for smaller in _smaller(best.plan):
            found, cost = _violating(smaller, rule)
            tries += cost
            if found is not None:
                best, running = found, True
                break
            if tries >= MOST_TRIES:
                break
    return best


def _violating(plan: Plan, rule: str) -> tuple[World | None, int]:
    for tries, seed in enumerate((plan.seed, *range(OTHER_ORDERS)), 1):
        world = World(replace(plan, seed=seed)).run()
        if world.violation is not None and world.violation.rule == rule:
            return world, tries
    return None, OTHER_ORDERS + 1


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Yield plans with one thing less, those first with which most goes away."""
    if plan.nodes > 1:
        last = plan.nodes - 1
        yield replace(
            plan, nodes=last, skews=plan.skews[:last], faults=tuple(each for each in plan.faults if each.node < last),
            ops=tuple(op for op in plan.ops if op.node < last),
        )  # fmt: skip
    for number, job in enumerate(plan.jobs):
        if len(plan.jobs) > 1:
            ops = tuple(op for op in plan.ops if op.job != job.id)
            yield replace(plan, jobs=_without(plan.jobs, number), ops=ops)
    for number in range(len(plan.faults)):
        yield replace(plan, faults=_without(plan.faults, number))
    for number in range(len(plan.ops)):
        yield replace(plan, ops=_without(plan.ops, number))
    for number, job in enumerate(plan.jobs):
        for simpler in _simpler(job):
            yield replace(plan, jobs=(*plan.jobs[:number], simpler, *plan.jobs[number + 1 :]))
    if any(plan.skews):
        yield replace(plan, skews=(0.0,) * len(plan.skews))
    if plan.workers > 1:
        yield replace(plan, workers=1)


def _simpler(job: JobPlan) -> Iterator[JobPlan]:
    if job.every is not None:
        yield replace(job, every=None)
    for number in range(len(job.options)):
        yield replace(job, options=_without(job.options, number))
    if job.acts:
        yield replace(job, acts=())
    if job.limit is not None:
        yield replace(job, limit=None)
    if job.failures:
        yield replace(job, failures=0)
    if job.attempts > 1:
        yield replace(job, attempts=1)


def _without(items: tuple, number: int) -> tuple:
    return items[:number] + items[number + 1 :]
