"""The page about HTTP names every route, every error and every topic."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from write_http_reference import TABLE, table

from goscheduler.ops.errors import KINDS
from goscheduler.web import watch, web_app
from goscheduler.web.problems import HTTP_KINDS
from goscheduler.web.table import ROWS, SINGULAR

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = (DOCS / "reference" / "http.md").read_text(encoding="utf-8")


def test_every_route_is_there_with_its_operation_and_its_role():
    assert TABLE.findall(PAGE) == [table()], "make openapi"


def test_every_error_is_there_with_its_status():
    listed = {
        (int(status), name)
        for status, names in re.findall(r"^\| (\d+) \| (.*?) \|", PAGE, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", names)
    }
    assert listed == {(kind.http, kind.name) for kind in (*KINDS, *HTTP_KINDS)}


def test_every_topic_and_every_path_of_one_thing_is_there():
    topics = [*watch.TOPICS, *(f"{name}:ID" for name in watch.TOPICS_OF_ONE)]
    assert [name for name in topics if f"`{name}`" not in PAGE] == []
    known = {path for before, path in SINGULAR.items() if any(row.path.startswith(before) for row in ROWS)}
    assert [path for path in sorted(known) if path not in PAGE] == []


def test_every_option_of_the_application_is_in_the_guide():
    page = (DOCS / "how-to" / "web.md").read_text(encoding="utf-8")
    options = set(inspect.signature(web_app).parameters) - {"source"}
    assert {name for name in options if f"`{name}`" not in page} == set()
