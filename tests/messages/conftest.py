"""Makes the doubles of these tests known."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

STORES = ["sqlite", "postgresql", "redis", "mongodb"]


@pytest.fixture
def url_of(tmp_path, shared_server, fresh):
    """Return the URL of an empty store of some kind."""

    def url(kind):
        return f"sqlite:///{tmp_path}/messages.db" if kind == "sqlite" else fresh(shared_server(kind)).url

    return url


@pytest.fixture(params=STORES)
def store_url(request, url_of):
    return url_of(request.param)


#: What the name of a test says → the worker that has the server already.
GROUPS = {"rabbitmq": "rabbitmq", "nats": "transports", "redis": "messages-0", "sqlite": "messages-0",
          "postgresql": "messages-1", "mongodb": "messages-1"}  # fmt: skip


def pytest_collection_modifyitems(items):
    """Keep the tests of one kind of server together."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            kind = next((kind for kind in GROUPS if f"[{kind}" in item.name), "redis")
            item.add_marker(pytest.mark.xdist_group(GROUPS[kind]))
