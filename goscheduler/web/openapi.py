"""The description of all routes in OpenAPI 3.1, made of the table of routes and of the operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args, get_origin, get_type_hints

from starlette.requests import Request
from starlette.responses import Response

from goscheduler._version import __version__
from goscheduler.ops.schema import Param
from goscheduler.web.api import json_response
from goscheduler.web.arguments import params_of_path, params_of_rest
from goscheduler.web.site import link
from goscheduler.web.table import ROWS, Row
from goscheduler.web.view_schemas import ViewSchemas

TEXT: Mapping[str, Any] = {"type": "string"}
ID: Mapping[str, Any] = {"type": "string", "minLength": 1, "maxLength": 1000}
DESCRIPTION = (
    "Everything that can be asked of goscheduler or done to it. Ids are one percent-encoded segment of the path. Lists "
    "answer `items` and `next`, which is the `cursor` of the page that follows. Errors are problems (RFC 9457) whose "
    "`code` and `message` are those of gRPC."
)
PROBLEM: Mapping[str, Any] = {
    "type": "object", "required": ["type", "title", "status", "detail", "code", "message"],
    "properties": {
        "type": TEXT, "title": TEXT, "status": {"type": "integer"}, "detail": TEXT, "code": {"type": "integer"},
        "message": TEXT, "details": {"type": "array"}, "field": TEXT, "suggestion": TEXT, "etag": TEXT,
        "instance": TEXT,
    },
}  # fmt: skip


def document(root_path: str = "") -> dict[str, Any]:
    """Return the description of the application that is mounted at a path."""
    schemas = ViewSchemas()
    paths: dict[str, dict[str, Any]] = {}
    used: set[str] = set()
    for row in ROWS:
        paths.setdefault(row.path, {})[row.method.lower()] = _operation(row, schemas, used)
    for path, described in _others().items():
        paths.setdefault(path, {}).update(described)
    return {
        "openapi": "3.1.0",
        "info": {"title": "goscheduler", "version": __version__, "description": DESCRIPTION},
        "servers": [{"url": root_path or "/"}],
        "security": [{"token": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {"Problem": PROBLEM, **dict(sorted(schemas.named.items()))},
            "responses": {"Problem": {
                "description": "What went wrong.",
                "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
            }},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }  # fmt: skip


def show_document(request: Request, places: Mapping[str, str]) -> Response:
    """Return the description, for the place where the application is mounted."""
    return json_response(document(link(request, "")))


def _operation(row: Row, schemas: ViewSchemas, used: set[str]) -> dict[str, Any]:
    operation = row.operation
    name = row.name if row.name not in used else f"{row.name}_by_{'_'.join(row.template.names) or 'body'}"
    used.add(name)
    answer = {"description": "Done." if operation.acts else "Found.", "content": _json(_answer(row, schemas))}
    described: dict[str, Any] = {
        "operationId": name, "summary": operation.summary, "tags": [row.template.segments[1].partition(":")[0]],
        "description": f"Needs the role {operation.role.title}.", "x-role": operation.role.title,
        "parameters": _parameters(row),
        "responses": {str(row.status): answer, "default": {"$ref": "#/components/responses/Problem"}},
    }  # fmt: skip
    if row.has_body:
        described["requestBody"] = {"required": True, "content": _json(_body(row))}
    return described


def _parameters(row: Row) -> list[dict[str, Any]]:
    places = [
        {"name": name, "in": "path", "required": True, "schema": ID} for name in params_of_path(row)
    ]
    query = [] if row.has_body else [_in_query(name, param) for name, param in params_of_rest(row).items()]
    headers: list[dict[str, Any]] = []
    if row.count:
        help = "Whether to count those that fit, up to 10,000."
        query.append({"name": "count", "in": "query", "schema": {"type": "boolean"}, "description": help})
    if row.operation.acts:
        help = "Names this request: if it is repeated within a day, nothing is done again."
        key = {"type": "string", "minLength": 1, "maxLength": 200}
        headers.append({"name": "Idempotency-Key", "in": "header", "schema": key, "description": help})
    if row.if_match:
        help = "The ETag of the job as it was seen; not needed with dry_run."
        headers.append({"name": "If-Match", "in": "header", "schema": TEXT, "description": help})
    return [*places, *query, *headers]


def _in_query(name: str, param: Param) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": param.required, "schema": param.kind.schema}


def _body(row: Row) -> dict[str, Any]:
    params = params_of_rest(row)
    required = [name for name, param in params.items() if param.required]
    properties = {name: param.kind.schema for name, param in params.items()}
    body = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**body, "required": required} if required else body


def _answer(row: Row, schemas: ViewSchemas) -> dict[str, Any]:
    """Return the schema of what a route answers; see :func:`goscheduler.web.api.shaped`."""
    hint = get_type_hints(row.operation.function)["return"]
    schema = schemas.of(hint)
    if get_origin(hint) is list:
        items = {"type": "array", "items": schemas.of(get_args(hint)[0])}
        return {"type": "object", "properties": {"items": items, "next": {"type": "null"}}, "required": ["items"]}
    if "$ref" not in schema and "anyOf" not in schema:
        return {"type": "object", "properties": {"result": schema}, "required": ["result"]}
    return schema


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _others() -> dict[str, dict[str, Any]]:
    """Return the routes that are no operations."""
    anything = {"type": "object"}

    def get(name: str, summary: str, *query: str, content: str = "application/json", **more: Any) -> dict[str, Any]:
        params = [{"name": each, "in": "query", "schema": TEXT} for each in query]
        answer = {"description": "Found.", "content": {content: {"schema": anything if "json" in content else TEXT}}}
        problem = {"$ref": "#/components/responses/Problem"}
        return {"get": {
            "operationId": name, "summary": summary, "tags": ["seed"], "parameters": [*more.get("places", ()), *params],
            "responses": {"200": answer, "default": problem, **more.get("responses", {})},
        }}  # fmt: skip

    place = {"name": "id", "in": "path", "required": True, "schema": ID}
    unhealthy = {"503": {"description": "Unhealthy.", "content": _json(anything)}}
    listed = ("event_name", "before", "after", "limit", "offset")
    return {
        "/v1/messages/{id}": get("GetMessage", "Return a message, as event-scheduler does.", places=[place]),
        "/v1/messages": get("ListMessages", "Return messages, as event-scheduler does.", *listed),
        "/v1/health": get("Health", "Return the health, as event-scheduler does.", responses=unhealthy),
        "/v1/events": get("events", "Tell what changes, as it happens.", "topics", content="text/event-stream"),
        "/v1/openapi.json": get("openapi", "Return this description."),
    }
