"""How jobs, runs and the history are written down, signed and believed."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
import pytz
from dateutil import tz as dateutil_tz
from hypothesis import given
from hypothesis import strategies as st

from goscheduler import codec
from goscheduler.codec import CodecError
from goscheduler.errors import InvalidArgument
from goscheduler.jobstores._shared import records as text_of_records
from goscheduler.jobstores._shared.records import (
    Records,
    UnreadableJob,
    history_record,
    history_text,
    read_zone,
    zone_text,
)
from goscheduler.runs.model import Source
from goscheduler.runs.records import record_of
from goscheduler.runs.transitions import asked_for
from goscheduler.serializers import JSONSerializer, PickleSerializer, bound
from goscheduler.testing.contract import NOW, JobMaker, succeeded
from goscheduler.testing.scheduler import ManualScheduler
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.date import DateTrigger

SECRET, OTHER = "a secret of some length", "another one, as long"
SCHEDULER = ManualScheduler()
MAKE_JOB = JobMaker(SCHEDULER)

ARGUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@pytest.fixture
def records():
    return Records(SCHEDULER, "default")


@given(st.lists(ARGUMENTS, max_size=3), st.dictionaries(st.text(), ARGUMENTS, max_size=3))
@pytest.mark.parametrize("serializer", [None, JSONSerializer(SECRET), PickleSerializer(SECRET)])
def test_a_job_is_read_back_equal_whatever_its_arguments(serializer, args, kwargs):
    records = Records(SCHEDULER, "default", serializer)
    job = MAKE_JOB("a", args=args, kwargs=kwargs, tags=("x",), priority=3)
    again = records.job("a", records.job_text(job), job.next_run_time)
    assert again.suspended is None
    assert (again.args, again.kwargs, again.name, again.func) == (job.args, job.kwargs, job.name, job.func)
    assert again.options == job.options
    assert repr(again.trigger) == repr(job.trigger)


def test_what_a_run_changes_in_its_arguments_is_not_seen_by_the_next_one(records):
    text = records.job_text(MAKE_JOB("a", args=([1],), kwargs={"k": {}}))
    first, second = (records.job("a", text, NOW) for _ in range(2))
    first.args[0].append(2)
    first.kwargs["k"]["x"] = 1
    assert (second.args, second.kwargs) == (([1],), {"k": {}})
    plain = records.job_text(MAKE_JOB("a", kwargs={"k": 1}))
    first, second = (records.job("a", plain, NOW) for _ in range(2))
    first.kwargs["other"] = 2
    assert second.kwargs == {"k": 1}


def test_an_argument_that_cannot_be_stored_is_named(records):
    with pytest.raises(InvalidArgument, match=r"job a\[kwargs\].*open"):
        records.job_text(MAKE_JOB("a", kwargs={"open": object()}))


def test_a_job_that_is_too_large_is_refused(records, monkeypatch):
    monkeypatch.setattr(text_of_records.codec, "MAX_SIZE", 500)
    with pytest.raises(InvalidArgument, match="the limit is 500"):
        records.job_text(MAKE_JOB("a", name="n" * 200, args=["x" * 200]))


def test_a_job_that_could_not_be_read_is_not_overwritten(records):
    job = records.job("a", "{", NOW)
    with pytest.raises(UnreadableJob, match="cannot be read"):
        records.job_text(job)


def test_jobs_of_an_older_schema_are_read_and_newer_ones_are_not(records, monkeypatch):
    job_text = records.job_text(MAKE_JOB("a"))
    monkeypatch.setattr(text_of_records, "SCHEMA", 2)
    monkeypatch.setattr(text_of_records, "_known", {})
    assert records.job("a", job_text, NOW).suspended is None
    newer = records.job_text(MAKE_JOB("a"))
    monkeypatch.setattr(text_of_records, "SCHEMA", 1)
    monkeypatch.setattr(text_of_records, "_known", {})
    assert "newer version" in str(records.job("a", newer, NOW).suspended)


@given(st.datetimes(timezones=st.sampled_from([timezone.utc, ZoneInfo("Europe/Berlin"), timezone(timedelta(hours=2))])))
def test_the_text_of_a_date_trigger_is_that_of_the_codec(run_date):
    trigger = DateTrigger(run_date)
    assert text_of_records._trigger_text(trigger, "job a") == codec.dumps(trigger)


def test_the_text_of_a_date_trigger_that_goes_off_at_once_says_so():
    trigger = DateTrigger(None, timezone.utc)
    assert trigger.floating
    assert text_of_records._trigger_text(trigger, "job a") == codec.dumps(trigger)


def older_run_text(job_text):
    return json.dumps([1, "a", job_text, 1_000_000, "Z", 2_000_000, "Z", 3, "retry", 4, 5])


def test_a_run_of_the_first_schema_which_has_its_job_inside_is_read(records):
    run = records.run("run-1", older_run_text(records.job_text(MAKE_JOB("a", args=["x"]))), "me", 7)
    assert run.job.suspended is None
    assert (run.job.id, run.job.args, run.owner, run.fence) == ("a", ("x",), "me", 7)
    assert (run.scheduled_at.timestamp(), run.due_at.timestamp()) == (1, 2)
    assert (run.attempt, run.source, run.coalesced, run.crashes) == (3, Source.RETRY, 4, 5)


def test_the_head_of_a_run_of_the_first_schema_can_be_changed_and_put_before_its_job(records):
    head = text_of_records.changed_head(older_run_text(""), attempt=9)
    run = records.run("run-1", head + records.job_text(MAKE_JOB("a", args=["x"])), "me", 7)
    assert (run.job.args, run.attempt, run.crashes) == (("x",), 9, 5)


def test_a_run_of_a_newer_schema_is_not_read(records):
    text = records.run_text(asked_for(MAKE_JOB("a"), "run-1", NOW))
    newer = text.replace(f"[{text_of_records.RUN_SCHEMA},", f"[{text_of_records.RUN_SCHEMA + 1},", 1)
    with pytest.raises(CodecError, match="newer version"):
        records.run("run-1", newer, None, 0)


def test_a_run_is_read_back_equal(records):
    berlin = ZoneInfo("Europe/Berlin")
    at = datetime(2026, 10, 25, 2, 30, tzinfo=berlin, fold=1)
    run = asked_for(MAKE_JOB("a"), "run-1", at)._replace(attempt=3, source=Source.RETRY, coalesced=2, crashes=1)
    again = records.run("run-1", records.run_text(run), None, 0)
    assert again._replace(job=run.job) == run
    assert again.scheduled_at.utcoffset() == at.utcoffset()


def test_a_record_is_read_back_equal():
    run = asked_for(MAKE_JOB("a", tags=("x", "y")), "run-1", NOW)._replace(owner="o", fence=7)
    record = record_of(succeeded(run).attempt)
    assert history_record(history_text(record)) == record


@pytest.mark.parametrize("text", ["", "{}", "[1]", "[1, 2, 3]", "null", "[" * 100_000])
def test_what_is_no_run_and_no_record_is_a_codec_error(records, text):
    with pytest.raises(CodecError):
        records.run("run-1", text, None, 0)
    with pytest.raises(CodecError):
        history_record(text)


ZONES = [
    timezone.utc,
    ZoneInfo("Asia/Tokyo"),
    timezone(timedelta(hours=-3, minutes=30)),
    pytz.timezone("Asia/Tokyo"),
    dateutil_tz.gettz("Asia/Tokyo"),
    dateutil_tz.tzstr("EST5EDT"),
]


@pytest.mark.parametrize("zone", ZONES, ids=repr)
def test_the_zone_of_a_moment_is_read_back(zone):
    moment = NOW.astimezone(zone)
    assert read_zone(zone_text(moment)).utcoffset(NOW) == moment.utcoffset()


def test_a_trigger_in_a_zone_without_a_name_is_refused_by_its_place(records):
    job = MAKE_JOB("a", trigger=DateTrigger(NOW))
    job.trigger = CronTrigger(hour=1, timezone=dateutil_tz.tzstr("EST5EDT"))
    with pytest.raises(InvalidArgument, match=r"job a\[trigger\]\.timezone cannot be stored: .* without a name"):
        records.job_text(job)


@pytest.mark.parametrize("make", [JSONSerializer, PickleSerializer])
def test_of_several_secrets_the_first_signs_and_all_are_believed(make):
    before, after = make(SECRET), make([OTHER, SECRET])
    text = before.dumps({"k": (1, 2)}, "job a")
    assert after.loads(text, "job a") == {"k": (1, 2)}
    with pytest.raises(CodecError, match="signature"):
        before.loads(after.dumps(1, "job a"), "job a")
    with pytest.raises(CodecError, match="signature"):
        before.loads(text, "job b")
    with pytest.raises(CodecError, match="signature"):
        before.loads(text[:-1], "job a")
    with pytest.raises(CodecError, match="not signed"):
        before.loads(json.dumps(1), "job a")


@pytest.mark.parametrize("make", [JSONSerializer, PickleSerializer])
@pytest.mark.parametrize(("secret", "error"), [("short", InvalidArgument), ([], InvalidArgument), (5, TypeError)])
def test_a_secret_that_protects_nothing_is_refused(make, secret, error):
    with pytest.raises(error):
        make(secret)


@pytest.mark.parametrize("make", [JSONSerializer, PickleSerializer])
def test_a_record_names_its_key_so_that_keys_can_be_replaced(make):
    old, both = make({"2025": SECRET}), make({"2026": OTHER, "2025": SECRET})
    text = old.dumps(1, "job a")
    assert text.startswith("signed2:2025:")
    assert both.dumps(1, "job a").startswith("signed2:2026:")
    assert both.loads(text, "job a") == 1
    with pytest.raises(CodecError, match="has the key '2025', and only these are known here: 2026"):
        make({"2026": OTHER}).loads(text, "job a")
    with pytest.raises(CodecError, match="signature of the record is not right"):
        make({"2025": OTHER}).loads(text, "job a")


@pytest.mark.parametrize("make", [JSONSerializer, PickleSerializer])
def test_a_record_of_another_store_is_not_believed(make):
    text = make(SECRET, store="billing").dumps(1, "job a")
    assert make(SECRET, store="billing").loads(text, "job a") == 1
    for other in (make(SECRET, store="mail"), make(SECRET), make(SECRET, store="billing5:job a")):
        with pytest.raises(CodecError, match="for another job or for another store"):
            other.loads(text, "job a")


@pytest.mark.parametrize("make", [JSONSerializer, PickleSerializer])
def test_a_store_without_a_name_signs_for_the_place_that_it_is_at(make):
    here, there = bound(make(SECRET), "jobs"), bound(make(SECRET), "other")
    assert here.loads(here.dumps(1, "job a"), "job a") == 1
    with pytest.raises(CodecError, match="for another store"):
        there.loads(here.dumps(1, "job a"), "job a")
    named = make(SECRET, store="billing")
    assert bound(named, "jobs") is named


def test_signatures_of_earlier_versions_are_believed_until_the_store_has_a_name():
    mac = hmac.new(SECRET.encode(), b"job a\x001", hashlib.sha256).hexdigest()
    text = f"signed:{mac}:1"
    assert JSONSerializer([OTHER, SECRET]).loads(text, "job a") == 1
    assert JSONSerializer(SECRET, store="billing", unbound=True).loads(text, "job a") == 1
    with pytest.raises(CodecError, match="names no store: an earlier version wrote it; unbound=True would believe it"):
        JSONSerializer(SECRET, store="billing").loads(text, "job a")
    with pytest.raises(CodecError, match="signature"):
        JSONSerializer(SECRET).loads(text, "job b")


@pytest.mark.parametrize("bad", [{"secret": {}}, {"secret": {"a:b": SECRET}}, {"secret": SECRET, "store": ""}])
def test_a_key_id_or_store_that_cannot_be_written_is_refused(bad):
    with pytest.raises(InvalidArgument):
        JSONSerializer(**bad)


def test_secrets_are_not_shown():
    assert SECRET not in repr(JSONSerializer(SECRET)) + repr(PickleSerializer(SECRET))
