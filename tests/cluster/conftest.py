"""A cluster on each of the stores that processes can share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from cluster import STORES, Cluster


@pytest.fixture
def cluster(request, url_of):
    """Return a cluster on an empty store of the kind that the test is parametrised with."""
    cluster = Cluster(url_of(request.param))
    yield cluster
    cluster.close()


def pytest_collection_modifyitems(items):
    """Let the clusters of some stores run beside those of others, but not beside each other."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            kind = next(kind for kind in STORES if f"[{kind}" in item.name)
            item.add_marker(pytest.mark.xdist_group(f"cluster-{STORES.index(kind) % 2}"))
