"""Channels, on real sockets: a mail server, and receivers of webhooks, of Slack and of PagerDuty."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from email import message_from_bytes
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from goscheduler.alerts.channels import FunctionChannel, channel_of, revealed
from goscheduler.alerts.model import Notice, NoticeKind
from goscheduler.errors import InvalidArgument, MessageRejected, TransportUnavailable, UnknownOption

SINCE = datetime(2026, 5, 4, 12, tzinfo=timezone.utc)


def notice(kind="firing", targets=("nightly",), message="it fails: <b>&", minutes=0):
    return Notice(
        NoticeKind(kind), "billing", "failures", list(targets), len(targets), message, SINCE,
        SINCE + timedelta(minutes=minutes), "d" * 32,
    )  # fmt: skip


@contextmanager
def receiver(status=200):
    """Give the address of a server that answers so, and the requests that it gets."""
    received = []

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            received.append((self.path, dict(self.headers.items()), body))
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def opened(url, **options):
    channel = channel_of(url, **options)
    try:
        yield channel
    finally:
        channel.close()


def test_a_webhook_gets_the_notice_as_json_signed_and_the_same_id_for_a_repetition():
    key = base64.b64encode(b"k" * 24).decode()
    with receiver() as (address, received), opened(
        f"http://{address}/hooks", secret=f"whsec_{key}", allow_private=True
    ) as channel:  # fmt: skip
        channel.send(notice())
        channel.send(notice())
        channel.send(notice("recovery", minutes=5))
    (path, headers, body), (_, repeated, _), (_, other, _) = received
    assert (path, json.loads(body)["targets"], json.loads(body)["kind"]) == ("/hooks", ["nightly"], "firing")
    assert headers["webhook-id"] == repeated["webhook-id"] != other["webhook-id"]
    assert headers["goscheduler-event-name"] == "alert.firing"
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(b"k" * 24, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"


def test_an_address_of_a_private_network_is_refused_unless_it_is_allowed():
    with pytest.raises(InvalidArgument, match="allow_private"):
        channel_of("http://127.0.0.1:1/hooks")
    with receiver() as (address, received), opened(f"http://localhost:{address.partition(':')[2]}/") as channel:
        with pytest.raises((MessageRejected, TransportUnavailable)):
            channel.send(notice())
        assert received == []


@pytest.mark.parametrize(("status", "error"), [(500, TransportUnavailable), (404, MessageRejected)])
def test_a_receiver_that_refuses_is_an_error(status, error):
    with receiver(status) as (address, _), opened(f"http://{address}/", allow_private=True) as channel, \
         pytest.raises(error):
        channel.send(notice())


def test_slack_gets_a_text_in_which_nothing_is_markup():
    with receiver() as (address, received), opened(f"slack+http://{address}/services/T", allow_private=True) as channel:
        channel.send(notice("recovery", targets=["a", "b"], minutes=3))
    ((path, _, body),) = received
    assert path == "/services/T"
    assert json.loads(body)["text"].split("\n") == [
        "[recovery] billing: failures, 2 targets", "it fails: &lt;b&gt;&amp;", "a, b",
        "It had been firing for 3 minutes.",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "actions"),
    [("firing", ["trigger"]), ("reminder", ["trigger"]), ("recovery", ["resolve"]), ("test", ["trigger", "resolve"])],
)
def test_pagerduty_is_triggered_and_resolved_under_the_key_of_the_episode(kind, actions):
    with receiver() as (address, received), opened(
        f"pagerduty+http://R0UT1NG@{address}", allow_private=True
    ) as channel:  # fmt: skip
        channel.send(notice(kind))
    bodies = [json.loads(body) for _, _, body in received]
    assert [path for path, _, _ in received] == ["/v2/enqueue"] * len(actions)
    assert [body["event_action"] for body in bodies] == actions
    for body in bodies:
        assert (body["routing_key"], body["dedup_key"]) == ("R0UT1NG", "d" * 32)
        assert body["payload"]["severity"] == ("info" if kind == "test" else "error")
        assert {"summary", "source", "severity", "timestamp"} <= body["payload"].keys()


def test_pagerduty_is_asked_at_its_own_address_by_default():
    with opened("pagerduty://KEY@") as channel:
        assert "events.pagerduty.com" in repr(channel._transport)
    with pytest.raises(InvalidArgument, match="routing key"):
        channel_of("pagerduty://events.pagerduty.com")


# E-mail


class Mailbox:
    def __init__(self):
        self.envelopes, self.refused = [], ""

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address == self.refused:
            return "550 no such person"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        self.envelopes.append(envelope)
        return "250 OK"


class Server(Controller):
    def _trigger_server(self):
        self.port = self.server.sockets[0].getsockname()[1]  # one that was free
        super()._trigger_server()


@pytest.fixture
def mail():
    mailbox = Mailbox()
    controller = Server(
        mailbox, hostname="127.0.0.1", port=0, auth_require_tls=False,
        authenticator=lambda server, session, envelope, mechanism, login: AuthResult(
            success=(login.login, login.password) == (b"ann", b"hu/sh"), handled=False
        ),
    )  # fmt: skip
    controller.start()
    mailbox.port = controller.port
    yield mailbox
    controller.stop()


def test_mail_goes_to_everybody_and_is_one_conversation_for_each_episode(mail):
    server = f"smtp://ann:hu%2Fsh@127.0.0.1:{mail.port}"
    with opened("mailto:ops@example.com,bob@example.com", server=server, sender="jobs@example.com") as channel:
        channel.send(notice(message="it fails\r\nBcc: eve@example.com"))
        channel.send(notice("recovery", minutes=200))
    first, last = (message_from_bytes(envelope.content, policy=default) for envelope in mail.envelopes)
    assert mail.envelopes[0].rcpt_tos == ["ops@example.com", "bob@example.com"]
    assert (first["From"], first["Subject"]) == ("jobs@example.com", "[firing] billing: failures, nightly")
    assert first["Bcc"] is None
    assert "It has been firing since 2026-05-04 12:00:00 UTC." in first.get_content()
    assert last["In-Reply-To"] == first["Message-ID"]
    assert "It had been firing for 3 hours 20 minutes." in last.get_content()


@pytest.mark.parametrize(
    ("to", "server", "words"),
    [
        ("bob@example.com", "smtp://", "550"),
        ("ops@example.com", "smtp://ann:wrong@", "535"),
        ("ops@example.com", "smtp+starttls://", "STARTTLS"),  # which is not offered, so nothing is sent in clear
    ],
)
def test_mail_that_the_server_refuses_is_an_error(mail, to, server, words):
    mail.refused = "bob@example.com"
    channel = channel_of(f"mailto:{to}", server=f"{server}127.0.0.1:{mail.port}")
    with pytest.raises(OSError, match=words):
        channel.send(notice())


def test_an_address_that_is_refused_keeps_mail_from_nobody_else(mail, caplog):
    mail.refused = "bob@example.com"
    channel_of("mailto:ops@example.com,bob@example.com", server=f"smtp://127.0.0.1:{mail.port}").send(notice())
    assert mail.envelopes[0].rcpt_tos == ["ops@example.com"]
    assert "refuses 1 of 2" in caplog.text


def test_a_title_with_a_line_break_cannot_add_a_header(mail):
    with opened("mailto:ops@example.com", server=f"smtp://127.0.0.1:{mail.port}") as channel:
        channel.send(notice(targets=["a\r\nBcc: eve@example.com"]))
    (envelope,) = mail.envelopes
    told = message_from_bytes(envelope.content, policy=default)
    assert (told["Bcc"], envelope.rcpt_tos) == (None, ["ops@example.com"])


# Functions, URLs, secrets


def test_a_function_is_called_with_the_notice():
    told = []
    channel_of(told.append).send(notice())
    assert told[0].dedup_key == "d" * 32
    assert isinstance(channel_of("python:builtins:print"), FunctionChannel)


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("ftp://example.com", {}), ("hush", {}), ("python:no_such_module:f", {}), ("python:builtins:nothing", {}),
        ("python:sys:path", {}), ("mailto:", {}), ("mailto:nobody", {}), ("mailto:a@b", {"server": "http://x"}),
        ("env:NOT_THERE_AT_ALL", {}), ("file:/not/there", {}), ("https://example.com", {"sender": "x"}),
        ("python:builtins:print", {"secret": "x"}), ("mailto:a@b", {"secret": "x"}),
    ],
)  # fmt: skip
def test_a_channel_that_makes_no_sense_is_refused(url, options):
    with pytest.raises((InvalidArgument, UnknownOption)):
        channel_of(url, **options)


def test_secrets_stand_in_the_environment_or_in_files_and_in_no_error(monkeypatch, tmp_path):
    monkeypatch.setenv("OPS_URL", "https+odd://hush@example.com")
    (tmp_path / "secret").write_text("sesame\n")
    assert revealed("secret", f"file:{tmp_path}/secret") == "sesame"
    assert revealed("secret", "plain: text") == "plain: text"
    with pytest.raises(InvalidArgument) as caught:
        channel_of("env:OPS_URL")
    assert "hush" not in str(caught.value)
