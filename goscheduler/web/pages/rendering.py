"""Makes pages of templates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from goscheduler.web.pages import formats, phrases
from goscheduler.web.pages.shell import Shell, shell_of

#: So many badges, and rows of outcomes, are kept.
MOST_MARKS = 1024


def render(request: Request, template: str, status: int = 200, /, **values: Any) -> HTMLResponse:
    """Return a page: a template with these values, in the shell that all pages have."""
    return _made(shell_of(request), template, status, values)


def render_at_once(request: Request, template: str, status: int, /, **values: Any) -> HTMLResponse:
    """Return a page without asking a store for what stands around it."""
    return _made(shell_of(request, ask_stores=False), template, status, values)


def _made(shell: Shell, template: str, status: int, values: dict[str, Any]) -> HTMLResponse:
    text = environment().get_template(template).render(shell=shell, link=shell.link, times=shell.times, **values)
    return HTMLResponse(text.encode("utf-8", "replace"), status)  # an id can be no Unicode


@cache
def environment() -> Environment:
    """Return what templates are made with: they escape all values, and refuse names that nobody gave."""
    made = Environment(
        loader=PackageLoader("goscheduler.web", "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.filters.update(
        duration=formats.duration, number=formats.number, count=formats.count, percent=formats.percent,
        pretty=formats.as_json, brief=formats.brief,
    )  # fmt: skip
    made.globals.update(badge_of=formats.badge_of, many=formats.many)
    made.globals.update(
        recurs=phrases.recurs, use_of=phrases.use_of, starts_of=phrases.starts_of, is_full=phrases.is_full,
        one_line=phrases.value, fire_times=phrases.fire_times, wall=phrases.wall, told=phrases.told,
        common=phrases.common,
    )  # fmt: skip
    made.globals.update(marks=_marks(made))
    return made


def _marks(made: Environment) -> dict[str, Callable[..., Any]]:
    """Return the macros of ``marks.html``. A list has the same badges in each of its rows: these are made once."""
    macros = made.get_template("marks.html").module
    icon, pill, badge, ticks = (getattr(macros, name) for name in ("icon", "pill", "badge", "ticks"))
    ticks_of = lru_cache(MOST_MARKS)(ticks)

    def ticks_in_a_row(outcomes: Sequence[str]) -> Any:
        return ticks_of(tuple(outcomes))

    kept = {"icon": lru_cache(MOST_MARKS)(icon), "badge": lru_cache(MOST_MARKS)(badge)}
    return {**kept, "pill": pill, "ticks": ticks_in_a_row}
