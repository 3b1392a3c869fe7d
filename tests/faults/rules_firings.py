"""The rules about single firings: none is missed, made up, early, or repeated without a cause."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from causes import TOTAL
from facts import FAILURES, Facts, Firing, Violation
from history import Execution, Record, Row
from targets import OFF, ON, Target

#: Ends of which a hand-out has one; a run that is put back may be called off in the same moment.
FINAL = FAILURES | {"succeeded", "lost"}
#: What the record of a run says whose owner has let it go by itself.
GIVEN_UP_BY_ITSELF = "could not be renewed"
#: How much longer everything may take where the machine may be busy with other things.
PATIENCE = 5.0
#: Seconds from the moment at which the scheduler looks for the last time to the one that it notes as the start.
STARTING = 0.05
#: So many runs may be between the last look and their first line when their process is frozen.
AT_THE_LAST_LOOK = 2
#: Seconds by which a start line may come after the moment at which the scheduler looked for the last time.
LAST_LOOK = 0.5


def missing(facts: Facts) -> Iterator[Violation]:
    """Yield each fire time that had to be and of which nothing is known, or nothing but starts."""
    for job, targets in facts.targets.items():
        firings = {firing.at: firing for firing in facts.by_job.get(job, []) if firing.at in targets}
        covered, passed = _coalesced(facts, job, targets), _passed(facts, firings)
        for at, target in targets.items():
            if target.state != ON:
                continue
            firing = firings.get(at)
            if firing is not None:
                if not _accounted(facts, firing, target.spec) and not firing.waiting and _is_over(facts, target, 1.0):
                    yield facts.about("missing", firing, "started, but never done, and nobody took it up")
            elif at not in covered and _had_to_fire(facts, job, target, passed):
                t = facts.mono(at)
                yield Violation("missing", job, f"never fired for {_clock(facts, at)}", t, t)


def _passed(facts: Facts, firings: dict[int, Firing]) -> tuple[list[int], list[float]]:
    """Return the fire times that something is known of, and for each when the job was past it at the latest."""
    times = sorted(firings)
    seen = []
    for at in times:
        firing = firings[at]
        moments = [call.t for call in firing.calls]
        moments += [facts.history.mono(each.finished_at) for each in firing.records if each.finished_at is not None]
        seen.append(min(moments, default=facts.setup.read))
    return times, seen


def _had_to_fire(facts: Facts, job: str, target: Target, passed: tuple[list[int], list[float]]) -> bool:
    """Tell whether a time is lost for certain: the job went on to a later one, or much too much time has passed.

    A job that is paused or removed while it is due and late does not fire for that time any more.
    """
    due, (times, seen) = max(facts.mono(target.at), target.since), passed
    place = bisect_right(times, target.at)
    if _may_wait(target.spec) and any(change.t >= due for change in facts.schedules[job].removals()):
        return False  # a run that waits is gone with its job
    if place < len(times) and facts.schedules[job].stays(due, max(due, seen[place])):
        return True
    return _is_over(facts, target, 1.0 if facts.setup.timed else PATIENCE)


def _may_wait(spec: Row) -> bool:
    return not spec.get("coalesce", True) or spec.get("overlap") == "queue" or bool(spec.get("limits"))


def _is_over(facts: Facts, target: Target, patience: float) -> bool:
    due = max(facts.mono(target.at), target.since)
    over = facts.causes.excused_until(due, patience * facts.slack(target.spec))
    return over <= facts.setup.read and facts.schedules[target.job].stays(due, over)


def _accounted(facts: Facts, firing: Firing, spec: Row) -> bool:
    if firing.succeeded or firing.letters:
        return True
    for record in firing.records:
        if record.outcome in ("skipped", "missed") or _is_last_failure(record, spec):
            return True
        if record.outcome == "cancelled" and (facts.was_removed(firing.job) or _stopped(facts, firing)):
            return True
    return facts.was_removed(firing.job)


def _is_last_failure(record: Record, spec: Row) -> bool:
    return record.outcome in FAILURES and record.attempt >= int(spec.get("attempts", 1))


def _stopped(facts: Facts, firing: Firing) -> bool:
    lives = [facts.history.life_of.get((call.node, call.life)) for call in firing.calls]
    return any(life is not None and life.stopping is not None for life in lives)


def _coalesced(facts: Facts, job: str, targets: dict[int, Target]) -> set[int]:
    """Return the fire times that another run or record stands for."""
    times = sorted(targets)
    places = {at: place for place, at in enumerate(times)}
    covered: set[int] = set()
    for firing in facts.by_job.get(job, []):
        place = places.get(firing.at)
        if place is None:
            continue
        for record in firing.records:
            if record.outcome == "missed":  # named after the oldest
                covered.update(times[place : place + record.fire_times])
            elif record.coalesced is None and record.source == "schedule":
                covered.update(times[:place] if targets[firing.at].spec.get("coalesce", True) else ())
            else:
                count = max(record.coalesced or 0, record.fire_times - 1)
                covered.update(times[max(0, place - count) : place])
    return covered


def phantom(facts: Facts) -> Iterator[Violation]:
    """Yield each firing that no call of the client explains, and those of jobs that were paused or removed."""
    for firing in facts.firings.values():
        if not firing.calls:
            continue
        if firing.job not in facts.schedules:
            yield facts.about("phantom", firing, "nobody has added such a job")
            continue
        target = facts.targets[firing.job].get(firing.at)
        if target is not None and target.state != OFF:
            continue
        if _asked_for(facts, firing):
            continue
        if target is not None and _fired_ahead(facts, firing):
            continue
        if target is None:
            yield facts.about("phantom", firing, f"{_clock(facts, firing.at)} is no fire time of the job")
        else:
            yield facts.about("fired while off", firing, "the job was paused or removed at its fire time")


def _asked_for(facts: Facts, firing: Firing) -> bool:
    at, epsilon = facts.mono(firing.at), max(facts.setup.epsilon, 0.05)
    return any(call.t0 - epsilon <= at <= call.t1 + epsilon for call in facts.manual.get(firing.job, []))


def _fired_ahead(facts: Facts, firing: Firing) -> bool:
    """Tell whether some node, whose clock was ahead, may have fired for this time long before it came."""
    t, lease = facts.mono(firing.at), facts.setup.lease
    return any(facts.causes.ahead(moment) > 0 for moment in (t - 2 * lease, t - lease, t, *(c.t for c in firing.calls)))


def early(facts: Facts) -> Iterator[Violation]:
    """Yield each start before its time."""
    for firing in facts.known:
        for call in firing.calls:
            ahead = facts.history.mono(call.at) - call.t
            if ahead > facts.setup.epsilon + facts.causes.ahead(call.t):
                yield facts.about("early", firing, f"started {ahead:.3f} s before its time", [call])


def fired_twice(facts: Facts) -> Iterator[Violation]:
    """Yield each fire time for which there are two runs: it was fired by two processes, or twice by one."""
    for firing in facts.known:
        runs = firing.runs
        if len(runs) > 1 and len(facts.schedules[firing.job].specs) < 2 and not _asked_for(facts, firing):
            times = [call.t for call in firing.calls] or [facts.mono(firing.at)]
            if not any(facts.causes.forgetful(t) for t in times) and not _fired_ahead(facts, firing):
                yield facts.about("fired twice", firing, f"has {len(runs)} runs: {', '.join(sorted(runs))}")


def repeated(facts: Facts) -> Iterator[Violation]:
    """Yield each start of an attempt that had been started before, unless something excuses it."""
    for firing in facts.known:
        for calls in by(firing.calls, "run", "attempt"):
            calls.sort(key=lambda call: (call.fence, call.t))
            for first, again in pairwise(calls):
                if first.fence == again.fence:
                    text = f"the hand-out with fence {first.fence} was started twice"
                    yield facts.about("repeated", firing, text, [first, again])
                elif facts.spec(firing).get("on_crash", "rerun") != "rerun" and _was_lost(firing, first):
                    text = f"attempt {first.attempt} was lost, and started again although the job says otherwise"
                    yield facts.about("repeated", firing, text, [first, again])
                elif cause_of_repeat(facts, firing, first, again) is None:
                    text = f"attempt {first.attempt} was started again, and nothing had happened to {first.node}"
                    yield facts.about("repeated", firing, text, [first, again])


def cause_of_repeat(facts: Facts, firing: Firing, first: Execution, again: Execution) -> str | None:
    """Return why an attempt may have been started again; None if nothing excuses it.

    On a machine that is busy with other things, a process may find by itself that it could not renew in time.
    """
    cause = facts.causes.of_repeat(first, max(first.t, again.t))
    if cause is None and not facts.setup.timed:
        key = (first.run, first.fence)
        lost = [each for each in firing.records if (each.run, each.fence) == key and each.outcome == "lost"]
        if any(GIVEN_UP_BY_ITSELF in each.reason for each in lost):
            return "busy"
    return cause


def _was_lost(firing: Firing, call: Execution) -> bool:
    key = (call.run, call.fence)
    return any((record.run, record.fence) == key and record.outcome == "lost" for record in firing.records)


def stale_start(facts: Facts) -> Iterator[Violation]:
    """Yield each start of a run by a process that had lost it to another one before.

    A process may be frozen between its last look and the first line of the job. That happens to one run, hardly to two.
    """
    frozen: dict[tuple[str, int, float], list[Violation]] = {}
    for firing in facts.known:
        for calls in by(firing.calls, "run"):
            highest = calls[0]
            for call in calls[1:]:
                if call.fence < highest.fence:
                    text = f"started with fence {call.fence} after fence {highest.fence} had been handed out"
                    found = facts.about("stale start", firing, text, [highest, call])
                    since = facts.causes.frozen_since(call.node, highest.t - LAST_LOOK, call.t)
                    if since is not None:
                        frozen.setdefault((call.node, call.life, since), []).append(found)
                    elif call.t - highest.t > LAST_LOOK:
                        yield found
                highest = max(highest, call, key=lambda each: each.fence)
    for together in frozen.values():
        if len(together) > AT_THE_LAST_LOOK:
            yield from together


def ended_wrongly(facts: Facts) -> Iterator[Violation]:
    """Yield where the product's history has an end that cannot be: a stale one, or two of one hand-out."""
    for firing in facts.known:
        counted = Counter((record.run, record.fence) for record in firing.records if record.outcome in FINAL)
        for (run, fence), count in counted.items():
            if count > 1:
                yield facts.about("ended twice", firing, f"{count} records of run {run} with fence {fence}")
        for run in firing.runs:
            records = [record for record in firing.records if record.run == run]
            done = [record for record in records if record.outcome == "succeeded"]
            fences = [record.fence for record in records] + [call.fence for call in firing.calls if call.run == run]
            if len(done) > 1:
                yield facts.about("stale end", firing, f"{len(done)} records of success")
            elif done and max(fences) > done[0].fence:
                text = f"a success was taken with fence {done[0].fence}, after {max(fences)} had been handed out"
                yield facts.about("stale end", firing, text)


def recorded_otherwise(facts: Facts) -> Iterator[Violation]:
    """Yield where ledger and history disagree about the same hand-out."""
    for firing in facts.known:
        records = {(record.run, record.fence): record for record in firing.records}
        calls = {(call.run, call.fence): call for call in firing.calls}
        for key, call in calls.items():
            record = records.get(key)
            if record is None:
                if _should_be_recorded(facts, firing, call):
                    yield facts.about("unrecorded", firing, f"no record of fence {call.fence}", [call])
            elif (record.outcome == "succeeded" and call.outcome == "error") or (
                record.outcome == "failed" and call.outcome == "ok"
            ):
                text = f"its end was {call.outcome}, its record says {record.outcome}"
                yield facts.about("recorded otherwise", firing, text, [call])
        for key, record in records.items():
            if record.outcome in ("succeeded", "failed") and record.started_at is not None and key not in calls:
                yield facts.about("recorded otherwise", firing, f"{record.outcome} without having been started")


def _should_be_recorded(facts: Facts, firing: Firing, call: Execution) -> bool:
    if firing.waiting or facts.causes.forgetful(call.end or call.t):
        return False
    settled = facts.causes.excused_until(call.end or call.t, facts.slack(facts.spec(firing)))
    return settled <= facts.setup.read


def removed(facts: Facts) -> Iterator[Violation]:
    """Yield each start of a job's run after the removal of the job had been confirmed."""
    for job, schedule in facts.schedules.items():
        for change in schedule.removals():
            if change.by.result != "ok":
                continue
            again = [each.t for each in schedule.changes if each.t > change.t]
            until = min(again, default=facts.setup.read)
            for firing in facts.by_job.get(job, []):
                for call in firing.calls:
                    if change.t < call.t < until and not _was_begun(facts, firing, call, change.t):
                        text = f"started {call.t - change.t:.2f} s after the removal had been confirmed"
                        yield facts.about("started after removal", firing, text, [call])


def _was_begun(facts: Facts, firing: Firing, call: Execution, t: float) -> bool:
    """Tell whether a run was begun before ``t``, although the first line of the job came later."""
    if facts.causes.frozen_since(call.node, t - LAST_LOOK, call.t) is not None:
        return True
    if not any(fault.kind.startswith("clock") and fault.hits(call.node) for fault in facts.history.faults):
        for record in firing.records:
            if (record.run, record.fence) == (call.run, call.fence) and record.started_at is not None:
                return facts.history.mono(record.started_at) <= t + STARTING
    return call.t <= t + LAST_LOOK


def without_lease(facts: Facts) -> Iterator[Violation]:
    """Yield each start by a process that had been cut off for so long that it had to know that its lease is over."""
    lease, trust = facts.setup.lease, 0.75 * facts.setup.lease
    cuts = [fault for fault in facts.history.faults if fault.kind in TOTAL and fault.end - fault.begin > lease]
    if facts.setup.store == "sqlite" or not cuts:
        return
    for firing in facts.known:
        for call in firing.calls:
            for cut in cuts:
                since = call.t - cut.begin
                if cut.hits(call.node) and since > trust + LAST_LOOK and call.t < cut.end:
                    if facts.causes.frozen_since(call.node, cut.begin, call.t) is not None:
                        continue
                    text = f"started {since:.2f} s after {call.node} was cut off; its lease is {lease:g} s"
                    yield facts.about("started without a lease", firing, text, [call])


def by(calls: Sequence[Execution], *names: str) -> list[list[Execution]]:
    """Return the calls in groups that have the same values of some fields."""
    if len(calls) == 1:  # as nearly always
        return [list(calls)]
    groups: dict[tuple[object, ...], list[Execution]] = {}
    for call in calls:
        groups.setdefault(tuple(getattr(call, name) for name in names), []).append(call)
    return list(groups.values())


def _clock(facts: Facts, at: int) -> str:
    """Return a fire time as seconds since the run began."""
    begin = min((life.ready for life in facts.history.lives), default=0.0)
    return f"+{facts.mono(at) - begin:.3f} s"


