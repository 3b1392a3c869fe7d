"""What each rule finds in given facts, row by row."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from rows import each_row

from goscheduler.alerts.facts import Facts, JobFacts, RunningFacts
from goscheduler.alerts.gather import ProcessMemory
from goscheduler.alerts.match import Match, read_match
from goscheduler.alerts.rules import (
    RULES,
    ClockSkew,
    DeadLetters,
    FailureRate,
    Failures,
    JobSuspended,
    Late,
    LimitFull,
    Missed,
    NoSuccess,
    Processes,
    ProcessLost,
    Queue,
    Slow,
    StoreDown,
)
from goscheduler.errors import InvalidArgument, UnknownOption
from goscheduler.runs.health import Check, HealthStatus
from goscheduler.runs.model import OutcomeKind, Owner
from goscheduler.runs.processes import process_of
from goscheduler.runs.queries import LetterGroup, LimitUse
from goscheduler.runs.records import Record
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.interval import IntervalTrigger

NOW = datetime(2026, 5, 4, 12, tzinfo=timezone.utc)
UNHEALTHY, DEGRADED = HealthStatus.UNHEALTHY, HealthStatus.DEGRADED


def ago(**length):
    return NOW - timedelta(**length)


def record(outcome="succeeded", minutes=1, late=0.0, job="a", error="ValueError", message="no 17", fire_times=1):
    failed = outcome in ("failed", "timed out", "lost")
    ended = ago(minutes=minutes)
    empty = dict.fromkeys(Record._fields)
    return Record(**{
        **empty, "run_id": f"r{minutes}", "job_id": job, "job_name": job, "task": "t", "tags": ("x",),
        "executor": "default", "outcome": OutcomeKind(outcome), "scheduled_at": ended - timedelta(seconds=late),
        "started_at": ended, "finished_at": ended, "reason": "", "error_type": error if failed else None,
        "error_message": message if failed else "", "fire_times": fire_times,
    })  # fmt: skip


def attempts(marks, **options):
    """Return records, newest first: x failed, . succeeded, s was snoozed."""
    kinds = {"x": "failed", ".": "succeeded", "s": "snoozed", "t": "timed out"}
    return [record(kinds[mark], minutes=number + 1, **options) for number, mark in enumerate(marks)]


def failing(marks):
    return Facts(NOW, failing={"a": attempts(marks)})


def job(last_success=None, created_at=None, trigger=None, obstacle=""):
    return Facts(NOW, jobs=[JobFacts("a", trigger or IntervalTrigger(hours=1), last_success, created_at, obstacle)])


DAILY = CronTrigger(hour=3, timezone="UTC")
GROUP = LetterGroup("t", "ValueError", "no …", 5, ago(hours=2), ago(minutes=30), ["a"], "r")
USE = LimitUse("api", 2, 7, {})


@each_row(("rule", "facts", "expected"), [
    (Failures(), failing("x"), ["a"]),
    (Failures(), failing("."), []),
    (Failures(), failing(""), []),
    (Failures(3), failing("xx"), []),
    (Failures(3), failing("xxx"), ["a"]),
    (Failures(3), failing("xtx."), ["a"]),
    (Failures(3), failing("xx.xx"), []),
    (Failures(3), failing("xxsx"), ["a"]),
    (Failures(3, within="3m"), failing("xxx"), ["a"]),
    (Failures(3, within="2m"), failing("xxx"), []),
    (FailureRate(0.5, 4), Facts(NOW, records=attempts("xxx.")), ["all jobs"]),
    (FailureRate(0.5, 4), Facts(NOW, records=attempts("xx..")), []),
    (FailureRate(0.5, 4), Facts(NOW, records=attempts("xxx")), []),
    (FailureRate(0.5, 4), Facts(NOW, records=attempts("..xxxx")), []),
    (NoSuccess("1h"), job(last_success=ago(minutes=61)), ["a"]),
    (NoSuccess("1h"), job(last_success=ago(minutes=59)), []),
    (NoSuccess("1h"), job(created_at=ago(minutes=61)), ["a"]),
    (NoSuccess("1h"), job(), []),
    (NoSuccess(), job(last_success=ago(hours=8), trigger=DAILY), []),
    (NoSuccess(), job(last_success=ago(hours=10), trigger=DAILY), ["a"]),
    (NoSuccess("schedule+10h"), job(last_success=ago(hours=10), trigger=DAILY), []),
    (NoSuccess("schedule + 8h"), job(last_success=ago(hours=10), trigger=DAILY), ["a"]),
    (NoSuccess(), job(created_at=ago(hours=10), trigger=DAILY), ["a"]),
    (NoSuccess(), Facts(NOW, absent=["gone"]), ["gone"]),
    (Late(p95="30s"), Facts(NOW, records=[record(late=31) for _ in range(5)]), ["all jobs"]),
    (Late(p95="30s"), Facts(NOW, records=[record(late=29) for _ in range(5)]), []),
    (Late(p95="30s"), Facts(NOW, records=[record(late=31) for _ in range(4)]), []),
    (Late(p95="30s"), Facts(NOW, records=[record(late=31, minutes=11) for _ in range(5)]), []),
    (Late(p95="30s"), Facts(NOW, records=[record(late=99), *(record() for _ in range(19))]), []),
    (Late(oldest="1m"), Facts(NOW, oldest_due=61), ["all jobs"]),
    (Late(oldest="1m"), Facts(NOW, oldest_due=60), []),
    (Slow(2), Facts(NOW, running=[RunningFacts("a", 201, 100.0)]), ["a"]),
    (Slow(2), Facts(NOW, running=[RunningFacts("a", 199, 100.0)]), []),
    (Slow(2), Facts(NOW, running=[RunningFacts("a", 59, 1.0)]), []),
    (Slow(2), Facts(NOW, running=[RunningFacts("a", 9999, None)]), []),
    (Missed(3), Facts(NOW, missed=[record("missed", fire_times=3)]), ["a"]),
    (Missed(3), Facts(NOW, missed=[record("missed"), record("missed", 2), record("missed", 61)]), []),
    (Missed(), Facts(NOW, missed=[record("missed"), record("missed", job="b")]), ["a", "b"]),
    (Queue(depth=10), Facts(NOW, due=11), ["all jobs"]),
    (Queue(depth=10), Facts(NOW, due=10), []),
    (Queue(age="5m"), Facts(NOW, due=1, oldest_due=301), ["all jobs"]),
    (LimitFull(), Facts(NOW, limits=[USE]), ["api"]),
    (LimitFull("other"), Facts(NOW, limits=[USE]), []),
    (LimitFull(), Facts(NOW, limits=[USE._replace(waiting=0)]), []),
    (DeadLetters(5), Facts(NOW, letters=[GROUP]), ["t ValueError: no …"]),
    (DeadLetters(6), Facts(NOW, letters=[GROUP]), []),
    (DeadLetters(within="29m"), Facts(NOW, letters=[GROUP]), []),
    (DeadLetters(within="30m"), Facts(NOW, letters=[GROUP]), ["t ValueError: no …"]),
    (Processes(2), Facts(NOW, processes=1), ["processes"]),
    (Processes(2), Facts(NOW, processes=2), []),
    (ProcessLost(), Facts(NOW, lost=["host:7"]), ["host:7"]),
    (StoreDown(), Facts(NOW, checks=[Check("store", UNHEALTHY, "gone")]), ["store"]),
    (StoreDown(), Facts(NOW, checks=[Check("store"), Check("processes", UNHEALTHY, "none")]), []),
    (ClockSkew(), Facts(NOW, checks=[Check("clocks", DEGRADED, "they differ")]), ["clocks"]),
    (JobSuspended(), Facts(NOW, suspended={"a": "no such task"}), ["a"]),
])  # fmt: skip
def test_a_rule_finds_what_is_broken(rule, facts, expected):
    assert [breach.target for breach in rule.find(facts)] == expected


def test_every_rule_is_in_the_table_above_and_needs_fields_that_there_are():
    assert len(RULES) == 14
    for rule in RULES.values():
        assert rule.needs <= set(Facts.__dataclass_fields__)


def test_failures_of_one_error_have_one_cause():
    facts = Facts(NOW, failing={
        "a": attempts("x", message="order 17 is broken"), "b": attempts("x", message="order 4 is broken"),
        "c": attempts("x", error="KeyError"),
    })  # fmt: skip
    first, second, other = Failures().find(facts)
    assert first.cause == second.cause != other.cause
    assert first.message == "the last attempt failed: ValueError: order 17 is broken"


def test_a_job_that_cannot_fire_says_so():
    (breach,) = NoSuccess("1h").find(job(last_success=ago(hours=2), obstacle="paused by ann"))
    assert breach.message == "no success since 2026-05-04 10:00; it is paused by ann"


def test_a_trigger_that_raises_breaks_no_rule():
    class Broken(IntervalTrigger):
        def between(self, start, end, limit):
            raise ValueError("no")

    assert list(NoSuccess().find(job(last_success=ago(days=9), trigger=Broken(hours=1)))) == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: Failures(0), lambda: Failures("3"), lambda: Failures(1, within="soon"), lambda: FailureRate(1.5),
        lambda: NoSuccess("schedule15m"), lambda: NoSuccess("often"), lambda: Late(), lambda: Queue(),
        lambda: Queue(depth=0), lambda: Missed(1, within="-3h"), lambda: Processes(True),
    ],
)  # fmt: skip
def test_a_rule_that_makes_no_sense_is_refused(make):
    with pytest.raises((InvalidArgument, TypeError)):
        make()


# Which jobs


@pytest.mark.parametrize(
    ("text", "expected", "title"),
    [
        ("", Match(), "all jobs"),
        ("tag:billing", Match((), {"tag": "billing"}), "tag:billing"),
        ("job:a job:b", Match(("a", "b")), "job:a job:b"),
        ("tag:x task:m:f nightly", Match((), {"tag": "x", "task": "m:f", "text": "nightly"}), None),
        ("'tag:two words'", Match((), {"tag": "two words"}), None),
        ("job:a store:other", Match(("a",), {"jobstore": "other"}), None),
    ],
)
def test_a_match_is_read(text, expected, title):
    assert read_match(text) == expected
    assert title in (None, read_match(text).title)


@pytest.mark.parametrize("text", ["tags:x", "tag:", "tag:a tag:b", "job:a tag:b", "'open", 7])
def test_a_match_that_makes_no_sense_is_refused(text):
    with pytest.raises((InvalidArgument, UnknownOption)):
        read_match(text)


@pytest.mark.parametrize(
    ("text", "fits"),
    [("", True), ("tag:x", True), ("tag:y", False), ("job:a", True), ("job:b", False), ("task:t", True),
     ("task:u", False), ("executor:default", True), ("executor:gpu", False), ("A", True), ("zz", False)],
)  # fmt: skip
def test_records_fit_a_match(text, fits):
    assert read_match(text).fits(record()) is fits


# Lost processes


def alive(owner, expires):
    return process_of(Owner(owner, "host", 7, expires_at=NOW + timedelta(seconds=expires)), "default")


def test_a_process_is_lost_if_its_lease_lapsed_and_not_if_it_has_left_in_good_order():
    memory = ProcessMemory()
    assert memory.lost([alive("dies", 10), alive("leaves", 30), alive("stays", 30)], NOW) == []
    later = NOW + timedelta(seconds=12)
    memory = ProcessMemory(memory.text)
    assert memory.lost([alive("stays", 60)], later) == ["host:7"]
    assert ProcessMemory(memory.text).lost([alive("stays", 60)], later + timedelta(minutes=9)) == ["host:7"]
    assert ProcessMemory(memory.text).lost([alive("stays", 60)], later + timedelta(minutes=11)) == []


@pytest.mark.parametrize("text", ["", "[]", "7", '{"a":1}', '{"a":["b"]}'])
def test_a_memory_that_cannot_be_read_is_empty(text):
    assert ProcessMemory(text).lost([], NOW) == []


