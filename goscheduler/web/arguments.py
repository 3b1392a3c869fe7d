"""Makes the arguments of an operation of a request: of its path, its query or body, and two headers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request

from goscheduler.errors import InvalidArgument, UnknownOption
from goscheduler.ops.schema import FLAG, Choices, Param, Texts
from goscheduler.web.bodies import read_object
from goscheduler.web.problems import MALFORMED, UNCONDITIONAL, HttpError
from goscheduler.web.table import Row

MOST_PAIRS = 200
#: Parameters that come in headers.
IN_HEADERS = frozenset({"request_id", "expect"})

Query = Mapping[str, list[str]]


def query_of(request: Request) -> dict[str, list[str]]:
    """Return what a query gives, each name with its values.

    :raises HttpError: if it is not UTF-8, or too long
    """
    text = bytes(request.scope["query_string"]).decode("latin-1")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_PAIRS)
    except ValueError as error:
        raise HttpError(MALFORMED, f"the query cannot be read: {str(error)[:200]}") from None
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def params_of_path(row: Row) -> dict[str, str]:
    """Return place in the path → the parameter that it gives: of an act on several things, one of them."""
    known = {param.name for param in row.operation.params}
    return {name: name if name in known else f"{name}s" for name in row.template.names}


def params_of_rest(row: Row) -> dict[str, Param]:
    """Return the parameters that a query or body gives, by the name that they have there."""
    elsewhere = {*params_of_path(row).values(), *IN_HEADERS}
    params = [param for param in row.operation.params if param.name not in elsewhere]
    return {"cursor" if param.name == row.cursor else param.name: param for param in params}


def arguments_of(row: Row, request: Request, places: Mapping[str, str], query: Query, body: bytes) -> dict[str, Any]:
    """Return the arguments of the operation of a route."""
    known = params_of_rest(row)
    given = dict(_of_path(row, places))
    if row.has_body:
        _refuse_unknown(query, (), row)
        told = read_object(body)
        _refuse_unknown(told, known, row)
        given.update({known[name].name: value for name, value in told.items()})
    else:
        _refuse_unknown(query, known, row)
        given.update({known[name].name: _read(name, known[name], values) for name, values in query.items()})
    given.update(_of_headers(row, request, given))
    return given


def is_counted(row: Row, query: dict[str, list[str]]) -> bool:
    """Take ``count`` out of the query of a list that another operation counts, and tell whether it is to be."""
    if not row.count:
        return False
    values = query.pop("count", ["false"])
    return bool(FLAG.read_text("count", values[-1]))


def _of_path(row: Row, places: Mapping[str, str]) -> Mapping[str, Any]:
    named = params_of_path(row)
    return {named[name]: value if named[name] == name else [value] for name, value in places.items()}


def _read(name: str, param: Param, values: list[str]) -> Any:
    if isinstance(param.kind, (Texts, Choices)):
        return param.kind.read(name, values)
    if len(values) > 1:
        raise InvalidArgument(f"{name} is given {len(values)} times", field=name)
    return param.kind.read_text(name, values[0])


def _refuse_unknown(given: Mapping[str, Any], known: Mapping[str, Any] | tuple[()], row: Row) -> None:
    for name in given:
        if name not in known:
            raise UnknownOption(name[:100], known, where=f"{row.method} {row.path}")


def _of_headers(row: Row, request: Request, given: Mapping[str, Any]) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    key = request.headers.get("idempotency-key")
    if row.operation.acts and key is not None:
        found["request_id"] = key
    if row.if_match and not given.get("dry_run"):
        found.update(_expected(request.headers.get("if-match")))
    return found


def _expected(condition: str | None) -> Mapping[str, str]:
    if condition is None:
        raise HttpError(
            UNCONDITIONAL, "If-Match must name the ETag of the job as you have seen it; * edits it whatever it is"
        )
    return {} if condition.strip() == "*" else {"expect": condition.strip().strip('"')}
