"""A scheduler beside your program: start it, go on with your work, shut it down at the end."""

from __future__ import annotations

import threading

from goscheduler import BackgroundScheduler

three_times = threading.Event()
greeted: list[str] = []


def greet(name: str) -> None:
    greeted.append(name)
    print(f"Hello, {name}! ({len(greeted)})")
    if len(greeted) == 3:
        three_times.set()


scheduler = BackgroundScheduler()
# A run that comes due while the previous one is still running waits for it; by default it is skipped with a warning.
scheduler.add_job(greet, "interval", seconds=0.1, args=["world"], id="greeting", overlap="queue")
scheduler.start()

three_times.wait(timeout=60)  # your program's own work
scheduler.shutdown()
print("Done.")
