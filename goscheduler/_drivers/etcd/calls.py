"""The calls that job stores and locks send to etcd, and the pieces of its transactions."""

from __future__ import annotations

import base64
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

Payload = dict[str, Any]


class Calls(ABC):
    """Sends calls, each within a deadline of its own."""

    @abstractmethod
    def post(self, path: str, payload: Payload) -> Any:
        """Send one call, once, and return its answer."""

    def transact(self, compare: Sequence[Payload], success: Sequence[Payload], failure: Sequence[Payload] = ()) -> Any:
        """Do all of ``success`` if every comparison holds, else all of ``failure``."""
        return self.post("kv/txn", {"compare": [*compare], "success": [*success], "failure": [*failure]})

    def grant(self, seconds: float) -> int:
        """Return the id of a new lease. Leases last whole seconds."""
        return int(self.post("lease/grant", {"TTL": math.ceil(seconds), "ID": 0})["ID"])

    def keep_alive(self, lease: int) -> bool:
        """Renew a lease; false if it has ended."""
        return int(self.post("lease/keepalive", {"ID": lease})["result"].get("TTL", 0)) > 0

    def revoke(self, lease: int) -> None:
        """End a lease."""
        self.post("lease/revoke", {"ID": lease})


def succeeded(answer: Any) -> bool:
    """Tell whether the comparisons of a transaction held."""
    return bool(answer.get("succeeded", False))


def exists(key: str, expected: bool = True) -> Payload:
    """Compare whether a key exists."""
    return {"key": key, "target": "CREATE", "result": "GREATER" if expected else "EQUAL", "create_revision": 0}


def has_version(key: str, version: int) -> Payload:
    """Compare the revision of the last change of a key."""
    return {"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": version}


def has_value(key: str, value: str) -> Payload:
    """Compare the value of a key."""
    return {"key": key, "target": "VALUE", "result": "EQUAL", "value": encode(value)}


def put(key: str, value: str, lease: int | None = None) -> Payload:
    """Write a value, on a lease if one is given."""
    return {"request_put": {"key": key, "value": encode(value), **({} if lease is None else {"lease": lease})}}


def get(key: str) -> Payload:
    """Read a key."""
    return {"request_range": {"key": key}}


def delete(key: str) -> Payload:
    """Delete a key."""
    return {"request_delete_range": {"key": key}}


def encode(text: str) -> str:
    """Return text as keys and values are sent."""
    return base64.b64encode(text.encode("utf-8", "surrogateescape")).decode()


def decode(text: str) -> str:
    """Return the text of a key or a value."""
    return base64.b64decode(text).decode("utf-8", "surrogateescape")
