"""Other processes that use locks.

``lock_node.py hold URL NAME TTL [renew]`` has a lock, tells its fence, and then does what is asked of it.
``lock_node.py count URL PROCESSES TIMES FILE`` adds to the number in a file under a lock, in many processes at once.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from goscheduler.locks import Lock, lock
from goscheduler.locks._find import backend_for, close_connections


def hold(url: str, name: str, ttl: str, *options: str) -> None:
    held = lock(url, name, float(ttl), renew="renew" in options)
    print(held.fence, flush=True)
    for line in sys.stdin:
        print(_answer(held, line.strip()), flush=True)


def _answer(held: Lock, question: str) -> object:
    if question == "held":
        return held.held
    if question == "lost":
        return held.lost.wait(60)
    return held.extend() if question == "extend" else held.release()


def count(url: str, processes: str, times: str, file: str) -> None:
    backend_for(url)  # so that drivers are imported once
    children = []
    for _ in range(int(processes)):
        child = os.fork()
        if not child:
            _count_here(url, int(times), Path(file))
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.exit(max(codes, key=abs))


def _count_here(url: str, times: int, file: Path) -> None:
    """Count, and leave the process without what belongs to its parent."""
    try:
        for _ in range(times):
            with lock(url, "counter", ttl=20, wait=100) as held:
                number, fence = map(int, file.read_text().split())
                assert held.fence > fence, f"fence {held.fence} comes after {fence}"
                file.write_text(f"{number + 1} {held.fence}")
        close_connections()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    {"hold": hold, "count": count}[sys.argv[1]](*sys.argv[2:])
