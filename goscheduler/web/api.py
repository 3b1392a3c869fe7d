"""The routes below ``/v1``: one for each row of the table, and some that are no operations."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import Receive, Scope, Send

from goscheduler.ops.errors import NOT_FOUND
from goscheduler.web.arguments import arguments_of, is_counted, query_of
from goscheduler.web.bodies import read_body, require_json
from goscheduler.web.paths import BadSegment, Template, own_path, own_segments
from goscheduler.web.problems import MALFORMED, WRONG_METHOD, HttpError, problem_response
from goscheduler.web.site import is_anew, link, principal_of, site_of
from goscheduler.web.table import ROWS, Row, singular

SAFE = ("GET", "HEAD")


class Endpoint(Protocol):
    """Answers requests to one path by one method."""

    method: str
    template: Template

    async def answer(self, request: Request, places: Mapping[str, str]) -> Response:
        """Return the answer; ``places`` are the values in the path."""


class Found(NamedTuple):
    """The endpoints whose path fits, and the values in the path."""

    endpoints: list[tuple[Endpoint, Mapping[str, str]]]

    def by_method(self, method: str) -> tuple[Endpoint, Mapping[str, str]]:
        """Return the endpoint for a method.

        :raises HttpError: if there is none, naming the methods that there are
        """
        wanted = "GET" if method == "HEAD" else method
        for endpoint, places in self.endpoints:
            if endpoint.method == wanted:
                return endpoint, places
        if not self.endpoints:
            raise HttpError(NOT_FOUND, "there is nothing at this path; /v1/openapi.json lists what there is")
        methods = {endpoint.method for endpoint, _ in self.endpoints}
        allowed = ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))
        raise HttpError(WRONG_METHOD, f"{method[:20]} is not allowed here; these are: {allowed}", {"Allow": allowed})


class ApiRoutes(BaseRoute):
    """All paths below ``/v1``, found by their segments as they came, so that an id may hold a slash."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._endpoints = sorted(endpoints, key=lambda endpoint: endpoint.template.rank)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        ours = scope["type"] == "http" and (own_path(scope) == "/v1" or own_path(scope).startswith("/v1/"))
        return (Match.FULL if ours else Match.NONE), {}

    def url_path_for(self, name: str, /, **path_params: Any) -> Any:
        raise NoMatchFound(name, path_params)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            endpoint, places = self._find(own_segments(scope)).by_method(request.method)
            response = await endpoint.answer(request, places)
        except BadSegment as error:
            response = problem_response(HttpError(MALFORMED, str(error)))
        except Exception as error:
            response = problem_response(error)
        await response(scope, receive, send)

    def _find(self, segments: list[str]) -> Found:
        matched = [(endpoint, endpoint.template.match(segments)) for endpoint in self._endpoints]
        return Found([(endpoint, places) for endpoint, places in matched if places is not None])


class OperationEndpoint:
    """Calls the operation of a row."""

    def __init__(self, row: Row, path: str | None = None, place: str = "") -> None:
        self._row = row
        self._place = place
        """The place whose value the query gives; empty if the path does."""
        self.method = row.method
        self.template = row.template if path is None else Template(path)

    async def answer(self, request: Request, places: Mapping[str, str]) -> Response:
        body = await read_body(request) if self._row.has_body else b""
        if self._row.has_body:
            require_json(request.headers.get("content-type"))
        return await site_of(request).run(self._call, request, places, body)

    def _call(self, request: Request, places: Mapping[str, str], body: bytes) -> Response:
        row, query = self._row, query_of(request)
        if self._place:
            places = {self._place: _taken(query, "id")}
        counted = is_counted(row, query)
        arguments = arguments_of(row, request, places, query, body)
        call = partial(
            site_of(request).operations.call, principal=principal_of(request), via="http", anew=is_anew(request)
        )
        answer = shaped(call(row.name, arguments=arguments))
        if counted:
            filters = {param.name for param in ROWS_BY_NAME[row.count].operation.params} & arguments.keys()
            found = call(row.count, arguments={name: arguments[name] for name in filters})
            answer = {**answer, "count": {"n": found["number"], "exact": found["exact"]}}
        return json_response(answer, row.status, _headers(request, row, answer))


ROWS_BY_NAME = {row.name: row for row in ROWS}


def operation_endpoints() -> Iterable[OperationEndpoint]:
    """Yield the endpoints of the table: each by its path, and those with a place also by a query."""
    for row in ROWS:
        yield OperationEndpoint(row)
        alone = singular(row.path)
        if alone is not None:
            yield OperationEndpoint(row, alone, row.template.names[0])


class PlainEndpoint:
    """Answers with what a function returns, which may ask a store and so runs on a worker thread."""

    def __init__(self, path: str, function: Callable[[Request, Mapping[str, str]], Response]) -> None:
        self.method = "GET"
        self.template = Template(path)
        self._function = function

    async def answer(self, request: Request, places: Mapping[str, str]) -> Response:
        return await site_of(request).run(self._function, request, places)


def shaped(answer: Any) -> dict[str, Any]:
    """Return what an operation has answered as a JSON object: lists are ``items``, single values a ``result``."""
    if isinstance(answer, list):
        return {"items": answer, "next": None}
    return answer if isinstance(answer, dict) else {"result": answer}


def json_response(answer: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer as JSON."""
    text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    content = text.encode("utf-8", "backslashreplace")  # a store may hold a lone surrogate, which is no text
    return Response(content, status, headers=dict(headers or {}), media_type="application/json")


def _headers(request: Request, row: Row, answer: Mapping[str, Any]) -> dict[str, str]:
    headers: dict[str, str] = {}
    if answer.get("etag"):
        headers["ETag"] = f'"{answer["etag"]}"'
    if row.status == HTTPStatus.CREATED:
        headers["Location"] = link(request, f"{row.path}/{quote(str(answer['id']), '')}")
    return headers


def _taken(query: dict[str, list[str]], name: str) -> str:
    values = query.pop(name, [])
    if len(values) != 1:
        raise HttpError(MALFORMED, f"the query must give {name} once")
    return values[0]
