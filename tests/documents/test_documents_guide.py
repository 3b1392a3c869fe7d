"""The guide to documents is true: its first example runs on a real server, its tables have every option and method."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import warm

from goscheduler.documents import DocumentScheduler
from goscheduler.documents.redis import RedisDocumentStore

ROOT = Path(__file__).resolve().parent.parent.parent
GUIDE = (ROOT / "docs" / "how-to" / "documents.md").read_text(encoding="utf-8")
URL = "mongodb://localhost:27017/shop"


def test_the_first_example_runs_on_mongodb_and_prints_what_the_page_says(mongodb, fresh, tmp_path):
    found = re.search(r"```python server\n(.*?)```\n\n```text\n(.*?)```", GUIDE, re.DOTALL)
    program, printed = found.groups()
    assert GUIDE.index("```") == found.start(), "it is the first one of the page"
    assert program.count(URL) == 1
    script = tmp_path / "page.py"
    script.write_text(program.replace(URL, fresh(mongodb).url), encoding="utf-8")
    done = warm.run("-W", "error", script)
    assert (done.returncode, done.stdout, done.stderr) == (0, printed, "")


def test_the_table_of_options_has_every_option_with_its_default():
    parameters = [p for p in inspect.signature(DocumentScheduler).parameters.values() if p.name != "clock"]
    told = {p.name: "" if p.default is p.empty else repr(p.default) for p in parameters}
    table = GUIDE.partition("| option | meaning | default |")[2].partition("\n\n")[0]
    listed = dict(re.findall(r"^\| `(\w+)` \|.*\| `?([^|`]*?)`? ?\|$", table, re.MULTILINE))
    assert listed.pop("clock") == "the machine's"
    assert {name: default.strip() for name, default in listed.items()} == told


def test_the_tables_of_methods_have_every_method():
    ours = {name for name in vars(DocumentScheduler) if not name.startswith("_")}
    redis_own = {"add", "index", "rebuild"}
    assert redis_own <= vars(RedisDocumentStore).keys()
    assert {name for name in ours | redis_own if f"| `{name}(" not in GUIDE} == set()
