"""What is told of limits and their holders, of what fires when, of the audit by filters, and of the source itself."""

from __future__ import annotations

from datetime import timedelta

import pytest
from operation_doubles import ADMIN, nothing

from goscheduler import Limit, __version__
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.ops.access import Principal, Role
from goscheduler.plugins import create_plugin


def test_a_limit_tells_its_figures_who_holds_it_and_who_waits(call, scheduler):
    limit, seen = Limit("mail", concurrency=1, rate="60/1m"), []

    def look():
        seen.extend(each for each in call("limits", runs=True) if each["name"] == "mail")

    for number in range(3):
        scheduler.add_job(look, "date", id=f"letter-{number}", limits=[limit])
    scheduler.run_due()
    first, last = seen[0], seen[-1]
    assert (first["concurrency"], first["rates"], first["live"]) == (1, ["60/1m"], 1)
    assert [run["job_id"] for run in first["holders"]] == ["letter-0"]
    assert [run["job_id"] for run in first["queue"]] == ["letter-1", "letter-2"]
    assert [run["job_id"] for run in last["holders"]] == ["letter-2"]


def test_limits_are_told_without_runs_unless_somebody_asks(call):
    assert [each["holders"] for each in call("limits")] == [None] * len(call("limits"))


def test_firings_are_the_jobs_of_a_stretch_of_time_and_how_often_they_fire(call, scheduler):
    scheduler.add_job(nothing, "interval", minutes=10, id="often")
    scheduler.remove_job("nightly")
    start = scheduler.clock.now() + timedelta(hours=2)
    view = call("firings", start=start.isoformat(), minutes=60)
    counted = {row["id"]: row["firings"] for row in view["items"]}
    assert counted == {"often": 6, "plain": 1, "other": 1}
    assert view["items"][0]["id"] == "often"
    assert view["complete"]


def test_what_is_due_fires_now_and_not_in_the_stretch_that_has_passed(call, scheduler):
    scheduler.add_job(nothing, "date", id="late", run_date=scheduler.clock.now() + timedelta(minutes=1))
    scheduler.clock.advance(timedelta(minutes=20))
    now = scheduler.clock.now()
    ids = [row["id"] for row in call("firings", start=(now - timedelta(minutes=5)).isoformat(), minutes=10)["items"]]
    assert "late" in ids
    earlier = call("firings", start=(now - timedelta(minutes=25)).isoformat(), minutes=10)
    assert "late" not in [row["id"] for row in earlier["items"]]


def test_a_forecast_by_whole_hours_begins_with_the_hour_that_goes_on(call, scheduler):
    scheduler.clock.advance(timedelta(minutes=17, seconds=3))
    first = call("forecast", hours=2, bucket=10, whole_hours=True)["buckets"][0]
    assert first["start"][14:19] == "00:00"


def test_the_audit_is_searched_by_who_what_and_how_it_ended(call, operations, scheduler):
    olga = Principal("olga", Role.OPERATOR)
    for number, who in enumerate((ADMIN, olga, olga)):
        scheduler.clock.advance(timedelta(minutes=1))
        operations.call("pause_jobs" if number else "run_jobs", who, {"ids": ["plain"]})
    with pytest.raises(LookupError):
        operations.call("pause_jobs", olga, {"ids": ["not there"]})

    def found(**filters):
        return [(entry["actor"], entry["operation"], entry["status"]) for entry in call("audit", **filters)["items"]]

    done = ("olga", "pause_jobs", "done")
    failed = ("olga", "pause_jobs", "failed")
    assert found(actor="olga", status="done") == [done, done]
    assert found(operation="run_jobs") == [("ada", "run_jobs", "done")]
    assert found(status="failed") == [failed]
    assert found(since="30s") == found(since="30s", actor="olga")
    assert found(until="90s") == [("ada", "run_jobs", "done")]
    page = call("audit", actor="olga", limit=1)
    rest = call("audit", actor="olga", limit=10, before=page["next"])
    assert len(page["items"] + rest["items"]) == 3


def test_whoever_asks_is_told_their_rights_and_the_stores_that_they_see(operations):
    view = operations.call("about", Principal("vic", Role.VIEWER, tags=frozenset({"billing"})))
    assert (view["name"], view["role"], view["only_tags"], view["only_stores"]) == ("vic", "viewer", ["billing"], None)
    assert (view["version"], [store["alias"] for store in view["stores"]]) == (__version__, ["default"])
    assert operations.call("about", Principal("sam", Role.ADMIN, stores=frozenset()))["stores"] == []


def test_a_store_made_of_a_url_shows_it_without_its_password():
    pytest.importorskip("redis")
    store = create_plugin("jobstore", "default", "redis://ann:hush@127.0.0.1:6379/0")
    assert store.address == "redis://ann:***@127.0.0.1:6379/0"
    assert MemoryJobStore().address == ""
