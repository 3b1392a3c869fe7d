"""What supervisors and collectors ask: whether the process lives, whether it is ready, and its metrics."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from goscheduler.ops.access import Role
from goscheduler.ops.errors import NotFound
from goscheduler.schedulers._health import Probe
from goscheduler.web.site import principal_of, site_of

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def live(request: Request) -> Response:
    """Say whether the process works; no store is asked."""
    return _said(site_of(request).source.scheduler.liveness(), "ok", "stuck")


async def ready(request: Request) -> Response:
    """Say whether the scheduler can work, and its stores answer; nothing is told of why."""
    site = site_of(request)
    return _said(await site.run(site.source.scheduler.readiness), "ready", "not ready")


def _said(probe: Probe, well: str, otherwise: str) -> Response:
    return PlainTextResponse(well if probe.ok else otherwise, 200 if probe.ok else 503)


async def metrics(request: Request) -> Response:
    """Return the metrics as text, if the site has any."""
    site = site_of(request)
    if site.metrics_text is None:
        raise NotFound("there are no metrics here")
    principal_of(request).require(Role.VIEWER)
    return PlainTextResponse(await site.run(site.metrics_text), media_type=METRICS_TYPE)


def probe_routes() -> list[Route]:
    """Return the routes of probes and metrics."""
    return [Route("/livez", live), Route("/readyz", ready), Route("/metrics", metrics)]
