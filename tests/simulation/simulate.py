"""Simulates schedulers that share a store, seed by seed, and shows a small one of those that go wrong.

python tests/simulation/simulate.py --seeds 10000 [--from N]    as many seeds, from N on
python tests/simulation/simulate.py --seed 4711 [--trace]       one seed; --trace prints its time line
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter, process_time

sys.path.insert(0, str(Path(__file__).parent))

from sim_defects import DEFECTS, defect
from sim_shrink import shrunk
from sim_timeline import timeline
from sim_workload import plan_of
from sim_world import World

COMMAND = "python tests/simulation/simulate.py"
#: After how many seeds there is a word on how far it has got.
EVERY = 500


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
    tally = Tally()
    try:
        for seed in range(given.first, given.first + given.seeds):
            world = World(plan_of(seed)).run()
            tally.count(world)
            if world.violation is not None:
                print(f"seed {seed}: {world.violation}\n  {COMMAND} --seed {seed} --trace", flush=True)
                _show_shrunk(world)
                if tally.wrong >= given.most:
                    break
            if tally.figures["seeds"] % EVERY == 0:
                print(f"{tally.figures['seeds']} seeds, {tally.wrong} went wrong", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print(f"ended before seed {seed} was done")
    tally.show()
    return int(tally.wrong > 0)


class Tally:
    """What many simulations come to."""

    def __init__(self) -> None:
        self.figures: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.wrong = 0
        self._began = perf_counter(), process_time()

    def count(self, world: World) -> None:
        """Add one."""
        book = world.book
        self.wrong += world.violation is not None
        self.faults.update(world.happened)
        self.figures.update({f"repeats ({cause})": count for cause, count in book.repeats.items()})
        self.figures.update({
            "seeds": 1, "calls of the store": world.calls, "starts": book.starts,
            "fire times": sum(book.accounted.values()), "ends refused": book.refusals,
            "simulated seconds": round(world.kernel.now),
        })  # fmt: skip

    def show(self) -> None:
        """Print it."""
        wall, cpu = perf_counter() - self._began[0], process_time() - self._began[1]
        print(*(f"{name}: {count}" for name, count in self.figures.items()), sep="\n")
        print("faults:", ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items())))
        seeds = self.figures["seeds"]
        print(f"{self.wrong} of {seeds} seeds went wrong; {wall:.1f} s, of which a processor was ours for {cpu:.1f} s: "
              f"{seeds / wall:.0f} and {seeds / cpu:.0f} seeds a second")  # fmt: skip


def _show_shrunk(world: World) -> None:
    assert world.violation is not None
    small = shrunk(world.plan, world.violation.rule)
    print(f"\nThe smallest found: {small.plan}\n")
    print(*timeline(small), sep="\n")
    print(f"{small.violation}\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
