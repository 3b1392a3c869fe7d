"""The description of the routes is current and valid, and what the routes do is as it says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import schemathesis
from asgi_client import AsgiClient
from http_requests import fits, made
from hypothesis import HealthCheck, Phase, given, settings
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from operation_doubles import ADMIN
from operation_table import NOT_THERE, TABLE, filled_in
from write_http_reference import description

from goscheduler.web import web_app
from goscheduler.web.openapi import document
from goscheduler.web.table import ROWS

COMMITTED = Path(__file__).parent.parent.parent / "docs" / "reference" / "openapi.json"
#: So many requests are made up for each route and each kind of them: those that should be accepted, and the others.
EXAMPLES = int(os.environ.get("GOSCHEDULER_OPENAPI_EXAMPLES", "3"))


def test_the_description_is_valid():
    validate(document())


def test_the_description_in_the_documents_is_current():
    assert COMMITTED.read_text(encoding="utf-8") == description(), "make openapi"


def test_the_description_is_served_for_the_place_of_the_mount(app):
    told = AsgiClient(app, root_path="/a/b").get("/v1/openapi.json").json()
    assert told == {**document(), "servers": [{"url": "/a/b"}]}


def test_every_route_is_described_with_its_role():
    paths = document()["paths"]
    for row in ROWS:
        described = paths[row.path][row.method.lower()]
        assert described["x-role"] == row.operation.role.title
        assert described["summary"] == row.operation.summary


@pytest.mark.parametrize("row", [pytest.param(row, id=f"{row.method} {row.path}") for row in ROWS])
def test_each_route_answers_as_it_is_described(scheduler, operations, source, row):
    client = AsgiClient(web_app(source, principal=lambda: ADMIN))
    if row.name in NOT_THERE:
        return
    arguments = filled_in(TABLE[row.name][1], scheduler, operations, ADMIN)
    if not fits(row, arguments):
        arguments = {"ids": filled_in({"ids": ["RUN"]}, scheduler, operations, ADMIN)["ids"]}
    whole = document()
    described = whole["paths"][row.path][row.method.lower()]["responses"][str(row.status)]
    schema = {**described["content"]["application/json"]["schema"], "components": whole["components"]}
    answer = made(row, arguments).sent(client)
    assert answer.status == row.status
    Draft202012Validator(schema).validate(answer.json())


def at_this_machine(app):
    """Let the requests of a client that says nothing of its peer come from this machine."""

    async def asked(scope, receive, send):
        await app({**scope, "client": ("127.0.0.1", 1)}, receive, send)

    return asked


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=lambda mode: mode.value)
def test_no_request_that_can_be_made_up_ends_in_an_internal_error(source, mode):
    app = web_app(source, allowed_hosts=["testserver", "localhost"])
    schema = schemathesis.openapi.from_asgi("/v1/openapi.json", at_this_machine(app))
    schema = schema.exclude(path="/v1/events")  # which does not end
    checks = [schemathesis.checks.not_a_server_error]
    quietly = settings(
        max_examples=EXAMPLES, database=None, deadline=None, phases=[Phase.generate], derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    asked = 0
    for found in schema.get_all_operations():

        @quietly
        @given(case=found.ok().as_strategy(generation_mode=mode))
        def ask(case):
            nonlocal asked
            asked += 1
            case.call_and_validate(checks=checks, headers={"Sec-Fetch-Site": "same-origin"})

        ask()
    assert asked >= len(ROWS)
    print(f"{asked} requests")
