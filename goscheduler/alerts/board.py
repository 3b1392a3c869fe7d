"""Where the states of alerts stand: notes of a job store, each changed by compare-and-set.

==================  ============================  ===============================================================
kind of the note    key                           text
==================  ============================  ===============================================================
``alert``           names alert, rule and target  the state, with the notices that have to be sent
``alert-silence``   names what is silenced        until when, who and why
``alert-turn``      names a set of alerts         when they were evaluated last: others need not do the same at once
``alert-memory``    ``processes``                 the processes that were alive then
==================  ============================  ===============================================================
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from goscheduler.alerts.model import Phase, State, read_state, state_id
from goscheduler.runs.queries import ANY_TEXT, Note

ALERT, SILENCE, TURN, MEMORY = "alert", "alert-silence", "alert-turn", "alert-memory"
PROCESSES = "processes"
#: Notes are read so many at a time.
PAGE = 200
#: How often a change is tried again while others change the same state.
TRIES = 50
#: A state that is ok is forgotten after a day.
FORGOTTEN_AFTER = 86_400 * 1_000_000


class NotePlace(Protocol):
    """What keeps notes: every job store does."""

    def put_note(self, note: Note, expected: str | None = ANY_TEXT) -> bool: ...

    def read_note(self, kind: str, key: str) -> str | None: ...

    def notes(self, kind: str, before: str | None = None, limit: int = 100) -> list[Note]: ...

    def remove_note(self, kind: str, key: str) -> None: ...


class Silence(NamedTuple):
    """For how long nothing is told of an alert, or of one target of it."""

    about: str
    """The name of an alert, or the id of a state."""
    until: int
    by: str
    reason: str


class Kept(NamedTuple):
    """A state, and the text of its note: it is changed only if that is still there."""

    state: State
    text: str | None


class Board:
    """The states of alerts in one place."""

    def __init__(self, place: NotePlace) -> None:
        self._place = place

    def states(self) -> dict[str, Kept]:
        """Return id → state, of all that are known. A note that cannot be read is left alone."""
        found: dict[str, Kept] = {}
        before: str | None = None
        while notes := self._place.notes(ALERT, before, PAGE):
            for note in notes:
                state = read_state(note.text)
                if state is not None:
                    found[note.key] = Kept(state, note.text)
            before = notes[-1].key
        return found

    def change(self, kept: Kept, state: State) -> bool:
        """Write what follows a state; false if somebody else has changed it meanwhile."""
        return self._place.put_note(Note(ALERT, state.id, state.text), expected=kept.text)

    def edit(self, key: str, edit: Callable[[State], State]) -> State | None:
        """Replace a state by what ``edit``, a pure function, makes of it; None if there is none.

        :raises RuntimeError: if others change it all the time
        """
        for _ in range(TRIES):
            text = self._place.read_note(ALERT, key)
            state = None if text is None else read_state(text)
            if state is None:
                return None
            edited = edit(state)
            if edited is state or self._place.put_note(Note(ALERT, key, edited.text), expected=text):
                return edited
        raise RuntimeError(f"the state {key} of an alert is changed by others all the time")

    def forget_old(self, kept: dict[str, Kept], now: int) -> None:
        """Forget the states that have been ok for long.

        One that begins to be broken in the very moment of this may be told of twice, and never not at all.
        """
        for key, (state, _) in kept.items():
            if state.phase is Phase.OK and not state.owed and now - state.since > FORGOTTEN_AFTER:
                self._place.remove_note(ALERT, key)

    def silences(self, now: int) -> dict[str, Silence]:
        """Return what is silenced → until when, who and why; those that are over are forgotten."""
        found: dict[str, Silence] = {}
        for note in self._place.notes(SILENCE, None, PAGE):
            silence = _read_silence(note.text)
            if silence is not None and silence.until > now:
                found[silence.about] = silence
            elif silence is not None:
                self._place.remove_note(SILENCE, note.key)
        return found

    def silence(self, silence: Silence) -> None:
        """Tell nothing of an alert, or of one of its targets, for a while."""
        self._place.put_note(Note(SILENCE, state_id(silence.about, "", ""), json.dumps(silence)))

    def unsilence(self, about: str) -> None:
        """End a silence."""
        self._place.remove_note(SILENCE, state_id(about, "", ""))

    def take_turn(self, key: str, now: int, interval: int) -> bool:
        """Tell whether it is for the caller to do what one process does once in ``interval``."""
        text = self._place.read_note(TURN, key)
        last = int(text) if text is not None and text.isdecimal() else 0
        if 0 <= now - last < interval:
            return False
        return self._place.put_note(Note(TURN, key, str(now)), expected=text)

    def recall_processes(self) -> str | None:
        """Return what was remembered of processes."""
        return self._place.read_note(MEMORY, PROCESSES)

    def remember_processes(self, text: str) -> None:
        """Remember processes."""
        self._place.put_note(Note(MEMORY, PROCESSES, text))


def _read_silence(text: str) -> Silence | None:
    try:
        about, until, by, reason = json.loads(text)[:4]
        return Silence(str(about), int(until), str(by), str(reason))
    except (ValueError, TypeError):
        return None


def silenced_by(state: State, silences: Mapping[str, Silence]) -> Silence | None:
    """Return what silences a state, or None."""
    return silences.get(state.id) or silences.get(state.alert)
