"""Requests that another program puts into a database by its own means, drained by several processes."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pymongo
import pytest
import redis
from sqlalchemy import create_engine, text

STORES = ["sqlite", "postgresql", "mariadb", "redis", "mongodb"]
MANY = 30


def ask(url, *requests):
    """Put requests into the inbox of a store as a program does that knows only the database."""
    scheme = url.partition(":")[0]
    if scheme == "redis":
        with redis.Redis.from_url(url) as client:
            for request in requests:
                client.xadd("{goscheduler}:inbox", {"request": request})
    elif scheme == "mongodb":
        with pymongo.MongoClient(url) as client:
            client.get_default_database()["jobs.inbox"].insert_many([{"request": request} for request in requests])
    else:
        engine = create_engine(url)
        with engine.begin() as connection:
            for request in requests:
                statement = text("INSERT INTO goscheduler_inbox (request) VALUES (:request)")
                connection.execute(statement, {"request": request})
        engine.dispose()


@pytest.mark.parametrize("cluster", STORES, indirect=True)
def test_each_request_becomes_one_job_and_runs_once(cluster):
    with cluster.scheduler():
        pass  # so that the tables are there
    later = datetime.now(timezone.utc) + timedelta(hours=1)
    asked = [json.dumps({"task": "work", "id": f"job-{number}", "by": "the shop ✓"}) for number in range(MANY)]
    asked += [
        json.dumps({"task": "work", "id": "later", "run_at": later.isoformat(timespec="seconds")}),
        json.dumps({"task": "work", "id": "job-0", "run_at": later.isoformat(timespec="seconds")}),  # twice
        json.dumps({"task": "nobody has it"}),
        "no request",
    ]
    for _ in range(3):
        cluster.start("--lease", "8")
    cluster.wait_until("ready", 3)
    ask(cluster.url, *asked)
    ran = cluster.wait_until("ran", MANY)
    assert len({line[1] for line in ran}) == MANY
    with cluster.scheduler() as scheduler:
        job = scheduler.get_job("later")
        assert (job.task, job.created_by) == ("work", "inbox")
        for node in cluster.nodes:
            node.stop()
        # One was asked for under an id that was taken, or that was free again because its job had run.
        assert MANY <= len(cluster.said("ran")) <= MANY + 1
        assert scheduler.count_jobs().number <= 2
