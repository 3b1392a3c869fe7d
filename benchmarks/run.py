"""Run every benchmark and print one table.

``python benchmarks/run.py [--quick] [name ...]``; the names are those of the ``bench_*.py`` files without the prefix.
A bar that does not hold is printed plainly and does not change the exit code: a busy machine is not a broken build.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
from typing import Any

from measure import Row, print_table

#: Arguments of each benchmark's ``main`` that make it short and its figures rough.
QUICK: dict[str, dict[str, Any]] = {
    "fire": {"rounds": 1, "jobs": 5_000},
    "add": {"rounds": 1, "jobs": 5_000},
    "cron": {"rounds": 1},
    "calendars": {"rounds": 1, "steps": 5_000, "jobs": 500},
    "import": {"rounds": 5},
    "lateness": {"rounds": 1, "seconds": 3},
    "pickup": {"adds": 5, "seconds": 3.0},
    "durable": {"rounds": 1, "jobs": 3_000, "few": 200},
    "limits": {"rounds": 1, "jobs": 2_000},
    "telemetry": {"rounds": 1, "jobs": 2_000},
    "locks": {"rounds": 1, "locks": 200},
    "state": {"rounds": 1, "calls": 200},
    "tick": {"rounds": 1, "ticks": 5},
    "single_add": {"rounds": 1, "jobs": 200},
    "several": {"rounds": 1, "jobs": 5_000},
    "peers": {"rounds": 1, "jobs": 2_000, "few": 200},
    "large": {"rounds": 1, "many": 50_000, "due": 2_000},
    "million": {"rounds": 1, "jobs": 50_000, "few": 5_000, "due": 2_000},
    "reads": {"jobs": 2_000, "small": 500, "calls": 10},
    "http": {"jobs": 2_000, "seconds": 5},
    "engines": {"rounds": 2, "jobs": 40_000},
}


def main() -> None:
    options = _parse()
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} at the start\n")
    rows: list[Row] = []
    for name in options.names or QUICK:
        print(f"{name} ...", flush=True)
        rows += importlib.import_module(f"bench_{name}").main(**(QUICK[name] if options.quick else {}))
    print("\nMedian (least–greatest) of the rounds; the best round of each for cron and lateness; a single one for the")
    print("million. Ratio: how many times better than APScheduler 3 or the peer, or how much more than with few jobs.")
    print(f"Load {os.getloadavg()[0]:.1f} at the end.\n")
    print_table(rows)
    broken = sum(row.holds is False for row in rows)
    print(f"\n{'Every bar holds.' if not broken else f'{broken} bar(s) do not hold.'}")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Speed, side by side with APScheduler 3 and task queues.")
    parser.add_argument("names", nargs="*", choices=[[], *QUICK], help="which benchmarks; all by default")
    parser.add_argument("--quick", action="store_true", help="short and rough")
    return parser.parse_args()


if __name__ == "__main__":
    main()
