"""What somebody chooses for their own browser: time zone and colours. And what they may do, and where they are."""

from __future__ import annotations

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from goscheduler.errors import InvalidArgument
from goscheduler.times import astimezone
from goscheduler.web.pages.notices import notices_of
from goscheduler.web.pages.rendering import render
from goscheduler.web.pages.routing import get, go, post
from goscheduler.web.pages.shell import THEME_COOKIE, THEMES, ZONE_COOKIE
from goscheduler.web.site import ask, link, safe_path

A_YEAR = 365 * 86_400


#: Field of the form → the cookie that keeps it. A form has one of them, or both.
COOKIES = {"zone": ZONE_COOKIE, "theme": THEME_COOKIE}


def settings_page(request: Request) -> Response:
    """Show the choices."""
    return render(
        request, "settings.html", about=ask(request, "about"), themes=THEMES,
        chosen=request.cookies.get(ZONE_COOKIE, ""), notices=notices_of(request, "/settings"),
    )  # fmt: skip


def keep(request: Request, form: QueryParams) -> Response:
    """Keep the choices in cookies of this browser."""
    kept = {cookie: form[name].strip() for name, cookie in COOKIES.items() if name in form}
    zone, theme = kept.get(ZONE_COOKIE), kept.get(THEME_COOKIE, "system")
    if zone:
        _check_zone(zone)
    if theme not in THEMES:
        raise InvalidArgument(f"theme must be one of {', '.join(THEMES)}, got {theme[:50]!r}", field="theme")
    told = {} if set(kept) == {THEME_COOKIE} else {"did": "kept", "n": 1}  # other colours are seen
    response = go(request, safe_path(form.get("back"), "/settings"), **told)
    for name, value in kept.items():
        response.set_cookie(
            name, value, max_age=A_YEAR, path=link(request, "/"), httponly=True, samesite="lax",
            secure=request.url.scheme == "https",
        )  # fmt: skip
    return response


def _check_zone(zone: str) -> None:
    try:
        astimezone(zone)
    except (LookupError, ValueError, TypeError, OSError) as error:
        raise InvalidArgument(
            f"zone must be the name of a time zone, such as Europe/Berlin, got {zone[:50]!r}", field="zone"
        ) from error


ROUTES = [get("/settings", settings_page), post("/settings", keep)]
