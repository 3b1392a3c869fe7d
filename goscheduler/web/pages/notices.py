"""What a page says of the act that led to it. The address has a word for it and figures, and never a text."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from goscheduler.web.pages.formats import many

#: Word in the address → what was done to how many of what.
_DONE = {
    "paused": ("job", "{} paused."),
    "resumed": ("job", "{} resumed: fired again from now on."),
    "ran": ("job", "{} will run now, beside the schedule."),
    "removed": ("job", "{} removed."),
    "edited": ("job", "{} changed."),
    "skipped": ("run", "The next run is left out."),
    "postponed": ("run", "The next run is put off."),
    "cancelled": ("run", "{} cancelled."),
    "redriven": ("dead letter", "{} will be tried again."),
    "discarded": ("dead letter", "{} discarded."),
    "asked": ("process", "{} asked: it obeys when it renews its lease."),
    "kept": ("setting", "Settings kept in this browser."),
}
#: The largest figure that is said.
LARGEST = 10_000_000


@dataclass(frozen=True)
class Notice:
    """One line above a page."""

    tone: str
    text: str
    undo: str | None = None
    """The id of the pause that the notice offers to undo."""
    back: str = "/jobs"
    follow: str | None = None


def notices_of(request: Request, back: str = "/jobs") -> list[Notice]:
    """Return what is said of the act that led to this page."""
    query = request.query_params
    done = _DONE.get(query.get("did", ""))
    if done is None:
        return []
    noun, text = done
    number, failed = _figure(query.get("n")), _figure(query.get("failed"))
    notices = []
    if number or not failed:
        undo = query.get("undo") if query.get("did") == "paused" else None
        told = text.format(many(number, noun, "processes" if noun == "process" else None))
        notices.append(Notice("good" if number else "info", told if number else _nothing(noun), undo, back))
    if failed:
        notices.append(Notice("bad", f"Nothing was done to {many(failed, noun)}: not there any more, or refused."))
    return notices


def _nothing(noun: str) -> str:
    return f"Nothing had to be done: every {noun} was so already."


def _figure(text: str | None) -> int:
    return min(int(text), LARGEST) if text and text.isascii() and text.isdecimal() and len(text) < 10 else 0
