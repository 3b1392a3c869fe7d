"""The application: routes, what guards them, and how errors are told."""

from __future__ import annotations

from starlette.applications import Starlette

from goscheduler.ops.source import Source
from goscheduler.schedulers.base import BaseScheduler
from goscheduler.web.site import Site


def web_app(source: BaseScheduler | Source) -> Starlette:
    """Return an application that shows and operates a scheduler, or what an observer sees."""
    app = Starlette(routes=[])
    app.state.site = Site(source if isinstance(source, Source) else Source(source))
    return app
