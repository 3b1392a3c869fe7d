"""The contract of transports can be imported; tests on RabbitMQ are on one worker, which alone has to wait for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE and not item.get_closest_marker("serial"):
            item.add_marker(pytest.mark.xdist_group("rabbitmq" if "kombu" in item.path.name else "transports"))
