"""Events of a calendar file (iCalendar, RFC 5545) as triggers.

Read are ``VEVENT`` blocks with UID, SUMMARY, DTSTART, DURATION or DTEND, RRULE, RDATE and EXDATE. Time zones are those
of the system, by their names; ``VTIMEZONE`` blocks are passed over. Everything that cannot be understood is told at
once, each with its line, and then nothing is given back: half a calendar is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta, tzinfo
from typing import NamedTuple

from goscheduler.errors import InvalidArgument, shown
from goscheduler.triggers.base import BaseTrigger
from goscheduler.triggers.rrule import RRuleTrigger

MAX_BYTES = 5_000_000
MOST_EVENTS = 5_000
#: So many mistakes are told of.
MOST_TOLD = 20

_VALUE = r'(?:"[^"]*"|[^",;:]*)'
_HEAD = re.compile(rf"([A-Za-z0-9-]+)((?:;[A-Za-z0-9-]+={_VALUE}(?:,{_VALUE})*)*):(.*)", re.DOTALL)
_DURATION = re.compile(r"([+-]?)P(?:(\d{1,5})W|(?:(\d{1,5})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,6})S)?)?)")
_TIMES = ("DTSTART", "RRULE", "RDATE", "EXDATE")
#: What may stand in an event only once.
_SINGLE = ("UID", "SUMMARY", "DTSTART", "DTEND", "DURATION", "RRULE", "STATUS", "RECURRENCE-ID")
_ESCAPED = {"n": "\n", "N": "\n", "\\": "\\", ";": ";", ",": ","}


class Event(NamedTuple):
    """An event of a calendar file."""

    uid: str
    summary: str
    trigger: BaseTrigger
    duration: timedelta | None
    """How long it lasts, where it says so."""
    cancelled: bool
    line: int
    """Where it begins."""


class _Property(NamedTuple):
    name: str
    options: str
    value: str
    line: int

    @property
    def text(self) -> str:
        return f"{self.name}{self.options}:{self.value}"


class _Mistake(Exception):
    def __init__(self, line: int, told: str) -> None:
        super().__init__(f"line {line}: {told}")


def read_ics(source: str | bytes, timezone: tzinfo | None = None) -> list[Event]:
    """Return the events of a calendar file. Times without a zone are in ``timezone``, or that of the machine.

    :raises InvalidArgument: naming every line that cannot be understood
    """
    mistakes: list[str] = []
    events: dict[str, Event] = {}
    for block in _blocks(_unfolded(_decoded(source)), mistakes):
        try:
            event = _event(block, timezone)
            if event.uid in events:
                raise _Mistake(event.line, f"the UID {shown(event.uid)} stands at line {events[event.uid].line} too")
            events[event.uid] = event
        except _Mistake as mistake:
            mistakes.append(str(mistake))
        if len(events) > MOST_EVENTS:
            raise _refused(f"has more than {MOST_EVENTS:,} events; split it")
    if mistakes:
        more = f"; and {len(mistakes) - MOST_TOLD} more" if len(mistakes) > MOST_TOLD else ""
        raise _refused(f"cannot be understood, and nothing is imported: {'; '.join(mistakes[:MOST_TOLD])}{more}")
    return list(events.values())


def _refused(told: str) -> InvalidArgument:
    return InvalidArgument(f"the calendar file {told}", field="source")


def _decoded(source: str | bytes) -> str:
    if len(source) > MAX_BYTES:
        raise _refused(f"has {len(source):,} bytes, the limit is {MAX_BYTES:,}; split it")
    if isinstance(source, str):
        return source.removeprefix("\ufeff")
    try:
        return source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        raise _refused(f"is not UTF-8: see line {line}") from None


def _unfolded(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line with its number; one that begins with a blank goes on with the one before it."""
    parts: list[str] = []
    begin = 0
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        if line[:1] in (" ", "\t") and parts:
            parts.append(line[1:])
            continue
        if parts and parts[0]:
            yield begin, "".join(parts)
        begin, parts = number, [line]
    if parts and parts[0]:
        yield begin, "".join(parts)


def _blocks(lines: Iterator[tuple[int, str]], mistakes: list[str]) -> Iterator[list[_Property]]:
    """Yield the properties of each event, its BEGIN first; those of blocks inside of it are passed over."""
    open_blocks: list[str] = []
    block: list[_Property] = []
    number = 0
    for number, line in lines:
        match = _HEAD.fullmatch(line)
        if match is None:
            mistakes.append(f"line {number}: expected NAME:VALUE, got {shown(line[:60])}")
            continue
        found = _Property(match[1].upper(), match[2].replace('"', ""), match[3], number)
        kind = found.value.strip().upper()
        if found.name == "BEGIN":
            open_blocks.append(kind)
            block = [found] if kind == "VEVENT" else block
        elif found.name == "END":
            if not open_blocks or open_blocks.pop() != kind:
                mistakes.append(f"line {number}: END:{kind} without its BEGIN")
                return
            if kind == "VEVENT":
                yield block
        elif open_blocks and open_blocks[-1] == "VEVENT":
            block.append(found)
        elif not open_blocks:
            mistakes.append(f"line {number}: {found.name} stands outside of BEGIN:VCALENDAR")
            return
    if open_blocks or not number:
        what = f"BEGIN:{open_blocks[-1]} has no END" if open_blocks else "expected BEGIN:VCALENDAR, got nothing"
        mistakes.append(f"line {max(number, 1)}: {what}")


def _event(block: list[_Property], timezone: tzinfo | None) -> Event:
    line = block[0].line
    found: dict[str, _Property] = {}
    for each in block[1:]:
        if each.name in _SINGLE and each.name in found:
            raise _Mistake(each.line, f"{each.name} stands in this event twice")
        found.setdefault(each.name, each)
    for name in ("UID", "DTSTART"):
        if name not in found or not found[name].value.strip():
            raise _Mistake(line, f"this event has no {name}")
    if "RECURRENCE-ID" in found:
        told = "RECURRENCE-ID (one occurrence is not as the event says) is not supported; write it as EXDATE and RDATE"
        raise _Mistake(found["RECURRENCE-ID"].line, told)
    summary = _text(found["SUMMARY"].value) if "SUMMARY" in found else ""
    cancelled = "STATUS" in found and found["STATUS"].value.strip().upper() == "CANCELLED"
    trigger = _trigger([each for each in block if each.name in _TIMES], found, timezone)
    return Event(_text(found["UID"].value), summary, trigger, _duration(found), cancelled, line)


def _trigger(times: list[_Property], found: dict[str, _Property], timezone: tzinfo | None) -> RRuleTrigger:
    start = found["DTSTART"]
    has_zone = "TZID=" in start.options.upper() or start.value.strip().upper().endswith("Z")
    lines = [each.text for each in times]
    if "RRULE" not in found:
        lines.append("RRULE:FREQ=DAILY;COUNT=1")  # the start, and further dates
    try:
        return RRuleTrigger("\n".join(lines), timezone=None if has_zone else timezone)
    except InvalidArgument as error:
        raise _Mistake(_line_of(error, times, found), str(error)) from None


def _line_of(error: InvalidArgument, times: list[_Property], found: dict[str, _Property]) -> int:
    """Return the line of the property that is wrong."""
    for each in times:
        if error.field in (each.name, each.name.lower()) or (error.value and str(error.value) in each.text):
            return each.line
    return found.get("RRULE", found["DTSTART"]).line


def _duration(found: dict[str, _Property]) -> timedelta | None:
    if "DURATION" not in found:
        return None
    given = found["DURATION"]
    match = _DURATION.fullmatch(given.value.strip().upper())
    if match is None or match[1] == "-" or not any(match.groups()[1:]):
        raise _Mistake(given.line, f"DURATION must be a length of time such as PT1H30M, got {shown(given.value[:60])}")
    weeks, days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:])
    return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)


def _text(value: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPED.get(match[1], match[1]), value).strip()
