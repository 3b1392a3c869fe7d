"""What supervisors and collectors ask: whether the process lives, whether it is ready, and its metrics."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from goscheduler.errors import survivable
from goscheduler.logs import guarded_logger
from goscheduler.ops.access import Role
from goscheduler.ops.errors import NotFound
from goscheduler.web.site import principal_of, site_of

_logger = guarded_logger("goscheduler.web")

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def live(request: Request) -> Response:
    """Say that the process answers; no store is asked."""
    return PlainTextResponse("ok")


async def ready(request: Request) -> Response:
    """Say whether the stores answer; nothing is told of why."""
    is_ready = await site_of(request).run(_stores_answer, request)
    return PlainTextResponse("ready" if is_ready else "not ready", 200 if is_ready else 503)


def _stores_answer(request: Request) -> bool:
    source = site_of(request).source
    if not source.scheduler.running:
        return False
    try:
        for store in source.stores.values():
            store.get_next_run_time()
    except BaseException as error:
        if not survivable(error):
            raise
        _logger.warning("Probe of readiness failed, so it is told that this process is not ready: %s", error)
        return False
    return True


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
