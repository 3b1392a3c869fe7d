"""Text of unknown origin, made safe for people to read.

Names of jobs, messages of errors and results come from users, and out of stores. An escape sequence in one of them
could clear the screen, a line end could forge a line of a log, and a mark that turns the direction of writing could
change what the reader believes to see. So everything that does not print is shown as its escape.
"""

from __future__ import annotations

_INDENT = "    "


def printable(text: str) -> str:
    """Return text on one line, with whatever does not print as an escape."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escape(character) for character in text)


def printable_lines(text: str) -> str:
    """Return text with its line ends, and everything else that does not print as an escape."""
    return "\n".join(printable(line.expandtabs(4)) for line in text.split("\n"))


def indented(text: str) -> str:
    """Return text as :func:`printable_lines` does, each line indented, so that none can pass for one of its own."""
    return "\n".join(_INDENT + line if line else line for line in printable_lines(text.rstrip("\n")).split("\n"))


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
