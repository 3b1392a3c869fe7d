"""Keeping the passwords of a URL out of what people see."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from goscheduler._urls import secrets_of, without_secrets
from goscheduler.errors import GoSchedulerError, described


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
        raise SourceError(without_secrets(text, url)) from None
