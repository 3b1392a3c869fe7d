"""The rules about messages, documents and locks, and about processes that come back to life."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from causes import CLIENT, SERVER, TOTAL
from facts import Facts, Violation
from history import Delivery, Hold, Operation

#: Seconds that may pass from the moment at which a lock begins to last to the line that says so.
ACQUIRING = 0.5
#: A node that starts nothing while this many runs for each node are started by others is not alive.
ENOUGH_WORK = 40


def messages(facts: Facts) -> Iterator[Violation]:
    """Yield messages that were not delivered, delivered too early, without need, or although they were cancelled."""
    scheduled, cancelled = _message_calls(facts)
    delivered: dict[str, list[Delivery]] = defaultdict(list)
    for delivery in facts.history.deliveries:
        delivered[delivery.message].append(delivery)
    for message, call in scheduled.items():
        due, arrived = facts.history.mono(float(call.spec["at"])), delivered.get(message, [])
        cancel = cancelled.get(message)
        if arrived:
            yield from _deliveries(facts, message, due, arrived, cancel)
        elif call.result == "ok" and cancel is None:
            since = max(due, call.t1)
            if facts.causes.excused_until(since, facts.slack(call.spec)) <= facts.setup.read:
                yield Violation("message missing", message, "was never delivered", call.t0, due)
    for message in delivered.keys() - scheduled.keys():
        yield _about_delivery("message phantom", message, "nobody has scheduled it", delivered[message])


def _message_calls(facts: Facts) -> tuple[dict[str, Operation], dict[str, Operation]]:
    scheduled: dict[str, Operation] = {}
    cancelled: dict[str, Operation] = {}
    for operation in facts.history.operations:
        if operation.id is None or operation.result == "fail":
            continue
        if operation.op == "schedule_message":
            scheduled.setdefault(operation.id, operation)
        elif operation.op == "cancel_message":
            cancelled[operation.id] = operation
    return scheduled, cancelled


def _deliveries(
    facts: Facts, message: str, due: float, arrived: list[Delivery], cancel: Operation | None
) -> Iterator[Violation]:
    first = arrived[0]
    if first.t < due - facts.setup.epsilon - facts.causes.ahead(first.t):
        yield _about_delivery("message early", message, f"delivered {due - first.t:.3f} s too early", [first])
    if cancel is not None and cancel.result == "ok" and cancel.t1 <= due:
        yield _about_delivery("message cancelled", message, "delivered although it was cancelled in time", [first])
    for earlier, later in pairwise(arrived):
        if later.attempt > earlier.attempt:
            continue
        cause = facts.causes.of_loss(earlier.node, earlier.life, earlier.t, earlier.t, later.t)
        if cause is None:
            text = f"delivered again, and nothing had happened to {earlier.node}"
            yield _about_delivery("message repeated", message, text, [earlier, later])


def _about_delivery(kind: str, message: str, text: str, deliveries: list[Delivery]) -> Violation:
    nodes = tuple(dict.fromkeys(delivery.node for delivery in deliveries))
    return Violation(kind, message, text, deliveries[0].t, deliveries[-1].t, None, nodes)


def documents(facts: Facts) -> Iterator[Violation]:
    """Yield documents that were processed twice at the same time, or not at all."""
    yield from _held_twice(facts, facts.history.documents, "document twice at once")
    done = {hold.name for hold in facts.history.documents if hold.finished}
    for operation in facts.history.operations:
        if operation.op != "add_document" or operation.result != "ok" or operation.id in done:
            continue
        due = max(operation.t1, facts.history.mono(float(operation.spec.get("at", 0))))
        if facts.causes.excused_until(due, facts.slack(operation.spec)) <= facts.setup.read:
            yield Violation("document missing", str(operation.id), "was never processed", operation.t0, due)


def locks(facts: Facts) -> Iterator[Violation]:
    """Yield locks that two had at once, fences that do not rise, and writes that were taken from a former holder."""
    lasting = {}
    for schedule in facts.schedules.values():
        for spec in schedule.specs:
            if "lock" in spec:
                lasting[spec["lock"]] = float(spec["ttl"])
    yield from _held_twice(facts, facts.history.locks, "lock held twice", lasting)
    by_name: dict[str, list[Hold]] = defaultdict(list)
    for hold in facts.history.locks:
        by_name[hold.name].append(hold)
    for name, holds in by_name.items():
        for first, second in pairwise(holds):
            if int(second.token) <= int(first.token) and not facts.causes.forgetful(second.t):
                text = f"fence {second.token} was given after {first.token}"
                yield Violation("lock fence", name, text, first.t, second.t, None, (first.node, second.node))
    highest: dict[str, int] = {}
    for write in facts.history.guarded:
        if write.accepted and write.fence < highest.get(write.name, 0):
            text = f"a write with fence {write.fence} was taken after one with {highest[write.name]}"
            yield Violation("lock fence", write.name, text, write.t, write.t, None, (write.node,))
        if write.accepted:
            highest[write.name] = max(write.fence, highest.get(write.name, 0))


def _held_twice(
    facts: Facts, holds: list[Hold], kind: str, lasting: dict[str, float] | None = None
) -> Iterator[Violation]:
    """Yield where two had something at once for certain; ``lasting`` says how long some of it lasts by itself."""
    last: dict[str, tuple[Hold, float]] = {}
    for hold in holds:
        until = min(facts.causes.valid_until(hold), hold.t + (lasting or {}).get(hold.name, math.inf) - ACQUIRING)
        before = last.get(hold.name)
        if before is not None and hold.t < before[1]:
            text = f"{before[0].node} had it until {before[1] - hold.t:.3f} s after {hold.node} began"
            yield Violation(kind, hold.name, text, before[0].t, before[1], None, (before[0].node, hold.node))
        if before is None or until > before[1]:
            last[hold.name] = (hold, until)


def recovery(facts: Facts) -> Iterator[Violation]:
    """Yield work of a lost process that was taken up too late; those that were never taken up are missing."""
    if facts.setup.timed:
        for took, violation in taken_up(facts):
            if took is not None and violation is not None:
                yield violation


def taken_up(facts: Facts) -> Iterator[tuple[float | None, Violation | None]]:
    """Yield, for each call that died with its process, how long it took until it was started again."""
    for firing in facts.known:
        if facts.spec(firing).get("on_crash", "rerun") != "rerun":
            continue
        for call in firing.calls:
            life = facts.history.life_of.get((call.node, call.life))
            if call.end is not None or life is None or life.killed is None or facts.was_removed(firing.job):
                continue
            later = [other.t for other in firing.calls if other.t > life.killed and other.run == call.run]
            if not later:
                continue
            took = min(later) - life.killed
            bound = facts.causes.excused_until(life.killed, facts.setup.recovery)
            late = min(later) > bound and not facts.spec(firing).get("limits")
            text = f"{call.node} was killed; its run was taken up {took:.1f} s later"
            yield took, facts.about("recovery", firing, text) if late else None


def resumed(facts: Facts) -> list[tuple[str, float, float | None]]:
    """Return, for each fault of the server, when it was healed and how long nothing was started after that."""
    found = []
    for fault in facts.history.faults:
        for_all = fault.node is None or (fault.kind == "cut-off" and fault.node == CLIENT)
        if for_all and fault.kind in SERVER | TOTAL and fault.end < facts.setup.read:
            after = facts.history.next_start(fault.end)
            found.append((fault.kind, fault.end, None if after is None else after - fault.end))
    return found


def resume(facts: Facts) -> Iterator[Violation]:
    """Yield returns of a server after which it took too long until anything was started."""
    if not facts.setup.timed:
        return
    for kind, healed, took in resumed(facts):
        bound = facts.causes.excused_until(healed + 1e-6, facts.setup.resume)
        if bound > facts.setup.read:
            continue
        if took is None or healed + took > bound:
            text = f"{kind} was over; the next start came " + ("never" if took is None else f"{took:.1f} s later")
            yield Violation("resume", kind, text, healed, healed + (took or facts.setup.resume))


def nodes_alive(facts: Facts) -> Iterator[Violation]:
    """Yield processes that ended by themselves, and those that start nothing any more after everything has healed."""
    setup = facts.setup
    for node in setup.not_ready:
        text = "did not come up after the last heal"
        yield Violation("node not ready", node, text, setup.heal, setup.read, None, (node,))
    for node in setup.hanging:
        yield Violation("node hangs", node, "did not end when it was told to", setup.read, setup.read, None, (node,))
    for fault in facts.history.hangs:
        text = "did not end when it was told to"
        yield Violation("node hangs", fault.node or "", text, fault.begin, fault.end, None, (fault.node or "",))
    latest = {life.node: life for life in sorted(facts.history.lives, key=lambda life: life.life)}
    for life in facts.history.lives:
        if latest[life.node] is not life and life.over() is None and life.stopping is None:
            yield Violation("node died", life.node, f"life {life.life} ended by itself", life.ready, setup.read)
    after = [call for call in facts.history.executions if call.t > setup.heal]
    alive = [life for life in latest.values() if life.over() is None and life.stopping is None]
    working = {(call.node, call.life) for call in after}
    for life in alive:
        if (life.node, life.life) not in working and len(after) >= ENOUGH_WORK * len(alive):
            text = f"life {life.life} started none of the {len(after)} runs after the last heal"
            yield Violation("node idle", life.node, text, setup.heal, setup.read, None, (life.node,))
