"""A process with a scheduler on a Redis store, for tests that start several and kill some.

``redis_jobs.py URL LEASE [STEP before|after]``: the last two say around which step of the store it kills itself.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import lru_cache

import redis

from goscheduler import BackgroundScheduler
from goscheduler.jobstores.redis.scripts import ScriptClient

NOTES = "notes"
remembered: list[str] = []


def remember(name: str) -> None:
    """Note in this process that a job has run."""
    remembered.append(name)


def save(url: str) -> None:
    """Let a server keep on disk what it has at this moment, once."""
    if not remembered:
        client(url).save()
    remembered.append("saved")


def note(url: str, name: str) -> None:
    """Write down that a job has run."""
    client(url).rpush(NOTES, name)


@lru_cache(maxsize=1)
def client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=60)


def main(url: str, lease: str, step: str = "", when: str = "") -> None:
    """Run a scheduler until somebody closes the standard input."""
    if step:
        die_at(step, when)
    scheduler = BackgroundScheduler(jobstores={"default": url}, lease=float(lease), timezone="UTC")
    scheduler.start()
    sys.stdin.read()
    scheduler.shutdown()


def die_at(step: str, when: str) -> None:
    """Be killed when a step is taken for the first time."""
    take = ScriptClient.call

    def step_of_death(self, name, *arguments):
        if name == step and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = take(self, name, *arguments)
        if name == step and (step != "take_due" or b'"taken":[' in answer):
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    ScriptClient.call = step_of_death


if __name__ == "__main__":
    import redis_jobs  # jobs refer to the module by this name

    redis_jobs.main(*sys.argv[1:])
