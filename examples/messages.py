"""Messages that are delivered later: one that is retried, one that recurs, one that is cancelled, one that dies.

The clock is moved by hand; with ``MessageScheduler(store="redis://…", transport="amqp://…")`` the rest is the same.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from goscheduler.messages import Delivery, Message, MessageRejected, MessageScheduler, Recurrence, TransportUnavailable
from goscheduler.testing import ManualScheduler

logging.getLogger("goscheduler").setLevel(logging.CRITICAL)  # the failures below are meant


def publish(event_name: str, message: Delivery) -> None:
    if event_name == "flaky" and message.attempt < 3:
        raise TransportUnavailable("the broker is restarting")
    if event_name == "odd":
        raise MessageRejected("nobody takes this")
    print(f"{scheduler.clock.now():%H:%M:%S} {event_name} {message.payload.decode()} (attempt {message.attempt})")


with ManualScheduler() as scheduler:
    outbox = MessageScheduler(scheduler=scheduler, transport=publish, workers=0, jitter=0)
    outbox.start()
    outbox.schedule_after(timedelta(minutes=1), "flaky", "comes through in the end")
    outbox.schedule(Message("hourly", "tick", recurrence=Recurrence(interval="1h", max_occurrences=3)))
    unwanted = outbox.schedule_after("30m", "unwanted", "never seen")
    print("cancelled:", outbox.cancel(unwanted))
    outbox.schedule_after("2h", "odd", "?")
    scheduler.advance("1d")
    for dead in outbox.dead_letters():
        print(f"dead: {dead.event_name}, {dead.last_error}")
    print("pending:", outbox.health().pending)
