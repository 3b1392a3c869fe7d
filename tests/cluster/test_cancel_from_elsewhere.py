"""A run that one process has is cancelled by another, through the store that they share."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from cluster import STORES


@pytest.mark.parametrize("cluster", STORES, indirect=True)
def test_a_run_is_cancelled_from_another_process(cluster):
    node = cluster.start()
    cluster.wait_until("ready", 1)
    with cluster.scheduler() as scheduler:
        scheduler.add_job("cluster_jobs:until_cancelled", "date", run_date=datetime.now(timezone.utc), id="endless")
        cluster.wait_until("began", 1)
        (run,) = scheduler.live_runs("endless")
        assert scheduler.cancel_run(run.id, "enough")
        assert cluster.wait_until("cancelled", 1) == [["cancelled", "endless", "enough"]]
        node.stop()
        (record,) = scheduler.runs("endless")
    assert (record.outcome.value, record.reason) == ("cancelled", "enough")
