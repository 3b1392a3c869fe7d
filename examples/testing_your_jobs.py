"""Test three days of a job in a millisecond: a scheduler without threads, whose clock the test moves."""

from __future__ import annotations

from goscheduler.events import EVENT_JOB_ERROR
from goscheduler.testing import EventRecorder, ManualScheduler

sent: list[str] = []


def send_invoice() -> None:
    sent.append(f"invoice {len(sent) + 1}")


def test_an_invoice_goes_out_every_morning() -> None:
    with ManualScheduler() as scheduler:
        recorder = EventRecorder(scheduler)
        scheduler.add_job(send_invoice, "cron", hour=9)
        scheduler.advance("1d")
        print(f"after 1 day: {sent}")
        scheduler.advance("2d")
        print(f"after 3 days: {sent}")
        assert len(sent) == 3
        assert not recorder.of(EVENT_JOB_ERROR)


test_an_invoice_goes_out_every_morning()  # pytest would find it by its name
