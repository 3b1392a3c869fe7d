"""One process that declares schedules and tells of every firing. Its clock is set by its standard input."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import timedelta

from goscheduler import BackgroundScheduler
from goscheduler.clock import SystemClock
from goscheduler.jobstores.redis import RedisJobStore
from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from goscheduler.periodic import Schedule, ScheduleRegistry

STORES = {"redis": RedisJobStore, "postgresql": SQLAlchemyJobStore}


class MovedClock(SystemClock):
    """A clock that is ahead by as many seconds as it was told."""

    __slots__ = ("ahead",)

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self):
        return super().now() + timedelta(seconds=self.ahead)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("url")
    parser.add_argument("pipe", type=int)
    parser.add_argument("count", type=int)
    options = parser.parse_args()

    def say(*words) -> None:
        os.write(options.pipe, (" ".join(map(str, words)) + "\n").encode())

    def publish(dispatch) -> None:
        say("ran", dispatch.schedule_id, dispatch.scheduled_at.isoformat(), os.getpid())

    registry, clock = ScheduleRegistry(dispatch=publish), MovedClock()
    for number in range(options.count):
        registry.register(Schedule(id=f"s{number}", cron="* * * * *", job="anything"))
    store = STORES[options.kind](url=options.url, server_time=False)
    scheduler = BackgroundScheduler(jobstores={"default": store}, clock=clock, lease=86_400, timezone="UTC")
    scheduler.sync(registry)
    scheduler.start()
    say("ready", os.getpid())
    for line in sys.stdin:
        clock.ahead = float(line)
        scheduler.wakeup()
    scheduler.shutdown()


if __name__ == "__main__":
    main()
