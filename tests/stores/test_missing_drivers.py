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

SCRIPT = """
import json, sys
url, package = sys.argv[1:]
sys.modules[package] = None
from goscheduler import BackgroundScheduler
try:
    BackgroundScheduler(jobstores={"default": url})
except ImportError as error:
    print(json.dumps(str(error)))
"""


@pytest.mark.parametrize("url", list(NEEDS))
def test_a_missing_driver_is_named_with_the_way_to_get_it(url):
    package, extra = NEEDS[url]
    done = subprocess.run([sys.executable, "-c", SCRIPT, url, package], capture_output=True, text=True, check=True)
    message = json.loads(done.stdout)
    assert f'pip install "goscheduler[{extra}]"' in message
    assert package in message
    assert "s3cret" not in message
