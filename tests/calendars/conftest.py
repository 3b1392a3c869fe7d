"""Lets the tests of this folder use the oracle of the triggers, and leaves no calendar behind."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from goscheduler.calendars.named import forget_calendar, known_calendars

sys.path.insert(0, str(Path(__file__).parent.parent / "triggers"))


@pytest.fixture(autouse=True)
def _no_named_calendars() -> Iterator[None]:
    yield
    for name in known_calendars():
        forget_calendar(name)
