"""Alerts in a file: what it says, and what is refused by its name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from goscheduler.alerts import Alert, Failures, Late, NoSuccess, Processes, StoreDown, load_config
from goscheduler.alerts.config import read_config
from goscheduler.cli.app import app
from goscheduler.errors import InvalidArgument, UnknownOption
from goscheduler.observer import Observer

ROOT = Path(__file__).resolve().parents[2]

FILE = """
interval = 20
grouping = "1m"
heartbeat = "python:builtins:print"

[channels.ops]
url = "env:OPS_URL"
[channels.pager]
url = "pagerduty://KEY@"

[alerts.billing]
match = "tag:billing"
no_success = "schedule+15m"
failures = { count = 3, within = "1h" }
late = { p95 = "30s", for = "5m" }
store_down = true
clock_skew = false
processes = 2
to = ["ops"]
escalate = { after = "30m", to = ["pager"] }
repeat = "4h"
"""


def test_a_file_says_channels_alerts_and_settings(tmp_path, monkeypatch):
    monkeypatch.setenv("OPS_URL", "mailto:ops@example.com")
    (tmp_path / "alerts.toml").write_text(FILE)
    told = load_config(tmp_path / "alerts.toml")
    (alert,) = told.alerts
    assert alert == Alert(
        "billing",
        [NoSuccess("schedule+15m"), Failures(3, "1h"), Late("30s", for_="5m"), StoreDown(), Processes(2)],
        ["ops"], "tag:billing", "4h", "30m", ["pager"],
    )  # fmt: skip
    assert alert.rules[2].hold_off == timedelta(minutes=5)
    assert sorted(told.channels) == ["ops", "pager"]
    assert (told.settings["interval"], told.settings["grouping"]) == (20, "1m")
    for channel in (*told.channels.values(), told.settings["heartbeat"]):
        channel.close()


OPS = {"ops": {"url": "python:builtins:print"}}


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"alert": {}}, "did you mean 'alerts'|alerts"),
        ({"channels": {"ops": "x"}}, "channels must be tables"),
        ({"channels": {"ops": {}}}, "'ops' needs a url"),
        ({"channels": {"ops": {"url": "hush://"}}}, "'ops': url"),
        ({"channels": {"ops": {"url": "python:builtins:print", "odd": 1}}}, "odd"),
        ({"alerts": {"a": {"to": ["ops"]}}}, "'a' needs rules"),
        ({"alerts": {"a": {"to": "ops", "failures": 3}}}, "to must be a list"),
        ({"alerts": {"a": {"to": ["ops"], "failure": 3}}}, "failures"),
        ({"alerts": {"a": {"to": ["ops"], "failures": 0}}}, "whole number"),
        ({"alerts": {"a": {"to": ["ops"], "failures": {"count": 1, "in": "1h"}}}}, "in"),
        ({"alerts": {"a": {"to": ["ops"], "late": {"p95": "soon"}}}}, "soon"),
        ({"alerts": {"a": {"to": ["ops"], "store_down": "yes"}}}, "true or a table"),
        ({"alerts": {"a": {"to": ["ops"], "failures": 1, "match": "tags:x"}}}, "tags"),
        ({"alerts": {"a": {"to": ["ops"], "failures": 1, "repeat": "often"}}}, "often"),
        ({"alerts": {"a": {"to": ["ops"], "failures": 1, "escalate": {"after": "1h"}}}}, "both after and to"),
        ({"alerts": {"a": {"to": ["ops"], "failures": 1, "escalate": "pager"}}}, "needs after and to"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_name(told, words):
    with pytest.raises((InvalidArgument, UnknownOption), match=words):
        read_config(told)


def test_a_file_that_is_no_toml_is_refused(tmp_path):
    (tmp_path / "alerts.toml").write_text("[alerts")
    with pytest.raises(InvalidArgument, match="is not TOML"):
        load_config(tmp_path / "alerts.toml")


# The command


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a command in a folder with a module whose function keeps notices in a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "told.toml").write_text(
        '[channels.ops]\nurl = "python:alert_sink:keep"\n'
        '[alerts.nightly]\nmatch = "job:nightly"\nno_success = 0\nto = ["ops"]\n'
    )
    (tmp_path / "alert_sink.py").write_text(
        "def keep(notice):\n    with open('told.txt', 'a') as file:\n        file.write(notice.title + '\\n')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield lambda *arguments: CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    sys.modules.pop("alert_sink", None)


def test_every_channel_is_tried(run, tmp_path):
    result = run("alerts", "test", "--config", "told.toml")
    assert (result.exit_code, "taken" in result.stdout) == (0, True)
    assert (tmp_path / "told.txt").read_text() == "[test] test: test, ops\n"
    (tmp_path / "bad.toml").write_text('[channels.ops]\nurl = "mailto:a@b.c"\nserver = "smtp://127.0.0.1:1"\n')
    result = run("alerts", "test", "--config", "bad.toml")
    assert (result.exit_code, "refused" in result.stdout) == (1, True)
    assert run("alerts", "test").exit_code == 2
    assert run("alerts", "test", "--config", "nowhere.toml").exit_code == 1


@pytest.mark.serial
def test_alerts_are_evaluated_as_a_program_listed_known_and_silenced(run, url_of, tmp_path):
    url = url_of("sqlite")
    with Observer(url):
        pass  # which makes the tables
    (tmp_path / "told.toml").write_text("grouping = 0\n" + (tmp_path / "told.toml").read_text())
    program = subprocess.Popen(
        [Path(sys.executable).with_name("goscheduler"), "alerts", "--store", url, "--config", "told.toml"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        pause = threading.Event()
        for _ in range(600):
            if (tmp_path / "told.txt").exists() or program.poll() is not None:
                break
            pause.wait(0.1)
        assert (tmp_path / "told.txt").read_text() == "[firing] nightly: no_success, nightly\n"
    finally:
        program.send_signal(signal.SIGTERM)
        output, _ = program.communicate(timeout=60)
    assert program.returncode == 0, output
    listed = run("alerts", "list", "--store", url)
    assert "there is no such job" in listed.stdout
    (identity,) = [word for word in listed.stdout.split() if len(word) == 20 and word.isalnum()]
    assert run("alerts", "ack", identity, "--store", url, "--reason", "I look at it").exit_code == 0
    assert run("alerts", "silence", "nightly", "--store", url, "--for", "2h").exit_code == 0
    told = run("alerts", "list", "--store", url).stdout
    assert "known to" in told
    assert "silenced by" in told
    assert run("alerts", "silence", "nightly", "--store", url, "--end").exit_code == 0
    assert "silenced by" not in run("alerts", "list", "--store", url).stdout
    assert run("alerts", "silence", "nightly", "--store", url).exit_code == 2
    assert run("alerts", "ack", "nobody", "--store", url).exit_code == 1
