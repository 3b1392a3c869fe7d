"""What somebody copies from a page to do the same from a program or a shell."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from goscheduler.web.pages.formats import zone_of_schedule

#: Options of a job that are told where they are not as they usually are.
USUAL = {
    "executor": "default", "coalesce": True, "max_instances": 1, "timeout": None, "misfire_grace_time": None,
    "overlap": "skip", "on_crash": "rerun", "max_crashes": 3, "dead_letter": False,
}  # fmt: skip


def snippets_of(job: Mapping[str, Any], base_url: str) -> list[tuple[str, str]]:
    """Return name and text of each way."""
    return [("Python", python_of(job)), ("Command line", cli_of(job)), ("curl", curl_of(job, base_url))]


def python_of(job: Mapping[str, Any]) -> str:
    """Return how a program adds this job; its trigger is told as the job shows it."""
    given: dict[str, Any] = {"id": job["id"]}
    if job["args"]:
        given["args"] = job["args"]
    if job["kwargs"]:
        given["kwargs"] = job["kwargs"]
    if job["tags"]:
        given["tags"] = list(job["tags"])
    given.update({name: job[name] for name, usual in USUAL.items() if job[name] != usual})
    kind, options = _trigger_of(job)
    more = [f"{name}={value!r}" for name, value in given.items()]
    if job["retry"]:
        more.append(f"retry={job['retry']['attempts']}")
    if job["limits"]:
        more.append(f"limits=[{', '.join(map(_limit, job['limits']))}]")
    lines = [repr(job["task"]), repr(kind), *options, *more]
    return "scheduler.add_job(\n" + "".join(f"    {line},\n" for line in lines) + ")"


def _limit(limit: Mapping[str, Any]) -> str:
    given = [f"{name}={limit[name]!r}" for name in ("concurrency", "rate") if limit[name] is not None]
    return f"Limit({', '.join([repr(limit['name']), *given])})"


def _trigger_of(job: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the kind of a trigger, and its options as Python has them, of what it shows of itself."""
    kind, _, rest = job["trigger"].removesuffix("]").partition("[")
    if kind == "cron":
        zone = zone_of_schedule(job["schedule"])
        return kind, [each for each in (rest, f"timezone={zone!r}" if zone else "") if each]
    if kind == "date" and job["next_run_time"]:
        return kind, [f"run_date={job['next_run_time']!r}"]
    if kind == "interval":
        return kind, [f"seconds={_seconds_of(rest):g}"]
    return kind, [f"# {rest}"] if rest else []


def _seconds_of(text: str) -> float:
    """Return the seconds of a length of time as Python shows it: ``1 day, 0:05:00``."""
    days, _, clock = text.rpartition(", ") if "day" in text else ("0", "", text)
    seconds = 0.0
    for part in clock.split(":"):
        seconds = seconds * 60 + (float(part) if part.replace(".", "").isdigit() else 0)
    return seconds + float(days.split()[0]) * 86_400


def cli_of(job: Mapping[str, Any]) -> str:
    """Return the commands that look at a job and act on it."""
    name = shlex.quote(job["id"])
    lines = [f"goscheduler jobs show {name}", f"goscheduler why {name}", f"goscheduler jobs run {name}",
             f"goscheduler jobs pause {name} --reason '…'"]  # fmt: skip
    return "\n".join(f"{line} --store \"$STORE\"" for line in lines)


def curl_of(job: Mapping[str, Any], base_url: str) -> str:
    """Return how a program asks over HTTP."""
    address = shlex.quote(f"{base_url.rstrip('/')}/v1/jobs/{quote(job['id'], safe='')}")
    return f'curl -H "Authorization: Bearer $TOKEN" {address}'
