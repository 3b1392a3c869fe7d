"""Transports by URL, the channel and the function."""

from __future__ import annotations

import threading
from datetime import datetime, timezone

import pytest

from goscheduler.messages import BaseTransport, Delivery, TransportUnavailable
from goscheduler.transports import registry
from goscheduler.transports.callable import CallableTransport
from goscheduler.transports.channel import ChannelTransport, channel
from goscheduler.transports.registry import TRANSPORTS, create_transport

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def delivery(number=0, event_name="event"):
    return Delivery(str(number), event_name, b"x", "text/plain", NOON)


def test_a_channel_gives_messages_in_order():
    transport = ChannelTransport()
    for number in range(3):
        transport.publish("event", delivery(number))
    assert [transport.get(0).id for _ in range(3)] == ["0", "1", "2"]
    assert transport.get(timeout=0.001) is None


def test_a_channel_that_is_full_takes_no_more_until_somebody_fetches():
    transport = ChannelTransport(maxsize=1)
    transport.publish("event", delivery(1))
    with pytest.raises(TransportUnavailable, match="the channel is full: 1 messages"):
        transport.publish("event", delivery(2))
    transport.get()
    assert transport.publish_many([delivery(3), delivery(4)])[0] is None


@pytest.mark.parametrize("size", [0, -1, True, "5", None])
def test_the_room_of_a_channel_is_a_positive_number(size):
    with pytest.raises(ValueError, match="maxsize"):
        ChannelTransport(maxsize=size)


def test_subscribers_get_what_they_want_and_fail_a_delivery_by_raising():
    transport, heard = ChannelTransport(), []
    transport.subscribe(lambda message: heard.append(("all", message.id)))
    transport.subscribe(lambda message: heard.append(("b", message.id)), "b")
    transport.publish("a", delivery(1, "a"))
    transport.publish("b", delivery(2, "b"))
    assert heard == [("all", "1"), ("all", "2"), ("b", "2")]

    def refuse(message):
        raise OSError("no")

    transport.subscribe(refuse)
    first, second = transport.publish_many([delivery(3), delivery(4)])
    assert isinstance(first, OSError)
    assert isinstance(second, OSError)
    with pytest.raises(TypeError, match="function"):
        transport.subscribe("nobody")


def test_a_channel_is_found_by_its_name_anywhere_in_the_process():
    assert create_transport("channel:orders") is create_transport("channel://orders") is channel("orders")
    assert channel("orders") is not channel("others")
    assert create_transport({"type": "channel:small", "maxsize": 1})._queue.maxsize == 1


def test_a_function_is_called_and_a_coroutine_function_is_run():
    called = []
    create_transport(lambda *arguments: called.append(arguments)).publish("event", delivery())

    async def handle(event_name, message):
        called.append((event_name, message.id, threading.current_thread() is threading.main_thread()))

    create_transport(handle).publish("event", delivery())
    assert called == [("event", delivery()), ("event", "0", True)]
    with pytest.raises(TypeError, match="function"):
        CallableTransport(None)


def test_an_object_that_can_publish_is_taken_as_it_is():
    class Mine:
        def publish(self, event_name, message):
            raise NotImplementedError

    mine = Mine()
    assert create_transport(mine) is mine
    with pytest.raises(NotImplementedError):
        BaseTransport().publish("event", delivery())
    with pytest.raises(NotImplementedError, match="BaseTransport is not made from a URL"):
        BaseTransport.from_url("x:")


@pytest.mark.parametrize("url", ["", "nothing", "ftp://user:secret@host", "mqtt:1883", "://x"])
def test_a_url_that_nobody_knows_is_refused_with_those_that_are_known(url):
    with pytest.raises(ValueError, match=r"no transport is known.*amqp:.*channel:.*kombu\+") as caught:
        create_transport(url)
    assert "secret" not in str(caught.value)


def test_a_dict_needs_a_url():
    with pytest.raises(ValueError, match='"type"'):
        create_transport({"maxsize": 5})


@pytest.mark.parametrize("scheme", sorted(set(TRANSPORTS) - {"channel"}))
def test_a_transport_whose_package_is_not_there_names_the_extra(scheme, monkeypatch):
    def nothing_there(module):
        raise ImportError(f"No module named {module}")

    monkeypatch.setattr(registry.importlib, "import_module", nothing_there)
    with pytest.raises(ImportError, match=rf'pip install "goscheduler\[{TRANSPORTS[scheme].extra}\]"'):
        create_transport(f"{scheme}://host")


def test_what_kombu_speaks_besides_is_asked_for_by_its_name(monkeypatch):
    asked = []

    class Kombu(BaseTransport):
        @classmethod
        def from_url(cls, url, **options):
            asked.append((url, options))
            return cls()

    monkeypatch.setattr(registry, "_load", lambda scheme, entry: Kombu)
    create_transport({"type": "kombu+memory://x", "exchange": "y"})
    assert asked == [("memory://x", {"exchange": "y"})]
