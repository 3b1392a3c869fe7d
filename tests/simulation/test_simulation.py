"""Several schedulers on one store, with crashes, lost answers and pauses at any call, in an order that a seed decides.

``make simulate`` runs as many seeds as wanted; how the simulation is built stands in ``docs/contributing.md``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from sim_defects import DEFECTS, defect
from sim_scenario import SCENARIO, crashes
from sim_shrink import shrunk
from sim_timeline import timeline
from sim_workload import CALL_FAULTS, TIMED_FAULTS, JobPlan, Op, Plan, plan_of
from sim_world import World

pytestmark = pytest.mark.timeout(1800)  # only tells a hang: every step of a simulation waits for the machine
COMMAND = [sys.executable, str(Path(__file__).parent / "simulate.py")]
SEEDS = 200
PORTIONS = 4
#: Within how many seeds each defect has to be found. The rarest needs a process that stands still, and comes back
#: while another one runs what it had.
FOUND_WITHIN = 400


@pytest.mark.parametrize("portion", range(PORTIONS))
def test_schedulers_that_share_a_store_keep_their_promises(portion):
    happened: Counter[str] = Counter()
    for seed in range(portion, SEEDS, PORTIONS):
        world = World(plan_of(seed)).run()
        assert world.violation is None, f"{world.violation}; python tests/simulation/simulate.py --seed {seed} --trace"
        happened.update(world.happened)
        happened.update(world.book.repeats)
    assert happened.keys() >= {*CALL_FAULTS, *TIMED_FAULTS, "lost", "retry"}, "the seeds have no bite"


def test_a_crash_at_any_call_loses_and_repeats_nothing():
    plans = list(crashes())
    assert len(plans) > 200
    died = 0
    for plan in plans:
        world = World(plan).run()
        assert world.violation is None, f"{plan.faults}: {world.violation}"
        died += sum(world.happened.values())
    assert died > len(plans) * 0.9


def test_the_scenario_without_a_crash_repeats_nothing_but_the_retry():
    world = World(SCENARIO).run()
    assert world.violation is None
    assert world.book.repeats == {"retry": 1}


def test_a_run_that_was_asked_for_while_its_job_was_removed_does_not_start():
    ops = (Op(2.0, 0, "run_now", "j0"), Op(2.0, 1, "remove", "j0"))
    for seed in range(60):
        plan = Plan(seed, 2, (JobPlan("j0", 4.0, 3.9),), ops, density=1.0)
        assert World(plan).run().violation is None, plan


@pytest.mark.parametrize("name", sorted(DEFECTS))
def test_a_defect_is_found(name):
    with defect(name):
        found = next((seed for seed in range(FOUND_WITHIN) if World(plan_of(seed)).run().violation is not None), None)
    assert found is not None


def test_a_seed_gives_the_same_simulation_every_time():
    def trace(hash_seed):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run([*COMMAND, "--seed", "3", "--trace"], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    lines = trace("1")
    assert lines.count("\n") > 100
    assert trace("2") == lines
    assert "\n".join(timeline(World(plan_of(3)).run(), quiet=False)) in lines


def test_a_simulation_that_goes_wrong_is_made_smaller_and_still_goes_wrong():
    with defect("retry counted twice"):
        world = next(world for seed in range(100) if (world := World(plan_of(seed)).run()).violation is not None)
        small = shrunk(world.plan, world.violation.rule)
    assert small.violation.rule == world.violation.rule
    assert (small.plan.nodes, len(small.plan.jobs), small.plan.faults, small.plan.ops) == (1, 1, (), ())
    assert "VIOLATION" in list(timeline(small))[-1]


def test_the_command_shows_what_went_wrong_and_how_to_see_it_again():
    command = [*COMMAND, "--seeds", "3", "--most", "1", "--defect", "lease ignored"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "--seed 0 --trace" in done.stdout
    assert "The smallest found" in done.stdout
