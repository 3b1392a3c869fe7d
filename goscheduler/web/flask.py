"""A blueprint for Flask: the log-in and the ``before_request`` functions of the program apply to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Blueprint, Response, request

from goscheduler.ops.access import Principal
from goscheduler.ops.source import Source
from goscheduler.schedulers.base import BaseScheduler
from goscheduler.web.wsgi import PRINCIPAL, principal_in_environ, wsgi_app

METHODS = ("GET", "HEAD", "POST", "PATCH", "DELETE")


def flask_blueprint(
    source: BaseScheduler | Source, *, principal: Callable[[], Principal | None] | None = None,
    name: str = "goscheduler", **options: Any,
) -> Blueprint:  # fmt: skip
    """Return a blueprint with all routes; the options are those of :func:`~goscheduler.web.web_app`.

    ``principal`` is called within the request, so that ``current_user`` and the like can be used: it returns who asks,
    or None.
    """
    app = wsgi_app(source, principal=None if principal is None else principal_in_environ, **options)
    blueprint = Blueprint(name, __name__)

    def answer(path: str) -> Response:
        environ = {**request.environ, **_place(request.environ, request.path, path)}
        environ[PRINCIPAL] = None if principal is None else principal()
        answered: Response = Response.from_app(app, environ)  # type: ignore[assignment]
        return answered

    blueprint.add_url_rule("/", "first", answer, defaults={"path": ""}, methods=METHODS)
    blueprint.add_url_rule("/<path:path>", "other", answer, methods=METHODS)
    return blueprint


def _place(environ: dict[str, Any], whole: str, path: str) -> dict[str, str]:
    """Return the two variables of WSGI that say where an application is and what is asked of it."""
    prefix = whole[: len(whole) - len(path)].rstrip("/")
    return {"SCRIPT_NAME": environ.get("SCRIPT_NAME", "") + _as_wsgi(prefix), "PATH_INFO": _as_wsgi(f"/{path}")}


def _as_wsgi(path: str) -> str:
    return path.encode("utf-8").decode("latin-1")
