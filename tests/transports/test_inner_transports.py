"""The transports inside of the process keep the contract of all transports."""

from __future__ import annotations

import threading

import pytest
from transport_contract import Received, TransportContract

from goscheduler.transports.callable import CallableTransport
from goscheduler.transports.channel import ChannelTransport


class TestChannel(TransportContract):
    @pytest.fixture(autouse=True)
    def _place(self) -> None:
        self.channel = ChannelTransport()

    def make(self):
        return self.channel

    def received(self, event_name: str, count: int) -> list[Received]:
        found = []
        while (message := self.channel.get(timeout=0)) is not None:
            found.append(Received(message.payload, message.headers()))
        return found


class TestCallable(TransportContract):
    @pytest.fixture(autouse=True)
    def _place(self) -> None:
        self.found: list[Received] = []
        self.lock = threading.Lock()

    def make(self):
        def take(event_name, message) -> None:
            assert event_name == message.event_name
            with self.lock:
                self.found.append(Received(message.payload, message.headers()))

        return CallableTransport(take)

    def received(self, event_name: str, count: int) -> list[Received]:
        return self.found
