"""How late a thousand jobs start that run every second: all in the same instant, and spread over the second."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from functools import partial

from contenders import background_scheduler
from measure import CONTENDERS, OURS, THEIRS, Row, in_fresh_process, percentile, print_table, take_turns

LEAD = 1.5
LIMIT_MS = 50.0


def lateness(root: str, jobs: int, seconds: int, spread: bool) -> dict[str, float]:
    """Return p50, p99 and the maximum of the start lateness in milliseconds, and the share of runs that happened."""
    scheduler = background_scheduler(root)
    scheduler.start()
    begin = time.time() + LEAD + jobs / 5_000
    starts: list[list[float]] = [[] for _ in range(jobs)]
    phases = [number / jobs if spread else 0.0 for number in range(jobs)]
    for own, phase in zip(starts, phases, strict=True):
        first = datetime.fromtimestamp(begin + phase, timezone.utc)
        scheduler.add_job(
            partial(_note, own), "interval", seconds=1, start_date=first,
            end_date=first + timedelta(seconds=seconds - 0.5),
        )
    time.sleep(max(begin - time.time(), 0) + seconds + 1)
    scheduler.shutdown()
    return _summary([
        (moment - (begin + phase + turn)) * 1000
        for own, phase in zip(starts, phases, strict=True)
        for turn, moment in enumerate(own)
    ], expected=jobs * seconds)


def _note(starts: list[float]) -> None:
    starts.append(time.time())


def _summary(late: list[float], expected: int) -> dict[str, float]:
    return {
        "p50": percentile(late, 0.5),
        "p99": percentile(late, 0.99),
        "max": max(late),
        "runs": len(late) / expected,
    }


def main(rounds: int = 4, jobs: int = 1_000, seconds: int = 10) -> list[Row]:
    return [_row(spread, rounds, jobs, seconds) for spread in (False, True)]


def _row(spread: bool, rounds: int, jobs: int, seconds: int) -> Row:
    """Return the row for one pattern; of several rounds, the one with the better p99 counts, for either contender."""
    found = take_turns(
        rounds,
        CONTENDERS,
        lambda root: in_fresh_process("bench_lateness", "lateness", root, jobs, seconds, spread),
    )
    ours, theirs = (min(found[root], key=lambda one: one["p99"]) for root in (OURS, THEIRS))
    pattern = "spread over the second" if spread else "in the same instant"
    return Row(
        f"lateness of {jobs:,} jobs a second, {pattern}: p50/p99/max",
        _text(ours),
        _text(theirs),
        f"{theirs['p99'] / ours['p99']:.2f}×",
        f"p99 ≤ {LIMIT_MS:.0f} ms, ≥ 1×",
        ours["p99"] <= min(LIMIT_MS, theirs["p99"]) and ours["runs"] == 1,
    )


def _text(found: dict[str, float]) -> str:
    lost = "" if found["runs"] == 1 else f", {found['runs']:.1%} ran"
    return f"{found['p50']:.1f}/{found['p99']:.1f}/{found['max']:.1f} ms{lost}"


if __name__ == "__main__":
    print_table(main())
