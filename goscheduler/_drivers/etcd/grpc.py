"""Calls through gRPC, with a client of etcd3 0.12 that a program has already.

The generated code of etcd3 needs protobuf 3. The client has logged in by itself, and does not do so again when its
token expires. Its connection does not survive a fork.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc  # type: ignore[import-not-found, import-untyped, unused-ignore]
from etcd3 import etcdrpc  # type: ignore[import-not-found, import-untyped, unused-ignore]
from google.protobuf.json_format import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    MessageToDict,
    ParseDict,
)

from goscheduler._drivers.etcd.wire import WATCH_SILENCE_SECONDS, Watch, Wire, Within
from goscheduler.errors import GoSchedulerError, StoreUnavailable

#: Path → the stub of the client that has the call, the name of the call and that of its request.
_CALLS = {
    "kv/txn": ("kvstub", "Txn", "TxnRequest"),
    "kv/range": ("kvstub", "Range", "RangeRequest"),
    "kv/put": ("kvstub", "Put", "PutRequest"),
    "lease/grant": ("leasestub", "LeaseGrant", "LeaseGrantRequest"),
    "lease/revoke": ("leasestub", "LeaseRevoke", "LeaseRevokeRequest"),
    "lease/timetolive": ("leasestub", "LeaseTimeToLive", "LeaseTimeToLiveRequest"),
    "lease/keepalive": ("leasestub", "LeaseKeepAlive", "LeaseKeepAliveRequest"),
    "maintenance/status": ("maintenancestub", "Status", "StatusRequest"),
}
#: Codes after which the same call may work later: the gateway answers these with 408, 429 and 500 to 599.
_LATER = frozenset({
    grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL,
    grpc.StatusCode.DATA_LOSS,
})  # fmt: skip
_SILENT = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})


class Grpc(Wire):
    """A client of etcd3."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.address = client._url

    def open(self, seconds: float) -> str:
        try:
            return str(self.post("maintenance/status", {}, (seconds, seconds))["version"])
        except StoreUnavailable as error:
            raise StoreUnavailable(f"no etcd answers at {self.address}: {error}") from error

    def post(self, path: str, payload: dict[str, Any], within: Within) -> Any:
        stub, name, kind = _CALLS[path]
        call = getattr(getattr(self.client, stub), name)
        request = ParseDict(payload, getattr(etcdrpc, kind)())
        try:
            if path != "lease/keepalive":
                return _as_dict(call(request, within[1], **self._credentials()))
            for answer in call(iter([request]), within[1], **self._credentials()):  # a stream; one answer is enough
                return {"result": _as_dict(answer)}
        except grpc.RpcError as error:
            raise self._explained(error) from error
        raise StoreUnavailable(f"etcd at {self.address} did not answer: it ended the stream")

    def watch(self, key: str, heard: Callable[[str], None]) -> Watch:
        return _Watch(self.client, key, heard, self._credentials())

    def close(self) -> None:
        self.client.close()

    def _credentials(self) -> dict[str, Any]:
        return {"credentials": self.client.call_credentials, "metadata": self.client.metadata}

    def _explained(self, error: Any) -> GoSchedulerError:
        if error.code() in _SILENT:
            return StoreUnavailable(f"etcd at {self.address} did not answer: {error.code().name}")
        kind = StoreUnavailable if error.code() in _LATER else GoSchedulerError
        return kind(f"etcd at {self.address} refused: {str(error.details())[:300]}")


class _Watch(Watch):
    breaks = (grpc.RpcError,)

    def __init__(self, client: Any, key: str, heard: Callable[[str], None], credentials: dict[str, Any]) -> None:
        super().__init__(heard)
        self._watch = etcdrpc.WatchStub(client.channel).Watch
        self._request = ParseDict({"create_request": {"key": key}}, etcdrpc.WatchRequest())
        self._credentials = credentials
        self._call: Any = None

    def _results(self) -> Iterator[dict[str, Any]]:
        over = threading.Event()
        self._call = self._watch(self._requests(over), WATCH_SILENCE_SECONDS, **self._credentials)
        try:
            yield from map(_as_dict, self._call)
        finally:
            over.set()

    def _requests(self, over: threading.Event) -> Iterator[Any]:
        yield self._request
        over.wait()  # the server ends a watch when the stream of requests ends

    def _hang_up(self) -> None:
        if self._call is not None:
            self._call.cancel()


def _as_dict(message: Any) -> Any:
    return MessageToDict(message, preserving_proto_field_name=True)
