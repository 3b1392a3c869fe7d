"""Calls operations: checks rights and arguments, writes the audit, remembers requests, hides secrets.

Every transport calls :meth:`Operations.call` and nothing else, so that a right is checked here or nowhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from goscheduler._urls import masked_text
from goscheduler.errors import GoSchedulerError, ReadOnly, StoreUnavailable, described, survivable
from goscheduler.ops.access import Principal
from goscheduler.ops.audit import Audit
from goscheduler.ops.errors import Changed, NotFound, kind_of, message_of
from goscheduler.ops.operation import Call, facts_of
from goscheduler.ops.redact import redacted
from goscheduler.ops.registry import OPERATIONS
from goscheduler.ops.schema import read_arguments
from goscheduler.ops.values import plain
from goscheduler.runs.queries import MAX_NOTE, Note
from goscheduler.schedulers._kept import KeptAnswers
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.ops.operation import Operation
    from goscheduler.ops.redact import Redactor
    from goscheduler.ops.source import Source

#: What the kinds of the notes begin with by which a repeated request is known; the number of the day follows.
REQUEST = "request"
DAY = 86_400_000_000
#: So many old requests are forgotten with each new one.
FORGOTTEN_AT_ONCE = 50
#: So many answers are kept at once.
MOST_KEPT = 64
#: A key behind all digests.
AFTER_ALL = "~"


class Operations:
    """The operations on one source."""

    def __init__(self, source: Source, *, redactor: Redactor | None = None, kept_seconds: float = 0.0) -> None:
        self.source = source
        self._redactor = redactor
        self._kept_seconds = kept_seconds
        """For so long a list or figures serve all who ask for them with the same rights."""
        self._kept: KeptAnswers[Any] = KeptAnswers(source.scheduler.clock, kept_seconds, MOST_KEPT)

    def call(
        self, name: str, principal: Principal, arguments: Mapping[str, Any] | None = None, *, via: str = "python",
        anew: bool = False,
    ) -> Any:  # fmt: skip
        """Do what an operation does for somebody, and return its view in plain values, which nobody may change.

        ``anew`` is for whoever has just acted, maybe by another process: no answer of before will do.

        :raises GoSchedulerError: one of those that :func:`~goscheduler.ops.errors.kind_of` names
        """
        operation = OPERATIONS.get(name)
        ask = partial(self._told, name, principal, arguments, via)
        if operation is None or not operation.kept or not self._kept_seconds:
            return ask()
        given = sorted((name, value) for name, value in (arguments or {}).items() if value is not None)
        key = name, replace(principal, name=""), repr(given)
        if anew:
            self._kept.forget(key)
        return self._kept.get(key, ask)

    def forget(self) -> None:
        """Look at the stores anew from now on, whatever is kept: something has changed."""
        self._kept.forget()

    def _told(self, name: str, principal: Principal, arguments: Mapping[str, Any] | None, via: str) -> Any:
        return redacted(plain(self.view(name, principal, arguments, via=via)), principal.see_arguments, self._redactor)

    def view(
        self, name: str, principal: Principal, arguments: Mapping[str, Any] | None = None, *, via: str = "python"
    ) -> Any:
        """Do the same, and return the view itself, with nothing hidden."""
        operation = OPERATIONS.get(name)
        if operation is None:
            raise NotFound(f"there is no operation {name!r}")
        principal.require(operation.role)
        if operation.whole:
            principal.require_all()
        given = read_arguments(operation.params, arguments or {}, f"the operation {name}")
        call = Call(self.source, principal, via, given.get("reason", ""))
        call.check_store(given.get("jobstore"))
        try:
            if operation.acts and not given.get("dry_run"):
                return self._act(operation, call, given)
            asked = {name: value for name, value in given.items() if name not in ("reason", "request_id")}
            return operation(call, asked)
        except Exception as error:
            if isinstance(error, GoSchedulerError) or not call.is_outage(error):
                raise
            raise StoreUnavailable(f"a job store does not answer: {masked_text(described(error))}") from error

    def _act(self, operation: Operation, call: Call, given: dict[str, Any]) -> Any:
        if getattr(self.source.scheduler, "read_only", False):
            raise ReadOnly(f"{operation.name} would change something, and the stores were opened to be looked at only")
        alias = given.get("jobstore") or self.source.home
        store = self.source.stores.get(alias, self.source.stores[self.source.home])
        request = _Request.of(store, call.principal, operation, given, self.source.scheduler.clock.now())
        if request is not None and (answer := request.begin()) is not None:
            return answer
        reason = given.pop("reason", "")
        audit = Audit(store)
        entry = audit.begin(
            call.now, call.principal, call.via, operation.name, {"arguments": facts_of(given), "reason": reason}
        )
        try:
            view = operation(call, given)
        except BaseException as error:
            self.forget()
            if survivable(error):
                audit.end(entry, {"status": "failed", "error": kind_of(error).name, "message": message_of(error)})
                if request is not None:
                    request.forget()
            raise
        self.forget()
        audit.end(entry, {"status": "done", "outcome": {**call.facts, **_summary(view)}})
        if request is not None:
            request.end(plain(view))
        return view


class _Request:
    """A request that has an id: its note holds the answer, from when there is one.

    The notes of each day are of a kind of their own, so that old ones are found and forgotten together.
    """

    def __init__(self, store: BaseJobStore, key: str, day: int, prints: str) -> None:
        self._store, self._key, self._day, self._prints = store, key, day, prints

    @classmethod
    def of(
        cls, store: BaseJobStore, principal: Principal, operation: Operation, given: dict[str, Any], now: datetime
    ) -> _Request | None:
        request_id = given.pop("request_id", None)
        if request_id is None:
            return None
        arguments = json.dumps([operation.name, plain(given)], sort_keys=True)
        return cls(store, _digest(f"{principal.name}\0{request_id}"), to_micros(now) // DAY, _digest(arguments))

    def begin(self) -> Any:
        """Return the answer if the same was asked before, None if it is asked for the first time.

        :raises Changed: if something else was asked by this id, or the answer is not known
        """
        kind = f"{REQUEST}-{self._day}"
        known = self._store.read_note(f"{REQUEST}-{self._day - 1}", self._key)
        if known is None and self._store.put_note(Note(kind, self._key, self._text()), expected=None):
            self._store.prune_notes(f"{REQUEST}-{self._day - 2}", AFTER_ALL, FORGOTTEN_AT_ONCE)
            return None
        told = json.loads(known or self._store.read_note(kind, self._key) or "{}")
        if told.get("prints") != self._prints:
            raise Changed("another request had this request_id: use a new one for each")
        if "answer" not in told:
            raise Changed("this request is being worked on, or its process was lost: look at the audit")
        return told["answer"]

    def end(self, answer: Any) -> None:
        """Keep the answer for repetitions."""
        text = self._text(answer=answer)
        if len(text) > MAX_NOTE:
            text = self._text(answer={"done": True})
        self._store.put_note(Note(f"{REQUEST}-{self._day}", self._key, text))

    def forget(self) -> None:
        """Let the request be made again: it has failed."""
        self._store.remove_note(f"{REQUEST}-{self._day}", self._key)

    def _text(self, **more: Any) -> str:
        return json.dumps({"prints": self._prints, **more}, separators=(",", ":"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _summary(view: Any) -> dict[str, Any]:
    """Return what the audit keeps of a result."""
    summary = plain(view)
    return summary if isinstance(summary, dict) else {"value": summary}
