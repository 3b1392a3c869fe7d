"""What people ask of a large store, and how long they wait: pages, counts, states, attempts, dead letters in groups.

A store is filled by way of its port: each job has fired ten times, every hundredth has failed each time. Then each
question is asked many times of a store that is warm, and the answer that is slower than 95 % of the others counts.
"""

from __future__ import annotations

import logging
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from itertools import count, islice
from typing import Any

from bench_durable import place
from contenders import noop
from measure import Row, Sample, in_fresh_process, percentile, print_table, within

from goscheduler.job import Job
from goscheduler.jobstores.types import FireRequest
from goscheduler.observer import Observer
from goscheduler.options import DEFAULTS, filled_in
from goscheduler.plugins import create_plugin
from goscheduler.runs.limits import Limit
from goscheduler.runs.model import JobState, Outcome, OutcomeKind, Owner, Settlement
from goscheduler.runs.plan import FiringPlanner, admit
from goscheduler.runs.queries import NEVER, JobPosition, JobQuery
from goscheduler.runs.records import HistoryQuery
from goscheduler.runs.transitions import settle
from goscheduler.schedulers.background import BackgroundScheduler
from goscheduler.testing import ManualScheduler
from goscheduler.times import to_micros
from goscheduler.triggers.interval import IntervalTrigger

#: Server → how many jobs; each has ten records.
LARGE = {"postgresql": 100_000, "mariadb": 100_000, "sqlite": 100_000, "redis": 100_000, "mongodb": 100_000}
SMALL = {"etcd": 10_000, "zookeeper": 10_000}
#: How often each job has fired, in a large store and in a small one.
FIRINGS, FIRINGS_OF_FEW = 10, 5
OWNERS = 50
TENANTS = 1000
PORTION = 1000
PAGE = 50
#: What a page costs at most, in milliseconds.
PAGE_MS, STATES_MS, TEXT_MS, COUNT_MS, ATTEMPTS_MS, GROUPS_MS = 60.0, 100.0, 400.0, 60.0, 30.0, 250.0
START_SECONDS, RESIDENT_MEGABYTES = 1.5, 120.0
BULK_SECONDS = 60.0
EVERYBODY = "everybody"


def fill(url: str, jobs: int, firings: int = FIRINGS) -> float:
    """Fill a store with jobs that have fired so often, and return the seconds that took."""
    logging.disable(logging.CRITICAL)
    begin = time.perf_counter()
    store = create_plugin("jobstore", "default", url)
    host = ManualScheduler()
    store.start(host, "default")
    now = datetime.now(timezone.utc)
    made = _jobs(host, jobs, firings, now)
    while batch := list(islice(made, 5000)):
        store.add_jobs(batch)
    _fire_all(store, now)
    ids = [f"job-{number:06}" for number in range(0, jobs, 50)]
    for portion in range(0, len(ids), 200):
        store.edit_jobs(ids[portion : portion + 200], _paused)
    for number in range(OWNERS):
        owner = Owner(f"owner-{number}", f"host-{number}", 4711, now, ("default", "heavy"), (), '{"v":1}')
        store.renew_owner(owner, now, timedelta(hours=2))
    store.shutdown()
    return time.perf_counter() - begin


def _jobs(host: Any, number: int, firings: int, now: datetime) -> Iterator[Job]:
    for index in range(number):
        spread = timedelta(seconds=index * 3000 / number)
        trigger = IntervalTrigger(hours=1, start_date=now - timedelta(hours=firings) + spread, timezone="UTC")
        fails = index % 100 == 0
        options = {
            "tags": [EVERYBODY, f"tenant-{index % TENANTS}"], "coalesce": False, "max_instances": FIRINGS,
            "misfire_grace_time": None, "executor": "heavy" if index % 20 == 1 else "default", "dead_letter": fails,
            "limits": [Limit(f"limit-{index % TENANTS}", concurrency=FIRINGS * number)] if index % 10 == 0 else [],
        }  # fmt: skip
        job = Job(
            host, f"job-{index:06}", trigger=trigger, func=noop, args=(), kwargs={}, name=f"Invoice no. {index}",
            next_run_time=trigger.start_date, **options,
        )  # fmt: skip
        job.options = filled_in(job.options, DEFAULTS)
        job._jobstore_alias = "default"
        yield job


def _fire_all(store: Any, now: datetime) -> None:
    """Let all that is due run, without an engine: this is about what is left afterwards."""
    numbers = count()

    def request() -> FireRequest:
        planner = FiringPlanner("owner-0", lambda job: None, lambda: f"run-{next(numbers):07}")
        room = {"default": PORTION, "heavy": PORTION}
        return FireRequest(datetime.now(timezone.utc), "owner-0", room, planner, admit)

    while True:
        fired, claimed = store.fire_due(request()), store.claim_runs(request())
        for answer in (fired, claimed):
            if answer.error is not None:
                raise answer.error
        runs = [*fired.runs, *claimed.runs]
        store.settle([_end(run) for run in runs])
        if not runs:
            return


def _end(run: Any) -> Settlement:
    now = datetime.now(timezone.utc)
    if run.job.dead_letter:
        error = ValueError(f"order {run.fence} of customer {run.id} is broken")
        return settle(run, Outcome(OutcomeKind.FAILED, error=error, started_at=now), now)
    return settle(run, Outcome(OutcomeKind.SUCCEEDED, started_at=now), now)


def _paused(job: Job) -> Job:
    from goscheduler.job import copy_with

    edited = copy_with(job, next_run_time=None)
    edited.stats = job.stats._replace(paused_by="bench", pause_id="bulk-1")
    return edited


def ask(url: str, jobs: int, calls: int) -> dict[str, float]:
    """Ask each question many times; return name → the milliseconds that 95 % of the answers came within."""
    logging.disable(logging.CRITICAL)
    draw = random.Random(1)
    with Observer(url) as observer:
        store = observer.engine.stores["default"]
        questions = _questions(observer, store, jobs, draw)
        return {name: _slow(question, calls) for name, question in questions.items()}


def _questions(observer: Any, store: Any, jobs: int, draw: random.Random) -> dict[str, Callable[[], Any]]:
    now = datetime.now(timezone.utc)

    def page(**filters: Any) -> Callable[[], Any]:
        """A page somewhere: at the beginning, or deep."""
        by_id = filters.get("sort") == "id"

        def question() -> Any:
            due = 0 if by_id else to_micros(now) + draw.randrange(3_600_000_000)
            if filters.get("state") in (JobState.PAUSED, JobState.COMPLETED):
                due = NEVER
            deep = JobPosition(due, f"job-{draw.randrange(jobs):06}")
            query = JobQuery(limit=PAGE, after=draw.choice([None, deep, deep]), **filters)
            return store.find_jobs(query)

        return question

    def states() -> Any:
        found = observer.find_jobs(limit=PAGE, tag=draw.choice([None, EVERYBODY]))
        return observer.job_states(found.jobs)

    letters = store.dead_letters(HistoryQuery(limit=100))
    tenant = f"tenant-{jobs // 2 % TENANTS}"
    return {
        "page": page(),
        "page by id": page(sort="id"),
        "page: tag of all": page(tag=EVERYBODY),
        "page: tag of few": page(tag=tenant),
        "page: executor": page(executor="heavy"),
        "page: task": page(task="contenders:noop"),
        "page: scheduled": page(state=JobState.SCHEDULED),
        "page: paused": page(state=JobState.PAUSED),
        "page: running": page(state=JobState.RUNNING),
        "page: failed last": page(last_outcome=OutcomeKind.FAILED),
        "page: due before": page(due_before=now + timedelta(minutes=30)),
        "page: pause": page(pause_id="bulk-1"),
        "page: tag and executor": page(tag=EVERYBODY, executor="heavy"),
        "page: tag, paused": page(tag=EVERYBODY, state=JobState.PAUSED),
        "states": states,
        "text: many": lambda: store.find_jobs(JobQuery(text="invoice", limit=PAGE)),
        "text: one": lambda: store.find_jobs(JobQuery(text=f"job-{draw.randrange(jobs):06}", limit=PAGE)),
        "text: none": lambda: store.find_jobs(JobQuery(text="no such text", limit=PAGE)),
        "count": lambda: store.count_jobs(JobQuery(), 10_000),
        "count: tag": lambda: store.count_jobs(JobQuery(tag=EVERYBODY), 10_000),
        "count: paused": lambda: store.count_jobs(JobQuery(state=JobState.PAUSED), 10_000),
        "count: executor": lambda: store.count_jobs(JobQuery(executor="heavy"), 10_000),
        "attempts": lambda: _attempts(store, draw.choice(letters)),
        "letter": lambda: store.dead_letter(draw.choice(letters).run.id),
        "letter groups": lambda: store.letter_groups(HistoryQuery(limit=10_000)),
        "limit usage": lambda: store.limit_usage(now),
        "processes": observer.processes,
    }  # fmt: skip


def _attempts(store: Any, letter: Any) -> Any:
    found = store.attempts(letter.run.id, letter.run.job.id)
    assert found
    return found


def _slow(question: Callable[[], Any], calls: int) -> float:
    times = []
    for number in range(calls + 2):
        begin = time.perf_counter()
        question()
        if number >= 2:
            times.append((time.perf_counter() - begin) * 1000)
        if sum(times) > 20_000:
            break  # it misses its bar by far
    return percentile(times, 0.95)


#: Runs a command and prints the memory that it took, in kilobytes. A process that is forked counts the memory of the
#: one that forked it, so this one is small.
WATCH = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def command(url: str) -> dict[str, float]:
    """Return what ``goscheduler jobs list --limit 50`` takes: seconds with the start of Python, and megabytes."""
    line = [sys.executable, "-m", "goscheduler", "jobs", "list", "--limit", "50", "--store", url]
    times, resident = [], 0.0
    for _ in range(5):
        begin = time.perf_counter()
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        times.append(time.perf_counter() - begin)
        watched = subprocess.run([sys.executable, "-S", "-c", WATCH, *line], check=True, capture_output=True, text=True)
        resident = max(resident, int(watched.stdout) / 1000)
    return {"seconds": sorted(times)[len(times) // 2], "resident": resident}


def pause_all(url: str) -> dict[str, float]:
    """Pause all jobs by a tag and resume them, beside a scheduler that fires other jobs; return seconds and rates."""
    logging.disable(logging.CRITICAL)
    defaults = {"misfire_grace_time": None}
    scheduler = BackgroundScheduler(jobstores={"default": url}, timezone="UTC", job_defaults=defaults)
    scheduler.start()
    scheduler.add_jobs([
        {"func": noop, "trigger": "interval", "seconds": 1, "id": f"beside-{number}"} for number in range(300)
    ])  # fmt: skip
    rates = []
    _catch_up(scheduler)
    with Observer(url) as observer:
        begin_count = _beside(scheduler)
        time.sleep(10)
        rates.append((_beside(scheduler) - begin_count) / 10)
        begin, begin_count = time.perf_counter(), _beside(scheduler)
        paused = observer.pause_jobs(tag=EVERYBODY, by="bench")
        elapsed = time.perf_counter() - begin
        rates.append((_beside(scheduler) - begin_count) / elapsed)
        resumed = observer.resume_jobs(pause_id=paused.id)
    scheduler.shutdown()
    assert (paused.done, paused.changed) == (True, resumed.changed), (paused, resumed)
    return {"seconds": elapsed, "jobs": paused.changed, "alone": rates[0], "meanwhile": rates[1]}


def _catch_up(scheduler: Any) -> None:
    """Wait until other jobs fire: what has come due since the store was filled goes first."""
    while _beside(scheduler) < 600:
        time.sleep(0.5)


def _beside(scheduler: Any) -> int:
    return sum(job.run_count for job in scheduler.get_jobs(text="beside-"))


def main(
    kinds: tuple[str, ...] = (*LARGE, *SMALL), jobs: int | None = None, calls: int = 60, small: int | None = None
) -> list[Row]:
    rows: list[Row] = []
    for kind in kinds:
        number = (jobs if kind in LARGE else small) or {**LARGE, **SMALL}[kind]
        with place(kind) as url:
            seconds = in_fresh_process("bench_reads", "fill", url, number, FIRINGS if kind in LARGE else FIRINGS_OF_FEW)
            print(f"  {kind}: filled in {seconds:.0f} s", flush=True)
            times = in_fresh_process("bench_reads", "ask", url, number, calls)
            rows += [_row(f"{kind}, {number:,} jobs: {name}", name, spent) for name, spent in times.items()]
            started = in_fresh_process("bench_reads", "command", url)
            bulk = in_fresh_process("bench_reads", "pause_all", url)
        rows += _rows_of_command(f"{kind}: jobs list", started) + _rows_of_bulk(kind, bulk)
    return rows


def _row(bench: str, name: str, spent: float) -> Row:
    limits = {
        "page": PAGE_MS, "states": STATES_MS, "text": TEXT_MS, "count": COUNT_MS, "attempts": ATTEMPTS_MS,
        "letter": ATTEMPTS_MS, "letter groups": GROUPS_MS,
    }  # fmt: skip
    limit = limits.get(name) or limits.get(name.partition(":")[0].partition(" by")[0])
    sample = Sample((spent,), "{:.1f}", " ms")
    return Row(bench, str(sample), "–", "–", "–", None) if limit is None else within(bench, sample, limit=limit)


def _rows_of_command(bench: str, spent: dict[str, float]) -> list[Row]:
    return [
        within(f"{bench}: seconds", Sample((spent["seconds"],), "{:.2f}", " s"), limit=START_SECONDS),
        within(f"{bench}: resident", Sample((spent["resident"],), "{:.0f}", " MB"), limit=RESIDENT_MEGABYTES),
    ]


def _rows_of_bulk(kind: str, bulk: dict[str, float]) -> list[Row]:
    share = bulk["meanwhile"] / bulk["alone"]
    return [
        within(f"{kind}: pause of {bulk['jobs']:,.0f}", Sample((bulk["seconds"],), "{:.1f}", " s"), limit=BULK_SECONDS),
        Row(
            f"{kind}: firings meanwhile", f"{bulk['meanwhile']:.0f}/s against {bulk['alone']:.0f}/s", "–",
            f"{share:.2f}×", "≥ 0.9×", share >= 0.9,
        ),
    ]  # fmt: skip


if __name__ == "__main__":
    print_table(main(kinds=tuple(sys.argv[1:]) or (*LARGE, *SMALL)))
