"""The application inside programs of several frameworks, in real servers, at several places."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote

import pytest
import warm

ROOT = Path(__file__).resolve().parent.parent.parent
READY_WITHIN = 60

COMMON = """
from goscheduler import BackgroundScheduler
from goscheduler.ops import Principal, Role
from goscheduler.testing import ManualScheduler

scheduler = ManualScheduler()
scheduler.start()

def work():
    pass

for job_id in ("plain", "a/b", "ünï //?#%2F"):
    scheduler.add_job(work, "interval", hours=1, id=job_id)
scheduler.register("work", work)

def known(user):
    return Principal(user, Role.ADMIN) if user else None
"""
FASTAPI = """
from fastapi import FastAPI
from goscheduler.web import web_app

app = FastAPI()
inner = web_app(scheduler, principal=lambda request: known(request.headers.get("x-user")))
for place in ("/jobs", "/a/b", "/"):
    app.mount(place, inner)
"""
WSGI = """
from goscheduler.web.wsgi import principal_in_environ, wsgi_app
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from goscheduler.web.wsgi import PRINCIPAL

inner = wsgi_app(scheduler, principal=principal_in_environ)

def named(environ, start_response):
    environ[PRINCIPAL] = known(environ.get("HTTP_X_USER"))
    return inner(environ, start_response)

app = DispatcherMiddleware(named, {"/jobs": named, "/a/b": named})
"""
FLASK = """
from flask import Flask, request
from goscheduler.web.flask import flask_blueprint

app = Flask(__name__)
for number, place in enumerate(("/jobs", "/a/b", "/")):
    made = flask_blueprint(scheduler, principal=lambda: known(request.headers.get("X-User")), name=f"jobs{number}")
    app.register_blueprint(made, url_prefix=place)
"""
DJANGO = """
import django
from django.conf import settings
from django.urls import include, path

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="x", MIDDLEWARE=[
    "django.middleware.security.SecurityMiddleware", "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware", "django.middleware.clickjacking.XFrameOptionsMiddleware",
])
django.setup()
from goscheduler.web.django import django_urls
urls = django_urls(scheduler, principal=lambda request: known(request.headers.get("X-User")))
urlpatterns = [path("jobs/", include(urls)), path("a/b/", include(urls)), path("", include(urls))]
"""
DJANGO_WSGI = DJANGO + "from django.core.wsgi import get_wsgi_application\napp = get_wsgi_application()\n"
DJANGO_ASGI = DJANGO + "from django.core.asgi import get_asgi_application\napp = get_asgi_application()\n"

UVICORN = ["-m", "uvicorn", "mounted:app", "--host", "127.0.0.1", "--port", "0", "--lifespan", "off"]
GUNICORN = ["-m", "gunicorn", "--bind", "127.0.0.1:0", "--threads", "2", "mounted:app"]
SERVED = {
    "fastapi": (FASTAPI, UVICORN), "wsgi": (WSGI, GUNICORN), "flask": (FLASK, GUNICORN),
    "django-wsgi": (DJANGO_WSGI, GUNICORN), "django-asgi": (DJANGO_ASGI, UVICORN),
}  # fmt: skip
PLACES = ["/", "/jobs/", "/a/b/"]


class Program:
    """A program with the application in it, in a process of its own."""

    def __init__(self, folder, source, command):
        (folder / "mounted.py").write_text(COMMON + source, encoding="utf-8")
        self._process = warm.start(
            *command, cwd=folder, stdin=warm.DEVNULL, stdout=warm.PIPE, stderr=warm.STDOUT, text=True,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        lines = []
        while "http://127.0.0.1:" not in (line := self._process.stdout.readline()):
            assert line, "".join(lines)
            lines.append(line)
        self.address = "http://127.0.0.1:" + line.split("http://127.0.0.1:")[1].split()[0].rstrip("/")

    def ask(self, method, path, body=None, **headers):
        """Return status, headers and JSON of an answer."""
        data = None if body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in {"x_user": "ann", **headers}.items() if value}
        if data is not None:
            named["Content-Type"] = "application/json"
        request = urllib.request.Request(self.address + path, data, named, method=method)
        try:
            with urllib.request.urlopen(request, timeout=READY_WITHIN) as answer:
                return answer.status, answer.headers, json.loads(answer.read() or "{}")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, json.loads(error.read() or "{}")

    def close(self):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture(scope="module", params=SERVED)
def program(request, tmp_path_factory):
    source, command = SERVED[request.param]
    found = Program(tmp_path_factory.mktemp(request.param), source, command)
    yield found
    found.close()


@pytest.mark.serial
@pytest.mark.parametrize("place", PLACES)
def test_the_application_works_at_every_place(program, place):
    status, headers, page = program.ask("GET", f"{place}v1/jobs?count=1")
    assert (status, page["count"]["exact"]) == (200, True)
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    for job_id in ("a/b", "ünï //?#%2F"):
        segment = quote(job_id, safe="")
        status, headers, job = program.ask("GET", f"{place}v1/jobs/{segment}")
        assert (status, job.get("id"), headers["ETag"]) == (200, job_id, f'"{job.get("etag")}"')
        assert program.ask("POST", f"{place}v1/jobs/{segment}:pause", {"reason": "x"})[2]["changed"] == [job_id]
        assert program.ask("POST", f"{place}v1/job:resume?id={segment}", {})[2]["changed"] == [job_id]
    new = f"new {place}"
    added = {"task": "work", "id": new, "trigger": "@daily"}
    status, headers, _ = program.ask("POST", f"{place}v1/jobs", {"job": added})
    assert (status, headers["Location"]) == (201, f"{place}v1/jobs/{quote(new, safe='')}")
    assert program.ask("DELETE", headers["Location"])[2]["changed"] == [new]
    assert program.ask("GET", f"{place}v1/openapi.json")[2]["servers"] == [{"url": place.rstrip("/") or "/"}]


@pytest.mark.serial
@pytest.mark.parametrize("place", PLACES)
def test_the_program_around_says_who_asks(program, place):
    assert program.ask("GET", f"{place}v1/jobs", x_user="")[0] == 401
    assert program.ask("POST", f"{place}v1/jobs/plain:pause", {}, x_user="")[0] == 401
    somebody = f"olga of {place}"
    assert program.ask("POST", f"{place}v1/jobs/plain:run", {}, x_user=somebody)[0] == 200
    assert somebody in {entry["actor"] for entry in program.ask("GET", f"{place}v1/audit?limit=200")[2]["items"]}
    assert program.ask("POST", f"{place}v1/jobs/plain:run", {}, sec_fetch_site="cross-site")[0] == 403


@pytest.mark.serial
def test_errors_are_problems_inside_other_programs_too(program):
    assert program.ask("GET", "/jobs/v1/nothing")[2]["code"] == 5
    assert program.ask("POST", "/jobs/v1/jobs:pause", {"ids": ["x" * 1_000_000]})[0] == 413
    for _ in range(20):
        assert program.ask("GET", "/a/b/v1/jobs/plain")[0] == 200
