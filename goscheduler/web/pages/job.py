"""The page of a job: why it does not run, when it will, what it did, how it is defined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from goscheduler.errors import JobLookupError
from goscheduler.web.pages.charts import Chart, Column, run_chart
from goscheduler.web.pages.expected import expectations
from goscheduler.web.pages.formats import Times, badge_of, duration
from goscheduler.web.pages.notices import notices_of
from goscheduler.web.pages.rendering import render
from goscheduler.web.pages.routing import get
from goscheduler.web.pages.shell import Shell, shell_of
from goscheduler.web.pages.snippets import snippets_of
from goscheduler.web.site import ask, link

BARS, ATTEMPTS, NEXT_TIMES = 60, 12, 6
#: Above so many, all next times are a page of their own.
MOST_TIMES = 50
#: State → the colour of the panel that says why.
WHY_TONES = {"suspended": "bad", "no executor": "warn", "failed": "bad", "paused": "warn"}


def job_page(request: Request) -> Response:
    """Show a job, or what the history knows of one that is gone."""
    job_id = request.path_params.get("id") or request.query_params.get("id", "")
    store = request.query_params.get("store") or None
    named = {"id": job_id, "jobstore": store}
    runs: list[dict[str, Any]] = ask(request, "job_timeline", {**named, "limit": 200})
    shell = shell_of(request)
    common: dict[str, Any] = {
        "runs": runs[:ATTEMPTS], "chart": history_chart(runs[:BARS], shell), "summary": summary_of(runs[:BARS]),
        "places": places_of(ask(request, "processes")), "notices": notices_of(request, shell.back),
    }  # fmt: skip
    try:
        job = ask(request, "job", named)
    except JobLookupError:
        if not runs:
            raise
        return render(request, "job_gone.html", 404, job_id=job_id, **common)
    times = ask(request, "next_fires", {**named, "count": _times_wanted(request)})
    return render(
        request, "job.html", job=job, next_times=times, more_times=_times_wanted(request) == NEXT_TIMES,
        expected=expectations(runs, job["gaps"]), snippets=snippets_of(job, str(request.base_url)),
        why_tone=WHY_TONES.get(job["state"], ""), limits=_limits(request, job), **common,
    )  # fmt: skip


def _times_wanted(request: Request) -> int:
    return MOST_TIMES if request.query_params.get("times") == "all" else NEXT_TIMES


def _limits(request: Request, job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return how much of the limits of a job is used, for whoever may see that."""
    names = {limit["name"] for limit in job["limits"]}
    if not names or not shell_of(request).principal_sees_all:
        return []
    return [limit for limit in ask(request, "limits", {"jobstore": job["jobstore"]}) if limit["name"] in names]


def history_chart(runs: Sequence[Mapping[str, Any]], shell: Shell) -> Chart:
    """Return one bar for each attempt, as high as it took long."""
    times = shell.times
    oldest_first = list(reversed(runs))
    columns = [
        Column(
            _title_of(run, times), [(_bar_tone(run["outcome"]), float(run["seconds"]))],
            shell.run(run["run_id"], run["job_id"]),
        )
        for run in oldest_first
    ]  # fmt: skip
    ends = [times.short(run["scheduled_at"]) for run in oldest_first[:1] + oldest_first[-1:]] or ["", ""]
    return run_chart(columns, ends[0], ends[-1])


def _bar_tone(outcome: str) -> str:
    return "warn" if outcome == "lost" else badge_of(outcome).tone


def _title_of(run: Mapping[str, Any], times: Times) -> str:
    attempt = f", attempt {run['attempt']}" if run["attempt"] > 1 else ""
    return f"{times.absolute(run['scheduled_at'])}: {run['outcome']} in {duration(run['seconds'])}{attempt}"


def summary_of(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the median length and the share of success of attempts, in words."""
    ended = [run for run in runs if run["outcome"] in ("succeeded", "failed", "timed out", "lost")]
    if not ended:
        return "height is duration"
    good = [run for run in ended if run["outcome"] == "succeeded"]
    if not good:
        return "height is duration · none succeeded"
    usual = duration(median(run["seconds"] for run in good))
    return f"height is duration, median {usual} · {len(good) * 100 // len(ended)} % succeeded"


def places_of(processes: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return owner → host and process id, of the processes that are alive."""
    return {process["owner"]: f"{process['host']}:{process['pid']}" for process in processes}


def job_path(request: Request, job_id: str, store: str | None = None) -> str:
    """Return the path of the page of a job, below the place of the application."""
    return shell_of(request).job(job_id, store).removeprefix(link(request, ""))


ROUTES = [get("/jobs/{id}", job_page), get("/job", job_page)]
