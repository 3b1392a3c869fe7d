"""URL patterns for Django, under WSGI and ASGI: the log-in and the middleware of the program apply to them."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from io import BytesIO
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import re_path
from django.views.decorators.csrf import csrf_exempt

from goscheduler.ops.access import Principal
from goscheduler.ops.source import Source
from goscheduler.schedulers.base import BaseScheduler
from goscheduler.web.wsgi import PRINCIPAL, Environ, WsgiApp, principal_in_environ, wsgi_app

View = Callable[..., Any]


def django_urls(
    source: BaseScheduler | Source, *, principal: Callable[[Any], Principal | None] | None = None,
    decorate: Callable[[View], View] | None = None, **options: Any,
) -> list[Any]:  # fmt: skip
    """Return URL patterns for ``include()``; the options are those of :func:`~goscheduler.web.web_app`.

    ``principal`` gets the request of Django and returns who asks, or None. ``decorate`` is put around the view, such as
    ``staff_member_required``.
    """
    app = wsgi_app(source, principal=None if principal is None else principal_in_environ, **options)

    def view(request: HttpRequest, path: str) -> HttpResponse:
        environ = _environ(request, path)
        environ[PRINCIPAL] = None if principal is None else principal(request)
        return _answer(app, environ)

    decorated = view if decorate is None else decorate(view)
    # Requests of other sites are refused by what a browser says of them; forms have no token.
    return [re_path(r"(?s)^(?P<path>.*)\Z", csrf_exempt(decorated))]


def _environ(request: HttpRequest, path: str) -> Environ:
    """Return what a WSGI server would give: under ASGI there is no such thing."""
    scope = getattr(request, "scope", {})
    raw = bytes(scope.get("raw_path") or b"").decode("latin-1")
    place = request.path[: len(request.path) - len(path)].rstrip("/")
    return {
        **{name: value for name, value in request.META.items() if isinstance(value, str)},
        "REQUEST_METHOD": request.method, "SCRIPT_NAME": _as_wsgi(place), "PATH_INFO": _as_wsgi(f"/{path}"),
        "QUERY_STRING": request.META.get("QUERY_STRING", ""), "SERVER_NAME": "django", "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1", "RAW_URI": raw or request.META.get("RAW_URI", ""),
        "wsgi.url_scheme": request.scheme, "wsgi.input": BytesIO(request.body),
    }  # fmt: skip


def _answer(app: WsgiApp, environ: Environ) -> HttpResponse:
    begun: list[Any] = []

    def start_response(status: str, headers: list[tuple[str, str]], *error: Any) -> None:
        begun[:] = int(status.partition(" ")[0]), headers

    content = b"".join(app(environ, start_response))
    status, headers = begun if begun else (HTTPStatus.INTERNAL_SERVER_ERROR, [])
    response = HttpResponse(content, status=status)
    for name, value in headers:
        response[name] = value
    return response


def _as_wsgi(path: str) -> str:
    return path.encode("utf-8").decode("latin-1")
