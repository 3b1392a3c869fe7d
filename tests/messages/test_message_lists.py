"""Pages of messages: in order, each message once, at the cost of a page, and how many there are altogether."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

import pytest
from message_doubles import Manual, Recorder

from goscheduler import fixed
from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import InvalidArgument
from goscheduler.events import EventCode
from goscheduler.messages import (
    Message,
    MessageFilter,
    MessageRejected,
    MessageScheduler,
    MessageState,
    Recurrence,
    _listing,
)
from goscheduler.messages.views import ScheduledMessage

HOUR = timedelta(hours=1)
PATIENCE = 60
ALL = frozenset(MessageState)


class ByEvent(Recorder):
    """Raises what an event is known for."""

    def __init__(self, **errors):
        super().__init__()
        self.known = errors

    def publish(self, event_name, message):
        self.tried.append(message)
        if event_name in self.known:
            raise self.known[event_name]
        self.published.append(message)


@pytest.fixture
def manual():
    with Manual(backoff=fixed(3600), jitter=0) as manual:
        manual.transport = manual.front._transport = ByEvent(retry=OSError("no"), bad=MessageRejected("odd"))
        yield manual


def all_pages(front, wanted, most=1000):
    """Return the messages of all pages, one page after the other."""
    found, page = [], front.list(wanted)
    while True:
        assert len(page) <= wanted.limit
        found += page
        if page.next is None:
            return found
        assert len(found) < most
        page = front.list(wanted, after=page.next)


def filled(manual):
    """Have messages in every state but one, and return their ids in the order of a list."""
    now, front = manual.now(), manual.front
    dead = [front.schedule(Message("bad", scheduled_at=now + timedelta(seconds=second))) for second in range(5)]
    retrying = [front.schedule(Message("retry", scheduled_at=now + timedelta(seconds=second))) for second in (5, 6)]
    manual.scheduler.advance(10)
    late = front.schedule(Message("late", scheduled_at=now + 5 * HOUR))
    pending = [front.schedule(Message("order", scheduled_at=now + HOUR)) for _ in range(6)]
    paused = front.schedule(Message("order", scheduled_at=now + HOUR))
    manual.scheduler.pause_job(paused)
    manual.scheduler.add_job(print, "date", run_date=now + HOUR, tags=["order", "messages"])
    return [*retrying, *sorted(pending), late, paused, *reversed(dead)]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 9, 10, 14, 15, 16, 1000])
def test_the_pages_of_a_list_have_each_message_once_in_one_order(manual, limit):
    ids = filled(manual)
    wanted = MessageFilter(states=ALL, limit=limit)
    assert [message.id for message in all_pages(manual.front, wanted)] == ids
    page = manual.front.list(wanted)
    assert (page.total, page.exact, page.complete, page.more) == (15, True, True, limit < 15)
    to_deliver = [message.id for message in all_pages(manual.front, MessageFilter(limit=limit))]
    assert to_deliver == ids[:10]
    assert manual.front.list(MessageFilter(limit=limit)).total == 10
    dead = [message.id for message in all_pages(manual.front, MessageFilter(states={"dead"}, limit=limit))]
    assert dead == ids[10:]
    assert manual.front.dead_letters(limit=limit).total == 5


def test_each_filter_has_its_pages_and_its_total(manual):
    ids, now = filled(manual), manual.now()
    for wanted, expected in (
        ({"event_name": "order"}, [*ids[2:8], ids[9]]),
        ({"event_name": "bad"}, ids[10:]),
        ({"after": now + timedelta(minutes=10)}, ids[2:9]),
        ({"before": now + 4 * HOUR, "event_name": "order"}, ids[2:8]),
        ({"after": now + timedelta(minutes=10), "before": now + 4 * HOUR}, ids[2:8]),
        ({"after": now + 9 * HOUR}, []),
        ({"states": {"retrying"}}, ids[:2]),
        ({"states": {"pending"}}, ids[2:10]),
        ({"states": {"delivering"}}, []),
    ):
        for limit in (2, 100):
            found = MessageFilter(**{"states": ALL, **wanted, "limit": limit})
            assert [message.id for message in all_pages(manual.front, found)] == expected, wanted
            page = manual.front.list(found)
            # The store cannot tell when a dead message was to be delivered, so it does not count these.
            has_times, has_dead = {"after", "before"} & wanted.keys(), MessageState.DEAD in found.states
            exact = page.next is None or not (has_times and has_dead)
            assert page.exact is exact
            assert page.total == len(expected) if exact else 3 <= page.total <= len(expected)


def test_a_message_that_is_delivered_between_two_pages_moves_nothing(manual):
    now = manual.now()
    ids = sorted(manual.front.schedule_many(Message("order", scheduled_at=now + HOUR) for _ in range(4)))
    first = manual.front.list(MessageFilter(limit=2))
    assert [message.id for message in first] == ids[:2]
    assert manual.front.cancel(ids[0])
    assert manual.front.cancel(ids[2])
    second = manual.front.list(MessageFilter(limit=2), after=first.next)
    assert ([message.id for message in second], second.next, second.total) == (ids[3:], None, 2)


def test_a_recurring_message_is_listed_with_its_delivery_that_goes_on(manual):
    mid = manual.front.schedule(Message("retry", recurrence=Recurrence(interval=7200)))
    manual.scheduler.run_due()
    for limit in (1, 5):
        found = all_pages(manual.front, MessageFilter(limit=limit))
        assert [(message.id, message.state.value) for message in found] == [(mid, "retrying"), (mid, "pending")]


def test_there_is_a_total_up_to_a_number(manual, monkeypatch):
    monkeypatch.setattr(_listing, "COUNT_CAP", 5)
    now = manual.now()
    for number in range(5):
        manual.front.schedule(Message("a", scheduled_at=now + number * HOUR + HOUR))
    page = manual.front.list(MessageFilter(limit=2))
    assert (page.total, page.exact) == (5, True)
    manual.front.schedule(Message("a", scheduled_at=now + HOUR))
    page = manual.front.list(MessageFilter(limit=2))
    assert (page.total, page.exact, page.more) == (5, False, True)
    page = manual.front.list(MessageFilter(limit=2, after=now + 2 * HOUR))
    assert (page.total, page.exact) == (4, True)
    for _ in range(5):
        manual.front.schedule(Message("a", scheduled_at=now + HOUR))
    page = manual.front.list(MessageFilter(limit=2, after=now + 2 * HOUR))
    assert (page.total, page.exact) == (3, False), "so many are known: those shown, and one more"
    page = manual.front.list(MessageFilter(limit=2), count=False)
    assert (len(page), page.total, page.exact, page.more) == (2, None, False, True)


def test_a_page_asks_the_store_for_no_more_than_it_shows(manual, monkeypatch):
    manual.front.schedule_many(Message("a", scheduled_at=manual.now() + HOUR) for _ in range(30))
    store = manual.scheduler.engine.stores["default"]
    asked, find_jobs = [], store.find_jobs
    monkeypatch.setattr(store, "find_jobs", lambda query: asked.append(query) or find_jobs(query))
    page = manual.front.list(MessageFilter("a", limit=7))
    page = manual.front.list(MessageFilter("a", limit=7), after=page.next)
    assert (len(page), page.total) == (7, 30)
    assert [(query.limit, query.executor, query.tag) for query in asked] == [(7, "messages", "a")] * 2


def test_a_search_through_metadata_gives_up_and_goes_on_at_the_next_page(manual, monkeypatch):
    now = manual.now()
    ids = [
        manual.front.schedule(Message("a", b"", {"n": str(number % 5)}, now + number * HOUR + HOUR))
        for number in range(20)
    ]
    wanted = MessageFilter(metadata={"n": "4"}, limit=3)
    page = manual.front.list(wanted)
    assert ([message.id for message in page], page.complete) == ([ids[4], ids[9], ids[14]], True)
    assert (page.total, page.exact, page.more) == (4, False, True), "so many are known: those shown, and one more"
    assert [message.id for message in all_pages(manual.front, wanted)] == ids[4::5]

    monkeypatch.setattr(_listing, "SEARCH_SECONDS", 0.0)
    monkeypatch.setattr(_listing, "PAGE_SIZE", 3)
    page = manual.front.list(wanted)
    assert (list(page), page.complete, page.more, page.exact) == ([], False, True, False)
    assert [message.id for message in all_pages(manual.front, wanted)] == ids[4::5]


def test_a_search_through_dead_messages_gives_up_and_goes_on_at_the_next_page(manual, monkeypatch):
    begin = manual.now()
    ids = [manual.front.schedule(Message("bad", scheduled_at=begin + number * HOUR)) for number in range(4)]
    manual.scheduler.advance(5 * HOUR)
    wanted = MessageFilter(states={"dead"}, before=begin + HOUR, limit=3)
    page = manual.front.list(wanted)
    assert ([message.id for message in page], page.complete, page.more) == (ids[:1], True, False)

    monkeypatch.setattr(_listing, "SEARCH_SECONDS", 0.0)
    page = manual.front.list(wanted)
    assert (list(page), page.complete, page.more, page.exact) == ([], False, True, False)
    assert [message.id for message in all_pages(manual.front, wanted)] == ids[:1]


def test_an_event_may_be_called_as_the_front(manual):
    now = manual.now()
    ids = sorted(manual.front.schedule_many(Message("messages", scheduled_at=now + HOUR) for _ in range(3)))
    manual.front.schedule(Message("other", scheduled_at=now + HOUR))
    for limit in (2, 10):
        assert [message.id for message in all_pages(manual.front, MessageFilter("messages", limit=limit))] == ids
    assert manual.front.list(MessageFilter("messages")).total == 3


@pytest.mark.parametrize("cursor", ["", "x", "ä", "é" * 10, 7, b"x", "A" * 3000, "MDAwMDAwMDAudy4xLjI"])
def test_a_cursor_that_is_none_is_refused(manual, cursor):
    with pytest.raises(InvalidArgument, match="after must be the cursor"):
        manual.front.list(after=cursor)


def test_a_cursor_belongs_to_its_filter_and_not_to_its_times_and_its_limit(manual):
    now = manual.now()
    manual.front.schedule_many(Message("a", b"", {"k": "v"}, now + HOUR) for _ in range(5))
    cursor = manual.front.list(MessageFilter("a", after=now, limit=2)).next
    assert len(manual.front.list(MessageFilter("a", after=now + timedelta(seconds=1), limit=50), after=cursor)) == 3
    for other in ({}, {"event_name": "b"}, {"event_name": "a"}, {"event_name": "a", "after": now, "states": {"dead"}}):
        with pytest.raises(InvalidArgument, match="by the same filter"):
            manual.front.list(MessageFilter(**other), after=cursor)


def test_a_front_that_was_not_started_has_pages_too():
    front = MessageScheduler(transport=Recorder(), workers=0)
    ids = sorted(front.schedule_many(Message("a", scheduled_at=datetime(2100, 1, 1)) for _ in range(3)))
    assert [message.id for message in all_pages(front, MessageFilter(limit=2))] == ids
    front.stop()


def test_pages_and_totals_come_from_every_store(store_url):
    due = SYSTEM_CLOCK.now() + HOUR
    letters, dead = threading.Semaphore(0), []
    transport = ByEvent(bad=MessageRejected("odd"))
    front = MessageScheduler(store_url, transport)
    front.scheduler.add_listener(lambda event: letters.release(), EventCode.JOB_DEAD_LETTERED)
    front.start()
    try:
        for _ in range(5):
            dead.insert(0, front.schedule(Message("bad", b"x")))
            assert letters.acquire(timeout=PATIENCE)
        pending = sorted(front.schedule_many(Message("a" if n % 3 else "b", b"x", {}, due) for n in range(9)))
        ids = [*pending, *dead]
        for limit in (1, 4, 9, 100):
            wanted = MessageFilter(states=ALL, limit=limit)
            found = all_pages(front, wanted)
            assert [message.id for message in found] == ids
            assert all(isinstance(message, ScheduledMessage) for message in found)
            page = front.list(wanted)
            assert (page.total, page.exact, page.complete) == (14, True, True)
        assert len(all_pages(front, MessageFilter("b", limit=2))) == 3
        assert front.list(MessageFilter("b", limit=2)).total == 3
        assert front.list(MessageFilter(after=due - HOUR, before=due, limit=2)) == []
        page = front.list(MessageFilter(after=due, limit=2))
        assert (page.total, page.exact, len(page)) == (9, True, 2)
        assert front.dead_letters("bad", limit=2).total == 5
        assert front.dead_letters("a", limit=2).total == 0
    finally:
        front.stop()
