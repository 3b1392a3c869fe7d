"""Dead letters: groups by error, the letters of a group, another attempt or the bin for all of it at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from goscheduler.errors import InvalidArgument
from goscheduler.ops.errors import NotFound
from goscheduler.web.pages.notices import notices_of
from goscheduler.web.pages.rendering import render
from goscheduler.web.pages.routing import get, go, post
from goscheduler.web.site import ask, safe_path

PAGE_SIZE = 50
#: Filters that say which letters are meant.
FILTERS = ("task", "error_type", "signature", "job_id", "tag", "since")
#: From so many letters on, the word of an act has to be typed.
WORD_FROM = 100
RATES = (("", "all at once"), ("1", "1 a second"), ("10", "10 a second"), ("50", "50 a second"),
         ("0.1", "1 in 10 seconds"))  # fmt: skip
#: In place of a rate: try one letter, and have the others wait until it is known how that went.
ONE_FIRST = "first"


class LetterAct(NamedTuple):
    """Something that is done to dead letters."""

    verb: str
    did: str
    says: str


ACTS = {
    "redrive": LetterAct("Try again", "redriven", "Each run gets one more attempt. If it fails, it is dead again."),
    "discard": LetterAct("Discard", "discarded", "Discarded letters are gone. The history of their runs stays."),
}


def groups_page(request: Request) -> Response:
    """Show the dead letters in groups."""
    wanted = {name: request.query_params.get(name) or None for name in ("job_id", "tag", "since")}
    view = ask(request, "letter_groups", wanted)
    total = sum(group["size"] for group in view["groups"])
    return render(request, "dead.html", view=view, total=total, wanted=wanted, notices=notices_of(request, "/dead"))


def letters_page(request: Request) -> Response:
    """Show the letters of a group, or those that fit."""
    wanted = _wanted(request.query_params)
    before = request.query_params.get("after") or None
    page = ask(request, "find_letters", {**wanted, "limit": PAGE_SIZE, "before": before})
    return render(
        request, "dead_letters.html", page=page, wanted=wanted, notices=notices_of(request, "/dead"),
        title=" · ".join(wanted.values()) or "All dead letters",
    )  # fmt: skip


def act_page(request: Request) -> Response:
    """Show how many letters an act means, and ask how fast and why."""
    query = request.query_params
    name, act = _act_of(query)
    meant = _meant(query)
    counted = ask(request, name, {**meant, "dry_run": True})
    return render(
        request, "sheet_letters.html", name=name, act=act, counted=counted, fields=_fields(meant),
        rates=RATES if "ids" in meant else (*RATES, (ONE_FIRST, "one first, the others if it succeeds")),
        group={} if "ids" in meant else meant,
        word=name if counted["count"] > WORD_FROM else "", back=safe_path(query.get("back"), "/dead"),
    )  # fmt: skip


def act_now(request: Request, form: QueryParams) -> Response:
    """Do it."""
    name, act = _act_of(form)
    if form.get("word_wanted") and form.get("word", "").strip().lower() != name:
        raise InvalidArgument(f"word must be {name!r}, to say that so many letters are meant", field="word")
    more: dict[str, Any] = {"reason": form.get("reason") or None}
    if name == "redrive" and form.get("rate") == ONE_FIRST:
        return _try_one(request, dict(_wanted(form)), more)
    if name == "redrive" and form.get("rate"):
        more["rate"] = _rate(form["rate"])
    view = ask(request, name, {**_meant(form), **more})
    number = view["count"] if "count" in view else len(view["changed"])
    return go(request, safe_path(form.get("back"), "/dead"), did=act.did, n=number)


def _try_one(request: Request, wanted: dict[str, str], more: dict[str, Any]) -> Response:
    """Try the newest of the letters that fit, and show how that goes."""
    newest = ask(request, "find_letters", {**wanted, "limit": 1})["items"]
    if not newest:
        raise NotFound("no dead letter fits any more")
    run_id = newest[0]["run_id"]
    ask(request, "redrive", {"ids": [run_id], **more})
    return go(request, "/dead/first", run=run_id, job=newest[0]["job_id"], did="redriven", n=1, **wanted)


def first_page(request: Request) -> Response:
    """Show how the one letter went that was tried first, and offer to try the others if it went well."""
    query = request.query_params
    wanted = _wanted(query)
    run = ask(request, "run", {"id": query.get("run", ""), "job_id": query.get("job") or None})
    others = ask(request, "redrive", {**wanted, "dry_run": True}) if wanted else {"count": 0, "complete": True}
    return render(
        request, "dead_first.html", run=run, wanted=wanted, others=others, state=_state_of(run),
        notices=notices_of(request, "/dead"),
    )  # fmt: skip


def _state_of(run: Mapping[str, Any]) -> str:
    """Return where a run stands that was tried again: how it ended, unless it goes on."""
    if run["live"]:
        return str(run["live"]["state"])
    return "dead" if run["dead"] else str(run["attempts"][0]["outcome"])


def _rate(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidArgument(f"rate must be a number, got {text[:50]!r}", field="rate") from None


def _act_of(given: QueryParams) -> tuple[str, LetterAct]:
    name = given.get("act", "")
    if name not in ACTS:
        raise InvalidArgument(f"act must be one of {', '.join(ACTS)}, got {name[:50]!r}", field="act")
    return name, ACTS[name]


def _meant(given: QueryParams) -> dict[str, Any]:
    ids = given.getlist("id")
    return {"ids": ids} if ids else dict(_wanted(given))


def _wanted(given: QueryParams) -> dict[str, str]:
    return {name: given[name] for name in FILTERS if given.get(name)}


def _fields(meant: dict[str, Any]) -> list[tuple[str, str]]:
    if "ids" in meant:
        return [("id", each) for each in meant["ids"]]
    return list(meant.items())


ROUTES = [
    get("/dead", groups_page), get("/dead/letters", letters_page), get("/dead/first", first_page),
    get("/act/letters", act_page),
    post("/act/letters", act_now),
]  # fmt: skip
