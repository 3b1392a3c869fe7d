"""Calendars that are known by a name: written into the stores, and read by every process that has jobs for them.

A calendar is a note of each store. A process that meets a name which it does not know leaves the job as it is, reads
the notes, and goes on; only if nobody has added such a calendar is the job suspended, until somebody does. From then on
the process reads them with each round of housekeeping. One that has no such job reads nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from goscheduler.calendars.adapted import adapted
from goscheduler.calendars.base import Calendar
from goscheduler.calendars.named import (
    UnknownCalendar,
    check_calendar_name,
    forget_calendar,
    know_calendar,
    known_calendars,
    unknown_names,
)
from goscheduler.codec import CodecError, dumps, loads
from goscheduler.errors import InvalidArgument, described, shown, survivable
from goscheduler.runs.queries import MAX_NOTE, Note

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.schedulers._engine import Engine

KIND = "calendar"
#: So many notes are read of one store.
MOST_NOTES = 1000
_PAGE = 100


class Calendars:
    """What one scheduler knows of the calendars in its stores."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.wanted = False
        """Whether a job waits for the notes to be read."""
        self._in_use = False
        self._looked_for: set[str] = set()
        self._texts: dict[str, str] = {}
        """Name → the note that it was read from."""

    def add(self, name: str, calendar: object) -> Calendar:
        """Make a calendar known here by a name. Return it."""
        check_calendar_name(name)
        known = adapted(name, calendar)
        know_calendar(name, known)
        self._in_use = True
        return known

    def write(self, name: str, calendar: Calendar) -> None:
        """Put a calendar into the stores, if it can be stored, and let the jobs go on that waited for it."""
        if calendar.is_storable:
            text = dumps(calendar, "calendar", MAX_NOTE)
            for store in self._engine.stores.values():
                store.put_note(Note(KIND, name, text))
            self._texts[name] = text
        self._release()

    def remove(self, name: str) -> None:
        """Make a name unknown, here and in the stores."""
        forget_calendar(name)
        self._texts.pop(name, None)
        for store in self._engine.stores.values():
            store.remove_note(KIND, name)

    def awaits(self, names: Collection[str]) -> bool:
        """Tell whether a job has to wait until the notes have been read."""
        self._in_use = True
        missing = [name for name in unknown_names(tuple(names)) if name not in self._looked_for]
        self._looked_for.update(missing)
        self.wanted = self.wanted or bool(missing)
        return bool(missing)

    def learn(self, names: Collection[str]) -> None:
        """Read the notes now, if a name is not known that was not looked for yet."""
        if self.awaits(names):
            self.read()

    def look(self) -> None:
        """Read the notes again, if there are jobs for them."""
        if self._in_use:
            self.read()

    def read(self) -> None:
        """Read what the stores have, and let the jobs go on that waited for it."""
        self.wanted = False
        found: dict[str, str] = {}
        for alias, store in self._engine.stores.items():
            if alias in self._engine.outages:
                return
            try:
                found.update(_texts_of(store))
            except BaseException as error:
                if not survivable(error):
                    raise
                self._engine.logger.warning('Job store "%s" could not tell its calendars: %s', alias, described(error))
                return
        self._take_over(found)
        self._release()

    def _take_over(self, found: dict[str, str]) -> None:
        for name in self._texts.keys() - found.keys():
            forget_calendar(name)
            del self._texts[name]
        for name, text in found.items():
            if self._texts.get(name) != text:
                self._texts[name] = text
                self._know(name, text)

    def _know(self, name: str, text: str) -> None:
        try:
            calendar = loads(text)
            if not isinstance(calendar, Calendar):
                raise CodecError(f"expected a calendar, got {shown(calendar)}")
            know_calendar(name, calendar)
        except (CodecError, InvalidArgument) as error:
            self._engine.logger.warning("The calendar %s cannot be read; it is left out: %s", shown(name), error)

    def _release(self) -> None:
        """Let the jobs fire again that were suspended because a calendar was not known and is now."""
        for alias, store in self._engine.stores.items():
            self._engine.release_suspended(alias, store, _has_waited)

    def all(self) -> dict[str, Calendar]:
        """Return the calendars by name, as of now."""
        self._in_use = True
        self.read()
        return known_calendars()


def _has_waited(job: Job, reason: str) -> bool:
    """Tell whether a job was suspended because of a calendar that is known by now."""
    return UnknownCalendar.__name__ in reason and not unknown_names(job.trigger.calendar_names)


def _texts_of(store: BaseJobStore) -> dict[str, str]:
    found: dict[str, str] = {}
    before: str | None = None
    while len(found) < MOST_NOTES:
        notes = store.notes(KIND, before, _PAGE)
        found.update((note.key, note.text) for note in notes)
        if len(notes) < _PAGE:
            break
        before = notes[-1].key
    return found
