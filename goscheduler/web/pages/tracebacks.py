"""Tracebacks as people read them first: the frames of their own code."""

from __future__ import annotations

import re

#: Where code of others lives.
_OTHERS = re.compile(r"[/\\](site-packages|dist-packages|lib[/\\]python\d|goscheduler)[/\\]|<frozen ")
_FRAME = re.compile(r'^  File "', re.MULTILINE)


def own_frames(traceback: str) -> str:
    """Return the frames of a traceback that are no code of others; all of them if none is the user's own."""
    starts = [found.start() for found in _FRAME.finditer(traceback)]
    frames = [traceback[start:end] for start, end in zip(starts, [*starts[1:], None], strict=False)]
    own = [frame for frame in frames if not _OTHERS.search(frame.partition("\n")[0])]
    return "".join(own or frames).strip("\n")
