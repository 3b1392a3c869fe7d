"""Ten thousand jobs that all fail, three attempts each: how many attempts and dead letters there are, and how fast."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from goscheduler import BackgroundScheduler, Retry, fixed
from goscheduler.events import EVENT_JOB_DEAD_LETTERED

PATIENCE = 300
EVERYTHING = 100_000


class Letters:
    """Counts dead letters, and tells when as many as expected were heard of."""

    def __init__(self) -> None:
        self._heard = 0
        self._changed = threading.Condition()

    def __call__(self, event: object) -> None:
        with self._changed:
            self._heard += 1
            self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: self._heard >= count, PATIENCE):
                raise TimeoutError(f"only {self._heard} of {count} dead letters were heard of within {PATIENCE} s")


def fail() -> None:
    raise ValueError("no")


def main(jobs: int = 10_000) -> dict[str, int]:
    """Print and return the counts; raise if one of them is not exact."""
    logging.disable(logging.CRITICAL)
    scheduler, letters = BackgroundScheduler(timezone="UTC"), Letters()
    scheduler.add_listener(letters, EVENT_JOB_DEAD_LETTERED)
    scheduler.start(paused=True)
    for _ in range(jobs):
        scheduler.add_job(fail, retry=Retry(3, fixed(0.1)))
    begin = time.perf_counter()
    scheduler.resume()
    letters.wait_for(jobs)
    counts = {"attempts": _attempts(scheduler), "dead letters": _dead(scheduler)}
    counts["redriven"] = scheduler.redrive_all()
    letters.wait_for(2 * jobs)
    counts["attempts after"], counts["dead letters after"] = _attempts(scheduler), _dead(scheduler)
    elapsed = time.perf_counter() - begin
    scheduler.shutdown()
    print("\n".join(f"{name:<20}{count:>8,}" for name, count in counts.items()))
    print(f"{4 * jobs / elapsed:,.0f} attempts a second")
    if list(counts.values()) != [3 * jobs, jobs, jobs, 4 * jobs, jobs]:
        raise AssertionError(f"expected {3 * jobs}, {jobs}, {jobs}, {4 * jobs} and {jobs}")
    return counts


def _attempts(scheduler: Any) -> int:
    return len(scheduler.runs(limit=EVERYTHING))


def _dead(scheduler: Any) -> int:
    return len(scheduler.dead_letters(limit=EVERYTHING))


if __name__ == "__main__":
    main()
