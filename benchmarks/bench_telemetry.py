"""What telemetry costs: due no-op jobs fired with counters, with histograms and with spans, beside none of them.

The rate is that of a second of processor time of the process: telemetry costs nothing else, and other programs on the
machine do not change it. The counters are those of Prometheus. Histograms and spans go to a real SDK of OpenTelemetry,
which aggregates the first and drops the second; one contender has spans that a sampler leaves out.

``python benchmarks/bench_telemetry.py [memory|redis ...]``, both by default.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from bench_durable import LONG_AGO, OURS, durable_store, place
from contenders import WORKERS, ExecutedCounter, noop
from measure import Row, Sample, in_fresh_process, print_table, take_turns

KINDS = ("memory", "redis")
NOTHING, COUNTERS, HISTOGRAMS = "nothing", "counters", "OTel histograms"
SPANS, UNSAMPLED = "spans", "spans, none sampled"
#: The share of the rate without telemetry that has to be left. In memory, where a run costs a few microseconds,
#: nothing is promised.
BARS = {COUNTERS: 0.97, HISTOGRAMS: 0.92}
WITHOUT_BAR = ("memory",)


def rate(url: str, jobs: int, contender: str) -> float:
    """Return runs per second of processor time, from ``resume()`` to the last event; every event is counted."""
    from goscheduler import BackgroundScheduler, ThreadPoolExecutor
    from goscheduler.jobstores.memory import MemoryJobStore

    logging.disable(logging.CRITICAL)
    scheduler = BackgroundScheduler(
        jobstores={"default": durable_store(OURS, url) if url else MemoryJobStore()},
        executors={"default": ThreadPoolExecutor(WORKERS)},
        job_defaults={"misfire_grace_time": None},
        timezone="UTC",
    )
    turn_on(contender, scheduler)
    scheduler.start(paused=True)
    counter = ExecutedCounter(OURS, scheduler, jobs)
    scheduler.add_jobs({"func": noop, "trigger": "date", "run_date": LONG_AGO} for _ in range(jobs))
    begin = time.process_time()
    scheduler.resume()
    counter.wait()
    elapsed = time.process_time() - begin
    scheduler.shutdown()
    counter.verify()
    return jobs / elapsed


def turn_on(contender: str, scheduler: Any) -> None:
    from goscheduler.telemetry import Metrics, instrument

    if contender == COUNTERS:
        Metrics(scheduler)
    elif contender == HISTOGRAMS:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader

        instrument(scheduler, meter_provider=MeterProvider([InMemoryMetricReader()]), traces=False)
    elif contender in (SPANS, UNSAMPLED):
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

        provider = TracerProvider(sampler=ALWAYS_ON if contender == SPANS else ALWAYS_OFF)
        instrument(scheduler, tracer_provider=provider, metrics=False)


def main(rounds: int = 5, jobs: int = 20_000, kinds: Sequence[str] = ()) -> list[Row]:
    rows: list[Row] = []
    for kind in kinds or KINDS:
        with nullcontext("") if kind == "memory" else place(kind) as url:
            rows += _rows(kind, url, rounds, jobs)
    return rows


def _rows(kind: str, url: str, rounds: int, jobs: int) -> list[Row]:
    def measure(contender: str) -> float:
        return float(in_fresh_process("bench_telemetry", "rate", url, jobs, contender))

    contenders = (NOTHING, COUNTERS, HISTOGRAMS, SPANS, UNSAMPLED)
    rates = take_turns(rounds, contenders, measure)
    results = {name: Sample(tuple(values), unit="/s") for name, values in rates.items()}
    return [_row(kind, name, results[name], results[NOTHING]) for name in contenders[1:]]


def _row(kind: str, contender: str, measured: Sample, nothing: Sample) -> Row:
    share = measured.median / nothing.median
    bar = None if kind in WITHOUT_BAR else BARS.get(contender)
    return Row(
        f"{kind}: firing with {contender}", str(measured), f"without {nothing}", f"{share:.2f}×",
        "–" if bar is None else f"≥ {bar:.2f}×", None if bar is None else share >= bar,
    )  # fmt: skip


if __name__ == "__main__":
    print_table(main(kinds=sys.argv[1:]))
