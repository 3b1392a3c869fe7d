"""What an operation is, and what it gets when it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

from goscheduler.errors import InvalidArgument, JobLookupError, StoreUnavailable, shown
from goscheduler.ops.access import Forbidden, Principal, Role
from goscheduler.ops.schema import TEXT, Param, Text, groups_of, params_of
from goscheduler.times import convert_to_datetime, parse_duration, to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.ops.source import Source
    from goscheduler.schedulers.base import BaseScheduler

Id = Annotated[str, TEXT]
Store = Annotated[str | None, Text("The alias of a job store; all if left out.")]


@dataclass(frozen=True)
class Operation:
    """One thing that people and programs can ask for or do."""

    name: str
    role: Role
    acts: bool
    """Whether it changes something: then it is audited, takes a reason, and can be told apart from its repetition."""
    whole: bool
    """Whether it is about all jobs, so that nobody may call it whose rights end at some stores or tags."""
    kept: bool
    """Whether its answer serves all who ask with the same rights, for a moment: a list or figures, not one thing."""
    params: tuple[Param, ...]
    groups: Mapping[str, type]
    """Name of a parameter of the function → what it is made of: some of the operation's parameters."""
    function: Callable[..., Any]
    summary: str

    def __call__(self, call: Call, given: Mapping[str, Any]) -> Any:
        """Do it with checked arguments."""
        arguments = dict(given)
        for name, group in self.groups.items():
            wanted = [field.name for field in fields(group) if field.name in arguments]
            arguments[name] = group(**{field: arguments.pop(field) for field in wanted})
        return self.function(call, **arguments)


#: What every operation that acts takes beside its own parameters.
ACTING_PARAMS = (
    Param("reason", Text("Why; it stands in the audit."), required=False, default=""),
    Param(
        "request_id", Text("Names this request: if it is repeated within a day, nothing is done again.", 200),
        required=False, default=None,
    ),
)  # fmt: skip


def operation(
    role: Role, *, acts: bool = False, whole: bool = False, kept: bool = False
) -> Callable[[Callable[..., Any]], Operation]:
    """Make an operation of a function whose first parameter is a :class:`Call`."""

    def make(function: Callable[..., Any]) -> Operation:
        params = params_of(function) + (ACTING_PARAMS if acts else ())
        summary = (function.__doc__ or "").strip().partition("\n")[0]
        return Operation(function.__name__, role, acts, whole, kept, params, groups_of(function), function, summary)

    return make


@dataclass
class Call:
    """One call of an operation: who asks, by what way, and of whom."""

    source: Source
    principal: Principal
    via: str
    reason: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    """What the audit is to have of the outcome, beside the result."""

    @property
    def scheduler(self) -> BaseScheduler:
        """The scheduler or observer that is asked."""
        return self.source.scheduler

    @property
    def by(self) -> str:
        """Who acts, as a store keeps it."""
        return self.principal.name

    @property
    def now(self) -> datetime:
        """The moment, by the clock of the source."""
        return self.scheduler.clock.now()

    def moment(self, field: str, value: str | datetime | None, *, ahead: bool = False) -> datetime | None:
        """Return the moment that is meant: a date and time, or a length of time ago, or from now if it lies ahead."""
        if isinstance(value, str):
            try:
                length = parse_duration(value)
            except InvalidArgument:
                return convert_to_datetime(value, self.scheduler.timezone, field)
            return self.now + length if ahead else self.now - length
        return value

    def new_id(self) -> str:
        """Return an id that sorts behind those of before."""
        return f"{to_micros(self.now):016x}-{uuid4().hex[:8]}"

    def is_outage(self, error: BaseException) -> bool:
        """Tell whether an error says that a store does not answer."""
        return isinstance(error, StoreUnavailable) or any(
            store.is_outage(error) for store in self.source.stores.values()
        )

    def job(self, job_id: str, jobstore: str | None = None) -> Job:
        """Return a job that is in scope.

        :raises JobLookupError: if there is none, or it is out of scope
        """
        job = self.scheduler.get_job(job_id, jobstore)
        if job is None or not self.principal.sees(job):
            raise JobLookupError(job_id)
        return job

    def sees_job(self, job_id: str, tags: tuple[str, ...] | None = None, jobstore: str | None = None) -> bool:
        """Tell whether what belongs to a job, which may be gone, is in scope; ``tags`` are those that are known."""
        if self.principal.sees_all:
            return True
        if tags is not None and self.principal.stores is None:
            return self.principal.sees_tags(tags)
        job = self.scheduler.get_job(job_id, jobstore)
        return job is not None and self.principal.sees(job)

    def stores(self, jobstore: str | None = None) -> Iterator[tuple[str, BaseJobStore]]:
        """Yield the stores that are asked for and in scope, by alias."""
        self.check_store(jobstore)
        for alias, store in self.source.stores.items():
            if jobstore in (None, alias) and self.principal.sees_store(alias):
                yield alias, store

    @property
    def own_tag(self) -> str | None:
        """The tag that the principal's rights are about, if it is one."""
        tags = self.principal.tags
        return next(iter(tags)) if tags is not None and len(tags) == 1 else None

    def only_store(self, jobstore: str | None) -> str | None:
        """Return the store that is to be asked; None for all.

        :raises Forbidden: if some are out of scope, and which is not said
        """
        return _narrowed("jobstore", jobstore, self.principal.stores)

    def check_store(self, jobstore: str | None) -> None:
        """Raise if there is no such store, or it is out of scope.

        :raises InvalidArgument: naming those that there are
        """
        known = [alias for alias in self.source.stores if self.principal.sees_store(alias)]
        if jobstore is not None and jobstore not in known:
            raise InvalidArgument(
                f"jobstore: there is no job store {shown(jobstore)}; there are: {', '.join(sorted(known)) or 'none'}",
                field="jobstore", value=jobstore,
            )  # fmt: skip

    def scoped(self, tag: str | None, jobstore: str | None) -> dict[str, str | None]:
        """Return the filters ``tag`` and ``jobstore``, narrowed to the scope of the principal.

        :raises Forbidden: for another tag than one in scope, or if one of several is to be named
        """
        self.check_store(jobstore)
        return {
            "tag": _narrowed("tag", tag, self.principal.tags),
            "jobstore": _narrowed("jobstore", jobstore, self.principal.stores),
        }


def _narrowed(name: str, value: str | None, scope: frozenset[str] | None) -> str | None:
    if scope is None or value in scope:
        return value
    if value is None and len(scope) == 1:
        return next(iter(scope))
    raise Forbidden(f"{name} must be one of {', '.join(sorted(scope))}")


def facts_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call as the audit keeps them."""
    return {name: value for name, value in arguments.items() if value is not None and name != "reason"}
