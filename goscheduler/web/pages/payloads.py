"""A payload as people look at it: text, JSON or bytes, never rendered, and no more of it than fits a page."""

from __future__ import annotations

import base64
import binascii
import json
from typing import NamedTuple

from goscheduler.ops.redact import HIDDEN

#: So much of a payload is shown.
MOST_CHARACTERS = 65_536
BYTES_IN_A_LINE = 16
#: A line of a dump has so many characters at most.
_LINE = 79


class Preview(NamedTuple):
    """What is shown of a payload."""

    kind: str
    """"JSON", "text", "bytes", "empty" or "hidden"."""
    text: str
    size: int
    """Bytes of the whole payload."""
    cut: bool
    """Whether there is more of it than is shown."""


def preview_of(payload: str, is_base64: bool) -> Preview:
    """Return what is shown of the payload of a view."""
    if payload == HIDDEN:
        return Preview("hidden", HIDDEN, 0, False)
    if not payload:
        return Preview("empty", "", 0, False)
    if is_base64:
        return _of_bytes(payload)
    text = _indented(payload)
    kind = "text" if text is None else "JSON"
    shown = payload if text is None else text
    return Preview(kind, shown[:MOST_CHARACTERS], len(payload.encode()), len(shown) > MOST_CHARACTERS)


def _indented(text: str) -> str | None:
    """Return JSON with its parts below each other, None for what is no JSON object or list, or too long."""
    if len(text) > MOST_CHARACTERS or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None


def _of_bytes(payload: str) -> Preview:
    try:
        content = base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        return Preview("text", payload[:MOST_CHARACTERS], len(payload), len(payload) > MOST_CHARACTERS)
    most = MOST_CHARACTERS // _LINE * BYTES_IN_A_LINE
    return Preview("bytes", dump(content[:most]), len(content), len(content) > most)


def dump(content: bytes) -> str:
    """Return bytes as numbers to the base of 16 with the characters that they stand for beside them."""
    lines = []
    for start in range(0, len(content), BYTES_IN_A_LINE):
        part = content[start : start + BYTES_IN_A_LINE]
        characters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<{BYTES_IN_A_LINE * 3 - 1}}  {characters}")
    return "\n".join(lines)
