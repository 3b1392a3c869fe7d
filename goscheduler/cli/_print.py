"""Rows and facts on stdout: tables on a terminal, aligned text elsewhere, one JSON document on request."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import tzinfo

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from goscheduler._text import printable_lines
from goscheduler.cli._text import cell, plain
from goscheduler.times import local_timezone

View = Mapping[str, object]


def print_rows(rows: Sequence[View], columns: Sequence[str], *, as_json: bool, nothing: str) -> None:
    """Print one line a row with these columns; as JSON, all that is known of each."""
    if as_json:
        print_json(rows)
    elif not rows:
        note(nothing)
    else:
        zone = local_timezone()
        _print_table(columns, [[cell(row.get(column), zone) for column in columns] for row in rows])


def print_facts(view: View, *, as_json: bool) -> None:
    """Print all that is known of one thing, one fact a line; texts of several lines are indented below their name."""
    if as_json:
        print_json(view)
        return
    zone = local_timezone()
    width = max(map(len, view)) + 2
    for name, value in view.items():
        if value not in (None, "", (), {}, []):
            print(f"{_label(name):<{width}}{_fact(value, zone)}")


def print_json(value: object) -> None:
    """Print one JSON document. Beyond ASCII all is escaped, so nothing in it can reach a terminal as a command."""
    items = [plain(dict(row)) for row in value] if isinstance(value, Sequence) and not isinstance(value, str) else value
    print(json.dumps(plain(items), indent=2))


def note(text: str) -> None:
    """Print a remark where it does not get among the results."""
    print(text, file=sys.stderr)


def _label(name: str) -> str:
    return name.replace("_", " ")


def _fact(value: object, zone: tzinfo) -> str:
    if isinstance(value, str) and "\n" in value.strip():
        return "\n" + "\n".join(f"    {line}" for line in printable_lines(value.rstrip()).split("\n"))
    return cell(value, zone)


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    console = Console(markup=False, highlight=False, emoji=False)
    titles = [_label(column) for column in columns]
    if console.is_terminal:
        console.print(_rich_table(titles, rows))
    else:
        print("\n".join(aligned([titles, *rows])))


def _rich_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in titles:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))  # not str, which Rich would read as markup
    return table


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines with their columns below one another; wide characters count as two."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(text + " " * (width - cell_len(text)) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
