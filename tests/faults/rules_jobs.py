"""The rules about jobs: how many runs at once, how often they are tried, and what is left at the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from facts import FAILURES, MAX_CRASHES, Facts, Firing, Violation
from history import Execution, Row
from targets import ON


def crowded(facts: Facts) -> Iterator[Violation]:
    """Yield where more runs of a job went on at once than it allows, each of them with a valid lease."""
    for job, firings in facts.by_job.items():
        schedule = facts.schedules.get(job)
        if schedule is None or schedule.spec.get("overlap") == "allow":
            continue
        most = max((int(spec.get("max_instances", 1)) for spec in schedule.specs), default=1)
        calls = [call for firing in firings for call in firing.calls]
        yield from _too_many(facts, calls, most, "max_instances", job, f"max_instances is {most}")


def limit_exceeded(facts: Facts) -> Iterator[Violation]:
    """Yield where more runs went on at once than a limit allows that their jobs share."""
    allowed: dict[str, int] = {}
    members: dict[str, set[str]] = defaultdict(set)
    for job, schedule in facts.schedules.items():
        for spec in schedule.specs:
            for name, concurrency in spec.get("limits") or ():
                allowed[name] = max(allowed.get(name, 0), int(concurrency))
                members[name].add(job)
    for name, most in allowed.items():
        firings = [firing for job in members[name] for firing in facts.by_job.get(job, [])]
        calls = [call for firing in firings for call in firing.calls]
        yield from _too_many(facts, calls, most, "limit exceeded", name, f"the limit allows {most}")


def _too_many(
    facts: Facts, calls: list[Execution], most: int, kind: str, subject: str, rule: str
) -> Iterator[Violation]:
    """Sweep over the begins and ends; report once for each time that the number rises above the bound."""
    if len(calls) <= most:
        return
    edges: list[tuple[float, int, int]] = []
    for number, call in enumerate(calls):
        until = facts.causes.valid_until(call)
        if until > call.t:
            edges += [(call.t, 1, number), (until, 0, number)]
    edges.sort()  # an end goes before a begin at the same moment
    going_on: dict[int, Execution] = {}
    for t, begins, number in edges:
        if not begins:
            going_on.pop(number, None)
            continue
        going_on[number] = calls[number]
        if len(going_on) > most:
            together = sorted(going_on.values(), key=lambda call: call.t)
            where = ", ".join(f"{call.run}/{call.fence} on {call.node}" for call in together)
            nodes = tuple(dict.fromkeys(call.node for call in together))
            text = f"{len(together)} at once, and {rule}: {where}"
            yield Violation(kind, subject, text, together[0].t, t, together[-1].fire, nodes)


def retries(facts: Facts) -> Iterator[Violation]:
    """Yield attempts that were left out, made too early, too often or without need, and those that never came."""
    for firing in facts.known:
        spec = facts.spec(firing)
        attempts = firing.attempts()
        if not attempts:
            continue
        most, last = int(spec.get("attempts", 1)), max(attempts)
        gaps = set(range(1, last + 1)) - attempts
        if gaps:
            yield facts.about("attempt left out", firing, f"attempts {sorted(attempts)}; there is no {min(gaps)}")
        elif last > most:
            yield facts.about("too many attempts", firing, f"attempt {last} of at most {most}")
        else:
            yield from _each_retry(facts, firing, spec, last)
            if _is_owed(facts, firing, spec, last, most):
                yield facts.about("retry lost", firing, f"attempt {last} failed, {most} are allowed, and no more came")


def _each_retry(facts: Facts, firing: Firing, spec: Row, last: int) -> Iterator[Violation]:
    for number in range(1, last):
        if not _has_failed(firing, spec, number):
            text = f"attempt {number + 1} was made although attempt {number} had not failed"
            yield facts.about("retry without need", firing, text)
            continue
        ends = [call for call in firing.calls if call.attempt == number and call.outcome == "error"]
        starts = [call for call in firing.calls if call.attempt == number + 1]
        if not ends or not starts or any(_has_odd_clock(facts, call.node) for call in [*ends, *starts]):
            continue
        waited = min(call.t for call in starts) - min(call.end or call.t for call in ends)
        if waited < float(spec.get("retry_delay", 0)) - facts.setup.epsilon:
            text = f"attempt {number + 1} came {waited:.3f} s after the failure, not {spec['retry_delay']} s"
            yield facts.about("retry too early", firing, text, [*ends, *starts])


def _has_failed(firing: Firing, spec: Row, attempt: int) -> bool:
    if any(call.attempt == attempt and call.outcome == "error" for call in firing.calls):
        return True
    lost_counts = spec.get("on_crash") == "fail"
    return any(
        record.attempt == attempt and (record.outcome in FAILURES or (lost_counts and record.outcome == "lost"))
        for record in firing.records
    )


def _has_odd_clock(facts: Facts, node: str) -> bool:
    return any(fault.kind.startswith("clock") and fault.hits(node) for fault in facts.history.faults)


def _is_owed(facts: Facts, firing: Firing, spec: Row, last: int, most: int) -> bool:
    """Tell whether one more attempt had to be made by now."""
    if last >= most or firing.waiting or firing.letters or firing.succeeded or facts.was_removed(firing.job):
        return False
    recorded = [record for record in firing.records if record.attempt == last and record.outcome in FAILURES]
    if not recorded:
        return False  # if it was never recorded, that is another rule's business
    ended = max((call.end or call.t for call in firing.calls), default=facts.mono(firing.at))
    return facts.causes.excused_until(ended, facts.slack(spec)) <= facts.setup.read


def dead_letters(facts: Facts) -> Iterator[Violation]:
    """Yield dead letters that should not be, and those that should be and are not."""
    for firing in facts.known:
        spec, letters = facts.spec(firing), firing.letters
        if len(letters) > 1:
            yield facts.about("dead letter", firing, f"{len(letters)} letters of one firing")
        if letters and any(record.outcome == "succeeded" for record in firing.records):
            yield facts.about("dead letter", firing, "a letter although it succeeded")
        elif letters and not _is_dead(firing, spec):
            yield facts.about("dead letter", firing, "a letter although more attempts were to be made")
        elif not letters and _should_be_dead(facts, firing, spec):
            yield facts.about("dead letter", firing, "all attempts have failed, and there is no letter")


def _is_dead(firing: Firing, spec: Row) -> bool:
    lost = sum(record.outcome == "lost" for record in firing.records)
    on_crash = spec.get("on_crash", "rerun")
    if on_crash == "dead" and lost:
        return True
    if on_crash == "rerun" and lost >= int(spec.get("max_crashes", MAX_CRASHES)):
        return True
    return _used_up(firing, spec)


def _used_up(firing: Firing, spec: Row) -> bool:
    most = int(spec.get("attempts", 1))
    return any(_has_failed(firing, spec, number) for number in firing.attempts() if number >= most)


def _should_be_dead(facts: Facts, firing: Firing, spec: Row) -> bool:
    keeps = spec.get("dead_letter", int(spec.get("attempts", 1)) > 1)  # without a retry policy there are none
    if not keeps or firing.succeeded or firing.waiting or facts.was_removed(firing.job):
        return False
    failed = [record for record in firing.records if record.outcome in FAILURES]
    if not any(record.attempt >= int(spec.get("attempts", 1)) for record in failed):
        return False
    return not any(facts.causes.forgetful(call.end or call.t) for call in firing.calls)


def stuck(facts: Facts) -> Iterator[Violation]:
    """Yield what was still on its way at the final read although it was due long before, and all had healed."""
    read = facts.setup.read
    for waiting in [*facts.history.live, *facts.history.pending]:
        schedule = facts.schedules.get(waiting.job)
        spec = {} if schedule is None else schedule.spec
        due = facts.history.mono(waiting.due_at if waiting.due_at is not None else waiting.at)
        firing = next((each for each in facts.by_job.get(waiting.job, []) if waiting in each.waiting), None)
        calls = [] if firing is None else [call for call in firing.calls if call.run == waiting.id]
        # A backlog is worked off one by one.
        since = max([due, facts.setup.heal, *(call.t for call in calls), facts.last_start(waiting.job)])
        if since + facts.slack(spec) < read:
            state = waiting.state or ("pending" if waiting.owner is None else "claimed")
            text = f"run {waiting.id} is {state} (owner {waiting.owner}), due {read - due:.1f} s before the read"
            begin = min([due, *(call.t for call in calls)])
            nodes = tuple(dict.fromkeys(call.node for call in calls))
            yield Violation("stuck", waiting.job, text, begin, read, firing.fire if firing else None, nodes)
    for row in facts.history.jobs:
        if row.get("next_run_time") is None or row["id"] not in facts.schedules:
            continue
        due = facts.history.mono(float(row["next_run_time"]))
        if max(due, facts.setup.heal) + facts.setup.recovery < read:
            text = f"the job is due since {read - due:.1f} s before the read (state {row.get('state')})"
            yield Violation("stuck", row["id"], text, due, read)


def lost_jobs(facts: Facts) -> Iterator[Violation]:
    """Yield jobs that were added, have fire times left, and are not there any more."""
    left = {row["id"] for row in facts.history.jobs}
    if not left and not facts.history.jobs:
        return
    for job, schedule in facts.schedules.items():
        spec = schedule.spec
        endless = spec.get("kind") == "interval"
        if endless and job not in left and schedule.state(facts.setup.read) == ON:
            added = schedule.changes[0].t
            yield Violation("job lost", job, "was added, never removed, and is gone", added, facts.setup.read)
