from __future__ import annotations

import base64
import io
import json
import pickle
import sys
import uuid
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from apscheduler.schedulers.background import BackgroundScheduler as TheirScheduler
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger as TheirCalendarInterval
from apscheduler.triggers.combining import AndTrigger as TheirAnd
from apscheduler.triggers.combining import OrTrigger as TheirOr
from apscheduler.triggers.cron import CronTrigger as TheirCron
from apscheduler.triggers.date import DateTrigger as TheirDate
from apscheduler.triggers.interval import IntervalTrigger as TheirInterval

from goscheduler.apscheduler_import import reader
from goscheduler.codec import CodecError
from goscheduler.errors import InvalidArgument
from goscheduler.schedulers._export import read_jobs, write_jobs
from goscheduler.triggers.base import BaseTrigger
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.interval import IntervalTrigger

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 1, 15, 12, tzinfo=timezone.utc)


def job(*args: Any, **kwargs: Any) -> None: ...


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a busy machine take its time."""
    monkeypatch.setattr(reader, "READ_SECONDS", 60.0)


def state(**changes: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "id": "nightly",
        "func": f"{__name__}:job",
        "trigger": CronTrigger(hour=3, timezone="Europe/Berlin"),
        "executor": "default",
        "args": (1, (2, 3), {4}),
        "kwargs": {"to": date(2026, 1, 1)},
        "name": "job",
        "misfire_grace_time": None,
        "coalesce": True,
        "max_instances": 1,
        "tags": ("a", "b"),
        "description": "",
        "next_run_time": datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
    } | changes


def exported(*states: dict[str, Any]) -> io.StringIO:
    file = io.StringIO()
    write_jobs(states, file, "1.2.3")
    file.seek(0)
    return file


def test_jobs_come_back_from_a_file_as_they_were() -> None:
    paused = state(id="paused", next_run_time=None, trigger=IntervalTrigger(seconds=5))
    back = read_jobs(exported(state(), paused))
    for before, after in zip([state(), paused], back, strict=True):
        assert repr(after.pop("trigger")) == repr(before.pop("trigger"))
        assert after == before
    assert back[0]["next_run_time"].fold == 1


def test_jobs_can_be_written_to_a_path(tmp_path: Path) -> None:
    for path in (tmp_path / "jobs.json", str(tmp_path / "more.json")):
        write_jobs([state()], path, "1.2.3")
        assert [one["id"] for one in read_jobs(path)] == ["nightly"]
    document = json.loads((tmp_path / "jobs.json").read_text())
    assert (document["version"], document["scheduler_version"]) == (1, "1.2.3")


def test_a_job_that_cannot_be_written_is_named_and_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "jobs.json"
    path.write_text("precious")
    with pytest.raises(InvalidArgument, match=r"job 'broken': kwargs\['conn'\] cannot be stored"):
        write_jobs([state(), state(id="broken", kwargs={"conn": object()})], path, "1.2.3")
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[]", "must contain an object"),
        ('{"jobs": []}', "Unsupported version of exported jobs: None, expected 1"),
        ('{"version": 2, "jobs": []}', "Unsupported version of exported jobs: 2, expected 1"),
        ('{"version": 1}', "must be a list, got None"),
        ('{"version": 1, "jobs": [5]}', "Job number 1 cannot be imported"),
        ('{"version": 1, "jobs": [{}]}', "Job number 1 cannot be imported: it has no id"),
        ('{"version": 1, "jobs": [{"id": "x"}]}', "Job 'x' cannot be imported: it has no func"),
    ],
)
def test_a_file_that_is_no_export_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_jobs(io.StringIO(text))


@pytest.mark.parametrize(
    "changes", [{"id": 5}, {"func": None}, {"trigger": "cron"}, {"kwargs": []}, {"trigger": {"@type": "module"}}]
)
def test_a_job_with_a_value_of_the_wrong_kind_is_refused(changes: dict[str, Any]) -> None:
    document = json.load(exported(state()))
    document["jobs"][0] |= changes
    with pytest.raises(CodecError, match="cannot be imported"):
        read_jobs(io.StringIO(json.dumps(document)))


def test_an_id_that_is_in_the_file_twice_is_refused() -> None:
    with pytest.raises(CodecError, match="Job 'nightly' is in the file twice"):
        read_jobs(exported(state(), state()))


ARGUMENTS = [
    datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN),
    datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2))),
    date(2026, 1, 1),
    time(1, 2),
    timedelta(days=1, microseconds=5),
    Decimal("1.10"),
    uuid.UUID(int=5),
    b"\xff",
    {1, 2},
    frozenset({3}),
    float("inf"),
    None,
    {"a": [1]},
]

THEIR_TRIGGERS = {
    "date": TheirDate("2030-01-01 12:00:00", "Europe/Berlin"),
    "interval": TheirInterval(minutes=5, start_date="2026-01-01", end_date="2030-01-01", timezone="UTC", jitter=3),
    "calendar": TheirCalendarInterval(months=1, weeks=2, hour=3, start_date="2026-01-31", timezone="Europe/Berlin"),
    "cron": TheirCron(month="jan-mar", day_of_week="mon-wed,fri", hour="*/3", minute="5/20", timezone="Europe/Berlin"),
    "cron days": TheirCron(day="2nd fri, last sun, last, 5-9/2", end_date="2030-01-01", timezone="UTC"),
    "cron weeks": TheirCron(year="2026-2030", week="*/5", second="1,2,3", timezone="UTC"),
    "or": TheirOr([TheirCron(hour=1), TheirAnd([TheirCron(hour=2), TheirCron(minute=0)])], jitter=2),
}


@pytest.fixture
def their_scheduler() -> Iterator[TheirScheduler]:
    scheduler = TheirScheduler(timezone="Europe/Berlin")
    scheduler.start(paused=True)
    yield scheduler
    scheduler.shutdown(wait=False)


def test_a_file_that_apscheduler_exported_is_read(their_scheduler: TheirScheduler) -> None:
    for name, trigger in THEIR_TRIGGERS.items():
        their_scheduler.add_job(
            f"{__name__}:job", trigger, ARGUMENTS, {"k": (1, 2)}, id=name, next_run_time=NOW, misfire_grace_time=7
        )
    file = io.StringIO()
    their_scheduler.export_jobs(file)
    file.seek(0)
    jobs = {one["id"]: one for one in read_jobs(file)}
    assert jobs.keys() == THEIR_TRIGGERS.keys()
    for name, theirs in THEIR_TRIGGERS.items():
        ours = jobs[name]["trigger"]
        assert isinstance(ours, BaseTrigger)
        assert type(ours).__name__ == type(theirs).__name__
        assert getattr(ours, "jitter", None) == getattr(theirs, "jitter", None)
        assert jobs[name]["args"] == tuple(ARGUMENTS)
        assert jobs[name]["kwargs"] == {"k": [1, 2]}
        assert jobs[name]["next_run_time"] == NOW
        assert jobs[name]["misfire_grace_time"] == 7


@pytest.mark.parametrize("name", ["date", "cron", "cron days", "cron weeks"])
def test_a_trigger_from_apscheduler_fires_when_it_did_there(name: str, their_scheduler: TheirScheduler) -> None:
    theirs = THEIR_TRIGGERS[name]
    their_scheduler.add_job(f"{__name__}:job", theirs, id=name)
    file = io.StringIO()
    their_scheduler.export_jobs(file)
    file.seek(0)
    ours = read_jobs(file)[0]["trigger"]
    previous = None
    for _ in range(5):
        expected = theirs.get_next_fire_time(previous, previous or NOW)
        assert ours.get_next_fire_time(previous, previous or NOW) == expected
        previous = expected or previous


class Evil:
    def __init__(self, *reduced: Any) -> None:
        self.reduced = reduced

    def __reduce__(self) -> tuple[Any, ...]:
        return self.reduced


class Custom: ...


def pickled(value: object) -> dict[str, str]:
    return {"__apscheduler_pickle__": base64.b64encode(pickle.dumps(value)).decode()}


def legacy_file(**changes: Any) -> io.StringIO:
    trigger = {
        "__apscheduler_class__": "apscheduler.triggers.date:DateTrigger",
        "__apscheduler_state__": {"version": 1, "run_date": pickled(NOW)},
    }
    job = {"id": "x", "func": "m:f", "trigger": trigger, "args": [], "kwargs": {}, "name": "f", "next_run_time": None}
    return io.StringIO(json.dumps({"version": 1, "jobs": [job | changes]}))


def billion_laughs() -> list[Any]:
    value: list[Any] = []
    for _ in range(60):
        value = [value, value]
    return value


def ring() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def test_the_legacy_file_of_these_tests_is_readable_as_such() -> None:
    assert read_jobs(legacy_file(args=[pickled(uuid.UUID(int=3))]))[0]["args"] == (uuid.UUID(int=3),)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (Evil(eval, ("1/0",)), r"a pickle of 'builtins.eval', which is not allowed"),
        (Evil(getattr, (ZoneInfo, "no_cache")), "looks up an attribute, which is not allowed"),
        (Evil(getattr, (datetime, "now")), "looks up an attribute, which is not allowed"),
        (Evil(__import__, ("this",)), "__import__"),
        (Evil(exec, ("raise SystemExit",)), "builtins.exec"),
        (Custom(), "Custom"),
        (datetime, "a pickle of <class 'datetime.datetime'>"),
        (getattr, "which is not allowed"),
        (ZoneInfo, "which is not allowed"),
        (Path("x"), "pathlib"),
        (billion_laughs(), "more than 1000000 values"),
        (ring(), "more than 1000000 values"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_hostile_pickle_is_refused_by_name_of_its_job_and_does_nothing(value: object, reason: str) -> None:
    with pytest.raises(CodecError, match=f"Job 'x' cannot be imported: .*{reason}"):
        read_jobs(legacy_file(args=[pickled(value)]))
    assert "this" not in sys.modules


@pytest.mark.serial
def test_a_pickle_that_takes_for_ever_is_refused_by_name_of_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "READ_SECONDS", 1.0)
    # A set with one member, a pair of a pair of a pair …, whose hash takes 2⁶⁰ steps.
    hostile = base64.b64encode(b"\x80\x04\x8f()" + b"2\x86" * 60 + b"\x90.").decode()
    with pytest.raises(CodecError, match="Job 'x' cannot be imported: it was not read within 1 seconds"):
        read_jobs(legacy_file(args=[{"__apscheduler_pickle__": hostile}]))


def test_a_pickle_cannot_change_a_class() -> None:
    # BUILD with a pair as state sets attributes, here on the class itself.
    opcodes = b"\x80\x04cuuid\nUUID\nN}X\x03\x00\x00\x00hexX\x04\x00\x00\x00evils\x86b."
    hostile = {"__apscheduler_pickle__": base64.b64encode(opcodes).decode()}
    with pytest.raises(CodecError, match="Job 'x' cannot be imported"):
        read_jobs(legacy_file(args=[hostile]))
    assert uuid.UUID(int=1).hex == "0" * 31 + "1"
    assert read_jobs(legacy_file(args=[pickled(uuid.UUID(int=3))]))[0]["args"][0].hex == "0" * 31 + "3"


@pytest.mark.parametrize(
    "value",
    ["", "%%%", 5, None, base64.b64encode(b"garbage").decode(), base64.b64encode(b"\x80\x04").decode()],
)
def test_a_broken_pickle_is_refused(value: object) -> None:
    with pytest.raises(CodecError, match="Job 'x' cannot be imported: it contains a pickle that cannot be read"):
        read_jobs(legacy_file(args=[{"__apscheduler_pickle__": value}]))


@pytest.mark.parametrize("reference", ["os:system", "mine:Trigger", "apscheduler.triggers.base:BaseTrigger", 5, None])
def test_a_class_that_is_no_trigger_of_apscheduler_is_refused(reference: object) -> None:
    hostile = {"__apscheduler_class__": reference, "__apscheduler_state__": {}}
    with pytest.raises(CodecError, match="Job 'x' cannot be imported: it names the class"):
        read_jobs(legacy_file(trigger=hostile))
    with pytest.raises(CodecError, match="Job 'x' cannot be imported: it names the class"):
        read_jobs(legacy_file(args=[hostile]))


def test_a_deeply_nested_argument_is_refused() -> None:
    value: list[Any] = []
    for _ in range(150):
        value = [value]
    with pytest.raises(CodecError, match="nested deeper than 100 levels"):
        read_jobs(legacy_file(args=value))
