"""What somebody copies from the page of a job."""

from __future__ import annotations

import shlex

from operation_doubles import ADMIN, nothing

from goscheduler import Limit
from goscheduler.ops.service import Operations
from goscheduler.ops.source import Source
from goscheduler.testing import ManualScheduler
from goscheduler.web.pages.snippets import cli_of, curl_of, python_of


def _job(scheduler, job_id):
    return Operations(Source(scheduler)).call("job", ADMIN, {"id": job_id})


def test_the_python_of_a_job_adds_the_same_job():
    options = {
        "args": [1], "kwargs": {"n": 'quo"te'}, "tags": ["billing"], "retry": 4, "timeout": 30,
        "limits": [Limit("api", concurrency=2, rate="5/1m")], "max_instances": 3,
    }  # fmt: skip
    with ManualScheduler() as scheduler:
        scheduler.register("orders.sync", nothing)
        for job_id, trigger, when in (
            ("a", "interval", {"minutes": 90}),
            ("b", "cron", {"hour": "3", "day_of_week": "mon-fri", "timezone": "Europe/Berlin"}),
            ("c", "date", {"run_date": "2030-01-01"}), ("d", "interval", {"days": 2}),
        ):  # fmt: skip
            scheduler.add_job("orders.sync", trigger, id=job_id, **when, **options)
            before = _job(scheduler, job_id)
            scheduler.remove_job(job_id)
            exec(python_of(before), {"scheduler": scheduler, "Limit": Limit})
            after = _job(scheduler, job_id)
            changing = {"etag", "created_at"}
            assert {k: v for k, v in after.items() if k not in changing} == {
                k: v for k, v in before.items() if k not in changing
            }


def test_an_id_stays_one_word_of_a_command():
    with ManualScheduler() as scheduler:
        scheduler.add_job(nothing, "interval", hours=1, id="it's; rm -rf /")
        job = _job(scheduler, "it's; rm -rf /")
    for line in cli_of(job).splitlines():
        assert "it's; rm -rf /" in shlex.split(line)
    assert shlex.split(curl_of(job, "http://localhost/jobs/"))[-1] == "http://localhost/jobs/v1/jobs/it%27s%3B%20rm%20-rf%20%2F"
