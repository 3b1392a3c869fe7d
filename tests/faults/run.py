"""The fault suite: real processes on real stores, under load and under faults, and a verdict on what they did.

One run is one store with one seed: every fault of the list is played once, in an order that the seed decides. The files
of a run are in ``OUT/<store>-<seed>/``: the record, ``verdict.json``, and ``timeline.html`` to look at.
The exit status is 1 if a promise was broken, 2 if a run proves nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from measures import lines, measure
from nemesis import FAULTS
from places import STORES

HERE = Path(__file__).parent

#: The faults that find most, for every change.
SHARPEST = ("kill", "freeze", "server_kill", "blackhole")
#: What is played where several servers stand in for each other; it cannot be played on one, and links not there.
OF_SEVERAL = ("failover", "kill", "freeze", "freeze_short", "restart")
#: Seconds after which a run is given up, beside what its faults take.
GIVEN_UP_AFTER = 900.0
CALM, CALM_CI = 4.0, 1.5
#: From a seed to the one that is tried in its place.
ANOTHER = 1000
VALID, INCONCLUSIVE = "VALID", "INCONCLUSIVE"


class Plan(NamedTuple):
    """One run that is to be made."""

    store: str
    seed: int
    faults: tuple[str, ...]
    calm: float
    timed: bool
    folder: Path
    mutant: str | None = None
    several: bool = False
    """Whether several servers stand in for each other."""


def main() -> int:
    options = arguments()
    if options.mutants is not None:
        from hunt import hunt

        return hunt(options)
    begun = time.monotonic()
    options.out = options.out.resolve()  # the processes of a run have working directories of their own
    options.out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        verdicts = list(pool.map(make if options.selection == "all" else make_until_it_bites, plans(options)))
    print(table(verdicts))
    print(f"{len(verdicts)} runs in {time.monotonic() - begun:.0f} s; {options.out}")
    outcomes = {verdict["outcome"] for verdict in verdicts}
    return 0 if outcomes <= {VALID} else 2 if outcomes <= {VALID, INCONCLUSIVE} else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stores", default=",".join(STORES), help="comma-separated; all by default")
    parser.add_argument("--faults", help="comma-separated; by default all that the store can have")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="how many, from --seed on")
    parser.add_argument("--selection", choices=["ci", "all"], default="all")
    parser.add_argument("--mutant", help="a deliberate defect; see mutants.py")
    parser.add_argument("--mutants", nargs="?", const="all", help="look whether these defects are found, or all")
    parser.add_argument("--out", type=Path, default=Path("build", "faults", time.strftime("%Y%m%d-%H%M%S")))
    parser.add_argument("--jobs", type=int, help="how many runs at once; 2 by default, 3 of the selection for CI")
    options = parser.parse_args()
    options.jobs = options.jobs or (3 if options.selection == "ci" else 2)
    return options


def plans(options: argparse.Namespace) -> Iterable[Plan]:
    """Return the runs that are asked for."""
    ci = options.selection == "ci"
    given = tuple(options.faults.split(",")) if options.faults else SHARPEST if ci else tuple(FAULTS)
    calm = CALM_CI if ci else CALM
    for seed in range(options.seed, options.seed + options.seeds):
        for store in options.stores.split(","):
            wanted = [name for name in given if store in FAULTS[name].stores]
            on_one = tuple(name for name in wanted if name != "failover")
            if on_one:
                yield Plan(store, seed, on_one, calm, not ci, options.out / f"{store}-{seed}", options.mutant)
            if "failover" in wanted:
                folder = options.out / f"{store}-{seed}-failover"
                yield Plan(store, seed, OF_SEVERAL, calm, not ci, folder, options.mutant, several=True)


def make(plan: Plan) -> dict[str, Any]:
    """Make one run in a process of its own, have it judged, and return the verdict."""
    begun = time.monotonic()
    command = [sys.executable, str(HERE / "recording.py"), json.dumps(plan._replace(folder=str(plan.folder)))]  # type: ignore[arg-type]
    try:
        made = subprocess.run(command, capture_output=True, text=True, timeout=GIVEN_UP_AFTER, check=False)
        failure = None if made.returncode == 0 else made.stderr.strip().rpartition("\n")[2]
        plan.folder.with_name(f"{plan.folder.name}.log").write_text(made.stderr, encoding="utf-8")
    except subprocess.TimeoutExpired:
        failure = f"the run was not over after {GIVEN_UP_AFTER:g} s"
    verdict = {"outcome": "FAILED", "doubts": [failure]} if failure else judge(plan.folder, plan.mutant is None)
    verdict |= {"name": plan.folder.name, "seconds": time.monotonic() - begun}
    after = [] if failure or plan.mutant else lines(measure(plan.folder))
    print("\n".join([line(verdict), *after]), flush=True)
    return verdict


def make_until_it_bites(plan: Plan) -> dict[str, Any]:
    """Make a run; once more with another seed if it proved nothing, which few faults in a short time may do."""
    verdict = make(plan)
    if verdict["outcome"] != INCONCLUSIVE:
        return verdict
    other = plan.seed + ANOTHER
    return make(plan._replace(seed=other, folder=plan.folder.with_name(f"{plan.store}-{other}")))


def judge(folder: Path, aloud: bool = True) -> dict[str, Any]:
    """Have a record judged, and leave the verdict and a picture beside it."""
    from checker import check
    from timeline import write

    verdict = check(folder)
    verdict.write(folder)
    write(folder)
    if aloud and verdict.outcome != VALID:
        print(f"--- {folder.name}\n{verdict.text()}", flush=True)
    told: dict[str, Any] = verdict.to_json()
    return told


def line(verdict: dict[str, Any]) -> str:
    """Return what is to be said of a run on one line."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in verdict.get("kinds", {}).items())
    doubts = "; ".join(str(doubt)[-300:] for doubt in verdict.get("doubts", ()))
    return f"{verdict['name']:<24} {verdict['outcome']:<12} {verdict['seconds']:4.0f} s  {kinds} {doubts}"


def table(verdicts: list[dict[str, Any]]) -> str:
    """Return the figures of all runs."""
    return "\n".join(line(verdict) for verdict in verdicts)


if __name__ == "__main__":
    sys.exit(main())
