"""Random numbers of the package leave those of the program alone."""

from __future__ import annotations

import random
import re
from pathlib import Path

import goscheduler
from goscheduler._chance import CHANCE

#: The jitter of a trigger can be made to repeat by ``random.seed``, as in APScheduler; a retry is asked with a source.
OF_THE_PROGRAM = {"triggers/base.py", "runs/retry.py", "runs/transitions.py"}


def test_what_follows_a_seed_does_not_depend_on_what_a_scheduler_draws_meanwhile() -> None:
    random.seed(5)
    expected = random.random()
    random.seed(5)
    drawn = {CHANCE.random(), CHANCE.uniform(0, 1), *CHANCE.sample(range(100), 3)}
    assert random.random() == expected
    random.seed(5)
    assert drawn != {CHANCE.random(), CHANCE.uniform(0, 1), *CHANCE.sample(range(100), 3)}


def test_nothing_that_runs_on_threads_of_the_scheduler_draws_from_the_numbers_of_the_program() -> None:
    package = Path(goscheduler.__file__).parent
    importing = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"^(import random|from random)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert importing - {"_chance.py"} == OF_THE_PROGRAM
