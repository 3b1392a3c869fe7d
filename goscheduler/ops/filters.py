"""What several operations take in common: which jobs, and which dead letters, are meant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from goscheduler.ops.access import Forbidden
from goscheduler.ops.operation import Call, Store
from goscheduler.ops.schema import MOMENT, Choice, Text
from goscheduler.ops.values import fields_of
from goscheduler.runs.filters import Filters, history_query
from goscheduler.runs.model import OutcomeKind
from goscheduler.runs.queries import STORED_STATES, signature

if TYPE_CHECKING:
    from goscheduler.runs.model import DeadLetter
    from goscheduler.runs.records import HistoryQuery

STATES = tuple(sorted(state.value for state in STORED_STATES))
OUTCOMES = tuple(kind.value for kind in OutcomeKind)
#: So many dead letters are read at a time.
PORTION = 500

Tag = Annotated[str | None, Text("Only jobs with this tag.")]
Executor = Annotated[str | None, Text("Only jobs of this executor.")]
Task = Annotated[str | None, Text("Only jobs of this task, or of this function.")]
JobId = Annotated[str | None, Text("Only of this job.")]
Since = Annotated[str | None, MOMENT]
ErrorType = Annotated[str | None, Text('Only with this error, such as "ValueError" or "module.Name".')]


@dataclass(frozen=True)
class JobFilters:
    """Which jobs are meant: those that fit all of it."""

    jobstore: Store = None
    tag: Tag = None
    state: Annotated[str | None, Choice("Only jobs in this state.", STATES)] = None
    executor: Executor = None
    task: Task = None
    text: Annotated[str | None, Text("Part of id, name, task or function, in any case of letters.")] = None
    due_before: Annotated[str | None, MOMENT] = None
    last_outcome: Annotated[str | None, Choice("How the last attempt ended.", OUTCOMES)] = None
    pause_id: Annotated[str | None, Text("Only jobs that this act has paused.")] = None

    def given(self, call: Call) -> dict[str, Any]:
        """Return the filters that are given, as a scheduler takes them, narrowed to the scope of the principal."""
        filters = {
            **fields_of(self), "due_before": call.moment("due_before", self.due_before, ahead=True),
            **call.scoped(self.tag, self.jobstore),
        }  # fmt: skip
        return {name: value for name, value in filters.items() if value is not None}


@dataclass(frozen=True)
class LetterFilters:
    """Which dead letters are meant: those that fit all of it."""

    job_id: JobId = None
    since: Since = None
    until: Since = None
    tag: Tag = None
    error_type: ErrorType = None
    task: Annotated[str | None, Text("Only of this task.")] = None
    signature: Annotated[str | None, Text("Only with messages that have this in common, as a group says.", 200)] = None

    @property
    def are_given(self) -> bool:
        """Whether there is any."""
        return any(value is not None for value in fields_of(self).values())

    def query(self, call: Call, before: str | None = None) -> HistoryQuery:
        """Return what is asked of a store, narrowed to the scope of the principal where that is one tag."""
        tag = call.own_tag if self.tag is None else self.tag
        given = Filters(self.job_id, None, self.since, self.until, tag, self.error_type, before, PORTION)
        return history_query(given, call.now, call.scheduler.timezone)

    def matches(self, letter: DeadLetter) -> bool:
        """Tell whether a letter that the query has found is meant."""
        record = letter.record
        return (self.task is None or record.task == self.task) and (
            self.signature is None or signature(record.error_message or record.reason) == self.signature
        )

    def refuse_in_groups(self, call: Call) -> None:
        """Raise if groups could not be cut to the scope of the principal.

        :raises Forbidden: if one of several tags is to be named, or the tag is another one
        """
        tags = call.principal.tags
        if tags is not None and (call.own_tag if self.tag is None else self.tag) not in tags:
            raise Forbidden(f"tag must be one of {', '.join(sorted(tags))}")
