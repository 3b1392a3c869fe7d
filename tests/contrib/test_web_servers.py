"""Schedulers in the processes of real servers: every firing happens once, whoever serves and whatever is killed.

Each process that runs the job appends a line to one file: its process id, the fire time and the name of the
application whose context it sees. The lease is longer than a busy machine can keep a process waiting: none loses it and
has its run repeated. The job may run several times at once, so nobody waits for the run of a process that was killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import warm

ROOT = Path(__file__).resolve().parent.parent.parent
#: What is certain to come may take as long.
PATIENCE = 90

FLASK = """
import logging, os
from flask import Flask, current_app
from goscheduler import current_run
from goscheduler.contrib.flask import Scheduler

logging.basicConfig(level=logging.INFO, format="%(process)d %(message)s")
scheduler = Scheduler()

@scheduler.task("interval", seconds=1, id="tick", misfire_grace_time=None, max_instances=10)
def tick():
    run = current_run()
    line = f"{os.getpid()} {run.scheduled_at.timestamp()} {current_app.name}\\n"
    with open("ticks", "a") as file:
        file.write(line)

def create_app():
    app = Flask("shop")
    app.config.update(SCHEDULER_JOBSTORES={"default": "sqlite:///jobs.sqlite"})
    scheduler.init_app(app)
    scheduler.start()
    return app
"""
FASTAPI = """
import logging, os
from fastapi import FastAPI, Request
from goscheduler import AsyncIOScheduler, current_run
from goscheduler.contrib.asgi import lifespan

logging.basicConfig(level=logging.INFO, format="%(process)d %(message)s")
scheduler = AsyncIOScheduler(jobstores={"default": "sqlite:///jobs.sqlite"})

@scheduler.scheduled_job("interval", seconds=1, id="tick", misfire_grace_time=None, max_instances=10)
async def tick():
    run = current_run()
    with open("ticks", "a") as file:
        file.write(f"{os.getpid()} {run.scheduled_at.timestamp()} shop\\n")

app = FastAPI(lifespan=lifespan(scheduler))
"""
HOOKS = "from goscheduler.contrib.gunicorn import post_worker_init, worker_exit\n"


class Tick:
    """One line of the job."""

    def __init__(self, line: str) -> None:
        pid, fire_time, self.app = line.split()
        self.pid, self.fire_time = int(pid), float(fire_time)


class Server:
    """A server with the application in it, which is in a folder of its own."""

    def __init__(self, folder: Path, source: str, *command: str, **environ: str) -> None:
        self.folder = folder
        (folder / "app.py").write_text(source, encoding="utf-8")
        (folder / "gunicorn.conf.py").write_text(HOOKS, encoding="utf-8")
        path = f"{ROOT}{os.pathsep}{folder}"
        options = {"cwd": folder, "stdin": warm.DEVNULL, "stdout": warm.PIPE, "stderr": warm.STDOUT, "text": True,
                   "env": {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **environ}}  # fmt: skip
        # gevent has to come before all other imports, and the reloader of Flask starts its process anew.
        cold = "gevent" in command or "flask" in command
        self._process = (
            subprocess.Popen([sys.executable, "-m", *command], **options)
            if cold
            else warm.start("-m", *command, **options)
        )
        self.pid = self._process.pid
        self.output: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.output.extend(self._process.stdout)

    def ticks(self) -> list[Tick]:
        file = self.folder / "ticks"
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        return [Tick(line) for line in lines if line.endswith("\n")]

    def await_tick(self, fits=lambda tick: True) -> Tick:
        """Return the first tick from now on that fits."""
        seen = len(self.ticks())
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for tick in self.ticks()[seen:]:
                if fits(tick):
                    return tick
            assert self._process.poll() is None, self.told()
            threading.Event().wait(0.05)
        raise AssertionError(f"no such tick: {self.told()}")

    def told(self) -> str:
        return "".join(self.output)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def close(self) -> int:
        """End the server as a supervisor does, and return its exit code."""
        self.signal(signal.SIGTERM)
        try:
            return self._process.wait(PATIENCE)
        finally:
            self.kill()

    def kill(self) -> None:
        with suppress(psutil.NoSuchProcess):
            for process in [*psutil.Process(self.pid).children(recursive=True), psutil.Process(self.pid)]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        self._process.wait()
        self._reader.join(PATIENCE)
        if self._process.stdout is not None:
            self._process.stdout.close()


@pytest.fixture
def serve(tmp_path: Path):
    servers: list[Server] = []

    def start(source: str, *command: str, **environ: str) -> Server:
        servers.append(Server(tmp_path, source, *command, **environ))
        return servers[-1]

    yield start
    for server in servers:
        server.kill()


def assert_each_fired_once(ticks: list[Tick], killed: int = 0) -> None:
    """Check the fire times. The run that a process was killed in, which is its last if any, happens again."""
    of_killed = [tick for tick in ticks if tick.pid == killed]
    fired = [tick.fire_time for tick in ticks if tick not in of_killed[-1:]]
    assert len(set(fired)) == len(fired)
    assert {tick.app for tick in ticks} == {"shop"}


GUNICORN = ("gunicorn", "--bind", "127.0.0.1:0", "--workers", "2", "app:create_app()")


@pytest.mark.serial
@pytest.mark.parametrize("options", [(), ("-k", "gthread", "--threads", "2", "--preload")])
def test_every_firing_happens_once_under_gunicorn_also_after_a_reload_and_after_a_worker_was_killed(serve, options):
    server = serve(FLASK, *GUNICORN, *options)
    first = server.await_tick()
    assert first.pid != server.pid
    assert ("gunicorn forks its workers from this process; it starts in each" in server.told()) is bool(options)
    server.signal(signal.SIGHUP)
    second = server.await_tick(lambda tick: f"Worker exiting (pid: {first.pid})" in server.told())
    assert second.pid != first.pid
    if options:  # the new worker need not load the application anew, so it costs little
        os.kill(second.pid, signal.SIGKILL)
        server.await_tick(lambda tick: tick.pid != second.pid)
    assert server.close() == 0
    assert_each_fired_once(server.ticks(), killed=second.pid)
    assert "Traceback" not in server.told()


@pytest.mark.serial
def test_every_firing_happens_once_under_gunicorn_with_gevent(serve):
    server = serve(FLASK, *GUNICORN, "-k", "gevent")
    server.await_tick()
    server.await_tick()
    assert server.close() == 0
    assert_each_fired_once(server.ticks())
    assert "Traceback" not in server.told()


@pytest.mark.serial
def test_every_firing_happens_once_under_uvicorn_with_workers_and_with_a_reload(serve):
    server = serve(FASTAPI, "uvicorn", "app:app", "--port", "0", "--workers", "2")
    tick = server.await_tick()
    assert tick.pid != server.pid
    server.close()
    reloading = serve(FASTAPI, "uvicorn", "app:app", "--port", "0", "--reload")
    tick = reloading.await_tick(lambda tick: tick.pid != reloading.pid)
    (reloading.folder / "app.py").write_text(FASTAPI + "\n", encoding="utf-8")
    reloading.await_tick(lambda later: later.pid not in (tick.pid, reloading.pid))
    reloading.close()
    assert_each_fired_once(reloading.ticks())


@pytest.mark.serial
def test_the_reloader_of_flask_has_a_scheduler_where_it_serves_and_commands_have_none(serve):
    server = serve(FLASK, "flask", "--app", "app", "run", "--debug", "--port", "0")
    tick = server.await_tick()
    assert tick.pid != server.pid
    assert f"{server.pid} The scheduler is not started: this process watches files for a reloader" in server.told()
    server.kill()
    assert_each_fired_once(server.ticks())
    asked = serve(FLASK, "flask", "--app", "app", "routes")
    assert asked._process.wait(PATIENCE) == 0
    assert "The scheduler runs no jobs: this is the command 'routes', which runs no jobs" in asked.told()


@pytest.mark.serial
@pytest.mark.parametrize("target", ["scheduler", "create_app"])
def test_a_worker_beside_an_application_that_only_adds_runs_its_jobs_in_the_context_of_the_application(serve, target):
    source = FLASK.replace("scheduler.init_app(app)", "app.config['SCHEDULER_ROLE'] = 'add'; scheduler.init_app(app)")
    served = "\napp = create_app()\n" if target == "scheduler" else ""
    worker = serve(source + served, "goscheduler", "worker", f"app:{target}")
    assert worker.await_tick().pid == worker.pid
    assert worker.close() == 0
    assert_each_fired_once(worker.ticks())
    assert "The scheduler is not started: the goscheduler command has loaded this program" in worker.told()
