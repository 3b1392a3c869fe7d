"""The largest message that the default limit allows goes through every store, but for two that keep less."""

from __future__ import annotations

import pytest

from goscheduler.messages import Message, MessageScheduler
from goscheduler.messages._settings import MAX_PAYLOAD
from goscheduler.transports.channel import ChannelTransport

PATIENCE = 60


#: Store → how many bytes a message may have there.
SIZES = {
    **dict.fromkeys(["sqlite", "postgresql", "mariadb", "redis", "mongodb"], MAX_PAYLOAD),
    "etcd": 240_000,
    "zookeeper": 140_000,
}


@pytest.mark.parametrize(("kind", "size"), SIZES.items(), ids=SIZES)
def test_the_largest_messages_are_delivered_from_every_store(kind, size, url_of):
    channel = ChannelTransport()
    front = MessageScheduler(store=url_of(kind), transport=channel)
    payloads = {bytes([number]) * size for number in range(5)}
    with front:
        front.schedule_many(Message("large", payload) for payload in payloads)
        assert {channel.get(PATIENCE).payload for _ in payloads} == payloads
        if size < MAX_PAYLOAD:
            with pytest.raises(ValueError, match="this job store keeps at most"):
                front.schedule(Message("too large", bytes(MAX_PAYLOAD)))
