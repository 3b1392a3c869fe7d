"""Reads URLs of etcd and ZooKeeper: addresses, credentials, and the path that all keys begin with."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import unquote

from goscheduler._urls import masked
from goscheduler.errors import InvalidArgument, shown
from goscheduler.plugins import require_clear_login

DEFAULT_PATH = "/goscheduler"
_SEGMENT = re.compile(r"[^/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]{1,255}")


class Place(NamedTuple):
    """The parts of a URL."""

    scheme: str
    hosts: str
    """One or more of ``host:port``, separated by commas; empty for the default."""
    user: str
    password: str
    path: str
    """Empty if the URL has none."""


def read_url(url: Any, schemes: tuple[str, ...], example: str) -> Place:
    """Return the parts of a URL.

    :raises InvalidArgument: without any password, if the scheme is none of these
    """
    if not isinstance(url, str):
        raise TypeError(f"url must be a string such as {example}, got {type(url).__name__}")
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() not in schemes:
        raise InvalidArgument(f"url must look like {example}", field="url", value=masked(url))
    require_clear_login(url)
    address, _, path = rest.partition("/")
    credentials, _, hosts = address.rpartition("@")
    user, _, password = credentials.partition(":")
    if re.search(r"[\s?#]", hosts + path):
        told = shown(url)
        raise InvalidArgument(f"url must look like {example}, without blanks and options, got {told}", field="url")
    path = unquote(f"/{path}") if path.strip("/") else ""
    return Place(scheme.lower(), hosts, unquote(user), unquote(password), path)


def check_path(path: Any) -> str:
    """Return a path that begins with a slash and does not end in one.

    :raises InvalidArgument: if it is empty, or has a part that no server takes
    """
    if not isinstance(path, str):
        raise TypeError(f"path must be a string, got {type(path).__name__}")
    segments = path.strip("/").split("/")
    if not path.strip("/"):
        raise InvalidArgument('The "path" parameter must not be empty', field="path", value=path)
    for segment in segments:
        if segment in (".", "..", "zookeeper") or not _SEGMENT.fullmatch(segment):
            raise InvalidArgument(
                f"path must be names separated by slashes, got {shown(path)}", field="path", value=path
            )
    return f"/{'/'.join(segments)}"


def addresses(hosts: str, port: int) -> list[tuple[str, int]]:
    """Return host and port of each ``host:port``; ``port`` is that of a host without one.

    :raises InvalidArgument: if it is anything else
    """
    return [_address(each, port) for each in hosts.split(",")] if hosts else [("localhost", port)]


def _address(text: str, port: int) -> tuple[str, int]:
    found = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:,\[\]]+)(?::([0-9]{1,5}))?", text)
    if found is None:
        raise InvalidArgument(f"url must name host:port,host:port, got {shown(text)}", field="url", value=text)
    return found[1].strip("[]"), int(found[2] or port)
