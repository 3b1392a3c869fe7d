"""Pages of the admin: jobs, runs and dead letters, of whatever store keeps them.

They ask and act by the operations of :mod:`goscheduler.ops`, so what is done here stands in the audit by the name of
the user. ``goscheduler.view_job`` lets a user look, ``goscheduler.change_job`` lets them act.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path

from goscheduler.contrib.django import scheduler
from goscheduler.contrib.django.models import Job
from goscheduler.errors import GoSchedulerError
from goscheduler.ops.access import Principal, Role
from goscheduler.ops.errors import message_of
from goscheduler.ops.service import Operations
from goscheduler.ops.source import Source

#: Rows of a page.
PAGE = 50
NEVER = "–"


class Table(NamedTuple):
    """A list on a page: what it asks, what it shows, and what can be done to its rows."""

    title: str
    operation: str
    columns: Mapping[str, str]
    """Field of a row → its heading; the first one is the id."""
    acts: Mapping[str, str] = MappingProxyType({})
    """Operation → what its button says."""
    filters: Mapping[str, str] = MappingProxyType({})
    """Field of the form, and argument of the operation → its label."""
    cursor: str = ""
    """The argument by which the operation gives what follows."""


JOBS = Table(
    "Jobs", "find_jobs",
    {"id": "Id", "name": "Name", "state": "State", "next_run_time": "Next run", "schedule": "Schedule",
     "last_outcome": "Last outcome", "executor": "Executor"},
    {"run_jobs": "Run now", "pause_jobs": "Pause", "resume_jobs": "Resume"},
    {"text": "Search", "state": "State", "tag": "Tag"}, "after",
)  # fmt: skip
LIVE = Table(
    "Runs that wait or go on", "live_runs",
    {"run_id": "Run", "job_id": "Job", "state": "State", "attempt": "Attempt", "scheduled_at": "Fire time",
     "started_at": "Started", "host": "Host"},
    {"cancel_runs": "Cancel"}, {"job_id": "Job"},
)  # fmt: skip
ENDED = Table(
    "Runs that have ended", "find_runs",
    {"run_id": "Run", "job_id": "Job", "outcome": "Outcome", "attempt": "Attempt", "finished_at": "Ended",
     "seconds": "Seconds", "error": "Error"},
    {}, {"job_id": "Job"}, "before",
)  # fmt: skip
DEAD = Table(
    "Dead letters", "find_letters",
    {"run_id": "Run", "job_id": "Job", "attempt": "Attempt", "finished_at": "Ended", "error": "Error",
     "reason": "Reason"},
    {"redrive": "Redrive", "discard": "Discard"}, {"job_id": "Job"}, "before",
)  # fmt: skip
#: Path below the page of the jobs → title and lists.
PAGES = {"": ("Jobs", (JOBS,)), "runs/": ("Runs", (LIVE, ENDED)), "dead/": ("Dead letters", (DEAD,))}
NAMES = {"": "changelist", "runs/": "runs", "dead/": "dead"}


@admin.register(Job)
class JobAdmin(admin.ModelAdmin):  # type: ignore[misc]
    """Jobs, runs and dead letters in the place of a list of rows."""

    def get_urls(self) -> list[Any]:
        return [
            path(place, _without_transaction(self.admin_site.admin_view(self._view_of(place))), name=_name_of(place))
            for place in PAGES
        ]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def _view_of(self, place: str) -> Any:
        title, tables = PAGES[place]

        def view(request: HttpRequest) -> HttpResponse:
            if not self.has_view_or_change_permission(request):
                raise PermissionDenied
            if request.method == "POST":
                return self._act(request, tables)
            return self._page(request, title, tables)

        return view

    def _act(self, request: HttpRequest, tables: tuple[Table, ...]) -> HttpResponse:
        name, ids = request.POST.get("act", ""), request.POST.getlist("id")
        label = next((table.acts[name] for table in tables if name in table.acts), None)
        if label is None or not self.has_change_permission(request):
            raise PermissionDenied
        if not ids:
            messages.warning(request, f"{label}: choose at least one row.")
            return HttpResponseRedirect(request.get_full_path())
        try:
            done = self._operations().call(name, self._principal(request), {"ids": ids}, via="django-admin")
        except GoSchedulerError as error:
            messages.error(request, f"{label}: {message_of(error)}")
        else:
            _tell(request, label, done)
        return HttpResponseRedirect(request.get_full_path())

    def _page(self, request: HttpRequest, title: str, tables: tuple[Table, ...]) -> HttpResponse:
        problem, shown = "", []
        try:
            shown = [self._list(request, table) for table in tables]
        except (GoSchedulerError, RuntimeError) as error:
            problem = message_of(error)
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "goscheduler/admin/lists.html", {
            **self.admin_site.each_context(request), "title": title, "opts": self.opts, "lists": shown,
            "problem": problem, "may_act": self.has_change_permission(request), "query": request.GET,
            "pages": [(f"admin:goscheduler_job_{NAMES[at]}", PAGES[at][0]) for at in PAGES],
        })  # fmt: skip

    def _list(self, request: HttpRequest, table: Table) -> dict[str, Any]:
        asked = {name: request.GET[name] for name in (*table.filters, table.cursor) if request.GET.get(name)}
        answer = self._operations().call(
            table.operation, self._principal(request), {**asked, "limit": PAGE}, via="django-admin"
        )
        rows, more = (answer, None) if isinstance(answer, list) else (answer["items"], answer["next"])
        following = request.GET.copy()
        following[table.cursor] = more or ""
        first = next(iter(table.columns))
        return {
            "table": table, "columns": table.columns.values(), "following": following.urlencode() if more else "",
            "rows": [(row[first], [_cell(row[name]) for name in table.columns]) for row in rows],
            "filters": [(name, label, request.GET.get(name, "")) for name, label in table.filters.items()],
        }  # fmt: skip

    def _principal(self, request: HttpRequest) -> Principal:
        role = Role.OPERATOR if self.has_change_permission(request) else Role.VIEWER
        return Principal(request.user.get_username(), role)

    def _operations(self) -> Operations:
        return Operations(Source(scheduler))  # type: ignore[arg-type]


def _name_of(place: str) -> str:
    return f"goscheduler_job_{NAMES[place]}"


def _without_transaction(view: Any) -> Any:
    """Return a view that has no transaction around it where ``ATOMIC_REQUESTS`` gives one to all: acts are final."""
    for alias in connections:
        view = transaction.non_atomic_requests(alias)(view)
    return view


def _cell(value: Any) -> Any:
    return NEVER if value is None or value == "" else value


def _tell(request: HttpRequest, label: str, done: dict[str, Any]) -> None:
    """Show what became of an act."""
    if done["changed"]:
        messages.success(request, f"{label}: done for {', '.join(done['changed'])}.")
    if done["unchanged"]:
        messages.info(request, f"{label}: nothing to do for {', '.join(done['unchanged'])}.")
    for row_id, why in done["failed"].items():
        messages.error(request, f"{label}: {row_id}: {why}")
