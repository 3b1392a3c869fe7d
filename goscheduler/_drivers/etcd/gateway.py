"""Calls through the HTTP gateway of etcd, with a client of etcd3gw."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from goscheduler._drivers.etcd.wire import CONNECT_SECONDS, WATCH_SILENCE_SECONDS, Watch, Wire, Within
from goscheduler.errors import GoSchedulerError, StoreUnavailable

try:
    import requests
    from etcd3gw.client import Etcd3Client
    from etcd3gw.exceptions import Etcd3Exception
except ImportError as error:
    raise ImportError(
        f'etcd needs a package that is not installed ({error}); pip install "goscheduler[etcd]"', name=error.name
    ) from error

_DONE, _TOKEN_EXPIRED = 200, 401
#: Answers after which the same call may work later: too many requests, or trouble in the cluster.
_LATER = frozenset({408, 429, *range(500, 600)})


def new_client(**options: Any) -> Etcd3Client:
    """Return a client of etcd3gw."""
    return Etcd3Client(**options)


class Gateway(Wire):
    """A client of etcd3gw. ``login`` is a user name and a password; ``addresses`` are those of all members it may ask.

    Calls go to one member as long as it answers, then to the next one. No call is repeated, because a member that does
    not answer may still have done it: the call fails, and later calls go to another member.
    """

    def __init__(
        self, client: Etcd3Client, login: tuple[str, str] | None = None, addresses: Sequence[str] = ()
    ) -> None:
        self.client = client
        self._addresses = list(addresses) or [client.base_url]
        self.address = self._addresses[0]
        self._login = None if login is None else {"name": login[0], "password": login[1]}

    def open(self, seconds: float) -> str:
        for _ in self._addresses[1:]:
            with suppress(StoreUnavailable):
                return self._open(seconds)
        return self._open(seconds)

    def _open(self, seconds: float) -> str:
        address = self.address
        try:
            found = self.client.session.get(f"{address}/version", timeout=seconds)
        except requests.exceptions.SSLError as error:
            problem = f"etcd at {address} cannot be trusted, or speaks no TLS; check ca_cert"
            raise GoSchedulerError(problem) from error
        except requests.RequestException as error:
            self._leave(address)
            raise StoreUnavailable(f"no etcd answers at {address}: {type(error).__name__}") from error
        try:
            version = str(found.json()["etcdserver"])
        except (ValueError, KeyError, TypeError) as error:
            raise GoSchedulerError(f"what answers at {address} is no etcd") from error
        if self._login is not None:
            self._authenticate((seconds, seconds))
        return version

    def post(self, path: str, payload: dict[str, Any], within: Within) -> Any:
        """Send a call; re-authenticate and send it once more if the token has expired."""
        if self._login is not None and "Authorization" not in self.client.session.headers:
            self._authenticate(within)
        address = self.address
        answer = self._ask(path, payload, within)
        if answer.status_code == _TOKEN_EXPIRED and self._login is not None:
            self._authenticate(within)
            answer = self._ask(path, payload, within)
        if answer.status_code == _DONE:
            return answer.json()
        error = StoreUnavailable if answer.status_code in _LATER else GoSchedulerError
        raise error(f"etcd at {address} refused: {answer.text[:300]}")

    def watch(self, key: str, heard: Callable[[str], None]) -> Watch:
        return _Watch(self.client.session, lambda: _url(self.address, "watch"), key, heard)

    def close(self) -> None:
        self.client.session.close()

    def abandon(self) -> None:
        self.client.session.close()

    def _ask(self, path: str, payload: dict[str, Any], within: Within) -> Any:
        address = self.address
        try:
            answer = self.client.session.post(_url(address, path), data=json.dumps(payload), timeout=within)
        except (requests.RequestException, Etcd3Exception) as error:
            self._leave(address)
            raise StoreUnavailable(f"etcd at {address} did not answer: {type(error).__name__}") from error
        if answer.status_code in _LATER:
            self._leave(address)  # this member may be cut off from the others
        return answer

    def _leave(self, address: str) -> None:
        """Use the next member from now on, unless another thread has moved on already."""
        if self.address == address:
            place = self._addresses.index(address) + 1
            self.address = self._addresses[place % len(self._addresses)]

    def _authenticate(self, within: Within) -> None:
        self.client.session.headers.pop("Authorization", None)
        answer = self._ask("auth/authenticate", self._login or {}, within)
        if answer.status_code != _DONE:
            raise GoSchedulerError(f"etcd at {self.address} does not accept this user and password")
        self.client.session.headers["Authorization"] = answer.json()["token"]


class _Watch(Watch):
    breaks = (requests.RequestException, ValueError, KeyError, AttributeError)

    def __init__(self, session: Any, url: Callable[[], str], key: str, heard: Callable[[str], None]) -> None:
        super().__init__(heard)
        self._session = session
        self._url = url
        self._request = json.dumps({"create_request": {"key": key}})
        self._response: Any = None

    def _results(self) -> Iterator[dict[str, Any]]:
        within = CONNECT_SECONDS, WATCH_SILENCE_SECONDS
        with self._session.post(self._url(), data=self._request, stream=True, timeout=within) as response:
            self._response = response
            for line in response.iter_lines():
                yield json.loads(line)["result"] if line.strip() else {}

    def _hang_up(self) -> None:
        with suppress(OSError, AttributeError):
            connection = socket.socket(fileno=os.dup(self._response.raw.fileno()))
            with connection:
                connection.shutdown(socket.SHUT_RDWR)


def _url(address: str, path: str) -> str:
    return f"{address}/v3/{path}"  # the client would ask the server for this, without a deadline
