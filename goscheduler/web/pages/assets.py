"""Style sheet and scripts under names that change with their content, so that browsers keep them for good."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

STATIC = Path(__file__).resolve().parent.parent / "static"
FOREVER = "public, max-age=31536000, immutable"

#: File below ``static`` → its media type. Nothing else is served.
FILES = {
    "app.css": "text/css; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "vendor/htmx.min.js": "text/javascript; charset=utf-8",
    "vendor/idiomorph-ext.min.js": "text/javascript; charset=utf-8",
}


@dataclass(frozen=True)
class Asset:
    """A file that pages load."""

    name: str
    """With a part of its digest."""
    media_type: str
    content: bytes


@cache
def assets() -> Mapping[str, Asset]:
    """Return file below ``static`` → the asset."""
    return {file: _asset(file, media_type) for file, media_type in FILES.items()}


def _asset(file: str, media_type: str) -> Asset:
    content = (STATIC / file).read_bytes()
    stem, _, suffix = file.rpartition("/")[2].rpartition(".")
    return Asset(f"{stem}.{hashlib.sha256(content).hexdigest()[:12]}.{suffix}", media_type, content)


@cache
def _by_name() -> Mapping[str, Asset]:
    return {asset.name: asset for asset in assets().values()}


def asset_page(request: Request) -> Response:
    """Answer with an asset."""
    found = _by_name().get(request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    return Response(found.content, media_type=found.media_type, headers={"Cache-Control": FOREVER})


ROUTES = [Route("/static/{name}", asset_page, name="static")]
