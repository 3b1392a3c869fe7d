"""The guide to messages is true: its first example runs as printed, on real servers, and its tables fit the code."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import pytest
import warm

from goscheduler import exponential
from goscheduler.messages import (
    Health,
    HealthStatus,
    Message,
    MessageFilter,
    MessageScheduler,
    MessageState,
    Recurrence,
)
from goscheduler.transports.base import HEADER_NAMES

GUIDE = (Path(__file__).parents[2] / "docs" / "how-to" / "messages.md").read_text(encoding="utf-8")
FIRST = re.compile(r"^```python server\n(?P<code>.*?)^```\n\n```text\n(?P<printed>.*?)^```$", re.MULTILINE | re.DOTALL)
URLS = {"redis": "redis://localhost:6379/0", "rabbitmq": "amqp://guest:guest@localhost:5672/%2F"}


@pytest.mark.xdist_group("rabbitmq")
def test_the_first_example_runs_as_printed(shared_server, fresh, tmp_path):
    found = FIRST.search(GUIDE)
    assert found is not None
    code = found["code"]
    for kind, printed in URLS.items():
        assert printed in code
        code = code.replace(printed, fresh(shared_server(kind)).url)
    done = warm.run("-W", "error", "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == found["printed"]


def table(title, *columns):
    """Return the rows of the table with these columns in the section of this title, by what the first cell names."""
    section = GUIDE.split(f"## {title}\n")[1].split("\n## ")[0]
    found = {}
    for part in section.split(f"| {' | '.join(columns)} |\n")[1:]:
        for line in part.splitlines()[1:]:
            if not line.startswith("|"):
                break
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            found[cells[0]] = cells[1:]
    assert found, title
    return found


def test_the_settings_are_all_there_with_their_defaults():
    told = {}
    for names, (_, default) in table("Settings", "option", "meaning", "default").items():
        told.update(zip(re.findall(r"`(\w+)`", names), re.findall(r"`([^`]+)`", default), strict=True))
    parameters = dict(inspect.signature(MessageScheduler).parameters)
    assert told.pop("backoff") == "exponential(1, factor=4, cap=300)"
    assert parameters.pop("backoff").default == exponential(1, factor=4, cap=300)
    assert told == {name: repr(each.default).replace("'", '"') for name, each in parameters.items()}


@pytest.mark.parametrize("cls", [Message, Recurrence])
def test_the_fields_are_all_there_with_their_defaults(cls):
    told = table("A message", "field", "meaning", "default")
    for field in dataclasses.fields(cls):
        default = field.default
        if default is dataclasses.MISSING:
            default = "" if field.default_factory is dataclasses.MISSING else field.default_factory()
        assert told[f"`{field.name}`"][-1] == (f"`{default!r}`".replace("b''", 'b""') if default != "" else "")
    assert len(told) == len(dataclasses.fields(Message)) + len(dataclasses.fields(Recurrence))


def test_every_method_state_filter_and_header_is_named():
    methods = [name for name in vars(MessageScheduler) if not name.startswith("_")]
    told = " ".join(table("Operations", "method", "does"))
    assert [name for name in methods if not re.search(rf"`{name}\b", told)] == []
    for names in (
        [field.name for field in dataclasses.fields(MessageFilter)],
        [state.value for state in MessageState],
        [field.name for field in dataclasses.fields(Health)],
        HEADER_NAMES,
    ):
        assert [name for name in names if not re.search(rf"`\"?{name}\b", GUIDE)] == []
    assert [row.strip("`") for row in table("Health", "status", "when")] == [status.value for status in HealthStatus]
