"""Several processes that declare the same schedules: each firing is handed over once."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.runs.model import OutcomeKind

sys.path.insert(0, str(Path(__file__).parent.parent / "cluster"))

from cluster import Cluster

#: A few of the firings, on one store, are enough for every day; ``GOSCHEDULER_FULL=1`` runs all of them.
FULL = bool(os.environ.get("GOSCHEDULER_FULL"))
SCHEDULES = 100 if FULL else 20
MINUTES = 20 if FULL else 2
INSTANCES = 4
KINDS = ["postgresql", "redis"] if FULL else ["redis"]
SCRIPT = Path(__file__).with_name("periodic_node.py")


class Fleet(Cluster):
    """Processes that declare schedules, and whose clocks the test sets."""

    ahead = 0.0

    def start(self, kind):
        self.launch(SCRIPT, kind, self.url, str(self._writing), str(SCHEDULES))

    def skip_to_the_end_of_the_minute(self):
        """Move all clocks to shortly before the next minute."""
        moment = SYSTEM_CLOCK.now().timestamp() + self.ahead
        self.ahead += 60 - moment % 60 - 0.2
        for node in self.nodes:
            node.process.stdin.write(f"{self.ahead}\n".encode())
            node.process.stdin.flush()


@pytest.mark.parametrize("kind", KINDS)
def test_instances_that_sync_and_run_at_once_hand_every_firing_over_once(kind, url_of):
    fleet = Fleet(url_of(kind))
    try:
        for _ in range(INSTANCES):
            fleet.start(kind)
        fleet.wait_until("ready", INSTANCES)
        for minute in range(1, MINUTES + 1):
            fleet.skip_to_the_end_of_the_minute()
            fleet.wait_for(lambda lines, due=minute: fewest(lines) >= due)
        for node in fleet.nodes:
            node.stop()
        fired = fleet.said("ran")
        with fleet.scheduler() as scheduler:
            jobs, records = scheduler.get_jobs(), scheduler.runs(limit=100_000)
    finally:
        fleet.close()
    assert max(Counter((line[1], line[2]) for line in fired).values()) == 1
    assert len({line[1] for line in fired}) == len(jobs) == SCHEDULES
    assert len(records) == len(fired)
    assert {record.outcome for record in records} == {OutcomeKind.SUCCEEDED}
    assert sum(job.run_count for job in jobs) == len(fired)


def fewest(lines):
    """Return how often the schedule has fired that has fired least."""
    counts = Counter(line[1] for line in lines if line[0] == "ran")
    return min(counts.values()) if len(counts) == SCHEDULES else 0
