"""One run from its begin to its end: the scene is set, the faults are played, and all that happened is written down."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from nemesis import Record, play
from places import Documents
from scene import PATIENCE, Scene, pause

from goscheduler import BackgroundScheduler
from goscheduler.errors import JobLookupError

LEASE = 3.0
EPSILON = 0.02
RESUME = 5.0
#: How much longer than a lease the work of a lost owner may take to be taken up.
RECOVERY = 5.0
#: What a store is asked to do, compared with the others.
SHARES = {"sqlite": 0.7, "postgresql": 0.7, "mariadb": 0.5, "etcd": 0.5, "zookeeper": 0.5}
PAGE = 1000
#: Seconds without any start after which what is left is stuck, and after which nothing is waited for any more.
STANDSTILL, LONGEST = 20.0, 180.0
GLANCE = 0.5
TRIES = 20

T = TypeVar("T")
BEAT, STALL = 0.1, 0.3


class Machine(threading.Thread):
    """Writes down when the machine itself stood still."""

    def __init__(self, path: Path) -> None:
        super().__init__(name="machine", daemon=True)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._stopped = threading.Event()

    def run(self) -> None:
        last = time.monotonic()
        while not self._stopped.wait(BEAT):
            now = time.monotonic()
            if now - last > STALL:
                os.write(self._file, (json.dumps({"t": now, "since": last, "seconds": now - last}) + "\n").encode())
            last = now

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def record(
    store: str, seed: int, faults: list[str], calm: float, timed: bool, folder: str | Path, mutant: str | None = None,
    several: bool = False,
) -> None:  # fmt: skip
    """Make one run and leave its files in ``folder``."""
    folder = Path(folder)
    folder.mkdir(parents=True)
    machine = Machine(folder / "machine.jsonl")
    machine.start()
    share = SHARES.get(store, 1.0)
    facts: dict[str, Any] = {
        "store": store, "seed": seed, "lease": LEASE, "faults": faults, "mutant": mutant, "epsilon": EPSILON,
        "recovery": LEASE + RECOVERY, "resume": RESUME, "share": share, "wall_offset": time.time() - time.monotonic(),
        "begin": time.monotonic(), "timed": timed, "several": several,
    }  # fmt: skip
    with Scene(store, seed, folder, LEASE, share, mutant, several) as scene:
        scene.start_nodes()
        scene.start_client()
        facts["heal"] = play(scene, faults, Record(folder / "nemesis.jsonl"), calm)
        late = [node.name for node in scene.nodes if not node.until_ready(LEASE + RECOVERY)]
        facts["not_ready"] = late
        pause(LEASE + RECOVERY)
        scene.stop_client()
        with Onlooker(scene) as onlooker:
            facts["quiet"] = onlooker.quiesce()
            facts["read"] = time.monotonic()
            (folder / "final.json").write_text(json.dumps(_patiently(onlooker.read), indent=1))
        facts["hanging"] = end_in_good_order(scene)
    machine.stop()
    (folder / "run.json").write_text(json.dumps(facts, indent=1))


class Onlooker:
    """A scheduler that fires nothing, on a link that no fault has been at."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._scheduler = BackgroundScheduler(
            jobstores={"default": scene.url}, lease=scene.lease, timezone="UTC", start_timeout=PATIENCE
        )

    def __enter__(self) -> Onlooker:
        self._scheduler.start(paused=True)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._scheduler.shutdown()

    def quiesce(self) -> bool:
        """Pause all jobs and wait until nothing is left to do; False if something is left all the same."""
        with (self._scene.folder / "client.jsonl").open("a", encoding="utf-8") as client:
            for job in _patiently(self._scheduler.get_jobs):
                if job.next_run_time is not None and job.trigger.__class__.__name__ != "DateTrigger":
                    client.write(json.dumps(_patiently(partial(self._pause, job.id))) + "\n")
        return self._until_quiet()

    def _until_quiet(self) -> bool:
        """Wait as long as something is still done; a backlog takes its time."""
        quiet = False
        begun = last = time.monotonic()
        started = -1
        while not (quiet := _patiently(self._is_quiet)) and time.monotonic() - last < STANDSTILL:
            pause(GLANCE)
            now = sum(node.tail.look().started for node in self._scene.nodes)
            if now != started and time.monotonic() - begun < LONGEST:
                started, last = now, time.monotonic()
        return quiet

    def _pause(self, job: str) -> dict[str, Any]:
        t0, result, error = time.monotonic(), "ok", None
        try:
            self._scheduler.pause_job(job)
        except JobLookupError as gone:
            result, error = "fail", repr(gone)
        return {"t0": t0, "t1": time.monotonic(), "op": "pause_job", "id": job, "spec": {}, "result": result,
                "error": error, "run": None}  # fmt: skip

    def _is_quiet(self) -> bool:
        return not self._scheduler.live_runs() and not self._due_jobs() and not self._due_documents()

    def _due_jobs(self) -> list[str]:
        """Return the jobs that are still to fire once, messages among them."""
        return [job.id for job in self._scheduler.get_jobs() if job.next_run_time is not None]

    def _due_documents(self) -> list[str]:
        return [document["id"] for document in self._documents() if document["sleep_until"] is not None]

    def _documents(self) -> list[dict[str, Any]]:
        scene = self._scene
        return Documents(scene.store, scene.url).read() if scene.documents else []

    def read(self) -> dict[str, Any]:
        """Return what the store holds in the end."""
        jobs = self._scheduler.get_jobs()
        live = self._scheduler.live_runs()
        letters = [
            {"job": letter.record.job_id, "run": letter.record.run_id, "fire": letter.record.fire_id,
             "attempts": letter.record.attempt, "reason": letter.reason}
            for letter in self._pages(self._scheduler.dead_letters, lambda letter: letter.record)
        ]  # fmt: skip
        return {
            "jobs": [
                {"id": job.id, "next_run_time": _unix(job.next_run_time), "state": job.state.value,
                 "run_count": job.stats.run_count} for job in jobs
            ],
            "history": [_told(record) for record in self._pages(self._scheduler.runs, lambda record: record)],
            "live": [_live(run) for run in live if run.owner is not None],
            "pending": [_live(run) for run in live if run.owner is None],
            "dead": letters,
            "suspended": [{"id": job.id, "reason": job.suspended} for job in jobs if job.suspended],
            "messages": [job.id for job in jobs if job.id.startswith("message-")],
            "documents": self._documents(),
        }  # fmt: skip

    def _pages(self, ask: Any, cursor: Any) -> Iterator[Any]:
        page = ask(limit=PAGE)
        while page:
            yield from page
            page = ask(limit=PAGE, before=cursor(page[-1]))


def end_in_good_order(scene: Scene) -> list[str]:
    """Let all processes end, and return the names of those that do not."""
    for node in scene.living():
        node.end()
    hanging = [node for node in scene.nodes if not node.until_ended(PATIENCE / 2)]
    for node in hanging:
        node.signal(10)  # SIGUSR1: its log gets the stacks of its threads
        pause(0.5)
    return [node.name for node in hanging]


def _patiently(ask: Callable[[], T]) -> T:
    """Return what a store answers, also if servers choose another leader just now because the machine is busy."""
    for _ in range(TRIES):
        try:
            return ask()
        except Exception as error:
            failure = error
            pause(GLANCE)
    raise failure


def _told(record: Any) -> dict[str, Any]:
    return {
        "job": record.job_id, "run": record.run_id, "fire": record.fire_id, "at": _unix(record.scheduled_at),
        "attempt": record.attempt, "fence": record.fence, "outcome": record.outcome.value, "owner": record.owner,
        "started_at": _unix(record.started_at), "finished_at": _unix(record.finished_at), "source": record.source.value,
        "coalesced": record.coalesced, "fire_times": record.fire_times, "crashes": record.crashes,
        "reason": record.reason,
    }  # fmt: skip


def _live(run: Any) -> dict[str, Any]:
    return {
        "job": run.job_id, "run": run.id, "state": run.state, "at": _unix(run.scheduled_at), "due": _unix(run.due_at),
        "attempt": run.attempt, "owner": run.owner, "source": run.source.value,
    }  # fmt: skip


def _unix(moment: Any) -> float | None:
    return None if moment is None else moment.timestamp()


if __name__ == "__main__":
    record(*json.loads(sys.argv[1]))
