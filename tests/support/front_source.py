"""A source with everything that pages show beside jobs: messages, schedules, documents, locks, alerts."""

from __future__ import annotations

from datetime import timedelta

from operation_doubles import nothing
from web_page_ids import ODD_IDS

from goscheduler import Limit
from goscheduler.alerts import Alert, Alerts, Failures
from goscheduler.documents.memory import MemoryDocumentStore
from goscheduler.errors import MessageRejected
from goscheduler.locks import acquire
from goscheduler.locks.memory import MemoryLocks
from goscheduler.messages import Message, MessageScheduler, Recurrence
from goscheduler.ops.source import Source
from goscheduler.periodic import Schedule, ScheduleRegistry

MESSAGE_IDS = tuple(f"{each}!" for each in ODD_IDS)
#: What a page would render if it were careless.
MARKUP = "<b>bold</b><script>alert(1)</script>"


def publish(event_name, message):
    """Deliver a message, but for those that are called "bad"."""
    if event_name == "bad":
        raise MessageRejected(f"nobody wants it {MARKUP}")


def front_source(scheduler):
    """Return the source of a scheduler that has run for a while."""
    scheduler.register("greet", nothing)
    messages = MessageScheduler(scheduler=scheduler, transport=publish, workers=0)
    messages.start()
    now = scheduler.clock.now()
    kept = [
        Message("reminder.due", {"invoice": 4711}, {"team": "billing", "api_key": "hush"}, now + timedelta(hours=1),
                id="json"),
        Message("picture", b"\x89PNG\r\n", {}, now + timedelta(hours=2), id="bytes",
                recurrence=Recurrence(cron="0 7 * * *", timezone="UTC", max_occurrences=3)),
        *(Message(each, MARKUP, {}, now + timedelta(hours=3), id=each) for each in MESSAGE_IDS),
        Message("bad", {"n": 1}, {}, now, id="dead"),
    ]  # fmt: skip
    for message in kept:
        messages.schedule(message)
    scheduler.run_due()
    scheduler.add_job(nothing, "date", run_date=now + timedelta(days=1), id="limited", limits=[Limit(MARKUP, 3)])
    locks = MemoryLocks(scheduler.clock)
    for name in ("nightly-close", MARKUP):
        acquire(locks, name, 3600)
    Alerts(scheduler, [Alert("failures", [Failures(1)], to=["nobody"])], {"nobody": nothing}).evaluate()
    documents = [{"_id": "due", "sleepUntil": now}, {"_id": MARKUP, "sleepUntil": MARKUP}]
    return Source(
        scheduler, messages=messages, schedules=_registry(scheduler), locks=locks,
        documents={"crontab": MemoryDocumentStore(documents), MARKUP: MemoryDocumentStore([])},
    )  # fmt: skip


def _registry(scheduler):
    """Return schedules of which one is stored as it is, one otherwise, one not at all; one more is only stored."""
    stored, declared = ScheduleRegistry(), ScheduleRegistry()
    for cron, ids, registry in (
        ("0 * * * *", ("same", "changed", "gone"), stored), ("0 * * * *", ("same",), declared),
        ("*/30 * * * *", ("changed", "new"), declared),
    ):  # fmt: skip
        for each in ids:
            registry.register(Schedule(id=each, cron=cron, job="greet", description=MARKUP))
    scheduler.sync(stored)
    return declared
