"""The options that several commands share, alone and in groups."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer

App = Annotated[
    str | None,
    typer.Option("--app", "-a", metavar="MODULE:SCHEDULER", help="The scheduler to look into, or GOSCHEDULER_APP."),
]
Store = Annotated[
    list[str] | None,
    typer.Option(
        "--store", "-s", metavar="URL|ALIAS",
        help="The URL of a job store to look into, or GOSCHEDULER_STORE; alias=URL for several. An alias: only that.",
    ),
]  # fmt: skip
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Show it anew every two seconds, until Ctrl-C.")]

Job = Annotated[str | None, typer.Option("--job", metavar="JOB_ID", help="Only of this job.")]
TagOfRuns = Annotated[str | None, typer.Option("--tag", help="Only of jobs with this tag.")]
Since = Annotated[str | None, typer.Option("--since", metavar="TIME", help="Ended then or later; 2h is two hours ago.")]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Ended before; 2h is two hours ago.")]
ErrorType = Annotated[str | None, typer.Option("--error-type", help="Only with this error, such as ValueError.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=100_000, help="How many to show at most.")]
Before = Annotated[
    str | None, typer.Option("--before", metavar="CURSOR", help="Go on where the page before this one has ended.")
]
Reason = Annotated[str | None, typer.Option("--reason", help="Why; it stands in the audit.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
RunId = Annotated[str, typer.Argument(metavar="RUN_ID", help="The id of a run.")]
JobId = Annotated[str, typer.Argument(metavar="JOB_ID", help="The id of a job.")]


class Where(NamedTuple):
    """What is looked into, and how it is told."""

    app: App = None
    store: Store = None
    as_json: AsJson = False
    debug: Debug = False


class JobFilters(NamedTuple):
    """Which jobs are meant."""

    tag: Annotated[str | None, typer.Option(help="Only jobs with this tag.")] = None
    state: Annotated[str | None, typer.Option(help="Only jobs in this state, such as paused.")] = None
    executor: Annotated[str | None, typer.Option(help="Only jobs of this executor.")] = None
    task: Annotated[str | None, typer.Option(help="Only jobs of this task or function.")] = None
    text: Annotated[str | None, typer.Option(help="Part of id, name, task or function.")] = None
    due_before: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only jobs that are due before; 2h is in two hours.")
    ] = None
    last_outcome: Annotated[str | None, typer.Option(help="How the last run ended, such as failed.")] = None
    pause_id: Annotated[str | None, typer.Option(help="Only jobs that this act has paused.")] = None

    def given(self) -> dict[str, Any]:
        """Return those that were given, by name."""
        return {name: value for name, value in self._asdict().items() if value is not None}


class LetterFilters(NamedTuple):
    """Which dead letters are meant."""

    job: Job = None
    since: Since = None
    until: Until = None
    tag: TagOfRuns = None
    error_type: ErrorType = None
    task: Annotated[str | None, typer.Option(help="Only of this task.")] = None
    signature: Annotated[
        str | None, typer.Option(help="Only with messages that have this in common, as dead groups shows it.")
    ] = None

    def given(self) -> dict[str, Any]:
        """Return those that were given, under the names that operations have for them."""
        named = {"job_id" if name == "job" else name: value for name, value in self._asdict().items()}
        return {name: value for name, value in named.items() if value is not None}


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that has, for each parameter that is a named tuple, the options in it."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if _is_group(hint)}

    def call(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field: given.pop(field) for field in group._fields})
        command(**given)

    parameters = list(_parameters(command, hints, groups))
    call.__name__, call.__doc__ = command.__name__, command.__doc__
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _is_group(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")


def _parameters(
    command: Callable[..., None], hints: dict[str, Any], groups: dict[str, Any]
) -> Iterator[inspect.Parameter]:
    keyword = inspect.Parameter.KEYWORD_ONLY
    for parameter in inspect.signature(command).parameters.values():
        group = groups.get(parameter.name)
        if group is None:
            yield parameter.replace(annotation=hints[parameter.name], kind=keyword)
            continue
        of_group = get_type_hints(group, include_extras=True)
        for field in group._fields:
            default = group._field_defaults.get(field, inspect.Parameter.empty)
            yield inspect.Parameter(field, keyword, default=default, annotation=of_group[field])
