"""Makes what the tests of documents share importable, and keeps those of one server together."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]


@pytest.fixture(scope="module")
def _spaces():
    """Empty places on servers, one of each kind for a module: making a database is slow."""
    with ExitStack() as stack:
        yield stack, {}


@pytest.fixture
def url_of(_spaces, shared_server):
    """Return the URL of a place on a server that the tests of a module share, under names of their own."""
    stack, urls = _spaces

    def get(kind):
        if kind not in urls:
            urls[kind] = stack.enter_context(shared_server(kind).fresh()).url
        return urls[kind]

    return get


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.name != "test_documents_cluster.py":
            item.add_marker(pytest.mark.xdist_group("documents"))
