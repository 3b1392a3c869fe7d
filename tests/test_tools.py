"""The tools of the tests can be relied upon: a wrong row is named, and a forked process is like one of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import warm
from rows import each_row


def test_a_table_names_every_row_that_fails_and_tries_the_others_too() -> None:
    tried = []

    @each_row(["number"], [(1,), pytest.param(2, id="two"), (3,)])
    def odd(number: int) -> None:
        tried.append(number)
        with pytest.raises(ValueError, match="odd"):
            raise ValueError("even" if number == 2 else "odd")
        assert number != 3

    with pytest.raises(AssertionError, match=r"2 of 3 rows:\ntwo: (.|\n)*\n\(3,\): ") as caught:
        odd()
    assert tried == [1, 2, 3]
    assert "odd" in str(caught.value.__cause__)


PROGRAM = """
import os, sys, threading
threading.Thread(target=lambda: (threading.main_thread().join(), print("a thread ends later"))).start()
print(sys.argv[1:], __name__, os.getcwd(), os.environ["COLOUR"], sys.stdin.read(), sys.warnoptions)
print("mistake", file=sys.stderr)
sys.exit(3)
"""


def test_a_forked_program_does_what_it_does_when_it_is_started(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM, encoding="utf-8")
    command = ["-W", "error::BytesWarning", str(script), "one", "two"]
    environment = {**os.environ, "COLOUR": "blue"}
    forked = warm.run(*command, cwd=tmp_path, env=environment)
    started = subprocess.run(
        [sys.executable, *command], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=tmp_path,
        env=environment, check=False,
    )  # fmt: skip
    assert (forked.returncode, forked.stdout, forked.stderr) == (started.returncode, started.stdout, started.stderr)
    assert "a thread ends later" in forked.stdout


def test_an_error_of_a_forked_program_is_told() -> None:
    done = warm.run("-c", "1 / 0")
    assert done.returncode == 1
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")


def test_a_forked_process_is_ended_by_signals_and_its_end_is_told() -> None:
    process = warm.start("-c", "print('ready', flush=True); input()", stdin=warm.PIPE, stdout=warm.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    assert process.wait(60) == process.poll() == -signal.SIGKILL
    process.stdin.close()
    process.stdout.close()


def test_a_forked_process_has_the_open_files_that_it_was_given_and_no_others() -> None:
    reading, writing = os.pipe()
    source = f"import os; os.write({writing}, b' '.join(n.encode() for n in sorted(os.listdir('/dev/fd'))))"
    listing = 1  # the folder itself
    assert warm.start("-c", source, stdin=warm.DEVNULL, pass_fds=[writing]).wait(60) == 0
    os.close(writing)
    with open(reading, "rb") as told:
        files = told.read().split()
    assert len(files) == 4 + listing
    assert str(writing).encode() in files
