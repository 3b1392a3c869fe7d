"""A program that is nothing but a scheduler: ``start()`` returns after ``shutdown()``."""

from __future__ import annotations

from goscheduler import BlockingScheduler

scheduler = BlockingScheduler()
countdown = [3, 2, 1]


@scheduler.scheduled_job("interval", seconds=0.1, id="countdown", overlap="queue")
def tick() -> None:
    print(countdown.pop(0))
    if not countdown:
        scheduler.shutdown(wait=False)  # a job may end its own scheduler


scheduler.start()
print("Lift-off.")
