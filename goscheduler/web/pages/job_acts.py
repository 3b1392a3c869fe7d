"""Acts on jobs: what would be touched, why, and then the act; named jobs at once, all that fit in the background."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from goscheduler.errors import InvalidArgument
from goscheduler.web.pages.notices import notices_of
from goscheduler.web.pages.query import job_search, query_of
from goscheduler.web.pages.rendering import render
from goscheduler.web.pages.routing import get, go, post
from goscheduler.web.site import ask, safe_path

#: From so many jobs on, the word of an act has to be typed.
WORD_FROM = 100
SHOWN = 8
#: Stands between a store and an id in the value of a mark; no id has it.
BEHIND_STORE = "\t"
UNDONE_AT_ONCE = 200


class JobAct(NamedTuple):
    """Something that is done to jobs."""

    operation: str
    verb: str
    did: str
    """The word of the notice."""
    needs_reason: bool
    says: str
    """What it means."""


ACTS = {
    "pause": JobAct("pause_jobs", "Pause", "paused", True, "A paused job is not fired until somebody resumes it."),
    "resume": JobAct("resume_jobs", "Resume", "resumed", False, "Times that passed while paused are not made up for."),
    "run": JobAct("run_jobs", "Run now", "ran", False, "Each job runs once, beside its schedule."),
    "remove": JobAct("remove_jobs", "Remove", "removed", True, "Removed jobs are gone. Their history stays."),
}  # fmt: skip


def act_page(request: Request) -> Response:
    """Show what an act would touch, and ask why."""
    query = request.query_params
    name, act = _act_of(query)
    ids, text = query.getlist("id"), query.get("q", "")
    fields = [("act", name), ("back", safe_path(query.get("back"), "/jobs")), ("store", query.get("store", ""))]
    ticket, count, exact = "", len(ids), True
    examples, mistakes = [each.rpartition(BEHIND_STORE)[2] for each in ids[:SHOWN]], []
    if query.get("all"):
        search = job_search(text)
        mistakes = search.mistakes
        preview = ask(request, "preview_bulk", {"act": name, **search.arguments})
        ticket, count, exact, examples = preview["ticket"], preview["count"], preview["exact"], preview["examples"]
    else:
        fields += [("id", each) for each in ids]
    return render(
        request, "sheet_jobs.html", name=name, act=act, fields=fields, ticket=ticket, total=count, exact=exact,
        examples=examples, mistakes=mistakes, text=text, word=name if count > WORD_FROM else "",
    )  # fmt: skip


def act_now(request: Request, form: QueryParams) -> Response:
    """Do it."""
    name, act = _act_of(form)
    back = safe_path(form.get("back"), "/jobs")
    if form.get("word_wanted") and form.get("word", "").strip().lower() != name:
        raise InvalidArgument(f"word must be {name!r}, to say that so many jobs are meant", field="word")
    reason = form.get("reason", "").strip()
    given = {"reason": reason} if reason else {}
    if form.get("ticket"):
        started = ask(request, "start_bulk", {"ticket": form["ticket"], **given})
        return go(request, "/bulk", id=started["id"])
    views = [
        ask(request, act.operation, {"ids": ids, "jobstore": store, **given})
        for store, ids in by_store(form.getlist("id"), form.get("store") or None).items()
    ]
    gone = name == "remove" and back.startswith("/job") and not back.startswith("/jobs?")
    return go(
        request, "/jobs" if gone else back, did=act.did, n=sum(len(view["changed"]) for view in views),
        failed=sum(len(view["failed"]) for view in views) or None,
        undo=views[0]["undo_id"] if name == "pause" and len(views) == 1 else None,
    )  # fmt: skip


def by_store(marked: Sequence[str], store: str | None) -> dict[str | None, list[str]]:
    """Return store → ids of marked jobs: where there are several stores, a mark names that of its job."""
    found: dict[str | None, list[str]] = {}
    for each in marked:
        alias, _, job_id = each.rpartition(BEHIND_STORE)
        found.setdefault(alias or store, []).append(job_id)
    return found


def undo(request: Request, form: QueryParams) -> Response:
    """Resume exactly the jobs that one pause has paused."""
    pause_id, back = form.get("pause", ""), safe_path(form.get("back"), "/jobs")
    wanted = {"pause_id": pause_id}
    page = ask(request, "find_jobs", {**wanted, "limit": UNDONE_AT_ONCE})
    if page["next"] is not None:
        preview = ask(request, "preview_bulk", {"act": "resume", **wanted})
        started = ask(request, "start_bulk", {"ticket": preview["ticket"], "reason": f"undo of {pause_id}"})
        return go(request, "/bulk", id=started["id"])
    ids = [job["id"] for job in page["items"]]
    view = ask(request, "resume_jobs", {"ids": ids, "reason": f"undo of {pause_id}"}) if ids else {"changed": []}
    return go(request, back, did="resumed", n=len(view["changed"]))


def bulk_page(request: Request) -> Response:
    """Show how far an act on many jobs has come."""
    view = ask(request, "bulk", {"id": request.query_params.get("id", "")})
    done = view["changed"] + view["unchanged"] + view["refused"]
    return render(
        request, "bulk.html", view=view, done=done, act=ACTS[view["act"]], notices=notices_of(request),
        paused=query_of(pause=view["id"]) if view["act"] == "pause" else "",
    )  # fmt: skip


def stop(request: Request, form: QueryParams) -> Response:
    """Stop an act on many jobs."""
    view = ask(request, "stop_bulk", {"id": form.get("id", "")})
    return go(request, "/bulk", id=view["id"])


def _act_of(given: QueryParams) -> tuple[str, JobAct]:
    name = given.get("act", "")
    if name not in ACTS:
        raise InvalidArgument(f"act must be one of {', '.join(ACTS)}, got {name!r}", field="act")
    if not given.get("all") and not given.get("ticket") and not given.getlist("id"):
        raise InvalidArgument("no job is marked: mark some, or choose all that fit the search", field="id")
    return name, ACTS[name]


ROUTES = [
    get("/act/jobs", act_page), post("/act/jobs", act_now), post("/act/undo", undo), get("/bulk", bulk_page),
    post("/act/stop", stop),
]  # fmt: skip
