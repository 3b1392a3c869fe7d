"""The transport to HTTP servers under the contract of all transports, on a real server, and what is special."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timezone
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pytest
from server_process import HOST, free_port
from transport_contract import DUE, IMPATIENT, PATIENCE, Received, ServerTransportContract, delivery

from goscheduler.errors import InvalidArgument, MessageRejected, TransportUnavailable, UnknownOption
from goscheduler.testing.clock import ManualClock
from goscheduler.transports import _addresses
from goscheduler.transports._addresses import is_public
from goscheduler.transports.webhook import LONGEST_ANSWER, SIGNED_HEADERS, WebhookTransport

#: Of ``hooks.example``, signed by itself, with its key: known to everybody, and good for nothing else.
CERTIFICATE = Path(__file__).with_name("hooks_example.pem")
SECRET = "whsec_" + base64.b64encode(b"the key of the test").decode()


class Request(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes


class Receiver(ThreadingHTTPServer):
    """Keeps requests, and answers as it is told."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__((HOST, 0), Answer)
        self.requests: list[Request] = []
        self.status, self.headers, self.body = 204, {}, b""
        self.before_answer: Callable[[], object] = lambda: None
        self.connections = 0

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_address[1]}/hooks"


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Receiver

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append(Request(self.path, headers, body))
        self.server.before_answer()
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        if self.server.status != 204:
            self.send_header("content-length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *arguments) -> None:
        """Say nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def make(receiver) -> Iterator[Callable[..., WebhookTransport]]:
    made = []

    def make(url: str | None = None, **options) -> WebhookTransport:
        # Certificates of authorities take a while to load, and are not asked for here.
        made.append(WebhookTransport(url or receiver.url, **{"allow_private": True, "verify": False, **options}))
        return made[-1]

    yield make
    for transport in made:
        transport.close()


class TestContract(ServerTransportContract):
    secrets = ("not-secret", "token-in-path")

    @pytest.fixture(autouse=True)
    def _place(self, receiver) -> None:
        self.receiver = receiver

    def make(self):
        return WebhookTransport.from_url(self.receiver.url, allow_private=True, verify=False)

    def make_without_server(self):
        url = f"http://user:not-secret@{HOST}:{free_port()}/token-in-path?key=not-secret"
        return WebhookTransport.from_url(url, allow_private=True, timeout=IMPATIENT, verify=False)

    def received(self, event_name: str, count: int) -> list[Received]:
        found = [Received(request.body, headers_of(request)) for request in self.receiver.requests]
        return [entry for entry in found if entry.headers["event_name"] == event_name]


def headers_of(request: Request) -> dict[str, str]:
    names = ("scheduled_message_id", "scheduled_at", "event_name", "attempt", "occurrence")
    told = {name: unquote(request.headers[f"goscheduler-{name.replace('_', '-')}"]) for name in names}
    metadata = json.loads(request.headers["goscheduler-metadata"])
    return {**metadata, **told, "content_type": request.headers["content-type"]}


def verified(request: Request, key: bytes) -> bool:
    """Check a signature as the receiver would who has read Standard Webhooks."""
    headers = [request.headers[name].encode() for name in ("webhook-id", "webhook-timestamp")]
    signed = b".".join([*headers, request.body])
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return f"v1,{expected}" in request.headers["webhook-signature"].split(" ")


def test_a_message_is_signed_with_every_secret(make, receiver) -> None:
    transport = make(secret=[SECRET, "an older one", b"\x00bytes"], clock=ManualClock(DUE))
    transport.publish("a", delivery("a", payload=b"\xff\x00"))
    [request] = receiver.requests
    assert [verified(request, key) for key in (b"the key of the test", b"an older one", b"\x00bytes", b"another")] == [
        *(True, True, True, False)
    ]
    assert request.headers["webhook-timestamp"] == str(int(DUE.timestamp()))
    assert request.headers["webhook-id"] == delivery("a").key


def verifier_of_the_page() -> Callable[..., bool]:
    """Return the function by which the page about transports tells receivers to check the headers too."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "transports.md").read_text(encoding="utf-8")
    [program] = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "SIGNED_HEADERS" in block]
    namespace: dict[str, Any] = {}
    exec(program, namespace)
    return namespace["is_genuine"]


def test_the_verifier_of_the_page_accepts_what_is_sent_and_notices_every_change(make, receiver) -> None:
    is_genuine = verifier_of_the_page()
    transport = make(secret=[SECRET, "an older one"], headers={"X-Mine": "x"})
    transport.publish("ä b", delivery("ä b", payload=b"\xff\n\n", metadata={"tenant": "ü\n", "event_name": "forged"}))
    [request] = receiver.requests
    for key in (b"the key of the test", b"an older one"):
        assert is_genuine(request.headers, request.body, key)
    assert not is_genuine(request.headers, request.body, b"another")
    assert not is_genuine(request.headers, request.body + b"x", b"an older one")
    for name in SIGNED_HEADERS:
        assert not is_genuine({**request.headers, name: "another"}, request.body, b"an older one"), name


def test_every_header_that_says_what_a_message_is_is_signed(make, receiver) -> None:
    make(secret=SECRET).publish("a", delivery("a", metadata={"tenant": "x"}))
    sent = receiver.requests[0].headers
    ours = {name for name in sent if name.startswith("goscheduler-")} - {"goscheduler-signature"}
    assert ours <= set(SIGNED_HEADERS)
    assert headers_of(receiver.requests[0])["event_name"] == "a"


def test_without_a_secret_nothing_is_signed(make, receiver) -> None:
    make().publish("a", delivery("a"))
    assert "webhook-signature" not in receiver.requests[0].headers
    assert "goscheduler-signature" not in receiver.requests[0].headers


def test_the_context_of_a_trace_is_sent_as_the_headers_that_servers_look_for(make, receiver) -> None:
    carried = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": "vendor=a b\n,other=1"}
    make().publish("a", delivery("a", metadata=carried))
    make().publish("b", delivery("b"))
    first, second = receiver.requests
    assert first.headers["traceparent"] == carried["traceparent"]
    assert unquote(first.headers["tracestate"]) == carried["tracestate"]
    assert json.loads(first.headers["goscheduler-metadata"]) == carried
    assert "traceparent" not in second.headers


def test_attempts_have_the_same_id(make, receiver) -> None:
    transport = make()
    for attempt in (1, 2):
        transport.publish("a", delivery("a", attempt=attempt))
    first, second = receiver.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert (first.headers["goscheduler-attempt"], second.headers["goscheduler-attempt"]) == ("1", "2")


def test_the_event_name_can_be_part_of_the_path(make, receiver) -> None:
    transport = make(f"{receiver.url}/{{event_name}}/in?e={{event_name}}")
    transport.publish("a", delivery("a/b ü.c"))
    assert receiver.requests[0].path == "/hooks/a%2Fb%20%C3%BC.c/in?e=a%2Fb%20%C3%BC.c"
    with pytest.raises(MessageRejected, match="path"):
        transport.publish("..", delivery(".."))


def test_a_query_may_follow_the_host_at_once(make, receiver) -> None:
    make(receiver.url.replace("/hooks", "?to=a@b&e={event_name}")).publish("a", delivery("a"))
    [request] = receiver.requests
    assert request.path == "/?to=a@b&e=a"
    assert "authorization" not in request.headers


def test_a_host_outside_of_ascii_is_asked_for_as_the_network_knows_it(receiver, make, monkeypatch) -> None:
    asked = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return [HOST]

    monkeypatch.setattr(_addresses, "_resolve", resolve)
    make(f"http://müller.example:{receiver.server_address[1]}/").publish("a", delivery("a"))
    assert asked == ["xn--mller-kva.example"]
    assert receiver.requests[0].headers["host"].startswith("xn--mller-kva.example:")


def test_connections_are_used_again(make, receiver) -> None:
    receiver.status, receiver.body = 200, b"x" * 1000
    transport = make()
    for number in range(5):
        transport.publish("a", delivery("a", number))
    assert (len(receiver.requests), receiver.connections) == (5, 1)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (200, None), (201, None), (202, None), (299, None),
        (301, TransportUnavailable), (307, TransportUnavailable), (304, TransportUnavailable),
        (400, MessageRejected), (401, MessageRejected), (404, MessageRejected), (410, MessageRejected),
        (408, TransportUnavailable), (425, TransportUnavailable), (429, TransportUnavailable),
        (500, TransportUnavailable), (502, TransportUnavailable), (503, TransportUnavailable),
    ],
)  # fmt: skip
def test_an_answer_says_what_becomes_of_the_message(make, receiver, status, error) -> None:
    receiver.status, receiver.headers = status, {"location": "/elsewhere"}
    [outcome] = make().publish_many([delivery("a")])
    assert type(outcome) is (error or type(None))
    assert error is None or str(status) in str(outcome)
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("7", 7.0),
        ("999999", 3600.0),
        (format_datetime(DUE.astimezone(timezone.utc).replace(minute=2), usegmt=True), 120.0),
        (format_datetime(DUE.astimezone(timezone.utc).replace(hour=1), usegmt=True), 0.0),
        ("soon", None),
        ("-3", None),
        ("", None),
        ("1e3", None),
    ],
)
def test_a_receiver_may_say_when_to_try_again(make, receiver, value, expected) -> None:
    receiver.status, receiver.headers = 503, {"retry-after": value}
    with pytest.raises(TransportUnavailable) as raised:
        make(clock=ManualClock(DUE)).publish("a", delivery("a"))
    assert raised.value.retry_after == expected


def test_an_endless_answer_is_cut_off(make, receiver) -> None:
    receiver.status, receiver.body = 200, b"x" * (LONGEST_ANSWER * 40)
    make().publish("a", delivery("a"))
    assert len(receiver.requests) == 1


def test_a_receiver_that_drips_is_given_up_in_time(make) -> None:
    with socket.create_server((HOST, 0)) as listener:
        stop = threading.Event()

        def drip() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                while not stop.wait(0.05):
                    connection.sendall(b"x-slow: 1\r\n")

        thread = threading.Thread(target=drip)
        thread.start()
        began = time.monotonic()
        with pytest.raises(TransportUnavailable, match="did not answer within"):
            make(f"http://{HOST}:{listener.getsockname()[1]}/", timeout=IMPATIENT).publish("a", delivery("a"))
        assert time.monotonic() - began < PATIENCE
        stop.set()
        thread.join()


def test_close_ends_a_request_that_is_under_way(make, receiver) -> None:
    reached, answered = threading.Event(), threading.Event()
    receiver.before_answer = lambda: (reached.set(), answered.wait(PATIENCE))
    transport = make()
    with ThreadPoolExecutor(1) as pool:
        attempt = pool.submit(transport.publish, "a", delivery("a"))
        assert reached.wait(PATIENCE)
        transport.close()
        with pytest.raises(TransportUnavailable, match="closed"):
            attempt.result(PATIENCE)
        answered.set()


def test_a_redirect_is_followed_only_when_asked_for_and_only_with_the_same_request(make, receiver) -> None:
    with Receiver() as other:
        thread = threading.Thread(target=other.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        receiver.status, receiver.headers = 308, {"location": f"http://localhost:{other.server_address[1]}/new"}
        transport = make(follow_redirects=True, secret=SECRET, headers={"Authorization": "Bearer x"})
        transport.publish("a", delivery("a"))
        assert receiver.requests[0].headers["authorization"] == "Bearer x"
        [request] = other.requests
        assert (request.path, request.body) == ("/new", b"hello")
        assert request.headers["host"] == f"localhost:{other.server_address[1]}"
        assert "authorization" not in request.headers
        assert verified(request, b"the key of the test")
        receiver.status = 302
        with pytest.raises(TransportUnavailable, match="302"):
            transport.publish("a", delivery("a"))
        other.shutdown()
        thread.join()


def test_redirects_in_a_circle_come_to_an_end(make, receiver) -> None:
    receiver.status, receiver.headers = 307, {"location": "/again"}
    with pytest.raises(TransportUnavailable, match="307"):
        make(follow_redirects=True).publish("a", delivery("a"))
    assert len(receiver.requests) == 6


def test_a_redirect_into_a_private_network_is_not_followed(make, receiver, monkeypatch) -> None:
    receiver.status, receiver.headers = 307, {"location": "http://169.254.169.254/latest/meta-data"}
    monkeypatch.setattr(_addresses, "is_public", lambda address: address == HOST)
    transport = make(receiver.url.replace(HOST, "localhost"), allow_private=False, follow_redirects=True)
    with pytest.raises(MessageRejected, match=r"169\.254\.169\.254"):
        transport.publish("a", delivery("a"))


def test_a_redirect_from_https_to_http_is_not_followed(make) -> None:
    import httpx

    with pytest.raises(MessageRejected, match="https"):
        make()._redirected({}, httpx.URL("https://a.example/"), "http://a.example/")
    with pytest.raises(MessageRejected, match="https"):
        make()._redirected({}, httpx.URL("http://a.example/"), "file:///etc/passwd")


def test_a_name_that_leads_to_a_private_address_is_rejected(receiver, make) -> None:
    port = receiver.server_address[1]
    with pytest.raises(MessageRejected, match="not a public address"):
        make(f"http://localhost:{port}/", allow_private=False).publish("a", delivery("a"))
    assert receiver.connections == 0


def test_the_connection_goes_to_the_address_that_was_checked(receiver, make, monkeypatch) -> None:
    asked = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return [HOST]

    monkeypatch.setattr(_addresses, "_resolve", resolve)
    make(f"http://hooks.example:{receiver.server_address[1]}/").publish("a", delivery("a"))
    assert asked == ["hooks.example"]
    assert receiver.requests[0].headers["host"] == f"hooks.example:{receiver.server_address[1]}"


@pytest.mark.parametrize(("host", "trusted"), [("hooks.example", True), ("others.example", False)])
def test_a_certificate_is_checked_by_the_name_of_the_host(receiver, make, monkeypatch, host, trusted) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return [HOST]

    monkeypatch.setattr(_addresses, "_resolve", resolve)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(CERTIFICATE)
    receiver.socket = served.wrap_socket(receiver.socket, server_side=True)
    known = ssl.create_default_context(cafile=str(CERTIFICATE))
    transport = make(f"https://{host}:{receiver.server_address[1]}/", verify=known)
    [outcome] = transport.publish_many([delivery("a")])
    assert (outcome is None) is trusted
    assert trusted or "certificate" in str(outcome).lower()
    assert len(receiver.requests) == trusted


def test_one_private_address_among_public_ones_is_enough_to_be_rejected(make, monkeypatch) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["93.184.216.34", "10.0.0.1"]

    monkeypatch.setattr(_addresses, "_resolve", resolve)
    with pytest.raises(MessageRejected, match=r"10\.0\.0\.1"):
        make("http://hooks.example/", allow_private=False).publish("a", delivery("a"))


def test_the_next_address_is_tried_when_the_first_does_not_answer(receiver, make, monkeypatch) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.2", HOST]

    monkeypatch.setattr(_addresses, "_resolve", resolve)
    make(f"http://hooks.example:{receiver.server_address[1]}/").publish("a", delivery("a"))
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True), ("2606:2800:220:1:248:1893:25c8:1946", True), ("::ffff:93.184.216.34", True),
        ("127.0.0.1", False), ("10.1.2.3", False), ("172.16.0.1", False), ("192.168.1.1", False),
        ("169.254.169.254", False), ("100.64.0.1", False), ("0.0.0.0", False), ("224.0.0.1", False),
        ("255.255.255.255", False), ("240.0.0.1", False), ("192.0.2.1", False),
        ("::1", False), ("::", False), ("fe80::1%eth0", False), ("fc00::1", False), ("ff02::1", False),
        ("::ffff:127.0.0.1", False), ("64:ff9b::7f00:1", False), ("64:ff9b::a9fe:a9fe", False),
        ("2002:7f00:1::", False), ("2001:0:4136:e378:8000:63bf:80ff:fffe", False), ("2001:db8::1", False),
        ("fec0::1", False), ("feff::1", False), ("3fff::1", False), ("3fff:fff:ffff::1", False), ("4000::1", False),
        ("192.88.99.1", False), ("168.63.129.16", False), ("168.63.129.17", True), ("::ffff:168.63.129.16", False),
        ("64:ff9b::a83f:8110", False), ("64:ff9b::5db8:d822", True), ("64:ff9b:1::5db8:d822", False),
        ("64:ff9b:1:0a00:0:100::", False), ("2002:5db8:d822::1", False), ("2001::1", False), ("2001:2::1", False),
        ("2001:10::1", False), ("2001:20::1", False), ("2001:200::1", True), ("100::1", False), ("5f00::1", False),
        ("::93.184.216.34", False), ("::ffff:0:10.0.0.1", False), ("fd00:ec2::254", False), ("fd20:ce::254", False),
        ("100.100.100.200", False), ("192.0.0.192", False), ("192.0.0.9", False), ("198.18.0.1", False),
        ("198.19.255.255", False), ("198.20.0.1", True), ("203.0.113.9", False), ("198.51.100.1", False),
        ("172.31.255.255", False), ("172.32.0.1", True), ("100.128.0.1", True), ("192.31.196.1", False),
        ("192.175.48.1", False), ("192.52.193.1", False), ("2620:4f:8000::1", False), ("2a00:1450::1", True),
    ],
)  # fmt: skip
def test_addresses_of_this_machine_and_of_private_networks_are_not_public(address, public) -> None:
    assert is_public(address) is public


def test_the_login_of_the_url_becomes_a_header_and_is_told_nowhere(make, receiver, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    url = receiver.url.replace("://", "://user:hunter%40@") + "?token=abc123"
    transport = make(url, secret="topsecret")
    transport.publish("a", delivery("a"))
    [request] = receiver.requests
    assert base64.b64decode(request.headers["authorization"].removeprefix("Basic ")) == b"user:hunter@"
    assert request.path == "/hooks?token=abc123"
    receiver.status = 500
    with pytest.raises(TransportUnavailable) as raised:
        transport.publish("a", delivery("a"))
    shown = f"{transport!r} {raised.value!r} {vars(raised.value)}"
    assert not any(secret in shown for secret in ("hunter", "abc123", "topsecret"))
    told = [record for record in caplog.records if record.levelno >= logging.INFO]
    assert told == []


@pytest.mark.parametrize(
    ("url", "options", "error"),
    [
        ("ftp://example.com/", {}, InvalidArgument),
        ("https://", {}, InvalidArgument),
        ("https://{event_name}.example.com/", {}, InvalidArgument),
        ("https://user:not-secret@exa mple.com:port/", {}, InvalidArgument),
        (None, {}, InvalidArgument),
        ("http://127.0.0.1/", {}, InvalidArgument),
        ("http://[::1]/", {}, InvalidArgument),
        ("https://example.com/", {"secret": ""}, InvalidArgument),
        ("https://example.com/", {"secret": "whsec_not-secret!"}, InvalidArgument),
        ("https://example.com/", {"secret": 5}, TypeError),
        ("https://example.com/", {"secret": []}, InvalidArgument),
        ("https://example.com/", {"secret": ["a", None]}, TypeError),
        ("https://example.com/", {"headers": {"a\n": "b"}}, InvalidArgument),
        ("https://example.com/", {"headers": {"a": "b\r\nc: d"}}, InvalidArgument),
        ("https://example.com/", {"headers": {"Host": "b"}}, InvalidArgument),
        ("https://example.com/", {"headers": {"a": 1}}, TypeError),
        ("https://example.com/", {"timeout": 0}, InvalidArgument),
        ("https://example.com/", {"max_connections": 0}, InvalidArgument),
        ("https://example.com/", {"allow_private": "yes"}, TypeError),
    ],
)
def test_options_that_make_no_sense_are_refused(url, options, error) -> None:
    with pytest.raises(error) as refused:
        WebhookTransport(url, **options)
    assert "not-secret" not in str(refused.value)


def test_a_misspelt_option_is_told_with_the_right_one() -> None:
    with pytest.raises(UnknownOption, match="allow_private"):
        WebhookTransport.from_url("https://example.com/", allow_privat=True)
