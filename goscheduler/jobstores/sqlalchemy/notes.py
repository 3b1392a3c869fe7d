"""Notes in the SQL store: small texts by kind and key."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from goscheduler.jobstores.reading import check_note
from goscheduler.jobstores.sqlalchemy.jobs import StoredJobs
from goscheduler.jobstores.sqlalchemy.locking import StoreContext
from goscheduler.jobstores.sqlalchemy.rows import json_text, read_json_text
from goscheduler.runs.queries import ANY_TEXT, Note


class StoredNotes(StoredJobs):
    """The part of the SQL store that keeps notes."""

    def put_note(self, note: Note, expected: str | None = ANY_TEXT) -> bool:
        check_note(note)
        if expected is None:
            return self._add_note(note)
        while not self._change_note(note, expected):
            if expected != ANY_TEXT:
                return False
            if self._add_note(note):
                break
        return True

    def _add_note(self, note: Note) -> bool:
        """Add a note; false if there is one."""
        row = {"kind": note.kind, "name": note.key, "note": json_text(note.text)}
        try:
            self._database.write(lambda context: context.connection.execute(insert(self._tables.notes), row))
        except IntegrityError:
            return False
        return True

    def _change_note(self, note: Note, expected: str) -> bool:
        """Change a note; false if there is none, or none with the expected text."""
        change = update(self._tables.notes).where(*self._named(note.kind, note.key)).values(note=json_text(note.text))
        if expected != ANY_TEXT:
            change = change.where(self._tables.notes.c.note == json_text(expected))
        return self._database.write(lambda context: context.connection.execute(change).rowcount > 0)

    def remove_note(self, kind: str, key: str) -> None:
        statement = delete(self._tables.notes).where(*self._named(kind, key))
        self._database.write(lambda context: context.connection.execute(statement))

    def read_note(self, kind: str, key: str) -> str | None:
        with self._database.reading() as connection:
            query = select(self._tables.notes.c.note).where(*self._named(kind, key))
            return read_json_text(connection.execute(query).scalar())

    def notes(self, kind: str, before: str | None = None, limit: int = 100) -> list[Note]:
        notes = self._tables.notes
        query = select(notes.c.name, notes.c.note).where(notes.c.kind == kind).order_by(notes.c.name.desc())
        if before is not None:
            query = query.where(notes.c.name < before)
        with self._database.reading() as connection:
            rows = connection.execute(query.limit(limit)).all()
        return [Note(kind, row.name, read_json_text(row.note) or "") for row in rows]

    def prune_notes(self, kind: str, before: str, limit: int) -> int:
        notes = self._tables.notes
        oldest = select(notes.c.name).where(notes.c.kind == kind, notes.c.name < before)
        query = self._locking(oldest.order_by(notes.c.name).limit(limit))

        def prune(context: StoreContext) -> int:
            names = list(context.connection.execute(query).scalars())
            return context.dialect.delete_rows(context.connection, notes.c.name, names, notes.c.kind == kind)

        return self._database.write(prune)

    def _named(self, kind: str, key: str) -> tuple[Any, ...]:
        notes = self._tables.notes
        return notes.c.kind == kind, notes.c.name == key
