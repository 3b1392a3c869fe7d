"""One process that delivers messages to a broker, until its standard input is closed or it is killed.

``url`` of the store, ``transport`` and ``options`` as JSON come as arguments. It prints a line when it is ready and one
for every hundred messages that were delivered.
"""

from __future__ import annotations

import json
import sys

from goscheduler.events import EVENT_JOB_EXECUTED
from goscheduler.messages import MessageScheduler

EVERY = 100


def main() -> None:
    url, transport, options = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
    delivered = 0

    def count(event) -> None:
        nonlocal delivered
        delivered += 1
        if delivered % EVERY == 0:
            print("delivered", delivered, flush=True)

    front = MessageScheduler(store=url, transport=transport, **options)
    front.scheduler.add_listener(count, EVENT_JOB_EXECUTED)
    with front:
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
