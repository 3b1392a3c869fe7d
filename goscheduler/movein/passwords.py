"""Keeping the passwords of a URL out of what people see."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote, unquote_plus

from goscheduler.errors import GoSchedulerError, described

HIDDEN = "***"

_AFTER_USER = re.compile(r"[^:]*://[^:@/]*:")
_SECRET_PARAMETER = re.compile(r"[?&][^=&#]*(?:pass|pwd|secret|token|key)[^=&#]*=([^&#]*)", re.IGNORECASE)


class SourceError(GoSchedulerError):
    """A store could not be read, or a URL leads nowhere. There is no password in it."""


@contextmanager
def passwords_hidden(url: str) -> Iterator[None]:
    """Let no error out that shows a password of the URL: such an error becomes one without it, and without a cause."""
    try:
        yield
    except Exception as error:
        told = "".join(traceback.format_exception(error))
        if not any(secret in told for secret in secrets_of(url)):
            raise
        text = str(error) if isinstance(error, GoSchedulerError) else described(error)
        raise SourceError(without_passwords(text, url)) from None


def without_passwords(text: str, url: str) -> str:
    """Return text with the passwords of the URL hidden."""
    for secret in secrets_of(url):
        text = text.replace(secret, HIDDEN)
    return text


def secrets_of(url: str) -> list[str]:
    """Return the passwords in a URL, as they stand there and as they are meant, the longest first."""
    written = [found.group(1) for found in _SECRET_PARAMETER.finditer(url)]
    if found := _AFTER_USER.match(url):
        rest = url[found.end() :]
        written += [rest[:end] for end, character in enumerate(rest) if character == "@"]  # some do not escape theirs
    meant = [form(text) for text in written for form in (str, unquote, unquote_plus)]
    return sorted({secret for secret in meant if secret}, key=len, reverse=True)
