"""Operations over HTTP: each has a route, and every route does what its operation does, with the same rights."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from asgi_client import AsgiClient
from http_requests import fits, made
from operation_doubles import nothing
from operation_table import NOT_THERE, TABLE, filled_in

from goscheduler.ops.access import Principal, Role
from goscheduler.ops.registry import OPERATIONS
from goscheduler.web import web_app
from goscheduler.web.table import ROWS, singular

ROUTES = [pytest.param(row, id=f"{row.method} {row.path}") for row in ROWS]


def test_every_operation_has_a_route():
    assert {row.name for row in ROWS} == set(OPERATIONS)


def test_no_two_routes_are_alike():
    ways = [(row.method, row.path) for row in ROWS]
    ways += [(row.method, alone) for row in ROWS if (alone := singular(row.path))]
    assert len(ways) == len(set(ways))


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.ADMIN], ids=lambda role: role.title)
@pytest.mark.parametrize("row", ROUTES)
def test_each_role_may_do_over_http_what_it_may_do(scheduler, source, operations, row, role):
    needed, arguments = TABLE[row.name]
    principal = Principal("ann", role, see_arguments=True)
    client = AsgiClient(web_app(source, principal=lambda: principal))
    arguments = filled_in(arguments, scheduler, operations, principal)
    if not fits(row, arguments):
        arguments = {"ids": filled_in({"ids": ["RUN"]}, scheduler, operations, principal)["ids"]}
    answer = made(row, arguments).sent(client, sec_fetch_site="same-origin")
    if role < Role.of(needed):
        assert (answer.status, answer.json()["code"]) == (403, 7), answer
    elif row.name in NOT_THERE:
        assert answer.status == 404, answer
    else:
        assert answer.status == row.status, answer
        assert isinstance(answer.json(), dict)


def test_an_act_stands_in_the_audit_with_its_way_and_its_reason(client, call):
    answer = client.post("/v1/jobs/plain:pause", {"reason": "the disk is moved"})
    assert (answer.status, answer.json()["changed"]) == (200, ["plain"])
    (entry,) = call("audit")["items"]
    assert (entry["via"], entry["operation"], entry["reason"]) == ("http", "pause_jobs", "the disk is moved")
    assert entry["address"] == "127.0.0.1"


# Lists


def test_a_list_goes_on_at_its_cursor_until_there_is_nothing_more(client):
    found, target = [], "/v1/jobs?limit=3&sort=id"
    while target:
        page = client.get(target).json()
        found += [job["id"] for job in page["items"]]
        target = page["next"] and f"/v1/jobs?limit=3&sort=id&cursor={quote(page['next'], safe='')}"
    assert found == sorted(found) == ["failing", "nightly", "other", "plain"]


def test_a_list_is_counted_if_that_is_asked_for(client):
    assert client.get("/v1/jobs?tag=billing&count=1").json()["count"] == {"n": 2, "exact": True}
    assert "count" not in client.get("/v1/jobs?tag=billing").json()
    assert "count" not in client.get("/v1/jobs?tag=billing&count=0").json()


def test_a_name_that_takes_several_values_can_be_given_several_times(client):
    assert len(client.get("/v1/runs?outcome=failed&outcome=missed").json()["items"]) == 1
    assert client.get("/v1/runs?outcome=missed").json() == {"items": [], "next": None, "complete": True}


def test_what_is_no_page_has_items_too(client):
    answer = client.get("/v1/jobs/plain/next?count=3").json()
    assert (len(answer["items"]), answer["next"]) == (3, None)


# Ids


STRANGE = ["a/b", "a?b#c", "..", ".", "a b", "100%", "%2F", "a:pause", "ünï→", "//", "-", "'\"<img>", "a+b&c=d"]


@pytest.mark.parametrize("job_id", STRANGE)
def test_an_id_may_hold_any_printable_character(client, scheduler, job_id):
    scheduler.add_job(nothing, "interval", hours=1, id=job_id)
    segment = quote(job_id, safe="")
    assert client.get(f"/v1/jobs/{segment}").json()["id"] == job_id
    assert client.get(f"/v1/jobs/{segment}/why").json()["id"] == job_id
    assert client.post(f"/v1/jobs/{segment}:pause").json()["changed"] == [job_id]
    assert client.get(f"/v1/job?id={segment}").json()["state"] == "paused"
    assert client.post(f"/v1/job:resume?id={segment}").json()["changed"] == [job_id]
    assert client.request("DELETE", f"/v1/jobs/{segment}").json()["changed"] == [job_id]
    assert client.get(f"/v1/jobs/{segment}").status == 404


def test_an_id_below_the_place_of_a_mount_is_decoded_once(app, scheduler):
    scheduler.add_job(nothing, "interval", hours=1, id="a%2Fb/c")
    client = AsgiClient(app, root_path="/deep/place")
    assert client.get("/v1/jobs/a%252Fb%2Fc").json()["id"] == "a%2Fb/c"


def test_an_id_that_is_not_utf8_is_refused(client):
    assert client.get("/v1/jobs/%FF%FE").status == 400


# Writes


def test_a_repeated_request_is_done_once(client, scheduler):
    first = client.post("/v1/jobs/plain:run", {}, idempotency_key="k1")
    again = client.post("/v1/jobs/plain:run", {}, idempotency_key="k1")
    assert (first.status, first.json()) == (200, again.json())
    assert len(scheduler.live_runs("plain")) == 1
    assert client.post("/v1/jobs/other:run", {}, idempotency_key="k1").status == 412


def test_a_job_is_edited_as_it_was_seen(client, scheduler):
    seen = client.get("/v1/jobs/plain")
    change = {"changes": {"name": "new"}}
    assert client.request("PATCH", "/v1/jobs/plain", json_body=change).status == 428
    assert client.request("PATCH", "/v1/jobs/plain", json_body=change, if_match='"old"').status == 412
    assert scheduler.get_job("plain").name == "nothing"
    edited = client.request("PATCH", "/v1/jobs/plain", json_body=change, if_match=seen.headers["etag"])
    assert (edited.status, edited.json()["after"]) == (200, {"name": "new"})
    assert client.get("/v1/jobs/plain").headers["etag"] == edited.headers["etag"] != seen.headers["etag"]
    refused = client.request("PATCH", "/v1/jobs/plain", json_body=change, if_match=seen.headers["etag"])
    assert refused.headers["etag"] == edited.headers["etag"] == f'"{refused.json()["etag"]}"'


def test_a_trial_edit_needs_no_etag_and_changes_nothing(client, scheduler):
    body = {"changes": {"name": "new"}, "dry_run": True}
    assert client.request("PATCH", "/v1/jobs/plain", json_body=body).json()["done"] is False
    assert scheduler.get_job("plain").name == "nothing"


def test_a_job_that_was_added_is_named_by_its_place(app, scheduler):
    client = AsgiClient(app, root_path="/jobs")
    answer = client.post("/v1/jobs", {"job": {"task": "greet", "id": "a/b", "trigger": "0 3 * * *"}})
    assert (answer.status, answer.headers["location"]) == (201, "/jobs/v1/jobs/a%2Fb")
    assert scheduler.get_job("a/b").created_by == "local"


def test_no_request_can_name_a_function(client, scheduler):
    before = len(scheduler.get_jobs())
    for job in ({"task": "os:system"}, {"task": "greet", "func": "os:system"}, {"func": "os:system"}):
        assert client.post("/v1/jobs", {"job": job}).status == 422
    for changes in ({"func": "os:system"}, {"task": "os:system"}):
        body = {"changes": changes}
        assert client.request("PATCH", "/v1/jobs/plain", json_body=body, if_match="*").status == 422
    assert len(scheduler.get_jobs()) == before
    assert scheduler.get_job("plain").func is nothing


def test_head_answers_as_get_does(client):
    head, get = client.request("HEAD", "/v1/jobs/plain"), client.get("/v1/jobs/plain")
    assert (head.status, head.headers["etag"]) == (200, get.headers["etag"])
    assert client.request("HEAD", "/v1/jobs/nobody").status == 404
