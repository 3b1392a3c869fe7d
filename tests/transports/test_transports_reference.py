"""The page about transports names every option and every URL, and nothing that is not."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from goscheduler.errors import InvalidArgument
from goscheduler.transports.kafka import KafkaTransport
from goscheduler.transports.kombu import KombuTransport
from goscheduler.transports.nats import NatsTransport
from goscheduler.transports.redis_streams import RedisStreamsTransport
from goscheduler.transports.registry import TRANSPORTS, create_transport
from goscheduler.transports.webhook import WebhookTransport

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "transports.md").read_text(encoding="utf-8")
CLASSES = {
    "RabbitMQ, and what else Kombu speaks": KombuTransport,
    "Redis Streams": RedisStreamsTransport,
    "NATS JetStream": NatsTransport,
    "Kafka": KafkaTransport,
    "Webhook": WebhookTransport,
}


@pytest.mark.parametrize("title", CLASSES)
def test_the_page_names_every_option_of_a_transport_and_its_default(title) -> None:
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    table = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", section, re.MULTILINE))
    parameters = inspect.signature(CLASSES[title]).parameters
    assert set(table) == set(parameters) - {"url"}
    for name, told in table.items():
        default = parameters[name].default
        written = {"": '""', None: "none"}.get(default, f"{default:g}" if isinstance(default, float) else str(default))
        assert told.strip("`") in (written, f'"{default}"', "the system's", '[prefix + ">"]'), name


def test_the_page_names_every_url() -> None:
    rows = re.findall(r"^\| (`[^|]*://?`|`[^|]*:name`)[^|]*\|", PAGE, re.MULTILINE)
    told = {name.partition(":")[0] for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert told - {"kombu+…"} == set(TRANSPORTS)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("amqp://localhost", KombuTransport),
        ("kombu+memory://", KombuTransport),
        ("redis://localhost", RedisStreamsTransport),
        ("nats://localhost", NatsTransport),
        ("tls+nats://localhost", NatsTransport),
        ("kafka://one:9092,two:9092/orders", KafkaTransport),
        ("https://example.com/{event_name}", WebhookTransport),
    ],
)
def test_a_url_finds_its_transport(url, expected) -> None:
    transport = create_transport({"type": url, "timeout": 3})
    assert type(transport) is expected
    transport.close()


def test_a_scheme_that_nobody_knows_is_refused_with_the_known_ones_and_without_the_password() -> None:
    with pytest.raises(InvalidArgument, match="amqp:, amqps:, redis:") as refused:
        create_transport("mqtt://user:hunter2@localhost")
    assert "hunter2" not in str(refused.value)
