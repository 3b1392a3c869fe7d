"""Two processes write to the same report, one after the other. Then one dies with the lock."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from goscheduler.locks import acquire, lock


def write_report(place: str, report: str) -> None:
    with lock(place, "report", ttl=30, wait=30, renew=True) as held:
        lines = Path(report).read_text().splitlines()  # nobody else can come between this and the next line
        Path(report).write_text("\n".join([*lines, f"line {len(lines) + 1}"]))
        held.check()


def die(place: str) -> None:
    acquire(place, "report", ttl=5)
    os._exit(1)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place, report = f"sqlite:///{folder}/locks.db", Path(folder, "report.txt")
        with lock(place, "report"):
            report.write_text("")
        run_all(write_report, [(place, str(report))] * 2)
        print(report.read_text())

        run_all(die, [(place,)])
        print("free right after the crash:", acquire(place, "report") is not None)
        held = lock(place, "report", wait=60)
        print("free when its time was over:", held.held)
        held.release()


def run_all(work: Callable[..., None], arguments: list[tuple[str, ...]]) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=work, args=each) for each in arguments]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


if __name__ == "__main__":
    main()
