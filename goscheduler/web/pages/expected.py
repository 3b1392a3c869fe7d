"""What should have run and what did: fire times beside the runs that they became."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from goscheduler.web.pages.formats import badge_of, duration, many

#: A run that begins up to so many seconds late is on time.
ON_TIME = 5.0
#: Runs whose time came from the schedule, not from somebody.
SCHEDULED = "schedule"
RAN = ("succeeded", "failed", "timed out", "lost", "cancelled", "snoozed")


@dataclass(frozen=True)
class Expectation:
    """A fire time, and what became of it."""

    at: str
    icon: str
    word: str
    tone: str
    note: str
    run_id: str | None = None


def expectations(
    runs: Sequence[Mapping[str, Any]], gaps: Sequence[Mapping[str, Any]], limit: int = 8
) -> list[Expectation]:
    """Return the last fire times, newest first. ``runs`` are attempts, newest first."""
    by_run: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        by_run.setdefault(run["run_id"], []).append(run)
    found = [_of_run(attempts) for attempts in by_run.values() if attempts[-1]["source"] == SCHEDULED]
    known = {_moment(each.at) for each in found}
    found += [_of_gap(gap) for gap in gaps if _moment(gap["at"]) not in known]
    return sorted(found, key=lambda each: _moment(each.at), reverse=True)[:limit]


def _of_run(attempts: Sequence[Mapping[str, Any]]) -> Expectation:
    newest = attempts[0]
    at, run_id = newest["scheduled_at"], newest["run_id"]
    badge = badge_of(newest["outcome"])
    if newest["outcome"] not in RAN:
        return Expectation(at, badge.icon, badge.word, badge.tone, newest["reason"], run_id)
    before = len(attempts) - 1
    note = f"{many(before, 'attempt')} before" if before else ""
    if newest["outcome"] != "succeeded":
        return Expectation(at, badge.icon, badge.word, badge.tone, note or newest["error"], run_id)
    late = attempts[-1]["lateness"]
    word = "on time" if late <= ON_TIME else f"{duration(late)} late"
    return Expectation(at, "check", word, "good" if late <= ON_TIME else "warn", note, run_id)


def _of_gap(gap: Mapping[str, Any]) -> Expectation:
    outcome, _, reason = gap["reason"].partition(": ")
    if outcome in ("missed", "skipped"):
        badge = badge_of(outcome)
        return Expectation(gap["at"], badge.icon, badge.word, badge.tone, reason)
    return Expectation(gap["at"], "alert", "did not run", "bad", gap["reason"])


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
