"""What a message, a recurrence, a filter and the settings may be, and what is said about anything else."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from goscheduler import MemoryJobStore
from goscheduler.errors import InvalidArgument
from goscheduler.messages import Message, MessageFilter, MessageScheduler, Recurrence
from goscheduler.testing import ManualScheduler


@pytest.mark.parametrize(
    ("payload", "encoded", "content_type"),
    [
        (b"raw", b"raw", "application/octet-stream"),
        (bytearray(b"raw"), b"raw", "application/octet-stream"),
        (memoryview(b"raw"), b"raw", "application/octet-stream"),
        ("Zoë", b"Zo\xc3\xab", "text/plain; charset=utf-8"),
        ({"a": [1, None, "ë"]}, '{"a":[1,null,"ë"]}'.encode(), "application/json"),
        ([], b"[]", "application/json"),
        (None, b"null", "application/json"),
        (0, b"0", "application/json"),
    ],
)
def test_a_payload_becomes_bytes_and_says_what_it_was(payload, encoded, content_type):
    message = Message("event", payload)
    assert (message.payload, message.content_type) == (encoded, content_type)
    assert Message("event", payload, content_type="x/y").content_type == "x/y"


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"event_name": ""}, "event_name"),
        ({"event_name": None}, "event_name"),
        ({"event_name": "x" * 256}, "event_name"),
        ({"event_name": "line\nend"}, "event_name"),
        ({"event_name": "nul\0"}, "event_name"),
        ({"event_name": "\udc80"}, "event_name"),
        ({"event_name": b"bytes"}, "event_name"),
        ({"payload": {1, 2}}, "payload"),
        ({"payload": float("nan")}, "payload"),
        ({"payload": "\udc80"}, "payload"),
        ({"payload": {"a": "\udc80"}}, "payload"),
        ({"payload": object()}, "payload"),
        ({"metadata": {"": "x"}}, "metadata"),
        ({"metadata": {"a\r\nb": "x"}}, "metadata"),
        ({"metadata": {"a": "x\r\nSet-Cookie: y"}}, "metadata['a']"),
        ({"metadata": {"a": "\udc80"}}, "metadata['a']"),
        ({"metadata": {"Attempt": "7"}}, "metadata"),
        ({"metadata": {"scheduled_message_id": "7"}}, "metadata"),
        ({"content_type": ""}, "content_type"),
        ({"content_type": "a\nb"}, "content_type"),
        ({"id": ""}, "id"),
        ({"id": "a\tb"}, "id"),
    ],
)
def test_a_message_that_makes_no_sense_is_refused_with_the_name_of_the_field(arguments, field):
    with pytest.raises(InvalidArgument, match=field.split("[")[0]) as caught:
        Message(**{"event_name": "event", **arguments})
    assert caught.value.field == field


@pytest.mark.parametrize(
    "arguments",
    [
        {"metadata": [("a", "b")]},
        {"metadata": {"a": 1}},
        {"scheduled_at": 5},
        {"scheduled_at": timedelta(1)},
        {"recurrence": "daily"},
    ],
)
def test_a_message_of_wrong_types_is_a_type_error(arguments):
    with pytest.raises(TypeError, match=next(iter(arguments))):
        Message("event", **arguments)


def test_a_message_cannot_be_changed_and_does_not_show_its_payload():
    metadata = {"a": "b"}
    message = Message("event", b"secret", metadata)
    metadata["a"] = "c"
    assert message.metadata == {"a": "b"}
    with pytest.raises(TypeError):
        message.metadata["a"] = "c"
    assert "secret" not in repr(message)


@pytest.mark.parametrize("interval", [timedelta(minutes=5), 300, "5m"])
def test_an_interval_is_given_in_several_ways(interval):
    assert Recurrence(interval=interval).interval == timedelta(minutes=5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "either interval or cron"),
        ({"interval": 1, "cron": "* * * * *"}, "either interval or cron"),
        ({"interval": 0}, "interval"),
        ({"interval": -5}, "must not be negative|above 0|interval"),
        ({"interval": "soon"}, "soon"),
        ({"cron": "61 * * * *"}, "61"),
        ({"cron": ""}, "."),
        ({"cron": "* * * * *", "timezone": "Mars/Phobos"}, "Mars/Phobos"),
        ({"interval": 1, "max_occurrences": 0}, "max_occurrences"),
        ({"interval": 1, "max_occurrences": True}, "max_occurrences"),
        ({"interval": 1, "max_occurrences": 1.5}, "max_occurrences"),
        ({"interval": 1, "max_occurrences": 10**9}, "max_occurrences"),
    ],
)
def test_a_recurrence_that_makes_no_sense_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        Recurrence(**arguments)


@pytest.mark.parametrize("arguments", [{"until": 5}, {"catch_up": "yes"}, {"cron": 5}, {"timezone": 5}])
def test_a_recurrence_of_wrong_types_is_a_type_error(arguments):
    with pytest.raises(TypeError):
        Recurrence(**{"interval": None if "cron" in arguments else 1, **arguments})


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": "5"}, "limit"),
        ({"after": datetime(2026, 1, 1)}, "after"),
        ({"before": date(2026, 1, 1)}, "before"),
        ({"states": "gone"}, "states"),
        ({"states": ["pending", "gone"]}, "states"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(arguments, field):
    with pytest.raises(InvalidArgument, match=field) as caught:
        MessageFilter(**arguments)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_retries": -1}, "max_retries must be a whole number from 0"),
        ({"max_retries": True}, "max_retries"),
        ({"max_retries": 1.5}, "max_retries"),
        ({"backoff": -1}, "backoff"),
        ({"backoff": "soon"}, "backoff"),
        ({"jitter": 2}, "jitter"),
        ({"batch_size": 0}, "batch_size"),
        ({"workers": -1}, "workers"),
        ({"max_payload": 0}, "max_payload"),
        ({"min_poll_interval": 0}, "min_poll_interval"),
        ({"max_poll_interval": float("inf")}, "max_poll_interval"),
        ({"min_poll_interval": 5, "max_poll_interval": 1}, "must not be above max_poll_interval"),
        ({"poll_interval": 0}, "poll_interval"),
        ({"lease": 0}, "lease"),
        ({"name": ""}, "name"),
        ({"name": "a:b"}, "colon"),
        ({"jobstore": "other"}, "jobstore"),
        ({"store": "ftp://somewhere"}, "No job store is known"),
        ({"transport": "ftp://user:secret@somewhere"}, "no transport is known.*known are amqp:"),
        ({"store": MemoryJobStore(), "scheduler": ManualScheduler()}, "not both"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, words):
    with pytest.raises(ValueError, match=words) as caught:
        MessageScheduler(**options)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "setting", ["poll_interval", "min_poll_interval", "max_poll_interval", "lease", "retention", "timezone"]
)
def test_a_setting_of_the_scheduler_is_refused_beside_a_scheduler(setting):
    value = {"timezone": "UTC", "retention": {"succeeded": 60}}.get(setting, 0.5)
    MessageScheduler(**{setting: value})
    with pytest.raises(InvalidArgument, match=f"{setting} cannot be given together with scheduler") as caught:
        MessageScheduler(scheduler=ManualScheduler(), **{setting: value})
    assert caught.value.field == setting


def test_all_settings_that_do_not_belong_there_are_named_at_once():
    with pytest.raises(InvalidArgument, match=r"^poll_interval, lease, timezone cannot be given"):
        MessageScheduler(scheduler=ManualScheduler(), lease=1, poll_interval=0.5, timezone="UTC")


@pytest.mark.parametrize(
    "options",
    [{"transport": 5}, {"dead_letters": object()}, {"scheduler": "redis://"}, {"store": 5}, {"batch_size": 1.5}],
)
def test_settings_of_wrong_types_are_type_errors(options):
    with pytest.raises(TypeError):
        MessageScheduler(**options)


@pytest.mark.parametrize("backoff", [timedelta(seconds=7), 7, 7.0])
def test_a_backoff_may_be_a_length_of_time(backoff):
    front = MessageScheduler(backoff=backoff, jitter=0)
    assert front._executor._retry.backoff.delay(3) == 7.0


def test_what_is_no_message_is_refused_before_anything_is_stored():
    front = MessageScheduler()
    for act in (front.schedule, lambda wrong: front.schedule_many([Message("fine"), wrong])):
        with pytest.raises(TypeError, match="must be a Message"):
            act({"event_name": "event"})
    assert front.list() == []
    with pytest.raises(TypeError, match="message_id must be a string"):
        front.get(5)
    with pytest.raises(ValueError, match="a scheduler that delivers needs one"):
        front.start()
    front.stop()


def test_the_zone_of_a_recurrence_is_that_of_its_crontab_line():
    with ManualScheduler() as scheduler:
        front = MessageScheduler(scheduler=scheduler)
        mid = front.schedule(Message("x", recurrence=Recurrence(cron="0 10 * * *", timezone=ZoneInfo("Asia/Tokyo"))))
        assert front.get(mid).scheduled_at == datetime(2026, 1, 1, 1, tzinfo=timezone.utc)
