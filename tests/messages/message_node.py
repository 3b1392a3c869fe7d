"""One process that delivers messages, for tests that need another one. Told what to do by lines, tells what it does.

``url`` and ``options`` (JSON) come as arguments. It prints ``ready``, then ``publishing <id>`` for each message that it
begins to publish and ``published <id>`` when that is done. With ``--gate`` it publishes nothing before a line comes.
"""

from __future__ import annotations

import json
import sys
import threading

from goscheduler.messages import MessageScheduler


def main() -> None:
    url, options = sys.argv[1], json.loads(sys.argv[2])
    gate = threading.Event()
    if "--gate" not in sys.argv:
        gate.set()
    speaking = threading.Lock()

    def say(*words: str) -> None:
        with speaking:
            print(*words, flush=True)

    def publish(event_name, message):
        say("publishing", message.id)
        gate.wait()
        say("published", message.id)

    with MessageScheduler(store=url, transport=publish, **options):
        say("ready")
        for line in sys.stdin:
            if line == "go\n":
                gate.set()
        gate.set()
    say("ended")


if __name__ == "__main__":
    main()
