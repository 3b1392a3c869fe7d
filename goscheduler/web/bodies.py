"""Bodies of requests: read up to a bound, JSON and nothing else."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request

from goscheduler.ops.errors import TOO_LARGE
from goscheduler.web.problems import MALFORMED, WRONG_MEDIA_TYPE, HttpError

LONGEST_BODY = 1_000_000
#: A longer body than is taken is read to its end up to here, so that its sender gets to read why it is refused.
LONGEST_REFUSED = 10_000_000
#: JSON may be nested this deep.
DEEPEST = 32


async def read_body(request: Request, longest: int = LONGEST_BODY) -> bytes:
    """Return the body of a request.

    :raises HttpError: if it is longer than that
    """
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced[:18]) > LONGEST_REFUSED:
        raise _too_large(longest)
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size <= longest:
            parts.append(part)
        elif size > LONGEST_REFUSED:
            break
    if max(size, int(announced)) > longest:
        raise _too_large(longest)
    return b"".join(parts)


def _too_large(longest: int) -> HttpError:
    return HttpError(TOO_LARGE, f"the body may have {longest:,} bytes", {"Connection": "close"})


def require_json(content_type: str | None) -> None:
    """Refuse a body of another media type than JSON: a page of another site can send those without asking.

    :raises HttpError: saying so
    """
    media_type = (content_type or "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise HttpError(WRONG_MEDIA_TYPE, f"Content-Type must be application/json, got {media_type[:80] or 'none'!r}")


def read_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body; an empty body counts as an empty object.

    :raises HttpError: if it is none
    """
    if not body.strip():
        return {}
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # a lone surrogate is no text
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else str(error)[:200]
        raise HttpError(MALFORMED, f"the body is no JSON: {reason}") from None
    if not isinstance(value, dict):
        raise HttpError(MALFORMED, f"the body must be a JSON object, got {type(value).__name__}")
    if _deeper_than(value, DEEPEST):
        raise HttpError(MALFORMED, f"the body may be nested {DEEPEST} levels deep")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not in JSON")


def _deeper_than(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        parts = [each.values() if isinstance(each, dict) else each for each in level]
        level = [item for part in parts for item in part if isinstance(item, (dict, list))]
        if not level:
            return False
    return True
