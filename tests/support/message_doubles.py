"""What the tests of messages share: transports that remember or refuse, and a front whose clock a test moves."""

from __future__ import annotations

from goscheduler.messages import BaseTransport, MessageScheduler
from goscheduler.testing import ManualScheduler


class Recorder(BaseTransport):
    """Remembers what is published; raises the next of ``errors`` first, as long as there are some."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.published = []
        self.tried = []
        self.started = self.closed = 0
        self.is_healthy = True

    def start(self):
        self.started += 1

    def close(self):
        self.closed += 1

    def healthy(self):
        return self.is_healthy

    def publish(self, event_name, message):
        self.tried.append(message)
        if self.errors:
            raise self.errors.pop(0)
        assert event_name == message.event_name
        self.published.append(message)

    @property
    def payloads(self):
        return [message.payload for message in self.published]


class Manual:
    """A front on a scheduler without threads, for a ``with`` statement."""

    def __init__(self, *errors, **options):
        self.transport = Recorder(*errors)
        self.scheduler = ManualScheduler()
        self.front = MessageScheduler(scheduler=self.scheduler, transport=self.transport, workers=0, **options)

    def __enter__(self):
        self.scheduler.start()
        self.front.start()
        return self

    def __exit__(self, *exc_info):
        self.front.stop()
        self.scheduler.shutdown()

    def now(self):
        return self.scheduler.clock.now()
