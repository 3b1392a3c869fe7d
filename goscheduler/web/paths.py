"""The path of a request below the place where the application is mounted, and the segments of that path.

An id is one segment that is percent-encoded, so that it may hold slashes, question marks and dots. It is decoded once,
from the path as it came: the server has decoded the other one already, and a slash of an id is lost in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote, unquote_to_bytes

from starlette.types import Scope

#: Beside letters and digits, what need not be encoded in a path.
_PLAIN = "/:@!$&'()*+,;=~-._"


def own_path(scope: Scope) -> str:
    """Return the path below the mount, decoded."""
    path: str = scope["path"]
    root = scope.get("root_path", "").rstrip("/")
    return path[len(root) :] if root and (path == root or path.startswith(f"{root}/")) else path


def own_segments(scope: Scope) -> list[str]:
    """Return the segments of the path below the mount, as they came, still encoded."""
    path, own = scope["path"], own_path(scope)
    raw = bytes(scope.get("raw_path") or b"").decode("latin-1").partition("?")[0]
    whole = unquote(raw)
    if whole == path != own:  # the place of the mount is in it
        return raw.split("/")[1 + scope["root_path"].rstrip("/").count("/") :]
    return (raw if whole == own else quote(own, _PLAIN)).split("/")[1:]


class BadSegment(ValueError):
    """A segment of a path is not UTF-8."""


@dataclass(frozen=True)
class Template:
    """A path with places for values: ``/v1/jobs/{id}:pause``."""

    text: str

    @property
    def segments(self) -> list[str]:
        """Its segments, as they are written."""
        return self.text.split("/")[1:]

    @property
    def names(self) -> list[str]:
        """The names of its places."""
        return [name for segment in self.segments if (name := _place(segment)[0])]

    @property
    def rank(self) -> tuple[int, int]:
        """By this the template that says most comes first."""
        return len(self.names), -sum(len(_place(segment)[1]) for segment in self.segments)

    def match(self, segments: list[str]) -> Mapping[str, str] | None:
        """Return the values of the places, decoded; None if a path does not fit.

        :raises BadSegment: if a value is not UTF-8
        """
        mine = self.segments
        if len(mine) != len(segments):
            return None
        values: dict[str, str] = {}
        for own, given in zip(mine, segments, strict=True):
            name, rest = _place(own)
            if name and given.endswith(rest) and len(given) > len(rest):
                values[name] = given[: len(given) - len(rest)]
            elif name or given != own:
                return None
        return {name: _decoded(value) for name, value in values.items()}


def _place(segment: str) -> tuple[str, str]:
    """Return the name of the place in a segment, empty if there is none, and what follows it."""
    if not segment.startswith("{"):
        return "", segment
    name, _, rest = segment[1:].partition("}")
    return name, rest


def _decoded(segment: str) -> str:
    try:
        return unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError:
        raise BadSegment("the path is not UTF-8, percent-encoded") from None
