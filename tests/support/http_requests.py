"""Makes the request of a route out of the arguments of its operation, as a program would that reads the table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from asgi_client import Answer, AsgiClient

from goscheduler.web.arguments import params_of_path, params_of_rest
from goscheduler.web.table import Row


class Made(NamedTuple):
    """A request."""

    method: str
    target: str
    body: dict[str, Any] | None

    def sent(self, client: AsgiClient, **headers: str) -> Answer:
        """Return the answer to it; whatever edits a job does so whatever it is now."""
        body = {} if self.body is None else {"json_body": self.body}
        return client.request(self.method, self.target, if_match="*", **body, **headers)


def made(row: Row, arguments: Mapping[str, Any]) -> Made:
    """Return the request that calls the operation of a route with these arguments."""
    rest, path = dict(arguments), row.path
    for place, param in params_of_path(row).items():
        value = rest.pop(param)
        value = value[0] if isinstance(value, list) else value
        path = path.replace(f"{{{place}}}", quote(str(value), safe=""))
    named = {param.name: name for name, param in params_of_rest(row).items()}
    given = {named[name]: value for name, value in rest.items()}
    if row.has_body:
        return Made(row.method, path, given)
    return Made(row.method, f"{path}?{urlencode({name: _text(value) for name, value in given.items()}, True)}", None)


def fits(row: Row, arguments: Mapping[str, Any]) -> bool:
    """Tell whether these arguments can be given by this route: an act by a path has one thing to act on."""
    return all(param in arguments for param in params_of_path(row).values())


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return value
    return json.dumps(value) if isinstance(value, (bool, dict)) else value
