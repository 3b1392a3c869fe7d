"""The first example of the page on locks, as it is printed, on real servers."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import warm
from lock_places import SHARED

from goscheduler.locks import Lock, acquire

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "locks.md"
PRINTED = "redis://localhost:6379/0"


@pytest.mark.parametrize("place", SHARED if os.environ.get("GOSCHEDULER_FULL") else ["redis"], indirect=True)
def test_the_first_example_of_the_guide_runs_as_printed(place):
    found = re.search(r"^```python server\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    assert PRINTED in found[1]
    program = found[1].replace(PRINTED, place.where)
    assert re.fullmatch(r"the report is written by one process, under the fence \d+\n", run(program))
    held = acquire(place.where, "nightly-report")
    assert run(program) == "somebody else is at it\n"
    assert held.release()


def run(program):
    done = warm.run("-W", "error", "-c", program)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_guide_names_every_method_of_a_lock_and_every_option():
    text = PAGE.read_text(encoding="utf-8")
    names = [name for name in vars(Lock) if not name.startswith("_")] + ["name", "ttl", "token", "fence", "lost"]
    options = ["ttl", "wait", "renew"]
    assert [name for name in names + options if f"`{name}" not in text] == []
