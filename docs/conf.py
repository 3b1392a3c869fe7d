"""How Sphinx makes a site of these pages: ``make docs``. The pages are the same that people read in the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent
SOURCE = "https://github.com/goscheduler/goscheduler/blob/main/"

project = "goscheduler"
author = "goscheduler contributors"
release = version = re.findall(r'__version__ = "(.+)"', (ROOT / "goscheduler" / "_version.py").read_text("utf-8"))[0]

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
html_theme = "furo"
html_title = f"goscheduler {release}"
html_copy_source = False
html_static_path: list[str] = []
# Kinds of blocks for the tests, as what they are.
suppress_warnings = ["misc.highlighting_failure"]


def setup(app: Sphinx) -> None:
    app.connect("source-read", _fit_for_a_site)


def _fit_for_a_site(app: Sphinx, name: str, source: list[str]) -> None:
    """Have links that leave the pages lead to the repository, and put the page into the table of contents."""
    folder = (ROOT / "docs" / name).parent
    source[0] = re.sub(r"\]\(((?:\.\./)+[^)\s#]+)", lambda link: f"]({_target(folder, link[1])}", source[0])
    source[0] = re.sub(r"^```(python|text) \w[\w-]*$", r"```\1", source[0], flags=re.MULTILINE)
    source[0] += contents(name)


def _target(folder: Path, link: str) -> str:
    path = (folder / link).resolve()
    return link if path.is_relative_to(ROOT / "docs") else SOURCE + path.relative_to(ROOT).as_posix()


def contents(name: str) -> str:
    """Return the tables of contents that a page brings: the pages that an index names, in its order."""
    if name not in ("index", "decisions/index"):
        return ""
    parts = re.split(r"^## (.+)$", (ROOT / "docs" / f"{name}.md").read_text("utf-8"), flags=re.MULTILINE)
    headed = [("First steps", parts[0]), *zip(parts[1::2], parts[2::2], strict=True)]
    return "".join(_toctree(heading, re.findall(r"\]\(([\w/-]+)\.md\)", part)) for heading, part in headed)


def _toctree(heading: str, pages: list[str]) -> str:
    return "\n\n```{toctree}\n:hidden:\n:caption: " + heading + "\n\n" + "\n".join(pages) + "\n```\n"
