"""Lines of jobs say which run they are of."""

from __future__ import annotations

import io
import json

import structlog

from goscheduler import current_run
from goscheduler.testing import ManualScheduler

WRITTEN = io.StringIO()
LOG = structlog.wrap_logger(
    structlog.PrintLogger(WRITTEN),
    processors=[structlog.contextvars.merge_contextvars, structlog.processors.JSONRenderer()],
)
IDS = []


def report(name):
    IDS.append(current_run().run_id)
    LOG.info("reporting", name=name)


def test_what_a_job_logs_has_its_ids_and_what_is_logged_later_has_not():
    with ManualScheduler(around=["goscheduler.contrib.structlog:bind_run"]) as scheduler:
        scheduler.add_job(report, "date", run_date="2026-01-01 01:00", args=["sales"], id="nightly")
        scheduler.advance("2h")
    LOG.info("later")
    first, last = map(json.loads, WRITTEN.getvalue().splitlines())
    facts = {"job_id": "nightly", "run_id": IDS[0], "attempt": 1, "scheduled_at": "2026-01-01T01:00:00+00:00"}
    assert first == {"event": "reporting", "name": "sales", **facts}
    assert last == {"event": "later"}
