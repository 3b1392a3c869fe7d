"""Small real programs, run under APScheduler 3 and, with the import root changed, here: they must show the same.

Each file in ``programs`` has ``main(show)``; ``show`` notes whatever is to be compared. Where the difference is wanted,
``DIFFERENCES`` says what is shown here instead, and why.
"""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = sorted(Path(__file__).with_name("programs").glob("*.py"))

#: Program → (what APScheduler shows, what we show) for each wanted difference.
DIFFERENCES = {
    "cron_by_name": [("{'day_of_week': 'fri-mon'}, 'ValueError'", "{'day_of_week': 'fri-mon'}, 'accepted'")],
}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_does_the_same_after_the_change_of_import(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = _run(path, "apscheduler", monkeypatch)
    ours = _run(path, "goscheduler", monkeypatch)
    for old, new in DIFFERENCES.get(path.stem, []):
        assert any(old in line for line in theirs), f"APScheduler does not show {old!r} any more"
        theirs = [line.replace(old, new) for line in theirs]
    assert ours == theirs


def _run(path: Path, root: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run a program under one of the two roots and return what it has shown."""
    name = f"compat_program_{path.stem}"
    source = re.sub(r"\bapscheduler\b", root, path.read_text(encoding="utf-8"))
    module = types.ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(source, str(path), "exec"), vars(module))
    shown: list[str] = []

    def show(*values: Any) -> None:
        shown.append(re.sub(r"\b(apscheduler|goscheduler)\b", "ROOT", ", ".join(map(repr, values))))

    module.main(show)
    return shown
