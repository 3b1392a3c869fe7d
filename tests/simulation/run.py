"""Simulates schedulers that share a store, seed by seed, and shows a small one of those that go wrong.

python tests/simulation/run.py --seeds 10000 [--from N]    as many seeds, from N on
python tests/simulation/run.py --seed 4711 [--trace]       one seed; --trace prints its time line
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter, process_time

sys.path.insert(0, str(Path(__file__).parent))

from sim_defects import DEFECTS, defect  # noqa: E402
from sim_shrink import shrunk  # noqa: E402
from sim_timeline import timeline  # noqa: E402
from sim_workload import plan_of  # noqa: E402
from sim_world import World  # noqa: E402

COMMAND = "python tests/simulation/run.py"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first one")
    parser.add_argument("--seed", type=int, help="this one only")
    parser.add_argument("--trace", action="store_true", help="print the time line of that seed, with every call")
    parser.add_argument("--defect", choices=sorted(DEFECTS), help="have the package work wrongly")
    parser.add_argument("--most", type=int, default=3, help="end after so many that go wrong")
    given = parser.parse_args()
    with nullcontext() if given.defect is None else defect(given.defect):
        if given.seed is not None:
            return _one(given)
        return _many(given)


def _one(given: argparse.Namespace) -> int:
    world = World(plan_of(given.seed)).run()
    if given.trace:
        print(*timeline(world, quiet=False), sep="\n")
    print(f"seed {given.seed}: {world.violation or 'valid'}")
    if world.violation is not None:
        _show_shrunk(world)
    return int(world.violation is not None)


def _many(given: argparse.Namespace) -> int:
    figures: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    wrong = 0
    wall, cpu = perf_counter(), process_time()
    for seed in range(given.first, given.first + given.seeds):
        world = World(plan_of(seed)).run()
        faults.update(world.happened)
        figures.update({f"repeats ({cause})": count for cause, count in world.book.repeats.items()})
        figures.update({
            "seeds": 1, "calls of the store": world.calls, "starts": world.book.starts,
            "fire times": world.book.accounted.total(), "ends refused": world.book.refusals,
            "simulated seconds": round(world.kernel.now),
        })  # fmt: skip
        if world.violation is not None:
            wrong += 1
            print(f"seed {seed}: {world.violation}\n  {COMMAND} --seed {seed} --trace", flush=True)
            _show_shrunk(world)
            if wrong >= given.most:
                break
    wall, cpu = perf_counter() - wall, process_time() - cpu
    print(*(f"{name}: {count}" for name, count in figures.items()), sep="\n")
    print("faults:", ", ".join(f"{kind} {count}" for kind, count in sorted(faults.items())))
    print(f"{wrong} went wrong; {wall:.1f} s, {cpu:.1f} s of a processor, {figures['seeds'] / wall:.0f} seeds a second")
    return int(wrong > 0)


def _show_shrunk(world: World) -> None:
    assert world.violation is not None
    small = shrunk(world.plan, world.violation.rule)
    print(f"\nThe smallest found: {small.plan}\n")
    print(*timeline(small), sep="\n")
    print(f"{small.violation}\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
