"""Looks whether every deliberate defect is found: a run for each, and runs without any, which have to be valid."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from mutants import LATE_START, MUTANTS
from run import CALM_CI, Plan, make

VIOLATED, FAILED = "VIOLATED", "FAILED"


def hunt(options: argparse.Namespace) -> int:
    """Make the runs, tell which defects survive, and return the exit status."""
    begun = time.monotonic()
    names = options.mutants.split(",") if options.mutants != "all" else list(MUTANTS)
    options.out.mkdir(parents=True, exist_ok=True)
    controls, hunted = list(_controls(names, options)), list(_hunted(names, options))
    with ThreadPoolExecutor(options.jobs) as pool:
        verdicts = list(pool.map(_made, controls + hunted))
    broken = [verdict for verdict in verdicts[: len(controls)] if verdict["outcome"] in (VIOLATED, FAILED)]
    found = dict(zip(names, verdicts[len(controls) :], strict=True))
    survivors = [name for name, verdict in found.items() if verdict["outcome"] != VIOLATED]
    print(f"\n{'defect':<28} {'seconds':>7}  found as")
    for name, verdict in found.items():
        kinds = ", ".join(f"{count} {kind}" for kind, count in verdict.get("kinds", {}).items())
        print(f"{name:<28} {verdict['seconds']:7.0f}  {kinds or '-- SURVIVES: ' + verdict['outcome']}")
    print(f"{len(hunted) - len(survivors)} of {len(hunted)} found in {time.monotonic() - begun:.0f} s; {options.out}")
    for verdict in broken:
        print(f"without a defect, and yet {verdict['outcome']}: {verdict['name']}")
    return 1 if survivors or broken else 0


def _made(plan: Plan) -> dict[str, Any]:
    """Make a run, and once more if it could not be made: a server may not come up on a busy machine."""
    verdict = make(plan)
    return make(plan._replace(folder=plan.folder / "again")) if verdict["outcome"] == FAILED else verdict


def _hunted(names: list[str], options: argparse.Namespace) -> Iterator[Plan]:
    for name in names:
        found = MUTANTS[name]
        yield Plan(found.store, options.seed, found.faults, CALM_CI, False, options.out / name, name)


def _controls(names: list[str], options: argparse.Namespace) -> Iterator[Plan]:
    """Return a run without a defect for each store, with all faults that the defects on it are hunted with."""
    faults: dict[tuple[str, bool], Counter[str]] = {}
    for name in names:
        found = MUTANTS[name]
        wanted = faults.setdefault((found.store, found.late_start), Counter())
        wanted |= Counter(found.faults)
        faults[found.store, found.late_start] = wanted
    for (store, late), wanted in faults.items():
        folder = options.out / f"control-{store}{'-late' if late else ''}"
        yield Plan(store, options.seed, tuple(wanted.elements()), CALM_CI, False, folder, LATE_START if late else None)
