"""Pickles of APScheduler of all ages, what is told of a job before it is moved, and which parts of a URL are secret."""

from __future__ import annotations

import pickle
import sys
from datetime import datetime, timedelta, timezone, tzinfo
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import pytz
from apscheduler.triggers.combining import OrTrigger as TheirOr
from apscheduler.triggers.cron import CronTrigger as TheirCron
from apscheduler.triggers.interval import IntervalTrigger as TheirInterval

from goscheduler._urls import secrets_of, without_secrets
from goscheduler.apscheduler_import.candidates import Candidate, notes_on
from goscheduler.apscheduler_import.passwords import SourceError, passwords_hidden
from goscheduler.apscheduler_import.pickles import read_legacy_pickle
from goscheduler.codec import CodecError
from goscheduler.triggers.base import BaseTrigger
from goscheduler.triggers.combining import OrTrigger
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.interval import IntervalTrigger

NOW = datetime(2026, 7, 1, 12, tzinfo=timezone.utc)
LATE = NOW - timedelta(seconds=9)


def state(**changes: Any) -> dict[str, Any]:
    return {
        "version": 1, "id": "x", "func": "json:dumps", "trigger": TheirInterval(hours=1, timezone="UTC"),
        "executor": "default", "args": (b"\xff", "ä", {1}, NOW), "kwargs": {"x": timedelta(1)}, "name": "work",
        "misfire_grace_time": 1, "coalesce": True, "max_instances": 1, "next_run_time": NOW,
    } | changes  # fmt: skip


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_of_every_protocol_are_read(protocol: int) -> None:
    trigger = TheirOr([TheirInterval(hours=1, timezone="UTC"), TheirCron(day_of_week="mon-fri", timezone="UTC")])
    for stored in (state(trigger=trigger), state(trigger=trigger.triggers[1])):
        read = read_legacy_pickle(pickle.dumps(stored, protocol))
        assert {name: read[name] for name in ("args", "kwargs", "next_run_time")} == {
            name: stored[name] for name in ("args", "kwargs", "next_run_time")
        }
        assert str(read["trigger"]) == str(stored["trigger"])


class Wrapped(tzinfo):
    """A zone as older versions of tzlocal gave it: wrapped, and pickled as a call that wraps it."""

    def __reduce__(self) -> Any:
        return sys.modules["pytz_deprecation_shim._impl"].wrap_zone, (ZoneInfo("Europe/Berlin"), "Europe/Berlin")


def wrap_zone(*_: object) -> None: ...


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        (pytz.timezone("Europe/Berlin"), ZoneInfo("Europe/Berlin")),
        (NOW.astimezone(pytz.timezone("Europe/Berlin")).tzinfo, ZoneInfo("Europe/Berlin")),
        (pytz.utc, ZoneInfo("UTC")),
        (pytz.timezone("Etc/GMT+5"), ZoneInfo("Etc/GMT+5")),
        (pytz.FixedOffset(90), timezone(timedelta(minutes=90))),
        (ZoneInfo("Europe/Berlin"), ZoneInfo("Europe/Berlin")),
        (timezone.utc, timezone.utc),
        (Wrapped(), ZoneInfo("Europe/Berlin")),
    ],
)
def test_zones_of_other_libraries_become_those_of_python(
    zone: Any, expected: tzinfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("pytz_deprecation_shim", "pytz_deprecation_shim._impl")
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys.modules[names[1]], "wrap_zone", wrap_zone, raising=False)
    monkeypatch.setattr(wrap_zone, "__module__", names[1])
    pickled = pickle.dumps(state(args=(zone,)))
    for name in names:
        monkeypatch.delitem(sys.modules, name)
    assert read_legacy_pickle(pickled)["args"] == (expected,)


def test_a_time_in_a_zone_of_pytz_stays_the_same_instant() -> None:
    theirs = pytz.timezone("America/New_York").localize(datetime(2026, 7, 1, 8))
    read = read_legacy_pickle(pickle.dumps(state(next_run_time=theirs)))["next_run_time"]
    assert read == theirs
    assert read.tzinfo is ZoneInfo("America/New_York")


@pytest.mark.parametrize(
    "opcodes",
    [
        b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x05\x00\x00\x00utf16tR.",
        b"ccopyreg\n_reconstructor\n(cdatetime\ndatetime\nc__builtin__\nobject\nNtR.",
        b"cpytz\n_p\nN}X\x05\x00\x00\x00_callNs\x86b.",
        b"cpytz\n_p\n}X\x05\x00\x00\x00_callNsb.",
        b"c__builtin__\ngetattr\n(cpytz\n_p\nX\x05\x00\x00\x00_calltR.",
        b"c__builtin__\nobject\n)R.",
    ],
)
def test_what_stands_for_a_function_can_neither_be_changed_nor_used_for_something_else(opcodes: bytes) -> None:
    with pytest.raises(CodecError):
        read_legacy_pickle(opcodes)
    zone = pytz.timezone("Europe/Berlin")
    assert read_legacy_pickle(pickle.dumps(state(args=(zone,))))["args"] == (ZoneInfo("Europe/Berlin"),)


def candidate(
    trigger: BaseTrigger | None = None, next_run_time: datetime | None = NOW, func: str = "json:dumps", **options: Any
) -> Candidate:
    every_hour = IntervalTrigger(hours=1, timezone="UTC")
    return Candidate("x", func, trigger or every_hour, next_run_time, (), {}, "x", options)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (candidate(), []),
        (candidate(misfire_grace_time=None, max_instances=1, executor="default"), []),
        (candidate(misfire_grace_time=1), ["keeps misfire_grace_time=1"]),
        (candidate(misfire_grace_time=60), []),
        (candidate(max_instances=2), ["max_instances=2 holds for all processes"]),
        (candidate(executor="other"), ["is suspended until its scheduler has an executor 'other'"]),
        (candidate(next_run_time=None), []),
        (candidate(next_run_time=LATE), ["is overdue: it will run"]),
        (candidate(next_run_time=LATE, misfire_grace_time=10), ["is overdue: it will run"]),
        (candidate(next_run_time=LATE, misfire_grace_time=8), ["is overdue: that run will be missed"]),
        (candidate(CronTrigger(day_of_week="mon-fri")), []),
        (candidate(CronTrigger(day_of_week="*/2")), []),
        (candidate(CronTrigger(hour=3)), []),
        (candidate(CronTrigger(day_of_week="mon,4")), ["weekday numbers count from 0"]),
        (candidate(CronTrigger(day_of_week="0-4/2")), ["weekday numbers count from 0"]),
        (candidate(OrTrigger([CronTrigger(hour=3), CronTrigger(day_of_week=0)])), ["weekday numbers count from 0"]),
        (candidate(func="json:nothing"), ["is suspended until there is a function 'nothing' in module 'json'"]),
        (candidate(func="json:JSONEncoder.encode"), []),
        (candidate(func="json:JSONEncoder.nothing"), ["is suspended until there is a function"]),
        (candidate(func="no_such_package.x:f"), ["is suspended until there is a module 'no_such_package.x'"]),
        (candidate(func="json.no_such_module:f"), ["is suspended until there is a module 'json.no_such_module'"]),
        (candidate(func="xml.dom.pulldom:f"), []),
    ],
)  # fmt: skip
def test_what_differs_for_a_job_is_told(given: Candidate, told: list[str]) -> None:
    notes = notes_on(given, NOW, ["default"])
    assert len(notes) == len(told)
    assert all(note.startswith(start) for note, start in zip(notes, told, strict=True))


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("sqlite:///x.db", []),
        ("postgresql://host/x", []),
        ("postgresql://me@host/x", []),
        ("postgresql://me:pw@host/x", ["pw"]),
        ("redis://:pw@host", ["pw"]),
        ("mysql://me:p%40w@host/x", ["p%40w", "p@w"]),
        ("mysql://me:p@w/o?d@host/x", ["p", "p@w/o?d"]),
        ("mysql://me:pw@host/x?option=a@b", ["pw", "pw@host/x?option=a"]),
        ("mysql://host:3306/x", []),
        ("redis://host?password=pw&db=1", ["pw"]),
        ("postgresql:///x?user=me&sslpassword=p+w", ["p w", "p+w"]),
    ],
)
def test_the_passwords_of_a_url_are_known(url: str, secrets: list[str]) -> None:
    assert sorted(secrets_of(url)) == sorted(secrets)


def test_an_error_that_shows_a_password_is_replaced_together_with_its_cause() -> None:
    url = "mysql://me:hunter2@host/x"
    with pytest.raises(SourceError) as caught, passwords_hidden(url):
        raise LookupError("hidden in the cause") from ValueError(f"cannot read {url}")
    assert str(caught.value) == "LookupError: hidden in the cause"
    assert caught.value.__suppress_context__
    assert without_secrets(f"cannot read {url}", url) == "cannot read mysql://me:***@host/x"


def test_an_error_without_a_password_stays_what_it_is() -> None:
    with pytest.raises(LookupError, match="nothing"), passwords_hidden("mysql://me:hunter2@host/x"):
        raise LookupError("nothing")
