"""A small HTTP server for the metrics of a worker, and for the probes of an orchestrator. It tells nothing of jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer

from goscheduler.errors import InvalidArgument, described
from goscheduler.logs import guarded_logger
from goscheduler.schedulers._health import Probe
from goscheduler.telemetry.prometheus import CONTENT_TYPE

PATHS = ("/metrics", "/metrics/")
#: A client that sends nothing for so many seconds is let go.
PATIENCE_SECONDS = 10.0

_logger = guarded_logger("goscheduler.telemetry")


class MetricsServer:
    """Serves a text on a port, on threads of its own that end with the process; ``probes`` are answers by their paths.

    :raises InvalidArgument: if the port is taken
    """

    def __init__(
        self, text: Callable[[], str], port: int, host: str = "0.0.0.0",
        probes: Mapping[str, Callable[[], Probe]] | None = None,
    ) -> None:  # fmt: skip
        try:
            self._server = _Server((host, port), text, probes or {})
        except OSError as error:
            where = f"{host}, port {port}"
            raise InvalidArgument(f"metrics cannot be served on {where}: {described(error)}", field="port") from error
        self.port: int = self._server.server_address[1]
        """The port; the one that was found if 0 was asked for."""

    def start(self) -> None:
        """Answer from now on."""
        threading.Thread(target=self._server.serve_forever, name="goscheduler-metrics", daemon=True).start()

    def stop(self) -> None:
        """Answer no more, and give the port back."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(
        self, address: tuple[str, int], text: Callable[[], str], probes: Mapping[str, Callable[[], Probe]]
    ) -> None:
        super().__init__(address, _Request)
        self.text = text
        self.probes = probes

    def server_bind(self) -> None:
        """Bind without asking the name server who we are, as the class above does."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def handle_error(self, request: object, client_address: object) -> None:
        _logger.debug("A client has left before it had the metrics")


class _Request(BaseHTTPRequestHandler):
    server: _Server
    server_version = "goscheduler"
    sys_version = ""
    timeout = PATIENCE_SECONDS

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path in self.server.probes:
            self._answer_probe(self.server.probes[path])
            return
        if path not in PATHS:
            self._answer(HTTPStatus.NOT_FOUND, "The metrics are at /metrics\n", "text/plain; charset=utf-8")
            return
        try:
            text = self.server.text()
        except Exception:
            _logger.exception("The metrics could not be read")
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, "The log says why\n", "text/plain; charset=utf-8")
            return
        self._answer(HTTPStatus.OK, text, CONTENT_TYPE)

    do_HEAD = do_GET

    def _answer_probe(self, probe: Callable[[], Probe]) -> None:
        found = probe()
        status = HTTPStatus.OK if found.ok else HTTPStatus.SERVICE_UNAVAILABLE
        if not found.ok:
            _logger.warning("A probe of %s is told no: %s", self.path.partition("?")[0], found.reason)
        self._answer(status, "yes\n" if found.ok else "no\n", "text/plain; charset=utf-8")

    def _answer(self, status: HTTPStatus, text: str, kind: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a scrape every few seconds is no news."""
