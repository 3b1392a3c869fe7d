"""A store whose driver is not installed says what to install."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

#: URL → the package that it needs, and the extra that brings it.
NEEDS = {
    "sqlite:///jobs.db": ("sqlalchemy", "sqlalchemy"),
    "postgresql://anna:s3cret@localhost/db": ("psycopg", "postgresql"),
    "mysql://anna:s3cret@localhost/db": ("pymysql", "mysql"),
    "redis://:s3cret@localhost": ("redis", "redis"),
    "mongodb://anna:s3cret@localhost/db": ("pymongo", "mongodb"),
    "etcd://anna:s3cret@localhost:2379": ("etcd3gw", "etcd"),
    "zookeeper://localhost:2181": ("kazoo", "zookeeper"),
}

#: Tries each URL in a process in which its package cannot be imported, and no other store has been.
SCRIPT = """
import json, os, sys
from goscheduler import BackgroundScheduler
for url, (package, extra) in json.loads(sys.argv[1]).items():
    if os.fork():
        os.wait()
        continue
    sys.modules[package] = None
    try:
        BackgroundScheduler(jobstores={"default": url})
    except ImportError as error:
        print(json.dumps([url, str(error)]), flush=True)
    os._exit(0)
"""


@pytest.fixture(scope="module")
def messages():
    """What is said, by URL."""
    command = [sys.executable, "-c", SCRIPT, json.dumps(NEEDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("url", list(NEEDS))
def test_a_missing_driver_is_named_with_the_way_to_get_it(url, messages):
    package, extra = NEEDS[url]
    assert f'pip install "goscheduler[{extra}]"' in messages[url]
    assert package in messages[url]
    assert "s3cret" not in messages[url]
