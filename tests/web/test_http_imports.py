"""What a store names is shown and changed, and never imported; importing the package costs nothing of HTTP."""

from __future__ import annotations

import sqlite3
import subprocess
import sys

import pytest
from asgi_client import AsgiClient

from goscheduler import BackgroundScheduler
from goscheduler.observer import Observer
from goscheduler.web import web_app

CANARY = "raise SystemExit('the module that a store names was imported')"


@pytest.fixture
def client(tmp_path, monkeypatch):
    """The application on a store with a job whose function is in a module that must not be imported."""
    (tmp_path / "evil_module.py").write_text(CANARY)
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "jobs.db"
    scheduler = BackgroundScheduler(jobstores={"default": f"sqlite:///{file}"})
    scheduler.start(paused=True)
    scheduler.add_job("operation_doubles:nothing", "interval", hours=1, id="evil")
    scheduler.shutdown()
    with sqlite3.connect(file) as connection:
        (definition,) = connection.execute("select definition from goscheduler_jobs").fetchone()
        changed = definition.replace("operation_doubles:nothing", "evil_module:boom")
        assert changed != definition
        connection.execute("update goscheduler_jobs set definition = ?", (changed,))
    connection.close()
    with Observer(f"sqlite:///{file}") as observer:
        yield AsgiClient(web_app(observer))
    assert "evil_module" not in sys.modules


def test_a_job_whose_function_is_not_to_be_trusted_is_listed_shown_edited_and_removed(client):
    (row,) = client.get("/v1/jobs").json()["items"]
    assert (row["id"], "evil_module:boom" in str(row)) == ("evil", True)
    for path in ("", "/why", "/next", "/runs"):
        assert client.get(f"/v1/jobs/evil{path}").status == 200
    change = {"changes": {"name": "tame", "trigger": "0 3 * * *"}}
    assert client.request("PATCH", "/v1/jobs/evil", json_body=change, if_match="*").status == 200
    assert client.post("/v1/jobs/evil:pause").status == client.post("/v1/jobs/evil:resume").status == 200
    assert client.post("/v1/jobs/evil:run").status == 200
    assert client.get("/v1/live").json()["items"][0]["job_id"] == "evil"
    assert client.request("DELETE", "/v1/jobs/evil").status == 200


def test_the_application_is_imported_only_if_it_is_asked_for():
    code = "import sys, goscheduler, goscheduler.ops, goscheduler.web; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"starlette", "uvicorn", "jinja2", "a2wsgi", "flask", "django"} & set(loaded)
