"""A message from when it is scheduled to when it is gone, with a clock that the test moves."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest
from message_doubles import Manual, Recorder

from goscheduler import exponential, fixed
from goscheduler.errors import ConflictingIdError, NeverFires
from goscheduler.messages import (
    Message,
    MessageFilter,
    MessageNotFound,
    MessageNotPending,
    MessageRejected,
    MessageScheduler,
    MessageState,
    MessageTooLarge,
    Recurrence,
    TransportUnavailable,
)
from goscheduler.testing import ManualScheduler


@pytest.fixture
def manual():
    with Manual(backoff=fixed(10), jitter=0) as manual:
        yield manual


def test_a_message_is_delivered_at_its_time_with_everything_it_was_given(manual):
    due = manual.now() + timedelta(hours=1)
    mid = manual.front.schedule(Message("orders.reminder", b"\x00\xff", {"order": "1"}, due))
    manual.scheduler.advance("59m")
    assert manual.transport.published == []
    manual.scheduler.advance("1m")
    (message,) = manual.transport.published
    assert (message.id, message.event_name, message.payload) == (mid, "orders.reminder", b"\x00\xff")
    assert message.headers() == {
        "order": "1",
        "scheduled_message_id": mid,
        "scheduled_at": due.isoformat(),
        "event_name": "orders.reminder",
        "content_type": "application/octet-stream",
        "attempt": "1",
        "occurrence": "1",
    }
    with pytest.raises(MessageNotFound):
        manual.front.get(mid)


def test_a_message_without_a_time_or_with_one_that_is_past_is_delivered_at_once(manual):
    manual.front.schedule(Message("now"))
    manual.front.schedule(Message("past", scheduled_at=datetime(2020, 1, 1, tzinfo=timezone.utc)))
    manual.scheduler.run_due()
    assert {message.event_name for message in manual.transport.published} == {"now", "past"}


def test_a_time_without_a_zone_is_one_of_the_scheduler():
    scheduler = ManualScheduler(timezone="America/New_York")
    front = MessageScheduler(scheduler=scheduler, transport=Recorder(), workers=0)
    with scheduler:
        mid = front.schedule(Message("noon", scheduled_at=datetime(2026, 7, 1, 12)))
        assert front.get(mid).scheduled_at == datetime(2026, 7, 1, 16, tzinfo=timezone.utc)


def test_schedule_after_takes_a_delay_and_a_payload_of_any_kind(manual):
    manual.front.schedule_after(timedelta(hours=1), "orders.reminder", {"order_id": 1, "name": "Zoë"})
    manual.front.schedule_after("30m", "text", "Zoë", {"a": "b"}, id="mine")
    manual.scheduler.advance("1h")
    text, order = manual.transport.published
    assert (text.id, text.payload.decode(), text.content_type) == ("mine", "Zoë", "text/plain; charset=utf-8")
    assert (json.loads(order.payload), order.content_type) == ({"order_id": 1, "name": "Zoë"}, "application/json")


def test_an_id_that_waits_cannot_be_used_again_unless_asked_for(manual):
    def message(words):
        return Message("greeting", words, scheduled_at=manual.now() + timedelta(hours=1), id="one")

    manual.front.schedule(message("first"))
    with pytest.raises(ConflictingIdError):
        manual.front.schedule(message("second"))
    assert manual.front.schedule(message("third"), if_exists="keep") == "one"
    assert manual.front.get("one").payload == b"first"
    manual.front.schedule(message("fourth"), if_exists="replace")
    manual.scheduler.advance("2h")
    assert manual.transport.payloads == [b"fourth"]


def test_many_messages_are_scheduled_together_or_not_at_all(manual):
    with pytest.raises(ConflictingIdError):
        manual.front.schedule_many([Message("a", id="x"), Message("b", id="x")])
    assert manual.front.list() == []
    ids = manual.front.schedule_many(Message("many", str(number)) for number in range(250))
    manual.scheduler.run_due()
    assert [message.id for message in manual.transport.published] == ids


def test_a_failed_delivery_is_tried_again_as_the_policy_says(manual):
    manual.transport.errors = [TransportUnavailable("down"), OSError("still down")]
    mid = manual.front.schedule(Message("order"))
    manual.scheduler.run_due()
    message = manual.front.get(mid)
    assert (message.state, message.attempts) == (MessageState.RETRYING, 1)
    assert message.last_error == "goscheduler.errors.TransportUnavailable: down"
    manual.scheduler.advance(9)
    assert len(manual.transport.tried) == 1
    manual.scheduler.advance(11)
    assert [message.attempt for message in manual.transport.tried] == [1, 2, 3]
    assert len({message.key for message in manual.transport.tried}) == 1
    assert len(manual.transport.published) == 1


@pytest.mark.parametrize(("max_retries", "attempts"), [(1, 2), (5, 6)])
def test_after_the_last_retry_a_message_is_a_dead_letter(max_retries, attempts):
    with Manual(*[OSError("no")] * 100, max_retries=max_retries, backoff=1) as manual:
        mid = manual.front.schedule(Message("order", b"x"))
        manual.scheduler.advance("1h")
        assert len(manual.transport.tried) == attempts
        (dead,) = manual.front.dead_letters()
        assert (dead.id, dead.payload, dead.attempts, dead.last_error) == (mid, b"x", attempts, "OSError: no")
        assert manual.front.get(mid).state is MessageState.DEAD
        assert manual.front.list() == []


def test_without_a_limit_a_message_is_tried_for_ever():
    with Manual(*[OSError("no")] * 500, max_retries=0, backoff=1, jitter=0) as manual:
        manual.front.schedule(Message("order"))
        manual.scheduler.advance(600)
        assert len(manual.transport.tried) == 501
        assert len(manual.transport.published) == 1


def test_for_ever_has_no_end():
    with Manual(max_retries=0) as manual:
        policy = manual.front._executor._retry
        assert policy.decide(10**12, OSError("no"), age=0).delay is not None


@pytest.mark.parametrize("error", [OSError("no"), TransportUnavailable("no", retry_after=0)])
@pytest.mark.parametrize("backoff", [0, timedelta(0), exponential(0)])
def test_for_ever_without_a_delay_is_once_a_poll(backoff, error):
    with Manual(*[error] * 500, max_retries=0, backoff=backoff, jitter=0) as manual:
        manual.front.schedule(Message("order"))
        manual.scheduler.advance(60)
        assert len(manual.transport.tried) == 7


def test_a_number_of_retries_without_a_delay_is_made_at_once():
    with Manual(*[OSError("no")] * 3, max_retries=3, backoff=0) as manual:
        manual.front.schedule(Message("order"))
        manual.scheduler.run_due()
        assert len(manual.transport.published) == 1


def test_the_policy_of_the_process_that_delivers_counts():
    with ManualScheduler() as scheduler:
        MessageScheduler(scheduler=scheduler, max_retries=50).schedule(Message("order"))
        transport = Recorder(*[OSError()] * 100)
        MessageScheduler(scheduler=scheduler, transport=transport, max_retries=1, workers=0).start()
        scheduler.advance("1h")
        assert len(transport.tried) == 2


def test_a_message_that_the_transport_rejects_is_not_tried_again(manual):
    manual.transport.errors = [MessageRejected("too odd")]
    manual.front.schedule(Message("order"))
    manual.scheduler.advance("1h")
    assert len(manual.transport.tried) == 1
    assert manual.front.dead_letters()[0].last_error == "goscheduler.errors.MessageRejected: too odd"


def test_a_receiver_that_asks_for_a_pause_gets_it(manual):
    manual.transport.errors = [TransportUnavailable("slow down", retry_after=100)]
    manual.front.schedule(Message("order"))
    manual.scheduler.advance(99)
    assert len(manual.transport.tried) == 1
    manual.scheduler.advance(1)
    assert len(manual.transport.published) == 1


def test_a_list_that_was_cut_says_so(manual):
    manual.front.schedule_many(Message("order", scheduled_at="2026-02-01") for _ in range(3))
    cut = manual.front.list(MessageFilter(limit=2))
    assert (len(cut), cut.total, cut.more) == (2, 3, True)
    whole = manual.front.list()
    assert (len(whole), whole.total, whole.more) == (3, 3, False)
    assert isinstance(whole, list)
    assert (manual.front.dead_letters(), manual.front.dead_letters().total) == ([], 0)


def test_dead_letters_are_redriven_and_discarded():
    with Manual(*[OSError()] * 6, max_retries=1, backoff=1) as manual:
        front = manual.front
        ids = [front.schedule(Message(f"event-{number}")) for number in range(3)]
        manual.scheduler.advance("1h")
        assert [dead.id for dead in front.dead_letters("event-1")] == [ids[1]]
        assert front.redrive(ids[0]) == 1
        assert front.discard(ids[1]) == 1
        assert front.redrive_all("event-2") == 1
        manual.scheduler.run_due()
        assert {message.id for message in manual.transport.published} == {ids[0], ids[2]}
        for act in (front.redrive, front.discard):
            with pytest.raises(MessageNotFound, match=ids[1]):
                act(ids[1])
        assert front.redrive_all() == 0


def test_a_message_is_postponed_and_brought_forward(manual):
    due = manual.now() + timedelta(hours=1)
    mid = manual.front.schedule(Message("order", scheduled_at=due))
    assert manual.front.postpone(mid, to=due + timedelta(hours=1)).scheduled_at == due + timedelta(hours=1)
    manual.scheduler.advance("1h")
    assert manual.transport.published == []
    manual.front.postpone(mid, to=manual.now() + timedelta(minutes=1))
    manual.scheduler.advance("1m")
    (message,) = manual.transport.published
    assert message.scheduled_at == manual.now()


def test_only_a_message_that_waits_can_be_postponed(manual):
    manual.transport.errors = [OSError()]
    mid = manual.front.schedule(Message("order"))
    manual.scheduler.run_due()
    with pytest.raises(MessageNotPending, match=f"The message {mid} is retrying; only one that is pending"):
        manual.front.postpone(mid, to=manual.now())
    with pytest.raises(MessageNotFound):
        manual.front.postpone("nobody", to=manual.now())
    with pytest.raises(TypeError, match="to must be"):
        manual.front.postpone(mid, to=None)


def test_a_cancelled_message_is_not_delivered(manual):
    mid = manual.front.schedule(Message("order", scheduled_at=manual.now() + timedelta(hours=1)))
    assert manual.front.cancel(mid) is True
    manual.scheduler.advance("1d")
    assert manual.transport.tried == []
    with pytest.raises(MessageNotFound):
        manual.front.cancel(mid)


def test_a_message_that_waits_for_its_next_attempt_is_cancelled(manual):
    manual.transport.errors = [OSError()]
    mid = manual.front.schedule(Message("order"))
    manual.scheduler.run_due()
    assert manual.front.cancel(mid) is True
    manual.scheduler.advance("1d")
    assert len(manual.transport.tried) == 1


def test_a_dead_message_is_cancelled_by_forgetting_it():
    with Manual(MessageRejected("no")) as manual:
        mid = manual.front.schedule(Message("order"))
        manual.scheduler.run_due()
        assert manual.front.cancel(mid) is True
        assert manual.front.dead_letters() == []


def test_messages_are_listed_by_filter_the_earliest_first(manual):
    now = manual.now()
    for hour, name in ((3, "b"), (1, "a"), (2, "a")):
        manual.front.schedule(Message(name, str(hour), {"hour": str(hour)}, now + timedelta(hours=hour)))
    manual.scheduler.add_job(print, "date", run_date=now + timedelta(hours=1))

    def found(**wanted):
        return [int(message.payload) for message in manual.front.list(MessageFilter(**wanted))]

    assert found() == [1, 2, 3]
    assert found(event_name="a") == [1, 2]
    assert found(after=now + timedelta(hours=2)) == [2, 3]
    assert found(before=now + timedelta(hours=2)) == [1]
    assert found(limit=2) == [1, 2]
    assert found(metadata={"hour": "3"}) == [3]
    assert found(states="dead") == []
    assert found(states=["pending", MessageState.DEAD]) == [1, 2, 3]


def test_messages_come_again_by_interval_until_their_number_is_reached(manual):
    mid = manual.front.schedule(
        Message("tick", recurrence=Recurrence(interval="10m", max_occurrences=3), scheduled_at=manual.now())
    )
    manual.scheduler.run_due()
    assert manual.front.get(mid).recurring
    manual.scheduler.advance("2h")
    assert [message.occurrence for message in manual.transport.published] == [1, 2, 3]
    assert [message.scheduled_at.minute for message in manual.transport.published] == [0, 10, 20]
    assert len({message.key for message in manual.transport.published}) == 3
    with pytest.raises(MessageNotFound):
        manual.front.get(mid)


def test_messages_come_again_by_crontab_until_a_moment(manual):
    until = manual.now() + timedelta(hours=3)
    manual.front.schedule(Message("hourly", recurrence=Recurrence(cron="30 * * * *", until=until)))
    manual.scheduler.advance("1d")
    assert [message.scheduled_at.hour for message in manual.transport.published] == [0, 1, 2]
    assert [message.occurrence for message in manual.transport.published] == [1, 2, 3]


@pytest.mark.parametrize(("catch_up", "delivered"), [(False, [4]), (True, [1, 2, 3, 4])])
def test_times_that_passed_while_nobody_delivered_are_one_delivery_or_each_one(catch_up, delivered):
    with ManualScheduler() as scheduler:
        front = MessageScheduler(scheduler=scheduler, transport=Recorder(), workers=0)
        recurrence = Recurrence(interval=timedelta(hours=1), max_occurrences=4, catch_up=catch_up)
        front.schedule(Message("tick", recurrence=recurrence))
        scheduler.pause()
        scheduler.advance("1d")
        front.start()
        scheduler.resume()
        scheduler.run_due()
        assert [message.occurrence for message in front.transport.published] == delivered


def test_a_cancelled_recurrence_comes_no_more(manual):
    mid = manual.front.schedule(Message("tick", recurrence=Recurrence(interval=60)))
    manual.scheduler.advance(90)
    assert manual.front.cancel(mid) is True
    manual.scheduler.advance("1h")
    assert len(manual.transport.published) == 2


def test_a_recurrence_that_has_no_time_left_is_refused(manual):
    past = datetime(2020, 1, 1, tzinfo=timezone.utc)
    with pytest.raises(ValueError, match=r"until .* is before the first delivery"):
        manual.front.schedule(Message("tick", recurrence=Recurrence(interval=60, until=past)))
    with pytest.raises(NeverFires, match="cron"):
        manual.front.schedule(Message("tick", recurrence=Recurrence(cron="0 0 31 2 *")))
    soon = manual.now() + timedelta(minutes=1)
    with pytest.raises(NeverFires, match="cron"):
        manual.front.schedule(Message("tick", recurrence=Recurrence(cron="0 5 * * *", until=soon)))
    assert manual.front.list() == []


def test_a_payload_beyond_the_limit_is_refused_with_the_limit(manual):
    with pytest.raises(MessageTooLarge, match=r"has 10485760 bytes, the limit is 262144 \(max_payload\)") as caught:
        manual.front.schedule(Message("huge", b"x" * 10 * 1024 * 1024))
    assert caught.value.field == "payload"
    with pytest.raises(MessageTooLarge):
        manual.front.schedule_many([Message("small"), Message("huge", b"", {"a": "x" * 300_000})])
    assert manual.front.list() == []


def test_fronts_of_different_names_share_a_scheduler_without_mixing():
    with ManualScheduler() as scheduler:
        fronts = [
            MessageScheduler(scheduler=scheduler, transport=Recorder(), workers=0, name=name) for name in ("a", "b")
        ]
        for front in fronts:
            front.start()
        mids = [front.schedule(Message("event", scheduled_at="2026-01-01 01:00")) for front in fronts]
        assert [message.id for message in fronts[0].list()] == mids[:1]
        job = scheduler.add_job(print, "date", run_date="2026-01-02")
        for act in (fronts[0].get, fronts[0].cancel, fronts[0].redrive, fronts[0].discard):
            for foreign in (mids[1], job.id):
                with pytest.raises(MessageNotFound):
                    act(foreign)
        scheduler.advance("1h")
        assert [len(front.transport.published) for front in fronts] == [1, 1]


def test_what_is_due_while_nobody_delivers_waits():
    with ManualScheduler() as scheduler:
        front = MessageScheduler(scheduler=scheduler, transport=Recorder(), workers=0)
        front.schedule(Message("event"))
        scheduler.advance("1h")
        front.start()
        scheduler.run_due()
        front.stop()
        front.schedule(Message("event"))
        scheduler.run_due()
        assert len(front.transport.published) == 1
        front.start()
        scheduler.run_due()
        assert len(front.transport.published) == 2
        assert (front.transport.started, front.transport.closed) == (2, 1)


def test_a_scheduler_of_the_users_own_may_be_started_later():
    scheduler = ManualScheduler()
    front = MessageScheduler(scheduler=scheduler, transport=Recorder(), workers=0)
    front.start()
    front.start()
    mid = front.schedule(Message("event"))
    unwanted = front.schedule(Message("unwanted"))
    assert front.get(mid).state is MessageState.PENDING
    assert front.cancel(unwanted) is True
    for act in (front.get, front.cancel, front.redrive):
        with pytest.raises(MessageNotFound):
            act("nobody")
    assert [message.id for message in front.list()] == [mid]
    with scheduler:
        scheduler.run_due()
        assert [message.id for message in front.transport.published] == [mid]
    assert front.transport.started == 1


def test_a_job_of_the_same_task_that_is_no_message_does_no_harm(manual):
    manual.scheduler.register("goscheduler.messages", lambda *args: None)
    manual.scheduler.add_job("goscheduler.messages", "date", run_date="2026-01-02", id="odd", executor="messages")
    assert manual.front.list() == []
    with pytest.raises(MessageNotFound):
        manual.front.get("odd")
    mid = manual.front.schedule(Message("event", scheduled_at="2026-01-02"))
    manual.scheduler.advance("2d")
    assert [message.id for message in manual.transport.published] == [mid]


@pytest.mark.parametrize("asked", [float("nan"), float("inf"), -5, "soon"])
def test_a_pause_that_makes_no_sense_is_not_granted(manual, asked):
    manual.transport.errors = [TransportUnavailable("slow down", retry_after=asked)]
    manual.front.schedule(Message("order"))
    manual.scheduler.advance(10)
    assert len(manual.transport.published) == 1
