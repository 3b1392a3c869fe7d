"""Whatever somebody else writes into a store: it runs nothing, it is kept, and it holds nobody up."""

from __future__ import annotations

import base64
import json
import os
import pickle
import sys
from datetime import timedelta

import pytest
from record_places import STORES, Place

from goscheduler.codec import encode
from goscheduler.runs.limits import Limit
from goscheduler.serializers import JSONSerializer, PickleSerializer
from goscheduler.testing import ManualClock, ManualScheduler
from goscheduler.testing.contract import NOW, nothing
from goscheduler.triggers import _steps
from goscheduler.triggers.combining import AndTrigger, OrTrigger
from goscheduler.triggers.interval import IntervalTrigger

SECRET = "a secret of more than thirty-two characters"
DEFINITION = {
    "schema": 1, "func": "goscheduler.testing.contract:nothing", "name": "n", "args": [], "kwargs": {},
    "trigger": {"@type": "object", "name": "interval", "value": {}}, "options": {},
}  # fmt: skip

exploded: list[str] = []


class Explosive:
    def __reduce__(self):
        return exploded.append, ("it was unpickled",)


CALENDAR_OF_ZEROS = {"@type": "object", "name": "calendarinterval", "value": {
    "version": 1, "interval": [0, 0, 0, 0], "time": [0, 0, 0], "start_date": {"@type": "date", "value": "2020-01-01"},
    "end_date": None, "timezone": {"@type": "zone", "value": "Z"}, "jitter": None,
}}  # fmt: skip
#: Numbers that have one hash: to tell 10,000 of them apart takes 50 million comparisons.
ALIKE = {"@type": "set", "value": [
    {"@type": "int", "value": format(5 + number * sys.hash_info.modulus, "x")} for number in range(10_000)
]}  # fmt: skip


def winding(*seconds):
    """Return a trigger that takes as many steps as the product of ``seconds`` to find its next fire time."""
    def wrapped(number):
        return OrTrigger([IntervalTrigger(seconds=number, start_date=NOW + timedelta(seconds=number // 2))])

    found = wrapped(seconds[0])
    for number in seconds[1:]:
        found = AndTrigger([found, wrapped(number)])
    return encode(found)


PICKLE = base64.b64encode(pickle.dumps(Explosive())).decode("ascii")
UNREGISTERED = {"@type": "object", "name": "os.system", "value": "true"}
#: ``GOSCHEDULER_FULL=1`` nests ten million times where the server takes as much.
NESTED = 10_000_000 if os.environ.get("GOSCHEDULER_FULL") else 900_000

#: Serializer of the store → what stands in the place of a job's definition.
HOSTILE = {
    "plain": (None, {
        "pickle": PICKLE, "unregistered class": json.dumps({**DEFINITION, "trigger": UNREGISTERED}),
        "nesting": "[" * NESTED, "zeros": json.dumps({**DEFINITION, "trigger": CALENDAR_OF_ZEROS}),
        "alike": json.dumps({**DEFINITION, "args": [ALIKE], "trigger": encode(IntervalTrigger(minutes=1))}),
    }),
    "signed JSON": (JSONSerializer(secret=SECRET), {"not signed": json.dumps(DEFINITION)}),
    "signed pickle": (PickleSerializer(secret=SECRET), {"not signed": PICKLE}),
}  # fmt: skip


@pytest.fixture(params=list(STORES))
def kind(request):
    return request.param


@pytest.fixture
def open_scheduler(kind, url_of):
    """Return a started scheduler on an empty store; it has jobs whose definitions can be overwritten."""
    opened = []
    url = url_of(kind)

    def open_it(*bad, serializer=None, **options):
        store = STORES[kind].from_url(url, server_time=False, serializer=serializer)
        scheduler = ManualScheduler(clock=ManualClock(NOW), jobstores={"default": store}, **options)
        opened.append(scheduler)
        scheduler.register("fine", nothing)
        scheduler.start()
        for name in (*bad, "good"):
            scheduler.add_job("fine", "interval", minutes=1, id=name)
        return scheduler, Place(kind, store)

    yield open_it
    for scheduler in opened:
        scheduler.shutdown()


@pytest.mark.parametrize("what", list(HOSTILE))
def test_hostile_records_run_nothing_are_kept_and_suspended_and_the_others_go_on(open_scheduler, kind, what):
    serializer, definitions = HOSTILE[what]
    if kind in ("etcd", "zookeeper"):  # which take about a megabyte
        definitions = {name: definition[:900_000] for name, definition in definitions.items()}
    scheduler, place = open_scheduler(*definitions, serializer=serializer)
    for name, definition in definitions.items():
        place.overwrite(name, definition)
    scheduler.advance(60)
    assert [record.job_id for record in scheduler.runs()] == ["good"]
    for name, definition in definitions.items():
        assert "cannot be read" in scheduler.get_job(name).suspended
        assert place.read(name) == definition
        scheduler.remove_job(name)
    assert exploded == []
    assert [job.id for job in scheduler.get_jobs()] == ["good"]


def test_a_trigger_that_searches_for_too_long_is_suspended_and_the_others_go_on(open_scheduler, monkeypatch):
    # Fewer than usual: a server that waits for seconds in the middle of a transaction ends it.
    monkeypatch.setattr(_steps, "MOST_STEPS", 5_000)
    scheduler, place = open_scheduler("slow")
    definition = json.loads(place.read("slow"))
    place.overwrite("slow", json.dumps({**definition, "trigger": winding(97, 101, 103, 107, 109)}))
    scheduler.advance(60)
    assert [record.job_id for record in scheduler.runs()] == ["good"]
    assert "steps" in scheduler.get_job("slow").suspended


def test_a_function_that_is_not_registered_is_not_called_where_only_registered_ones_may(open_scheduler, tmp_path):
    scheduler, place = open_scheduler("bad", registered_only=True)
    mark = tmp_path / "it was called"
    definition = json.loads(place.read("bad"))
    place.overwrite("bad", json.dumps({**definition, "func": "os:system", "args": [f"touch '{mark}'"]}))
    scheduler.advance(60)
    assert [record.job_id for record in scheduler.runs()] == ["good"]
    assert "registered" in scheduler.get_job("bad").suspended
    assert not mark.exists()


def test_a_record_that_was_signed_for_another_store_is_suspended_and_the_others_go_on(open_scheduler):
    scheduler, place = open_scheduler("bad", serializer=JSONSerializer(SECRET))
    definition = place.read("bad").split(":", 3)[3]
    place.overwrite("bad", JSONSerializer(SECRET, store="another").signed(definition, "job bad"))
    scheduler.advance(60)
    assert [record.job_id for record in scheduler.runs()] == ["good"]
    assert "for another store" in scheduler.get_job("bad").suspended


def test_a_priority_that_is_not_the_signed_one_suspends_the_job_and_the_others_go_on(open_scheduler):
    scheduler, place = open_scheduler("bad", serializer=JSONSerializer(SECRET))
    options = {"priority": 2, "limits": [Limit("few", concurrency=2)]}
    scheduler.add_job("fine", "interval", minutes=1, id="special", **options)
    place.reprioritize("bad", 9)
    reason = "its executor, priority or limits are not those that were signed"
    assert scheduler.get_job("bad").suspended == reason
    scheduler.advance(60)
    assert {record.job_id for record in scheduler.runs()} == {"good", "special"}
    assert scheduler.get_job("bad").suspended == reason
    assert scheduler.get_job("special").suspended is None
