"""How errors are told over HTTP: as problems in the form of RFC 9457."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from uuid import uuid4

from starlette.responses import Response

from goscheduler._urls import masked_text
from goscheduler.errors import UnknownOption
from goscheduler.logs import guarded_logger
from goscheduler.ops.errors import (
    FORBIDDEN,
    INTERNAL,
    INVALID,
    NOT_FOUND,
    TOO_LARGE,
    TOO_MANY,
    UNAUTHENTICATED,
    UNAVAILABLE,
    Kind,
    kind_of,
    message_of,
)

_logger = guarded_logger("goscheduler.web")

MEDIA_TYPE = "application/problem+json"
#: Seconds after which a request that was refused for a while is worth another attempt.
RETRY_AFTER = {UNAVAILABLE.http: "5", TOO_MANY.http: "60"}

MALFORMED = Kind("malformed", 400, "INVALID_ARGUMENT", 3, 2, "Malformed request")
WRONG_METHOD = Kind("wrong_method", 405, "UNIMPLEMENTED", 12, 2, "Method not allowed")
WRONG_MEDIA_TYPE = Kind("wrong_media_type", 415, "INVALID_ARGUMENT", 3, 2, "Unsupported media type")
UNCONDITIONAL = Kind("unconditional", 428, "FAILED_PRECONDITION", 9, 2, "Precondition required")

#: What a request can end with that no operation knows.
HTTP_KINDS = (MALFORMED, WRONG_METHOD, WRONG_MEDIA_TYPE, UNCONDITIONAL)


class HttpError(Exception):
    """A request that no operation has seen was refused."""

    def __init__(self, kind: Kind, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.headers = dict(headers or {})


class Problem:
    """What is told of an error, to programs and on pages."""

    def __init__(self, error: BaseException) -> None:
        self.kind = error.kind if isinstance(error, HttpError) else kind_of(error)
        text = str(error) if isinstance(error, HttpError) else message_of(error)
        self.message = masked_text(text)
        self.instance: str | None = None
        self.headers = dict(error.headers) if isinstance(error, HttpError) else {}
        if self.kind.http in RETRY_AFTER:
            self.headers.setdefault("Retry-After", RETRY_AFTER[self.kind.http])
        if self.kind is UNAUTHENTICATED:
            self.headers.setdefault("WWW-Authenticate", "Bearer")
        self.more = {name: value for name in ("field", "suggestion") if (value := getattr(error, name, None))}
        if isinstance(error, UnknownOption):
            self.more["field"] = error.name
        if etag := getattr(error, "etag", ""):
            self.more["etag"] = etag
            self.headers["ETag"] = f'"{etag}"'
        if self.kind is INTERNAL:
            self._log(error)

    def _log(self, error: BaseException) -> None:
        self.instance = f"urn:uuid:{uuid4()}"
        _logger.error("Request failed with an internal error; its answer names %s", self.instance, exc_info=error)

    def as_json(self) -> dict[str, Any]:
        """Return the problem as an answer has it."""
        told = {
            "type": f"urn:goscheduler:problem:{self.kind.name}", "title": self.kind.title, "status": self.kind.http,
            "detail": self.message, "code": self.kind.grpc_code, "message": self.message, "details": [], **self.more,
        }  # fmt: skip
        return told if self.instance is None else {**told, "instance": self.instance}


def problem_response(error: BaseException) -> Response:
    """Return the answer that tells of an error; of an internal one, the log has the traceback."""
    problem = Problem(error)
    return Response(
        json.dumps(problem.as_json()), problem.kind.http, headers=problem.headers, media_type=MEDIA_TYPE
    )


def of_status(status: int, detail: str, headers: Mapping[str, str] | None = None) -> HttpError:
    """Return the error for a status that a framework has chosen."""
    known = {kind.http: kind for kind in (*HTTP_KINDS, NOT_FOUND, FORBIDDEN, UNAUTHENTICATED, TOO_LARGE, INVALID)}
    title = HTTPStatus(status).phrase
    kind = known.get(status, Kind(title.lower().replace(" ", "_"), status, "UNKNOWN", 2, 1, title))
    return HttpError(kind, detail, headers)
