"""What is asked of the cluster: the jobs that are there all the time, and what a client does meanwhile.

Everything here is pure: a seed gives the same jobs and the same operations at the same times. A specification is a
plain dict, which goes into the record of the run; times in it are counted from the begin of the run in the fields
``first`` and ``in``, and the client turns them into moments.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

Spec = dict[str, Any]

#: What a job is, unless its specification says otherwise.
PLAIN: Spec = {
    "seconds": 0.01, "max_instances": 1, "limits": [], "fails": 0, "attempts": 1, "retry_delay": 0.0,
    "coalesce": True, "on_crash": "rerun", "overlap": "skip",
}  # fmt: skip
NARROW, WIDE = ["narrow", 1], ["wide", 2]
SCHEDULES = [f"cron-{number}" for number in range(4)]


class Step(NamedTuple):
    """One operation of the client."""

    after: float
    """Seconds since the begin of the run."""
    op: str
    id: str
    spec: Spec


def standing(seed: int, lease: float, share: float = 1.0) -> dict[str, Spec]:
    """Return the jobs that are there all the time, by their ids. ``share`` makes them fewer for a slow store."""
    luck = random.Random(f"standing {seed}")
    groups: list[tuple[str, int, float, Spec]] = [
        ("quick", 4, 0.5, {"coalesce": False}),
        ("gather", 2, 0.5, {}),
        ("steady", 4, 1.0, {"coalesce": False, "seconds": 0.05}),
        ("long", 3, 1.0, {"seconds": 0.4 * lease}),
        ("beside", 2, 1.0, {"seconds": 0.3 * lease, "max_instances": 2, "coalesce": False}),
        ("queue", 2, 1.5, {"seconds": 0.3, "overlap": "queue", "coalesce": False}),
        ("narrow", 2, 1.0, {"seconds": 0.15, "limits": [NARROW], "overlap": "queue"}),
        ("wide", 3, 1.0, {"seconds": 0.3, "limits": [WIDE]}),
        ("both", 2, 2.0, {"seconds": 0.1, "limits": [NARROW, WIDE]}),
        ("retried", 2, 2.0, {"fails": 2, "attempts": 4, "retry_delay": 0.3}),
        ("doomed", 1, 3.0, {"fails": 99, "attempts": 3, "retry_delay": 0.2}),
        ("guard", 3, 1.0, {"seconds": 0.2, "lock": "guarded", "ttl": 2.0}),
        ("paused", 3, 1.0, {"coalesce": False}),
    ]
    jobs = {}
    for name, number, every, spec in groups:
        for index in range(max(1, round(number * share))):
            first = round(luck.uniform(0.2, 0.2 + every), 3)
            times = {"kind": "interval", "every": every, "first": first}
            jobs[f"{name}-{index}"] = {**PLAIN, **times, "work": name, **spec}
    return jobs


def operations(seed: int, lease: float, share: float = 1.0) -> Iterator[Step]:
    """Return what the client does, in the order of time, without end."""
    sources = [
        dates(random.Random(f"dates {seed}"), lease, 0.35 / share),
        batches(random.Random(f"batches {seed}")),
        messages(random.Random(f"messages {seed}"), 0.5 / share),
        documents(random.Random(f"documents {seed}"), lease),
        passing(random.Random(f"passing {seed}")),
        by_hand(random.Random(f"by hand {seed}"), standing(seed, lease, share)),
        pauses(random.Random(f"pauses {seed}"), standing(seed, lease, share)),
        syncs(random.Random(f"syncs {seed}")),
    ]
    return in_order(heapq.merge(*sources, key=lambda step: step.after))


def in_order(steps: Iterator[Step]) -> Iterator[Step]:
    """Sort steps that come at most ``ahead`` seconds too early."""
    ahead, heap, number = 30.0, list[tuple[float, int, Step]](), count()
    for step in steps:
        heapq.heappush(heap, (step.after, next(number), step))
        while heap[0][0] < step.after - ahead or len(heap) > 300:
            yield heapq.heappop(heap)[2]


def dates(luck: random.Random, lease: float, pause: float) -> Iterator[Step]:
    """Add jobs that fire once."""
    kinds: list[tuple[str, int, Spec]] = [
        ("once", 5, {}),
        ("once-long", 2, {"seconds": round(0.5 * lease, 2)}),
        ("once-limited", 1, {"limits": [WIDE], "seconds": 0.1}),
        ("once-retried", 2, {"fails": 2, "attempts": 4, "retry_delay": 0.3}),
        ("once-doomed", 1, {"fails": 99, "attempts": 2, "retry_delay": 0.2}),
        ("once-crash-fails", 1, {"on_crash": "fail", "attempts": 3, "retry_delay": 0.2, "seconds": 0.5}),
        ("once-crash-dead", 1, {"on_crash": "dead", "seconds": 0.8}),
    ]
    after = 0.0
    for number in count():
        after += luck.uniform(0.5, 1.5) * pause
        name, _, spec = luck.choices(kinds, [weight for _, weight, _ in kinds])[0]
        yield Step(after, "add_job", f"{name}-{number}", date(luck, name, spec))


def date(luck: random.Random, name: str, spec: Spec) -> Spec:
    return {**PLAIN, "kind": "date", "work": name, "in": round(luck.uniform(0.1, 4.0), 3), **spec}


def batches(luck: random.Random) -> Iterator[Step]:
    """Add several jobs at once."""
    after = 0.0
    for number in count():
        after += luck.uniform(3, 6)
        jobs = {f"batch-{number}-{index}": date(luck, "batch", {}) for index in range(5)}
        yield Step(after, "add_jobs", f"batch-{number}", {"jobs": jobs})


def messages(luck: random.Random, pause: float) -> Iterator[Step]:
    """Schedule messages, and take some of them back in time."""
    after = 0.0
    for number in count():
        after += luck.uniform(0.5, 1.5) * pause
        name, cancelled = f"message-{number}", luck.random() < 0.2
        due = luck.uniform(3.0, 6.0) if cancelled else luck.uniform(0.1, 3.0)
        yield Step(after, "schedule_message", name, {"in": round(due, 3), "fails": int(luck.random() < 0.15)})
        if cancelled:
            yield Step(after + luck.uniform(0.3, 1.5), "cancel_message", name, {})


def documents(luck: random.Random, lease: float) -> Iterator[Step]:
    """Add documents; some take longer than half of their lock."""
    after = 0.0
    for number in count():
        after += luck.uniform(0.4, 1.2)
        seconds = 0.6 * lease if luck.random() < 0.2 else 0.05
        spec = {"in": round(luck.uniform(0, 2), 3), "seconds": seconds}
        yield Step(after, "add_document", f"document-{number}", spec)


def passing(luck: random.Random) -> Iterator[Step]:
    """Add jobs that fire again and again; pause some, resume them, remove all."""
    after = 0.0
    for number in count():
        after += luck.uniform(1, 2.5)
        name = f"passing-{number}"
        spec = {**PLAIN, "kind": "interval", "work": "passing", "every": 0.5, "first": 0.3, "in": 0.3}
        spec |= {"coalesce": luck.random() < 0.5, "seconds": luck.choice([0.01, 0.6])}
        yield Step(after, "add_job", name, spec)
        moment = after + luck.uniform(1, 4)
        if luck.random() < 0.5:
            yield Step(moment, "pause_job", name, {})
            moment += luck.uniform(1, 3)
            if luck.random() < 0.7:
                yield Step(moment, "resume_job", name, {})
                moment += luck.uniform(1, 3)
        yield Step(moment, "remove_job", name, {})


def by_hand(luck: random.Random, jobs: dict[str, Spec]) -> Iterator[Step]:
    """Ask for runs by hand."""
    names = [name for name in jobs if name.startswith(("steady", "wide", "queue"))]
    after = 0.0
    while True:
        after += luck.uniform(1, 4)
        yield Step(after, "run_now", luck.choice(names), {})


def pauses(luck: random.Random, jobs: dict[str, Spec]) -> Iterator[Step]:
    """Pause several jobs in a row, and resume them in a row."""
    names = [name for name in jobs if name.startswith("paused")]
    after = 0.0
    while True:
        after += luck.uniform(6, 12)
        for step, moment in (("pause_job", after), ("resume_job", after + luck.uniform(2, 5))):
            for name in names:
                yield Step(moment, step, name, {})


def syncs(luck: random.Random) -> Iterator[Step]:
    """Declare schedules; the last of them comes and goes."""
    after = 2.0
    for number in count():
        wanted = SCHEDULES if number % 2 == 0 else SCHEDULES[:-1]
        yield Step(after, "sync_periodic", "schedules", {"cron": "* * * * *", "schedules": wanted})
        after += luck.uniform(10, 25)
