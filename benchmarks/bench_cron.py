"""Next fire times a second of ordinary crontab expressions in a DST zone: ours, APScheduler 3's and croniter's."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from statistics import geometric_mean
from typing import Any
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger as ApsCronTrigger
from croniter import croniter
from measure import Row, print_table

from goscheduler.triggers.cron import CronTrigger

EXPRESSIONS = ("*/5 * * * *", "0 9 * * 1-5", "30 2 1 * *", "0 0 * * *", "15,45 8-18 * * mon-fri")
ZONE = ZoneInfo("Europe/Berlin")
START = datetime(2026, 1, 15, 12, 0, tzinfo=ZONE)
#: Whoever gets here starts over, so that all contenders meet the same clock changes.
END = datetime(2036, 1, 15, 12, 0, tzinfo=ZONE)
STEPS = {"goscheduler": 20_000, "apscheduler": 1_500, "croniter": 600}


def main(rounds: int = 5) -> list[Row]:
    """Print the best rate of every contender on every expression and return the geometric means of the ratios."""
    rates = {expression: _best_rates(expression, rounds) for expression in EXPRESSIONS}
    print(f"{'expression':<26}" + "".join(f"{name:>14}" for name in STEPS))
    for expression, row in rates.items():
        print(f"{expression:<26}" + "".join(f"{row[name]:>12,.0f}/s" for name in STEPS))
    return [_mean_row(rates, "apscheduler", at_least=10), _mean_row(rates, "croniter", at_least=20)]


def _best_rates(expression: str, rounds: int) -> dict[str, float]:
    """Return the best rate of each contender; they take turns so that a busy moment hits all of them."""
    best = dict.fromkeys(STEPS, 0.0)
    for _ in range(rounds):
        for name, steps in STEPS.items():
            following = _contender(name, expression)
            begin = time.perf_counter()
            previous = START
            for _ in range(steps):
                previous = following(previous)
                if previous > END:
                    previous = START
            best[name] = max(best[name], steps / (time.perf_counter() - begin))
    return best


def _contender(name: str, expression: str) -> Callable[[datetime], Any]:
    if name == "croniter":
        iterator = croniter(expression, START)
        return lambda previous: iterator.get_next(datetime, start_time=START if previous is START else None)
    trigger = (CronTrigger if name == "goscheduler" else ApsCronTrigger).from_crontab(expression, ZONE)
    return lambda previous: trigger.get_next_fire_time(previous, previous)


def _mean_row(rates: dict[str, dict[str, float]], rival: str, *, at_least: float) -> Row:
    ours, theirs = (geometric_mean([row[name] for row in rates.values()]) for name in ("goscheduler", rival))
    gain = ours / theirs
    bench = f"next cron times against {rival}, geometric mean"
    return Row(bench, f"{ours:,.0f}/s", f"{theirs:,.0f}/s", f"{gain:.1f}×", f"≥ {at_least:g}×", gain >= at_least)


if __name__ == "__main__":
    print_table(main())
