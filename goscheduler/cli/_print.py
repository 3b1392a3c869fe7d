"""Rows and facts on stdout: tables on a terminal, aligned text elsewhere, one JSON document on request.

Rich is imported on a terminal only: elsewhere a command starts in half the time without it.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING

from goscheduler._text import printable_lines
from goscheduler.cli._text import MOMENTS, field_cell
from goscheduler.ops.values import plain
from goscheduler.times import local_timezone

if TYPE_CHECKING:
    from rich.table import Table

View = Mapping[str, object]
#: The width of lines where there is no terminal.
USUAL_WIDTH = 100
#: Titles of columns that are short, or that people copy: where a table is too wide, others are folded first.
_WHOLE = frozenset(name.replace("_", " ") for name in (*MOMENTS, "id", "run_id", "state", "outcome", "process"))


def print_rows(
    rows: Sequence[View], columns: Sequence[str], *, as_json: bool = False, nothing: str = "", most: int | None = None
) -> None:
    """Print one line a row with these columns, at most ``most``; as JSON, all that is known of each."""
    if as_json:
        print_json(rows)
    elif not rows:
        note(nothing)
    else:
        zone = local_timezone()
        shown = rows[:most]
        _print_table(columns, [[field_cell(column, row.get(column), zone) for column in columns] for row in shown])
        if len(shown) < len(rows):
            note(f"… and {len(rows) - len(shown)} more")


def print_facts(view: View, *, as_json: bool = False) -> None:
    """Print all that is known of one thing, one fact a line; texts of several lines are indented below their name."""
    if as_json:
        print_json(view)
        return
    zone = local_timezone()
    width = max(map(len, view)) + 2
    for name, value in view.items():
        if value not in (None, "", (), {}, []):
            print(f"{label(name):<{width}}{_fact(name, value, zone)}")


def print_json(value: object) -> None:
    """Print one JSON document. Beyond ASCII all is escaped, so nothing in it can reach a terminal as a command."""
    items = [plain(dict(row)) for row in value] if isinstance(value, Sequence) and not isinstance(value, str) else value
    print(json.dumps(plain(items), indent=2))


def note(text: str) -> None:
    """Print a remark where it does not get among the results."""
    print(text, file=sys.stderr)


def label(name: str) -> str:
    """Return the name of a field as people read it."""
    return name.replace("_", " ")


def width_of_output() -> int:
    """Return how many characters a line may have."""
    return shutil.get_terminal_size((USUAL_WIDTH, 24)).columns if sys.stdout.isatty() else USUAL_WIDTH


def _fact(name: str, value: object, zone: tzinfo) -> str:
    if isinstance(value, str) and "\n" in value.strip():
        return "\n" + "\n".join(f"    {line}" for line in printable_lines(value.rstrip()).split("\n"))
    return field_cell(name, value, zone)


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    titles = [label(column) for column in columns]
    if not sys.stdout.isatty():
        print("\n".join(aligned([titles, *rows])))
        return
    from rich.console import Console

    Console(markup=False, highlight=False, emoji=False).print(_rich_table(titles, rows))


def _rich_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in titles:
        table.add_column(title, overflow="fold", no_wrap=title in _WHOLE)
    for row in rows:
        table.add_row(*map(Text, row))  # not str, which Rich would read as markup
    return table


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines with their columns below one another; wide characters count as two."""
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(text + " " * (width - _width(text)) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
