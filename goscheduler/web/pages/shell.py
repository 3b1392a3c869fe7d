"""What stands around every page: navigation with counts, the stores, the time zone, who looks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode
from weakref import WeakKeyDictionary

from starlette.requests import Request

from goscheduler.errors import survivable
from goscheduler.ops.access import Principal, Role
from goscheduler.ops.errors import FORBIDDEN, INVALID, NOT_FOUND, kind_of
from goscheduler.schedulers._kept import KeptAnswers
from goscheduler.times import astimezone
from goscheduler.web.pages.assets import assets
from goscheduler.web.pages.formats import Times, count
from goscheduler.web.site import Site, link, site_of

ZONE_COOKIE, THEME_COOKIE = "gs_zone", "gs_theme"
#: Names in an address that say what was done; see ``notices.py``.
NOTICE_NAMES = frozenset({"did", "n", "undo", "failed"})
THEMES = ("system", "light", "dark")
#: Counts beside the navigation are read again after so many seconds.
COUNTS_KEPT = 5.0
#: Those of so many scopes are kept.
MOST_SCOPES = 256


class Entry(NamedTuple):
    """A line of the navigation."""

    key: str
    label: str
    path: str
    shortcut: str = ""
    """Pressed behind ``g``."""
    role: str = "viewer"
    """Who sees it."""


#: Title of a group → its pages. One that has no route is left out.
NAVIGATION: tuple[tuple[str, tuple[Entry, ...]], ...] = (
    ("", (
        Entry("overview", "Overview", "/", "o"), Entry("jobs", "Jobs", "/jobs", "j"),
        Entry("runs", "Runs", "/runs", "r"), Entry("dead", "Dead letters", "/dead", "d"),
        Entry("limits", "Limits", "/limits", "l"),
    )),
    ("Fronts", (
        Entry("messages", "Messages", "/messages", "m"), Entry("schedules", "Schedules", "/schedules", "s"),
        Entry("documents", "Documents", "/documents"), Entry("locks", "Locks", "/locks"),
    )),
    ("Time", (Entry("calendar", "Calendar", "/calendar", "c"), Entry("playground", "Playground", "/playground"))),
    ("System", (
        Entry("processes", "Processes", "/processes", "p"), Entry("alerts", "Alerts", "/alerts", "a"),
        Entry("audit", "Audit", "/audit", role="admin"), Entry("settings", "Settings", "/settings"),
    )),
)  # fmt: skip


#: Pages that nobody has who may see a part of the jobs.
ABOUT_ALL = frozenset({"limits", "messages", "schedules", "documents", "locks", "alerts", "audit"})


@dataclass(frozen=True)
class Count:
    """A number beside a line of the navigation."""

    text: str
    tone: str = "quiet"


@dataclass(frozen=True)
class Shell:
    """What the templates know beside the values of their page."""

    request: Request
    principal: Principal | None
    times: Times
    zone: str
    theme: str
    kinds: Mapping[str, str]
    """Alias of a store that may be seen → what kind of store it is."""
    counts: Mapping[str, Count]
    navigation: tuple[tuple[str, tuple[Entry, ...]], ...]

    @property
    def stores(self) -> tuple[str, ...]:
        """The aliases of the stores that may be seen."""
        return tuple(self.kinds)

    def link(self, path: str, /, **query: Any) -> str:
        """Return the address of a page; values of None are left out."""
        given = {name: value for name, value in query.items() if value not in (None, "", [])}
        return link(self.request, path) + (f"?{_encoded(given)}" if given else "")

    @property
    def next_theme(self) -> str:
        """The colours that one click chooses."""
        return THEMES[(THEMES.index(self.theme) + 1) % len(THEMES)]

    def asset(self, file: str) -> str:
        """Return the address of an asset."""
        return self.link(f"/static/{assets()[file].name}")

    def job(self, job_id: str, store: str | None = None) -> str:
        """Return the address of the page of a job."""
        return self._of_id("/job", job_id, store)

    def run(self, run_id: str, job_id: str | None = None) -> str:
        """Return the address of the page of a run; with the id of its job it is found sooner."""
        return self._of_id("/run", run_id, None, job=job_id)

    def _of_id(self, path: str, name: str, store: str | None, **query: str | None) -> str:
        """Return an address with an id in it: as a part of the path, unless a server could read that otherwise."""
        several = store if len(self.stores) > 1 else None
        if "/" in name or "\\" in name or name.strip(".") == "" or not name.isprintable():
            return self.link(path, id=name, store=several, **query)
        return self.link(f"{path}s/{quote(name, safe='', errors='surrogatepass')}", store=several, **query)

    def here(self, **changes: Any) -> str:
        """Return the address of this page with other values in its query."""
        return self.link(_path(self.request), **{**self._query, **changes})

    @property
    def back(self) -> str:
        """This page below the place where the application is mounted, for a form that leads back to it."""
        query = _encoded(self._query)
        return _path(self.request) + (f"?{query}" if query else "")

    @property
    def _query(self) -> dict[str, list[str]]:
        """The query of this page, without what it says of the act that led to it."""
        query = self.request.query_params
        return {name: query.getlist(name) for name in query if name not in NOTICE_NAMES}

    def has(self, path: str) -> bool:
        """Tell whether the application has a page or form at a path."""
        return path in _known_paths(self.request)

    @property
    def nonce(self) -> str:
        """What the headers say that scripts of this page have."""
        return str(getattr(self.request.state, "nonce", ""))

    @property
    def principal_sees_all(self) -> bool:
        """Whether nothing is out of the scope of whoever looks."""
        return self.principal is not None and self.principal.sees_all

    def may(self, role: str) -> bool:
        """Tell whether whoever looks has a role, so that a page shows only what can be done."""
        return self.principal is not None and self.principal.role >= Role.of(role)


def shell_of(request: Request, *, ask_stores: bool = True) -> Shell:
    """Return what stands around a page; if no store is to be asked, the counts are those of before."""
    site = site_of(request)
    principal: Principal | None = getattr(request.state, "principal", None)
    times = times_of(request)
    theme = request.cookies.get(THEME_COOKIE, "")
    return Shell(
        request, principal, times, str(times.zone), theme if theme in THEMES else "system",
        {} if principal is None else _kinds(site, principal),
        {} if principal is None else _counts(site, principal, ask_stores), _navigation(request, principal),
    )  # fmt: skip


def times_of(request: Request) -> Times:
    """Return how a page shows moments."""
    return Times(site_of(request).source.scheduler.clock.now(), zone_of(request))


def _kinds(site: Site, principal: Principal) -> dict[str, str]:
    return {
        alias: type(store).__name__.removesuffix("JobStore")
        for alias, store in site.source.stores.items()
        if principal.sees_store(alias)
    }


def zone_of(request: Request) -> tzinfo:
    """Return the time zone of a page: the one that was chosen, or that of the scheduler."""
    own = site_of(request).source.scheduler.timezone
    try:
        return astimezone(request.cookies.get(ZONE_COOKIE) or None) or own
    except Exception:
        return own


def _known_paths(request: Request) -> set[str]:
    return {getattr(route, "path", "") for route in request.app.routes}


def _navigation(request: Request, principal: Principal | None) -> tuple[tuple[str, tuple[Entry, ...]], ...]:
    known = _known_paths(request)
    groups = [
        (title, tuple(entry for entry in entries if entry.path in known and _is_for(entry, principal)))
        for title, entries in NAVIGATION
    ]
    return tuple(group for group in groups if group[1])


def _is_for(entry: Entry, principal: Principal | None) -> bool:
    """Tell whether a page has something to show to somebody."""
    if principal is None:
        return True
    return principal.role >= Role.of(entry.role) and (principal.sees_all or entry.key not in ABOUT_ALL)


def _path(request: Request) -> str:
    path: str = request.scope["path"]
    root: str = request.scope.get("root_path", "").rstrip("/")
    own = path[len(root) :] if root and path.startswith(root) else path
    return quote(own, errors="surrogatepass") or "/"


def _encoded(query: Mapping[str, Any]) -> str:
    """Return a query of an address; any text can stand in it."""
    return urlencode(query, doseq=True, errors="surrogatepass")


def _counts(site: Site, principal: Principal, ask_stores: bool) -> Mapping[str, Count]:
    """Return the counts that somebody may see; those of before, or none, if no store is to be asked."""
    kept = _KEPT.get(site)
    if kept is None:
        clock = site.source.scheduler.clock
        kept = _KEPT.setdefault(site, KeptAnswers(clock, COUNTS_KEPT, MOST_SCOPES))
    scope = principal.stores, principal.tags, principal.role
    return kept.get(scope, lambda: _read(site, principal)) if ask_stores else kept.last(scope) or {}


def _read(site: Site, principal: Principal) -> Mapping[str, Count]:
    counts: dict[str, Count] = {}
    for key, (operation, arguments, counted) in _COUNTED.items():
        try:
            found = counted(site.operations.call(operation, principal, arguments, via="web"))
        except BaseException as error:
            if not survivable(error):
                raise
            if kind_of(error) in NOT_HERE:
                continue
            counts[key] = Count("?", "warn")
            break  # the others would wait for the same store
        if found is not None:
            counts[key] = found
    return counts


def _dead(view: Mapping[str, Any]) -> Count | None:
    size = sum(group["size"] for group in view["groups"])
    return Count(f"{size:,}{'' if view['complete'] else '+'}", "bad") if size else None


def _size(view: list[Any]) -> Count | None:
    return Count(f"{len(view):,}{'+' if len(view) == MOST_LISTED else ''}") if view else None


def _waiting(view: Mapping[str, Any]) -> Count | None:
    return Count(count({"number": view["total"], "exact": view["exact"]})) if view["total"] else None


def _firing(view: list[Mapping[str, Any]]) -> Count | None:
    unknown = sum(not alert["acknowledged_by"] and not alert["silenced_until"] for alert in view)
    return Count(f"{unknown:,}", "bad") if unknown else None


#: Errors that say that there is no such thing here, or that it is not shown to whoever looks.
NOT_HERE = (FORBIDDEN, NOT_FOUND, INVALID)
MOST_LISTED = 1000

#: Line of the navigation → the operation whose answer is counted, its arguments, and how.
_COUNTED: Mapping[str, tuple[str, Mapping[str, Any], Any]] = {
    "jobs": ("count_jobs", {}, lambda view: Count(count(view))),
    "dead": ("letter_groups", {}, _dead),
    "limits": ("limits", {}, _size),
    "messages": ("messages", {"limit": 1, "count": True}, _waiting),
    "locks": ("locks", {"limit": MOST_LISTED}, _size),
    "processes": ("processes", {}, _size),
    "alerts": ("alerts", {"state": "firing"}, _firing),
}


_KEPT: WeakKeyDictionary[Site, KeptAnswers[Mapping[str, Count]]] = WeakKeyDictionary()
