"""URLs hold passwords: how a URL is shown, how a text is cleared of its secrets, and which URL is ambiguous."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote, unquote_plus

HIDDEN = "***"

#: Names of parameters whose values are secret, whatever stands around these words.
_SECRET = re.compile(
    r"pass|pwd|secret|token|key|credential|auth|signature|odbc_connect|\bsig\b|jwt|bearer", re.IGNORECASE
)
#: Names in which such a word means something that may be told: where a file is, how somebody is known.
_PUBLIC = re.compile(r"(file|path)$|^(authsource|authmechanism)$", re.IGNORECASE)
_LOGIN = re.compile(r"://[^:]*?:(.*)@", re.DOTALL)
_PART = re.compile(r"(?://|&)[^&]*")
_NAME = re.compile(r"[?&#;]([^=?&#;]*)=")
#: A URL in a text ends at a blank or a quotation mark, but for a password with blanks in it.
_IN_TEXT = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^'\"<>\n]*@)?[^\s'\"<>]*")


def masked(url: str) -> str:
    """Return a URL as it may be shown, whatever is wrong with it: better too little of it than too much.

    Hidden is what stands between the first colon after ``://`` and the last ``@``, also if neither belongs to a
    password, and the value of every parameter whose name sounds like a secret. Anything but a URL stays as it is.
    """
    if not isinstance(url, str) or "://" not in url:
        return url
    shown, done = "", 0
    for start, end in sorted([*_logins(url), *_secret_values(url)]):
        if start >= done:
            shown += url[done:start] + HIDDEN
        done = max(done, end)  # they may overlap
    return shown + url[done:]


def masked_text(text: str) -> str:
    """Return a text with every URL in it as it may be shown."""
    return _IN_TEXT.sub(lambda found: masked(found[0]), text) if "://" in text else text


def without_secrets(text: str, url: str | None) -> str:
    """Return what a driver has to say about a URL, with the secrets of that hidden."""
    for secret in secrets_of(url or ""):
        text = text.replace(secret, HIDDEN)
    return masked_text(text)


def secrets_of(url: str) -> list[str]:
    """Return the secrets in a URL, as they stand there and as they are meant, the longest first."""
    written = [url[start:end] for start, end in _secret_values(url)]
    for start, end in _logins(url):
        login = url[start : end + 1]
        written += [login[:each] for each, character in enumerate(login) if character == "@"]  # if one is not escaped
    meant = [form(text) for text in written for form in (str, unquote, unquote_plus)]
    return sorted({secret for secret in meant if secret}, key=len, reverse=True)


def _logins(url: str) -> Iterator[tuple[int, int]]:
    """Give where the password in front of the host stands, if there is one."""
    found = _LOGIN.search(url)
    if found:
        yield found.span(1)


def _secret_values(url: str) -> Iterator[tuple[int, int]]:
    """Give where the values of secret parameters stand; each goes on to the next ampersand."""
    for part in _PART.finditer(url, max(url.find("://"), 0)):
        for found in _NAME.finditer(url, *part.span()):
            name = unquote_plus(found[1])
            if _SECRET.search(name) and not _PUBLIC.search(name):
                yield found.end(), part.end()
                break


def has_clear_login(url: str, *, first_at: bool = False) -> bool:
    """Tell whether a driver can see where the password ends; it would take a part of it for a host, and show that.

    ``first_at`` is for drivers that end the password at the first ``@``, wherever that is; the others end it at the
    last one before a slash.
    """
    rest = url.partition("://")[2]
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    if ":" not in authority:
        return True
    if first_at:
        login, _, place = rest.partition("@")
        return "@" not in place.partition("?")[0] and (not place or "=" not in login.partition("?")[2])
    path, _, query = rest[len(authority) :].partition("?")
    return "@" not in path and ("@" in authority or "@" not in query.partition("=")[0])
