"""Empty stores of every kind, and one group of tests for each server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def url_of(tmp_path, shared_server, fresh):
    """Return the URL of an empty store of some kind."""

    def url(kind):
        if kind == "sqlite":
            return f"sqlite:///{tmp_path}/jobs.db"
        space = fresh(shared_server(kind))
        return f"{space.url}/{space.name}" if kind in ("etcd", "zookeeper") else space.url

    return url


def pytest_collection_modifyitems(items):
    """Let the tests that need servers run one after the other."""
    for item in items:
        if item.path.parent == Path(__file__).parent and {"redis_server", "url_of"} & set(item.fixturenames):
            item.add_marker(pytest.mark.xdist_group("periodic"))
