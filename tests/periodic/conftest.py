"""One group for the tests that need servers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_collection_modifyitems(items):
    """Let the tests that need servers run one after the other."""
    for item in items:
        if item.path.parent == Path(__file__).parent and {"redis_server", "url_of"} & set(item.fixturenames):
            item.add_marker(pytest.mark.xdist_group("periodic"))
