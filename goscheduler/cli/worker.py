"""``goscheduler worker``: a scheduler as a program of its own."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated

import typer
from rich.console import Console

from goscheduler.cli._board import Board
from goscheduler.cli._command_error import FAILED, CommandError, errors_told, one_line
from goscheduler.cli._host import Host, HostEvent, HostEventKind
from goscheduler.cli._logging import read_format, read_level, set_up_logging
from goscheduler.cli._options import Debug
from goscheduler.cli._settings import apply_settings, doubt_about_unit, read_settings
from goscheduler.cli._systemd import Systemd
from goscheduler.cli._target import find_scheduler
from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.logs import guarded_logger
from goscheduler.schedulers.base import BaseScheduler

#: Seconds that stores are given to take runs back when a worker stops at once.
GIVE_BACK_SECONDS = 5.0
#: A signal that follows the first so closely is the same one: some tools tell a process and then its whole group.
ECHO_SECONDS = 0.25
SIGNALS = (signal.SIGINT, signal.SIGTERM)

_logger = guarded_logger("goscheduler.worker")


def run_worker(
    target: Annotated[
        str | None,
        typer.Argument(
            envvar="GOSCHEDULER_APP", metavar="MODULE:SCHEDULER",
            help="The scheduler to start, or a function that returns it.",
        ),
    ] = None,
    app: Annotated[
        str | None, typer.Option("--app", "-a", metavar="MODULE:SCHEDULER", help="The same, as an option.")
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, envvar="CONCURRENCY", help="How many jobs run at once in the executor 'default'."),
    ] = None,
    poll_interval: Annotated[
        str | None,
        typer.Option(
            envvar="POLL_INTERVAL", metavar="SECONDS",
            help="The longest rest between two looks at the job stores: seconds, or a duration such as 5000ms.",
        ),
    ] = None,
    queues: Annotated[
        str | None,
        typer.Option(
            envvar="QUEUES", metavar="NAMES",
            help="Only run jobs of these executors, separated by commas; others are left to other workers.",
        ),
    ] = None,
    log_level: Annotated[str, typer.Option(help="The lowest level that is logged.")] = "INFO",
    log_format: Annotated[
        str, typer.Option(metavar="text|json", help="How log lines are written: for people, or as JSON objects.")
    ] = "text",
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Serve metrics for Prometheus on this port, at /metrics; /livez and /readyz, too.",
        ),
    ] = None,
    metrics_host: Annotated[str, typer.Option(help="The address that metrics are served on.")] = "0.0.0.0",
    metrics_cluster: Annotated[
        bool, typer.Option("--metrics-cluster", help="Also serve what the job stores tell of all processes together.")
    ] = False,
    debug: Debug = False,
) -> None:  # fmt: skip
    """Start a scheduler and keep it running.

    SIGTERM or Ctrl-C lets running jobs end; a second one stops at once.
    """
    with errors_told(debug):
        settings = read_settings(concurrency, poll_interval, queues)
        level, log_format = read_level(log_level), read_format(log_format)
        console = Console(stderr=True, markup=False, highlight=False, emoji=False)
        scheduler = find_scheduler(app or target)
        apply_settings(scheduler, settings)
        # After the import, so that a module that sets up logging itself has its way.
        set_up_logging(level, console, log_format)
        if poll_interval is not None and (doubt := doubt_about_unit(poll_interval)):
            _logger.warning(doubt)
        if metrics_port is not None:
            serve_metrics(scheduler, metrics_port, metrics_host, metrics_cluster)
        Worker(scheduler, console, live_line=log_format == "text").run()


def serve_metrics(scheduler: BaseScheduler, port: int, host: str, cluster: bool) -> None:
    """Serve the metrics of a scheduler until this process ends."""
    from goscheduler.telemetry.metrics import Metrics
    from goscheduler.telemetry.server import MetricsServer

    probes = {"/livez": scheduler.liveness, "/readyz": scheduler.readiness}
    server = MetricsServer(Metrics(scheduler, cluster=cluster).text, port, host, probes)
    server.start()
    _logger.info("Metrics are at http://%s:%d/metrics", host, server.port)


class Worker:
    """Keeps a scheduler running until it ends by itself or a signal ends it."""

    def __init__(self, scheduler: BaseScheduler, console: Console, live_line: bool = True) -> None:
        self._scheduler = scheduler
        self._host = Host(scheduler)
        self._systemd = Systemd(os.environ, scheduler.liveness)
        self._board = Board(scheduler)
        self._console = console
        self._live_line_wanted = live_line
        self._started = False
        self._asked_to_stop_at: float | None = None

    def run(self) -> None:
        """Start the scheduler and return when it has ended. A second signal ends the process."""
        previous = {number: signal.signal(number, self._hear) for number in SIGNALS}
        try:
            self._host.start()
            with self._live_line():
                self._follow()
        finally:
            self._systemd.close()
            for number, handler in previous.items():
                signal.signal(number, handler)
        _logger.info("Worker stopped: %s", self._board.total())

    def _hear(self, number: int, frame: object) -> None:
        self._host.events.put(HostEvent(HostEventKind.SIGNAL, signal=number))

    def _live_line(self) -> AbstractContextManager[None]:
        on_terminal = self._console.is_terminal and not self._console.is_dumb_terminal
        shown = on_terminal and self._live_line_wanted
        return self._board.shown_on(self._console) if shown else nullcontext()

    def _follow(self) -> None:
        while True:
            event = self._host.next_event()
            if event.kind is HostEventKind.ENDED:
                return
            if event.kind is HostEventKind.FAILED:
                assert event.error is not None
                raise CommandError(f"the scheduler failed: {one_line(event.error)}", FAILED) from event.error
            if event.kind is HostEventKind.STARTED:
                self._begin()
            else:
                self._stop(event.signal)

    def _begin(self) -> None:
        self._started = True
        self._systemd.ready()
        _logger.info("Worker started; SIGTERM or Ctrl-C lets running jobs end and stops it")
        if self._asked_to_stop_at is not None:
            self._host.stop()

    def _stop(self, number: int) -> None:
        """Drain at the first signal; at the second one, give back what runs and end the process."""
        now = SYSTEM_CLOCK.monotonic()
        if self._asked_to_stop_at is not None:
            if now - self._asked_to_stop_at >= ECHO_SECONDS:
                self._stop_at_once(number)
            return
        self._asked_to_stop_at = now
        self._systemd.stopping()
        _logger.info("Draining: no more jobs are fired, running jobs may end; signal again to stop at once")
        self._host.stop()  # also a start that waits for a store

    def _stop_at_once(self, number: int) -> None:
        _logger.warning("Stopped at once, with jobs running; returning their runs to the stores")
        giving = threading.Thread(target=give_back_runs, args=(self._scheduler,), daemon=True)
        giving.start()
        giving.join(GIVE_BACK_SECONDS)
        self._console.show_cursor()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(128 + number)  # threads cannot be ended, and an orderly exit would wait for them


def give_back_runs(scheduler: BaseScheduler) -> None:
    """Let other processes have the runs of this one without waiting until its lease has lapsed."""
    engine = scheduler.engine
    for alias, store in engine.stores.items():
        try:
            store.retire_owner(engine.leases.owner_of(alias))
        except Exception as error:
            _logger.error('Job store "%s" could not take runs back: %s', alias, one_line(error))
