"""How errors are told over HTTP: as problems that say what is wrong, and nothing of what is inside."""

from __future__ import annotations

import json
import logging
from types import MappingProxyType
from urllib.parse import quote

import pytest
from asgi_client import AsgiClient

from goscheduler.errors import InvalidArgument, StoreUnavailable
from goscheduler.observer import Observer
from goscheduler.ops import errors, service
from goscheduler.ops.access import Role
from goscheduler.ops.operation import Call, operation
from goscheduler.ops.source import Source
from goscheduler.web import web_app
from goscheduler.web.bodies import LONGEST_BODY, LONGEST_REFUSED


@pytest.fixture
def raising(monkeypatch, client):
    """Let the list of jobs raise an error, and return the answer."""

    def get(error):
        @operation(Role.VIEWER)
        def find_jobs(call: Call):
            raise error

        monkeypatch.setattr(service, "OPERATIONS", MappingProxyType({"find_jobs": find_jobs}))
        return client.get("/v1/jobs")

    return get


ERRORS = [(error, kind) for errors_of, kind in errors._TABLE for error in (
    errors_of if isinstance(errors_of, tuple) else (errors_of,)
)]  # fmt: skip
TEXTS = {"ScheduleConflict": ("a", "b"), "MessageNotPending": ("a", "sent"), "UnknownOption": ("a", ["b"], "a job")}


@pytest.mark.parametrize(("error", "kind"), ERRORS, ids=lambda value: getattr(value, "__name__", None))
def test_each_error_has_the_status_and_the_code_of_the_table(raising, error, kind):
    answer = raising(error(*TEXTS.get(error.__name__, ("the reason",))))
    told = answer.json()
    assert (answer.status, told["status"], told["code"]) == (kind.http, kind.http, kind.grpc_code)
    assert told["type"] == f"urn:goscheduler:problem:{kind.name}"
    assert told["title"] == kind.title
    assert told["message"] == told["detail"] != ""
    assert answer.headers["content-type"] == "application/problem+json"
    assert ("retry-after" in answer.headers) == (kind.http in (429, 503))


def test_of_an_internal_error_the_caller_gets_a_name_and_the_log_the_rest(raising, caplog):
    with caplog.at_level(logging.ERROR):
        answer = raising(RuntimeError("postgresql://ann:hush@db/x broke"))
    told = answer.json()
    assert (answer.status, told["code"]) == (500, 13)
    assert told["instance"].startswith("urn:uuid:")
    assert "broke" not in answer.text
    assert told["instance"] in caplog.text
    assert "RuntimeError" in caplog.text


def test_no_password_of_a_url_is_in_an_answer(raising):
    assert "hush" not in raising(StoreUnavailable("cannot reach postgresql://ann:hush@db/x")).text
    assert "hush" not in raising(InvalidArgument("no redis://:hush@db/0 here", field="url")).text


def test_the_field_and_what_was_probably_meant_are_named(client):
    assert client.get("/v1/jobs?limit=0").json()["field"] == "limit"
    told = client.get("/v1/jobs?tga=x").json()
    assert (told["status"], told["field"], told["suggestion"]) == (422, "tga", "tag")


def test_a_path_that_does_not_exist_is_a_problem_too(client):
    for target in ("/v1", "/v1/", "/v1/nothing", "/v1/jobs/a/b", "/v1/jobs/", "/nothing", "//v1/jobs", "/V1/jobs"):
        answer = client.get(target)
        assert (answer.status, answer.json()["code"]) == (404, 5), target


def test_a_method_that_a_path_does_not_have_is_refused_with_those_that_it_has(client):
    answer = client.request("PUT", "/v1/jobs/plain")
    assert (answer.status, answer.headers["allow"]) == (405, "DELETE, GET, HEAD, PATCH")
    assert client.request("OPTIONS", "/v1/jobs").status == 405
    assert client.get("/v1/jobs/plain:pause").status == 404  # an id with a colon in it, which no job has
    assert client.post("/v1/jobs/plain", x_http_method_override="DELETE").status == 405


# Bodies


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_body_of_another_media_type_is_refused(client, scheduler, media_type):
    answer = client.request(
        "POST", "/v1/jobs:pause", body=b'{"ids":["plain"]}', content_type=media_type, sec_fetch_site="same-origin"
    )
    assert answer.status == 415
    assert scheduler.get_job("plain").next_run_time is not None


@pytest.mark.parametrize("body", [
    b"{", b"[]", b'"text"', b"1", b"null", b"\xff", b'{"ids": [NaN]}', b'{"ids": ["\\ud800"]}', b"9" * 5000,
    b'{"reason":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b'{"reason":' + b"[" * 40 + b"]" * 40 + b"}",
])  # fmt: skip
def test_a_body_that_is_no_small_json_object_is_refused(client, body):
    answer = client.request("POST", "/v1/jobs:pause", body=body, content_type="application/json")
    assert (answer.status, answer.json()["code"]) == (400, 3)


def test_a_body_that_is_too_long_is_refused(client):
    def post(**given):
        return client.request("POST", "/v1/jobs:pause", content_type="application/json", **given).status

    assert post(body=b"{}", content_length=str(LONGEST_BODY + 1)) == 413
    assert post(parts=[b" " * 1000] * (LONGEST_BODY // 1000 + 1)) == 413
    assert post(body=b"{}", content_length="-1") == 413
    assert post(body=json.dumps({"ids": ["plain"], "reason": "x" * 1001}).encode()) == 422


def test_a_body_that_is_too_long_is_read_so_that_its_sender_reads_the_answer_but_not_without_end(client):
    def parts_read(number, **given):
        read = []

        def parts():
            for count in range(number):
                read.append(count)
                yield b" " * 1000

        answer = client.request("POST", "/v1/jobs:pause", content_type="application/json", parts=parts(), **given)
        assert answer.status == 413
        return len(read)

    assert parts_read(LONGEST_BODY // 1000 + 10) == LONGEST_BODY // 1000 + 10
    assert parts_read(LONGEST_REFUSED // 1000 + 10) <= LONGEST_REFUSED // 1000 + 2
    assert parts_read(10, content_length=str(LONGEST_REFUSED + 1)) == 0


@pytest.mark.parametrize("query", ["%FF=1", "limit=1&limit=2", "&".join(f"a{n}=1" for n in range(300)), "limit=%00"])
def test_a_query_that_makes_no_sense_is_refused(client, query):
    assert client.get(f"/v1/jobs?{query}").status in (400, 422)


@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "redis"])
def test_text_that_a_database_does_not_keep_is_no_internal_error(kind, url_of):
    with Observer(url_of(kind)) as observer:
        client = AsgiClient(web_app(Source(observer)))
        for text in ("a\0b", "\0", "\u2028", "\U0001f600" * 250):
            segment = quote(text, safe="")
            assert client.get(f"/v1/jobs?text={segment}").status in (200, 422)
            assert client.get(f"/v1/jobs?tag={segment}").status in (200, 422)
            assert client.get(f"/v1/jobs/{segment}").status in (404, 422)
            assert client.get(f"/v1/runs?job_id={segment}").status in (200, 422)
            assert client.post("/v1/jobs:pause", {"ids": [text]}).status in (404, 422)
            assert client.post("/v1/jobs:pause", {"ids": ["x"], "reason": text}).status in (404, 422)


def test_what_a_post_takes_is_in_its_body(client):
    assert client.post("/v1/jobs/plain:pause?reason=x").status == 422
    assert client.post("/v1/jobs/plain:pause", {"ids": ["other"]}).status == 422


# Stores


def test_stores_that_were_opened_to_look_at_are_not_changed(tmp_path):
    with Observer(f"sqlite:///{tmp_path}/jobs.db", read_only=True) as observer:
        answer = AsgiClient(web_app(Source(observer))).post("/v1/jobs:pause", {"ids": ["x"]})
        assert (answer.status, answer.json()["code"]) == (403, 9)


def test_probes_tell_whether_the_stores_answer_and_nothing_else(source, scheduler):
    elsewhere = AsgiClient(web_app(source), peer=("203.0.113.9", 1), host="10.1.2.3")
    assert (elsewhere.get("/livez").text, elsewhere.get("/readyz").text) == ("ok", "ready")
    scheduler.shutdown()
    answer = elsewhere.get("/readyz")
    assert (answer.status, answer.text) == (503, "not ready")
    scheduler.start()  # the fixture ends it


def test_metrics_are_there_if_the_program_has_some(source):
    assert AsgiClient(web_app(source)).get("/metrics").status == 404
    answer = AsgiClient(web_app(source, metrics_text=lambda: "up 1\n")).get("/metrics")
    assert (answer.status, answer.text) == (200, "up 1\n")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
