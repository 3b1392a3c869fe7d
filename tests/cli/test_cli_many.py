"""Acts on several jobs: by their ids, or on all that fit, which is previewed, confirmed and followed to its end."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import warm

from goscheduler import BackgroundScheduler
from goscheduler.observer import Observer

ROOT = Path(__file__).resolve().parents[2]

#: A program that fires, on a store that a variable names.
WORKER = """
import os
from goscheduler import BackgroundScheduler

def work():
    pass

scheduler = BackgroundScheduler(jobstores={"default": os.environ["STORE"]}, lease=2)
"""


def work() -> None:
    """Do nothing."""


def states(url: str) -> dict[str, str]:
    with Observer(url) as observer:
        jobs = observer.get_jobs()
        return {job.id: state.value for job, state in zip(jobs, observer.job_states(jobs), strict=True)}


def paused(url: str) -> set[str]:
    return {job_id for job_id, state in states(url).items() if state == "paused"}


@pytest.fixture
def ask(invoke: Callable[..., Any], url: str) -> Callable[..., Any]:
    """Run a command on the store."""

    def run(*arguments: str) -> Any:
        return invoke(*arguments, "--store", url)

    return run


def test_several_jobs_are_paused_by_their_ids_and_exactly_these_are_resumed(
    ask: Callable[..., Any], url: str
) -> None:
    ask("jobs", "pause", "job-5")
    done = ask("jobs", "pause", "job-0", "job-1", "job-5", "--reason", "migration")
    assert done.exit_code == 0
    assert done.stdout == "2 jobs are paused.\nAs they were, because paused already: job-5\n"
    undo = done.stderr.removeprefix("Undo: goscheduler ").split()
    resumed = ask(*undo, "--yes")
    assert (resumed.exit_code, resumed.stdout) == (0, "2 jobs are resumed.\n")
    assert paused(url) == {"job-5"}


def test_one_unknown_job_among_several_is_told_and_the_others_are_done(ask: Callable[..., Any], url: str) -> None:
    done = ask("jobs", "remove", "job-0", "nix", "job-1")
    assert (done.exit_code, done.stdout) == (1, "2 jobs are removed.\n")
    assert "Error: nix: No job by the id of nix was found" in done.stderr
    assert {"job-0", "job-1"} & set(states(url)) == set()


def test_all_that_fit_are_paused_and_exactly_these_are_resumed(ask: Callable[..., Any], url: str) -> None:
    ask("jobs", "pause", "job-3")
    done = ask("jobs", "pause", "--tag", "billing", "--yes", "--reason", "migration")
    assert (done.exit_code, done.stdout) == (0, "3 jobs are paused, 1 was paused already.\n")
    assert paused(url) == {"job-0", "job-1", "job-2", "job-3"}
    assert "It was paused by" in ask("why", "job-0").stdout
    undo = done.stderr.splitlines()[-1].removeprefix("Undo: goscheduler ").split()
    view = json.loads(ask(*undo, "--yes", "--json").stdout)
    assert (view["changed"], view["state"], view["act"]) == (3, "done", "resume")
    assert paused(url) == {"job-3"}
    assert [act["act"] for act in json.loads(ask("bulk", "list", "--json").stdout)] == ["resume", "pause"]
    shown = json.loads(ask("bulk", "show", view["id"], "--json").stdout)
    assert shown["state"] == "done"
    assert ask("bulk", "stop", view["id"]).stdout == f"The act {view['id']} was done already.\n"


def test_jobs_that_fit_are_run_and_removed(ask: Callable[..., Any], url: str) -> None:
    assert ask("jobs", "run", "--text", "JOB-4", "--yes").stdout == "1 job is to run now.\n"
    (run,) = json.loads(ask("runs", "live", "--json").stdout)
    assert (run["job_id"], run["source"]) == ("job-4", "manual")
    assert ask("jobs", "remove", "--due-before", "90m", "--yes").stdout == "1 job is removed.\n"
    assert set(states(url)) == {f"job-{number}" for number in range(1, 6)}


def test_without_a_terminal_and_without_yes_nothing_is_done(ask: Callable[..., Any], url: str) -> None:
    refused = ask("jobs", "pause", "--tag", "billing")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == (
        "Error: Pause 4 jobs: job-0, job-1, job-2, job-3? Give --yes to do so where nobody can be asked\n"
    )
    assert paused(url) == set()


def test_where_nothing_fits_nothing_is_done(ask: Callable[..., Any]) -> None:
    done = ask("jobs", "pause", "--tag", "nix")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "There are no such jobs.\n")


@pytest.mark.parametrize("arguments", [(), ("job-0", "--tag", "billing")])
def test_which_jobs_are_meant_must_be_said_in_one_way(ask: Callable[..., Any], arguments: tuple[str, ...]) -> None:
    refused = ask("jobs", "remove", *arguments)
    assert refused.exit_code == 2
    assert "not both" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


class Terminal:
    """A command on a terminal, which is answered."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        import pty

        self._ours, theirs = pty.openpty()
        self._process = warm.start(
            "-m", "goscheduler", *arguments, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs,
            env={**os.environ, "TERM": "xterm", "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        os.close(theirs)
        self.shown = ""

    def read_until(self, text: str) -> None:
        """Read until a text was shown, or everything."""
        while text not in self.shown:
            try:
                read = os.read(self._ours, 65536)
            except OSError:  # Linux says so when nobody has the other end any more
                read = b""
            if not read:
                raise AssertionError(f"{text!r} was not shown: {self.shown}")
            self.shown += read.decode()

    def answer(self, text: str) -> None:
        os.write(self._ours, f"{text}\n".encode())

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Return the exit code."""
        return self._process.wait()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)


@pytest.fixture
def terminal(tmp_path: Path) -> Any:
    started: list[Terminal] = []

    def start(*arguments: str) -> Terminal:
        started.append(Terminal(tmp_path, *arguments))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.mark.serial
@pytest.mark.parametrize(("answer", "code", "count"), [("y", 0, 4), ("n", 1, 0), ("", 1, 0)])
def test_on_a_terminal_it_is_asked_and_a_bar_tells_how_far_it_is(
    terminal: Callable[..., Terminal], url: str, answer: str, code: int, count: int
) -> None:
    command = terminal("jobs", "pause", "--tag", "billing", "--store", url)
    command.read_until("Pause 4 jobs: job-0, job-1, job-2, job-3? [y/N] ")
    command.answer(answer)
    command.read_until("Undo: goscheduler jobs resume --pause-id" if count else "Nothing is done.")
    assert ("[##############################] 4/4" in command.shown) == bool(count)
    assert (command.end(), len(paused(url))) == (code, count)


@pytest.mark.serial
def test_control_c_stops_behind_the_portion_and_says_how_to_go_on(
    terminal: Callable[..., Terminal], url: str
) -> None:
    scheduler = BackgroundScheduler(jobstores={"default": url})
    scheduler.start(paused=True)
    many = range(30_000)
    scheduler.add_jobs([{"func": work, "trigger": "interval", "hours": 1, "id": f"more-{number}"} for number in many])
    scheduler.shutdown()
    command = terminal("jobs", "pause", "--text", "more", "--yes", "--store", url)
    command.read_until("pause [")
    command.interrupt()
    command.read_until("Stopped before its end. To go on, give the same command again")
    assert command.end() == 130
    done = len(paused(url))
    assert f"{done:,} jobs are paused" in command.shown
    assert 0 < done < 30_000


@pytest.mark.serial
def test_all_that_fit_are_paused_on_postgresql_while_a_worker_runs(
    process: Callable[..., Any], invoke: Callable[..., Any], url_of: Callable[[str], str], tmp_path: Path
) -> None:
    url = url_of("postgresql")
    (tmp_path / "worker_app.py").write_text(WORKER, encoding="utf-8")
    worker = process("worker", "worker_app:scheduler", STORE=url)
    worker.wait_for("Worker started")
    added = warm.run("-c", (
        "import os, worker_app\nscheduler = worker_app.scheduler\nscheduler.start(paused=True)\n"
        "scheduler.add_jobs([dict(func=worker_app.work, trigger='interval', hours=1, id=f'job-{n:03}', tags=['many'])"
        " for n in range(450)])\nscheduler.shutdown()"
    ), cwd=tmp_path, env={**os.environ, "STORE": url, "PYTHONPATH": str(ROOT)})  # fmt: skip
    assert added.returncode == 0, added.stderr

    def ask(*arguments: str) -> Any:
        result = invoke(*arguments, "--json", "--store", url)
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    assert len(ask("jobs", "list", "--limit", "400")) == 400
    first = ask("jobs", "list", "--limit", "50", "--sort", "id")
    second = ask("jobs", "list", "--limit", "50", "--sort", "id", "--after", first[-1]["cursor"])
    assert [job["id"] for job in second] == [f"job-{number:03}" for number in range(50, 100)]
    view = ask("jobs", "pause", "--tag", "many", "--yes", "--reason", "migration")
    assert (view["changed"], view["state"]) == (450, "done")
    assert ask("jobs", "count", "--state", "paused") == {"number": 450, "exact": True}
    assert ask("jobs", "resume", "--pause-id", view["id"], "--yes")["changed"] == 450
    (one,) = ask("workers")
    assert (one["jobstore"], [use["alias"] for use in one["executors"]]) == ("default", ["default"])
    entries = ask("audit")["items"]
    assert [(entry["operation"], entry["status"]) for entry in entries] == [("start_bulk", "done")] * 2
    ask("workers", "drain", f"{one['host']}:{one['pid']}")
    assert worker.end() == 0
