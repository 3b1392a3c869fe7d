"""The guide is true: its first example runs as printed, on a real server, and its tables fit the code."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
import warm

from goscheduler.periodic import Schedule, ScheduleRegistry, ScheduleState, SyncPlan

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "how-to" / "periodic.md").read_text(encoding="utf-8")
FIRST = re.compile(r"^```python server\n(?P<code>.*?)^```\n\n```text\n(?P<printed>.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_first_example_runs_as_printed_on_a_real_server(redis_server, fresh, tmp_path):
    found = FIRST.search(GUIDE)
    code = found["code"]
    assert code.count("redis://localhost:6379/0") == 1
    script = tmp_path / "guide.py"
    script.write_text(code.replace("redis://localhost:6379/0", fresh(redis_server).url), encoding="utf-8")
    done = warm.run("-W", "error", script)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == found["printed"]


@pytest.mark.parametrize("kind", [Schedule, ScheduleState])
def test_the_tables_have_every_field(kind):
    assert [field.name for field in dataclasses.fields(kind) if f"| `{field.name}` |" not in GUIDE] == []


def test_the_guide_names_everything_that_a_registry_and_a_plan_have():
    methods = [name for name in vars(ScheduleRegistry) if not name.startswith("_") and name != "functions"]
    parts = [field.name for field in dataclasses.fields(SyncPlan) if field.name != "pending"]
    assert [name for name in methods + parts if not re.search(rf"`{name}\b", GUIDE)] == []


def test_the_table_of_fields_tells_the_true_defaults():
    for field in dataclasses.fields(Schedule):
        row = re.search(rf"^\| `{field.name}` \| .* \|(?P<default>[^|]*)\|$", GUIDE, re.MULTILINE)
        told = row["default"].strip(" `")
        default = {} if field.default_factory is dict else field.default
        assert told == ("" if default is dataclasses.MISSING else repr(default).replace("'", '"'))
