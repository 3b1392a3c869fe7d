"""Judges the recorded history of a run: which promises were kept, which were not, and what shows it.

``python tests/faults/checker.py FOLDER …`` prints the verdict on recorded runs.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import rules_firings
import rules_jobs
import rules_rest
import timeline
from causes import BITING, KNOWN
from facts import Facts, Violation
from history import History, read

VALID, VIOLATED, INCONCLUSIVE = "VALID", "VIOLATED", "INCONCLUSIVE"

RULES = (
    rules_firings.missing, rules_firings.phantom, rules_firings.early, rules_firings.fired_twice,
    rules_firings.repeated, rules_firings.stale_start, rules_firings.ended_wrongly, rules_firings.recorded_otherwise,
    rules_firings.removed, rules_firings.without_lease,
    rules_jobs.crowded, rules_jobs.limit_exceeded, rules_jobs.retries, rules_jobs.dead_letters, rules_jobs.stuck,
    rules_jobs.lost_jobs,
    rules_rest.messages, rules_rest.documents, rules_rest.locks, rules_rest.recovery, rules_rest.resume,
    rules_rest.nodes_alive,
)  # fmt: skip


@dataclass
class Verdict:
    """What is to be said of a run."""

    outcome: str
    violations: list[Violation]
    doubts: list[str]
    """Why the run proves nothing, if it does not."""
    figures: dict[str, Any]
    examples: dict[str, str] = field(default_factory=dict)
    """Kind of violation → the time line of the one that is easiest to read."""

    @property
    def kinds(self) -> Counter[str]:
        return Counter(violation.kind for violation in self.violations)

    def text(self) -> str:
        """Return the verdict as a person reads it."""
        parts = [self.outcome]
        parts += [f"  {doubt}" for doubt in self.doubts]
        for kind, count in self.kinds.most_common():
            parts.append(f"\n{kind}: {count}\n{self.examples[kind]}")
        return "\n".join(parts)

    def to_json(self) -> dict[str, Any]:
        rows = [{name: getattr(each, name) for name in Violation.__slots__} for each in self.violations]
        return {
            "outcome": self.outcome, "kinds": dict(self.kinds), "doubts": self.doubts, "figures": self.figures,
            "violations": rows, "examples": self.examples,
        }  # fmt: skip

    def write(self, folder: Path | str) -> None:
        """Leave the verdict in the folder of the run."""
        (Path(folder) / "verdict.json").write_text(json.dumps(self.to_json(), indent=1))


def check(folder: Path | str) -> Verdict:
    """Return the verdict on the run that a folder holds."""
    return judge(read(folder))


def judge(history: History) -> Verdict:
    """Return the verdict on a history."""
    facts = Facts(history)
    violations = [violation for rule in RULES for violation in rule(facts)]
    doubts = list(_doubts(facts))
    outcome = VIOLATED if violations else INCONCLUSIVE if doubts else VALID
    examples: dict[str, Violation] = {}
    for violation in violations:
        best = examples.get(violation.kind)
        if best is None or violation.end - violation.begin < best.end - best.begin:
            examples[violation.kind] = violation
    texts = {kind: timeline.text(history, violation) for kind, violation in examples.items()}
    return Verdict(outcome, violations, doubts, figures(facts), texts)


def _doubts(facts: Facts) -> list[str]:
    """Return why a history without violations would prove nothing."""
    history, doubts = facts.history, []
    if not history.executions:
        doubts.append("nothing was started at all")
    unknown = {fault.kind for fault in history.faults} - KNOWN
    if unknown:
        doubts.append(f"faults that the checker does not know: {', '.join(sorted(unknown))}")
    asked = {name.replace("_", "-") for name in history.setup.faults}
    absent = asked - {fault.kind for fault in history.faults} - history.impossible
    if absent:
        doubts.append(f"faults that were asked for and never happened: {', '.join(sorted(absent))}")
    if not history.setup.quiet and not (history.live or history.pending):  # which are judged one by one
        doubts.append("something was left to do at the final read")
    if asked & BITING and not refused_ends(facts):
        doubts.append("no end was refused: nothing stale ever tried to finish")
    return doubts


def refused_ends(facts: Facts) -> int:
    """Return how often a process came to the end of a run that had been given to another one."""
    told = sum(event.code.endswith("LEASE_LOST") for event in facts.history.events)
    superseded = 0
    for firing in facts.known:
        calls = sorted(firing.calls, key=lambda call: call.fence)
        superseded += sum(first.end is not None and first.end > again.t for first, again in pairwise(calls))
    return max(told, superseded)


def figures(facts: Facts) -> dict[str, Any]:
    """Return what was counted and measured."""
    history = facts.history
    targets = [target for each in facts.targets.values() for target in each.values()]
    calls = [call for firing in facts.known for call in firing.calls]
    late = sorted(max(0.0, call.t - history.mono(call.at)) for call in calls if call.attempt == 1)
    repeats: Counter[str] = Counter()
    for firing in facts.known:
        for group in rules_firings.by(firing.calls, "run", "attempt"):
            group.sort(key=lambda call: (call.fence, call.t))
            for first, again in pairwise(group):
                repeats[rules_firings.cause_of_repeat(facts, firing, first, again) or "no cause"] += 1
    taken = [took for took, _ in rules_rest.taken_up(facts) if took is not None]
    waits = [took for _, _, took in rules_rest.resumed(facts) if took is not None]
    return {
        "targets": len(targets), "required": sum(target.state == "on" for target in targets), "starts": len(calls),
        "completed": sum(firing.succeeded for firing in facts.known), "records": len(history.records),
        "dead": len(history.dead), "deliveries": len(history.deliveries), "documents": len(history.documents),
        "locks": len(history.locks), "operations": dict(Counter(each.result for each in history.operations)),
        "faults": dict(Counter(fault.kind for fault in history.faults)), "repeats": dict(repeats),
        "refused_ends": refused_ends(facts), "cut_short": sum(call.end is None for call in calls),
        "late_p50": _share(late, 0.5), "late_p99": _share(late, 0.99), "late_max": _share(late, 1.0),
        "recovery_max": max(taken, default=None), "recovery_median": statistics.median(taken) if taken else None,
        "resume_max": max(waits, default=None),
    }  # fmt: skip


def _share(values: list[float], share: float) -> float | None:
    return round(values[min(len(values) - 1, int(share * len(values)))], 4) if values else None


def main(folders: list[str]) -> int:
    """Print the verdict on each folder; 1 if a promise was broken, 2 if a run proves nothing."""
    verdicts = []
    for folder in folders:
        verdict = check(folder)
        verdicts.append(verdict)
        print(f"{folder}: {verdict.text()}\n{json.dumps(verdict.figures, indent=1)}")
    outcomes = {verdict.outcome for verdict in verdicts}
    return 1 if VIOLATED in outcomes else 2 if INCONCLUSIVE in outcomes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
