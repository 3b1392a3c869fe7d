"""Settings that hold for every test."""

from __future__ import annotations

import builtins
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

sys.path[:0] = [str(Path(__file__).parent / folder) for folder in ("servers", "tools", "support")]
pytest_plugins = ["server_fixtures", "spreading"]

# A shell starts what it runs in the background with Ctrl-C ignored, and children inherit that; the tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes, or its making, says only how busy the machine is.
ANY_SPEED: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("default", max_examples=60, **ANY_SPEED)
settings.register_profile("ci", max_examples=12, derandomize=True, **ANY_SPEED)
settings.register_profile("thorough", max_examples=2000, **ANY_SPEED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default"))


#: How many seconds a test against a model may take: it asks a server thousands of things.
MODEL_TIMEOUT = 1800


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep tests marked ``serial`` on one worker, one after the other, and give those against a model their time."""
    for item in items:
        if item.name == "runTest":  # of a state machine
            item.add_marker(pytest.mark.timeout(MODEL_TIMEOUT), append=False)
        if item.get_closest_marker("serial") and config.pluginmanager.hasplugin("xdist"):
            item.add_marker(pytest.mark.xdist_group("serial"))


@pytest.fixture(autouse=True)
def _import_function_stays() -> Any:
    """Put the import function back, which Qt replaces when it is loaded: what pickles it wants the one of Python."""
    before = builtins.__import__
    yield
    builtins.__import__ = before
