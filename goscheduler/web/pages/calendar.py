"""What fires when: a heat map of the next day or week, and the jobs of one of its cells."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from goscheduler.times import zone_name
from goscheduler.web.pages.forecasts import Made, forecasts_of
from goscheduler.web.pages.heatmap import HeatMap, day_map, loads_of, week_map
from goscheduler.web.pages.rendering import render
from goscheduler.web.pages.routing import get
from goscheduler.web.pages.shell import times_of
from goscheduler.web.site import ask, principal_of, site_of


class Span(NamedTuple):
    """How far a calendar looks ahead."""

    label: str
    hours: int
    minutes: int
    """Length of a cell."""


SPANS = {"24h": Span("24 h", 24, 10), "7d": Span("7 d", 7 * 24, 60)}
#: A page that waits for a forecast is loaded again after so many seconds.
AGAIN = "2"


def calendar_page(request: Request) -> Response:
    """Show the map, or that it is being made."""
    query = request.query_params
    name = query.get("span") if query.get("span") in SPANS else "24h"
    span, executor, at = SPANS[name or "24h"], query.get("executor") or None, query.get("at") or None
    made = _forecast(request, span)
    rows = None if at is None else ask(request, "firings", {"start": at, "minutes": span.minutes, "executor": executor})
    response = render(
        request, "calendar.html", spans=SPANS, span_name=name, span=span, executor=executor, at=at, rows=rows,
        made=made, map=None if made is None else _map_of(request, made.view, span, executor),
        executors=[] if made is None else executors_of(made.view),
        made_at=None if made is None else times_of(request).now - timedelta(seconds=made.age),
        turns=[] if made is None else [each["start"] for each in made.view["buckets"] if each["clock_changes"]],
    )  # fmt: skip
    if made is None:
        response.headers["Refresh"] = AGAIN
    return response


def _forecast(request: Request, span: Span) -> Made | None:
    zone = zone_name(times_of(request).zone)
    wanted = {"hours": span.hours, "bucket": span.minutes, "whole_hours": True, "timezone": zone}
    return forecasts_of(site_of(request)).of(principal_of(request), wanted)


def _map_of(request: Request, view: Mapping[str, Any], span: Span, executor: str | None) -> HeatMap:
    times = times_of(request)
    loads = loads_of(view["buckets"], executor, timedelta(minutes=span.minutes), times.now.astimezone(times.zone))
    return day_map(loads, span.minutes) if span.hours == 24 else week_map(loads)


def executors_of(view: Mapping[str, Any]) -> list[str]:
    """Return the executors that a forecast names, the one with the most to do first."""
    totals: dict[str, int] = {}
    for bucket in view["buckets"]:
        for name, firings in bucket["by_executor"].items():
            totals[name] = totals.get(name, 0) + firings
    return sorted(totals, key=lambda name: (-totals[name], name))


ROUTES = [get("/calendar", calendar_page)]
