"""Requests of programs without Python: what is read, what is refused, and what becomes of the inbox of a store."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest
from behaviour_doubles import note
from inbox_doubles import InboxStore
from message_doubles import Recorder

from goscheduler import Limit, Retry, linear
from goscheduler.errors import ConflictingIdError, InvalidArgument
from goscheduler.events import EVENT_JOB_ADDED
from goscheduler.messages import MessageScheduler
from goscheduler.runs.inbox import MAX_DEPTH, MAX_REQUEST, read_request
from goscheduler.testing import ManualClock, ManualScheduler

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def work(*args, **named):
    """Take any arguments, and do nothing with them."""


@pytest.fixture
def members():
    """A maker of schedulers on one store with an inbox; ``members.store`` is that store."""

    class Members:
        def __init__(self):
            self.clock, self.store, self.made = ManualClock(), InboxStore(), []

        def __call__(self, *tasks, **options):
            member = ManualScheduler(clock=self.clock, jobstores={"default": self.store}, **options)
            for name in tasks:
                member.register(name, note if name == "note" else work)
            member.start()
            self.made.append(member)
            return member

        def advance(self, seconds):
            """Let time pass for all of them, in such steps that none is taken for lost."""
            for _ in range(int(seconds / 5)):
                self.clock.advance(5)
                for member in self.made:
                    member.run_due()

    found = Members()
    yield found
    for member in found.made:
        member.shutdown()


@pytest.fixture
def worker(members):
    return members("note", "send mail")


# What is asked for


def test_a_job_is_added_once_and_runs(members, worker, jobcalls):
    other = members("note")
    heard = []
    worker.add_listener(heard.append, EVENT_JOB_ADDED)
    members.store.ask(task="note", args=["ä ✓"], id="asked", run_at="2026-01-01T00:00:30Z")
    members.advance(60)
    assert jobcalls == ["ä ✓"]
    assert [event.job_id for event in heard] + [job.id for job in other.get_jobs()] == ["asked"]
    assert members.store.inbox == []
    assert members.store.refused == {}


def test_without_a_time_it_runs_now(members, worker, jobcalls):
    members.store.ask(task="note", args=[7])
    members.store.ask(task="send mail", kwargs={"to": "you"}, id="named")
    members.advance(10)
    assert jobcalls == [7]
    assert {record.job_id for record in worker.runs()} > {"named"}


def test_every_field_arrives(members, worker):
    members.store.ask(
        task="send mail", args=[1, None, [2.5, {"a": "b"}]], kwargs=None, id="all", name="All of it", by="the shop",
        trigger={"type": "interval", "minutes": 5, "timezone": "Europe/Berlin", "start_date": "2026-01-01 06:00:00"},
        tags=["x", "y"], description="Text", metadata={"tenant": "7"}, priority=2, max_instances=3, coalesce=False,
        misfire_grace_time=60, timeout=9.5, overlap="queue", on_crash="fail", max_crashes=2, auto_remove=False,
        executor="default", dead_letter=True,
        retry={"max_attempts": 4, "backoff": {"type": "linear", "step": 10, "cap": 25}, "jitter": 0.1},
        limits=[{"name": "mails", "concurrency": 2, "rate": "5/1m"}],
    )  # fmt: skip
    members.advance(10)
    assert members.store.refused == {}
    job = worker.get_job("all")
    assert (job.name, job.task, job.args, dict(job.kwargs)) == (
        "All of it", "send mail", (1, None, [2.5, {"a": "b"}]), {},
    )  # fmt: skip
    assert (job.tags, job.description, job.metadata, job.priority) == (("x", "y"), "Text", {"tenant": "7"}, 2)
    assert (job.max_instances, job.coalesce, job.misfire_grace_time, job.timeout) == (3, False, 60, 9.5)
    assert (job.overlap, job.on_crash, job.max_crashes, job.auto_remove) == ("queue", "fail", 2, False)
    assert job.retry == Retry(4, linear(10, cap=25), 0.1)
    assert job.limits == (Limit("mails", concurrency=2, rate="5/1m"),)
    assert (job.created_by, job.created_at) == ("the shop", START + timedelta(seconds=5))
    assert job.next_run_time == datetime(2026, 1, 1, 5, tzinfo=timezone.utc)


@pytest.mark.parametrize(("trigger", "first"), [
    ({"type": "crontab", "line": "30 6 * * *"}, "2026-01-01 06:30"),
    ({"type": "crontab", "line": "30 6 * * *", "timezone": "Europe/Berlin"}, "2026-01-01 05:30"),
    ({"type": "crontab", "line": "@daily"}, "2026-01-01 00:00"),
    ({"type": "cron", "hour": 3}, "2026-01-01 03:00"),
    ({"type": "date", "run_date": "2026-02-01"}, "2026-02-01 00:00"),
    ({"type": "calendarinterval", "months": 1, "hour": 4}, "2026-01-01 04:00"),
])  # fmt: skip
def test_a_schedule_is_asked_for(members, worker, trigger, first):
    job = worker.add_request({"task": "note", "args": ["x"], "trigger": trigger})
    assert job.next_run_time == datetime.fromisoformat(f"{first}+00:00")


def test_who_asks_is_kept(members, worker):
    members.store.ask(task="note", args=["x"], id="a", run_at="2026-01-02")
    members.store.ask(task="note", args=["x"], id="b", run_at="2026-01-02", by="Ada")
    members.advance(10)
    asked = {"task": "note", "args": ["x"], "run_at": "2026-01-02", "by": "Ada"}
    worker.add_request({**asked, "id": "c"})
    worker.add_request({**asked, "id": "d"}, by="Grace")
    worker.add_request({"task": "note", "args": ["x"], "run_at": "2026-01-02", "id": "e"})
    assert {job.id: job.created_by for job in worker.get_jobs()} == {
        "a": "inbox", "b": "Ada", "c": "Ada", "d": "Grace", "e": None,
    }  # fmt: skip


def test_a_task_that_only_another_process_has_can_be_asked_for(members, jobcalls):
    draining, knowing = members(), members("note", executors={"special": {"type": "debug"}})
    members.store.ask(task="note", args=["x"], id="job", executor="special")
    draining.engine.chores_due_at = None
    draining.run_due()
    assert members.store.inbox == []
    assert members.store.refused == {}
    members.advance(10)
    assert jobcalls == ["x"]
    assert knowing.runs()[0].job_id == "job"


def test_a_request_of_the_past_that_waited_a_while_is_taken(members, worker, jobcalls):
    members.clock.advance(1800)
    members.store.ask(task="note", args=["x"], run_at="2026-01-01T00:05:00Z")
    members.advance(10)
    assert jobcalls == ["x"]


def test_a_job_of_the_past_that_may_be_late_is_taken(members, worker, jobcalls):
    members.store.ask(task="note", args=["late"], run_at="2025-06-01", misfire_grace_time=None)
    members.store.ask(task="note", args=["too late"], run_at="2025-06-01", misfire_grace_time=60)
    members.advance(10)
    assert jobcalls == ["late"]
    assert sorted(record.outcome.value for record in worker.runs()) == ["missed", "succeeded"]


# What is refused


REFUSED = [
    ({}, "task"),
    ({"task": None}, "task"),
    ({"task": ""}, "task"),
    ({"task": 5}, "task"),
    ({"task": ["note"]}, "task"),
    ({"task": "nobody has it"}, "task"),
    ({"task": "behaviour_doubles:note"}, "task"),
    ({"task": "os:system"}, "task"),
    ({"task": "goscheduler.messages"}, "task"),
    ({"func": "os:system"}, "func"),
    ({"task": "note", "func": "os:system"}, "func"),
    ({"task": "note", "arg": [1]}, "arg"),
    ({"task": "note", "jobstore": "other"}, "jobstore"),
    ({"task": "note", "next_run_time": "2026-01-02"}, "next_run_time"),
    ({"task": "note", "args": "x"}, "args"),
    ({"task": "note", "args": {"a": 1}}, "args"),
    ({"task": "note", "args": [1, 2, 3, 4]}, "args"),
    ({"task": "note", "args": ["x"], "kwargs": ["a"]}, "kwargs"),
    ({"task": "note", "args": ["x"], "kwargs": {"nothing": 1}}, "args"),
    ({"task": "note", "args": ["x"], "id": 5}, "id"),
    ({"task": "note", "args": ["x"], "id": ""}, "id"),
    ({"task": "note", "args": ["x"], "id": "a\nb"}, "id"),
    ({"task": "note", "args": ["x"], "id": "a" * 256}, "id"),
    ({"task": "note", "args": ["x"], "name": 5}, "name"),
    ({"task": "note", "args": ["x"], "by": 5}, "by"),
    ({"task": "note", "args": ["x"], "by": "a\0"}, "by"),
    ({"task": "note", "args": ["x"], "run_at": 1767225600}, "run_at"),
    ({"task": "note", "args": ["x"], "run_at": "tomorrow"}, "run_at"),
    ({"task": "note", "args": ["x"], "run_at": "2026-02-30"}, "run_at"),
    ({"task": "note", "args": ["x"], "run_at": "2025-12-31"}, "run_at"),
    ({"task": "note", "args": ["x"], "run_at": "2026-02-01", "trigger": {"type": "date"}}, "run_at"),
    ({"task": "note", "args": ["x"], "trigger": "interval"}, "trigger"),
    ({"task": "note", "args": ["x"], "trigger": {"minutes": 5}}, "trigger"),
    ({"task": "note", "args": ["x"], "trigger": {"type": ["cron"]}}, "trigger"),
    ({"task": "note", "args": ["x"], "trigger": {"type": "os:system"}}, "trigger"),
    ({"task": "note", "args": ["x"], "trigger": {"type": "and", "triggers": []}}, "trigger"),
    ({"task": "note", "args": ["x"], "trigger": {"type": "interval", "minuts": 5}}, "trigger"),
    ({"task": "note", "args": ["x"], "trigger": {"type": "interval", "minutes": -5}}, "trigger"),
    ({"task": "note", "args": ["x"], "trigger": {"type": "interval", "minutes": 1e308}}, "trigger"),
    ({"task": "note", "args": ["x"], "trigger": {"type": "cron", "hour": 25}}, "trigger"),
    ({"task": "note", "args": ["x"], "trigger": {"type": "cron", "hour": 5, "timezone": "Nowhere"}}, "trigger"),
    ({"task": "note", "args": ["x"], "trigger": {"type": "crontab"}}, "trigger"),
    ({"task": "note", "args": ["x"], "trigger": {"type": "crontab", "line": "* *"}}, "trigger"),
    ({"task": "note", "args": ["x"], "trigger": {"type": "crontab", "line": "* * * * *", "zone": "UTC"}}, "trigger"),
    ({"task": "note", "args": ["x"], "trigger": {"type": "cron", "year": 2020}}, "trigger"),
    ({"task": "note", "args": ["x"], "tags": "x"}, "tags"),
    ({"task": "note", "args": ["x"], "tags": [5]}, "tags"),
    ({"task": "note", "args": ["x"], "tags": {"x": 1}}, "tags"),
    ({"task": "note", "args": ["x"], "metadata": [["a", "b"]]}, "metadata"),
    ({"task": "note", "args": ["x"], "metadata": {"a": 5}}, "metadata"),
    ({"task": "note", "args": ["x"], "metadata": {"a": "b" * 5000}}, "metadata"),
    ({"task": "note", "args": ["x"], "priority": 10}, "priority"),
    ({"task": "note", "args": ["x"], "max_instances": 0}, "max_instances"),
    ({"task": "note", "args": ["x"], "overlap": "dance"}, "overlap"),
    ({"task": "note", "args": ["x"], "timeout": -1}, "timeout"),
    ({"task": "note", "args": ["x"], "executor": ""}, "executor"),
    ({"task": "note", "args": ["x"], "retry": -1}, "max_attempts"),
    ({"task": "note", "args": ["x"], "retry": {"attempts": 5}}, "attempts"),
    ({"task": "note", "args": ["x"], "retry": {"backoff": {"type": "odd"}}}, "retry"),
    ({"task": "note", "args": ["x"], "retry": {"backoff": {"type": []}}}, "retry"),
    ({"task": "note", "args": ["x"], "retry": {"backoff": {"type": "fixed", "cap": 5}}}, "retry"),
    ({"task": "note", "args": ["x"], "retry": {"jitter": 5}}, "retry"),
    ({"task": "note", "args": ["x"], "limits": {"name": "a"}}, "limits"),
    ({"task": "note", "args": ["x"], "limits": ["a"]}, "limits"),
    ({"task": "note", "args": ["x"], "limits": [{"name": "a", "rate": "often"}]}, "limits"),
    ({"task": "note", "args": ["x"], "limits": [{"name": "a", "_rate": 5}]}, "_rate"),
    ({"message": {"event": "x"}}, "message"),
]


@pytest.mark.parametrize(("fields", "field"), REFUSED, ids=lambda value: str(value)[:60])
def test_a_request_that_makes_no_sense_is_refused_by_the_name_of_the_field(members, worker, fields, field):
    with pytest.raises(InvalidArgument) as error:
        worker.add_request(fields)
    assert (error.value.field.partition(".")[0], worker.get_jobs()) == (field, [])
    members.store.ask(**fields)
    members.store.ask(task="note", args=["x"], id="good", run_at="2026-01-02")
    members.advance(10)
    assert list(members.store.refused.values()) == [str(error.value)]
    assert [job.id for job in worker.get_jobs()] == ["good"]


def test_the_near_name_is_suggested(worker):
    with pytest.raises(InvalidArgument, match="did you mean 'send mail'"):
        worker.add_request({"task": "send mial"})
    with pytest.raises(InvalidArgument, match="did you mean 'kwargs'"):
        worker.add_request({"task": "note", "kwarg": {}})


TEXTS = {
    "nothing": "",
    "no JSON": "{task: note}",
    "a list": "[]",
    "a number": "5",
    "null": "null",
    "not a number": '{"task": "note", "args": [NaN]}',
    "infinity": '{"task": "note", "args": [-Infinity]}',
    "a number beyond all": '{"task": "note", "args": [1e999]}',
    "an endless number": '{"task": "note", "args": [' + "9" * 5000 + "]}",
    "a field twice": '{"task": "note", "task": "send mail", "args": ["x"]}',
    "an inner field twice": '{"task": "note", "args": [{"a": 1, "a": 2}]}',
    "half a character": '{"task": "note", "args": ["\\ud800"]}',
    "half a character in a name": '{"task": "note", "args": [{"\\udfff": 1}]}',
    "too long": json.dumps({"task": "note", "args": ["x" * MAX_REQUEST]}),
    "deep": '{"task": "note", "args": ' + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1) + "}",
    "deeper than the parser goes": '{"task": "note", "args": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "a byte order mark": '\ufeff{"task": "note", "args": ["x"]}',
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_a_text_that_is_no_request_is_refused_and_blocks_nobody(members, worker, text):
    with pytest.raises(InvalidArgument):
        read_request(text)
    members.store.ask_text(text)
    members.store.ask(task="note", args=["x"], id="good", run_at="2026-01-02")
    members.advance(10)
    assert len(members.store.refused) == 1
    assert [job.id for job in worker.get_jobs()] == ["good"]


@pytest.mark.parametrize("value", [{1: 2}, {"a": {1, 2}}, {"a": b"x"}, {"a": [object()]}, [], None, "x"])
def test_fields_that_are_not_of_json_are_refused(worker, value):
    with pytest.raises(InvalidArgument):
        worker.add_request({"task": "note", "args": [value]} if isinstance(value, dict) else value)


def test_what_json_can_say_arrives_as_it_is(members, worker, jobcalls):
    numbers = [10**30, -1.5e-300, True, None]
    odd = {"$type": "x", "__class__": "y", "": ["\0 \u202e 😀", *numbers], "type": {"type": "cron"}}
    members.store.ask(task="note", args=[odd])
    members.advance(10)
    assert jobcalls == [odd]


def test_an_id_that_is_taken_is_refused(members, worker):
    worker.add_job("note", "interval", hours=1, args=["x"], id="taken")
    members.store.ask(task="note", args=["y"], id="taken")
    members.advance(10)
    assert list(members.store.refused) == ["1"]
    assert worker.get_job("taken").args == ("x",)
    with pytest.raises(ConflictingIdError):
        worker.add_request({"task": "note", "args": ["y"], "id": "taken"})


# Draining


def test_a_full_inbox_is_drained_at_once(members, worker):
    for number in range(250):
        members.store.ask(task="note", args=["x"], id=f"job-{number}", run_at="2026-01-02")
    members.advance(10)
    assert members.store.inbox == []
    assert worker.count_jobs().number == 250


def test_an_inbox_that_does_not_answer_stops_nothing(members, worker, jobcalls):
    worker.add_job(note, "interval", seconds=20, args=["x"])

    def fail(limit, read):
        raise ConnectionError("no")

    members.store.drain_inbox = fail
    members.advance(60)
    assert len(jobcalls) == 3


def test_one_that_observes_sees_only_what_workers_announce(members):
    lonely = members()
    with pytest.raises(InvalidArgument) as error:
        lonely.add_request({"task": "note"})
    assert error.value.field == "task"
    members("note")
    assert lonely.add_request({"task": "note", "args": ["x"], "run_at": "2026-01-02"}).task == "note"


# Messages


@pytest.fixture
def front(members):
    """A message scheduler on the store, with the transport that it delivers to."""
    worker = members()
    front = MessageScheduler(scheduler=worker, transport=Recorder(), workers=0)
    front.start()
    yield front
    front.stop()


def test_a_message_is_delivered(members, front):
    members.store.ask(message={"event": "ordered", "payload": {"n": 1}, "metadata": {"a": "b"}, "id": "m",
                               "deliver_at": "2026-01-01T00:00:30Z"}, by="the shop")  # fmt: skip
    members.advance(10)
    assert members.store.refused == {}
    assert front.get("m").scheduled_at == START + timedelta(seconds=30)
    assert front.scheduler.get_job("m").created_by == "the shop"
    members.advance(60)
    (sent,) = front.transport.published
    assert (sent.event_name, sent.payload, dict(sent.metadata)) == ("ordered", b'{"n":1}', {"a": "b"})


def test_a_message_is_bytes_and_recurs(members, front):
    members.store.ask(message={"event": "tick", "payload_base64": "AP8=", "recurrence": {"interval": "20s"}})
    members.advance(70)
    assert members.store.refused == {}
    assert {sent.payload for sent in front.transport.published} == {b"\x00\xff"}
    assert len(front.transport.published) in (3, 4)


@pytest.mark.parametrize(("fields", "field"), [
    ({"message": 5}, "message"),
    ({"message": {}}, "event"),
    ({"message": {"event": 5}}, "event"),
    ({"message": {"event": "x", "to": "y"}}, "to"),
    ({"message": {"event": "x"}, "task": "note"}, "task"),
    ({"message": {"event": "x", "deliver_at": 5}}, "deliver_at"),
    ({"message": {"event": "x", "deliver_at": "soon"}}, "deliver_at"),
    ({"message": {"event": "x", "payload": 1, "payload_base64": "AA=="}}, "payload_base64"),
    ({"message": {"event": "x", "payload_base64": "A"}}, "payload_base64"),
    ({"message": {"event": "x", "payload_base64": 5}}, "payload_base64"),
    ({"message": {"event": "x", "metadata": {"a": 5}}}, "message"),
    ({"message": {"event": "x", "recurrence": 5}}, "recurrence"),
    ({"message": {"event": "x", "recurrence": {}}}, "recurrence"),
    ({"message": {"event": "x", "recurrence": {"every": 5}}}, "every"),
    ({"message": {"event": "x", "recurrence": {"cron": "* *"}}}, "recurrence"),
    ({"message": {"event": "x", "via": "letters"}}, "via"),
    ({"message": {"event": "x", "via": 5}}, "via"),
    ({"message": {"event": "x", "payload": "y" * 262_000, "metadata": {"a": "z" * 300}}}, "payload"),
], ids=lambda value: str(value)[:60])  # fmt: skip
def test_a_message_that_makes_no_sense_is_refused_by_the_name_of_the_field(members, front, fields, field):
    with pytest.raises(InvalidArgument) as error:
        front.scheduler.add_request(fields)
    assert error.value.field == field
    assert front.scheduler.get_jobs() == []


def test_who_has_no_messages_leaves_the_inbox_to_who_has(members, front):
    other = members("note")
    members.advance(10)  # so that others know what the front has announced
    members.store.ask(message={"event": "x"})
    other.engine.chores_due_at = None
    other.run_due()
    assert len(members.store.inbox) == 1
    members.advance(10)
    assert members.store.refused == {}
    assert len(front.transport.published) == 1
