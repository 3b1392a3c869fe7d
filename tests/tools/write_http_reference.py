"""Writes what is made of the table of routes: ``docs/reference/openapi.json``, and the table in ``http.md``."""

from __future__ import annotations

import json
import re
from pathlib import Path

from goscheduler.web.openapi import document
from goscheduler.web.table import ROWS

REFERENCE = Path(__file__).resolve().parent.parent.parent / "docs" / "reference"
HEAD = "| method and path | operation | role |\n|---|---|---|\n"
#: The table with its head and all its rows.
TABLE = re.compile(re.escape(HEAD) + r"(?:\|[^\n]*\n)+")


def table() -> str:
    """Return the table of the routes, as the page has it."""
    rows = [
        f"| `{row.method} {row.path}` | `{row.name}`: {row.operation.summary} | {row.operation.role.title} |\n"
        for row in ROWS
    ]
    return HEAD + "".join(rows)


def description() -> str:
    """Return the description of the routes, as the file has it."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    page = REFERENCE / "http.md"
    page.write_text(TABLE.sub(lambda _: table(), page.read_text(encoding="utf-8"), count=1), encoding="utf-8")
    (REFERENCE / "openapi.json").write_text(description(), encoding="utf-8")


if __name__ == "__main__":
    main()
