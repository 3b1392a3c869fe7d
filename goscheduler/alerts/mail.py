"""Notices by e-mail."""

from __future__ import annotations

import smtplib
import socket
import ssl
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any
from urllib.parse import unquote, urlsplit

from goscheduler.alerts.model import Notice, NoticeKind
from goscheduler.errors import InvalidArgument
from goscheduler.logs import guarded_logger

OPTIONS = ("server", "sender", "verify")
#: Scheme of the server → its usual port.
PORTS = {"smtp": 25, "smtps": 465, "smtp+starttls": 587}
TIMEOUT = 8.0
_logger = guarded_logger("goscheduler.alerts")
_DOMAIN = "goscheduler.invalid"


class MailChannel:
    """Sends notices to ``mailto:ann@example.com,bob@example.com``.

    ``server`` is as in ``smtp+starttls://user:password@mail.example.com``, ``smtps://…`` or ``smtp://…``; by default it
    is the one of this machine. All notices about one episode are one conversation.
    """

    def __init__(
        self, url: str, *, server: str = "smtp://localhost", sender: str | None = None, verify: Any = True
    ) -> None:
        self._to = [unquote(each.strip()) for each in url.partition(":")[2].split(",") if each.strip()]
        self._from = sender or f"goscheduler@{socket.getfqdn()}"
        for address in (*self._to, self._from):
            if "@" not in address or not address.isprintable():
                raise InvalidArgument("url must name addresses, as in mailto:ann@example.com", field="url")
        split = urlsplit(server)
        if not self._to or split.scheme not in PORTS or not split.hostname:
            raise InvalidArgument(f"server must begin with {', '.join(PORTS)}: and name a host", field="server")
        self._scheme, self._host = split.scheme, split.hostname
        self._port = split.port or PORTS[split.scheme]
        self._login = None if split.username is None else (unquote(split.username), unquote(split.password or ""))
        self._verify = verify

    def send(self, notice: Notice) -> None:
        """Hand the notice to the mail server.

        :raises OSError: if the server takes it for nobody
        """
        with self._connected() as server:
            if self._login is not None:
                server.login(*self._login)
            refused = server.send_message(self._message(notice))
        if refused:  # no error: the others would get it again and again
            _logger.warning("The mail server refuses %d of %d addresses of a channel", len(refused), len(self._to))

    def close(self) -> None:
        """There is nothing to let go of."""

    def _connected(self) -> smtplib.SMTP:
        if self._scheme == "smtps":
            return smtplib.SMTP_SSL(self._host, self._port, timeout=TIMEOUT, context=self._context())
        server = smtplib.SMTP(self._host, self._port, timeout=TIMEOUT)
        if self._scheme == "smtp+starttls":
            try:
                server.starttls(context=self._context())
            except BaseException:
                server.close()
                raise
        return server

    def _context(self) -> ssl.SSLContext:
        return self._verify if isinstance(self._verify, ssl.SSLContext) else ssl.create_default_context()

    def _message(self, notice: Notice) -> EmailMessage:
        message = EmailMessage()
        message["From"], message["To"] = self._from, ", ".join(self._to)
        message["Subject"] = _line(notice.title)
        message["Date"] = format_datetime(notice.at)
        begin = f"<{notice.dedup_key}-{NoticeKind.FIRING.value}@{_DOMAIN}>"
        message["Message-ID"] = f"<{notice.id}@{_DOMAIN}>"
        if message["Message-ID"] != begin:
            message["In-Reply-To"] = message["References"] = begin
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(notice.text)
        return message


def _line(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
