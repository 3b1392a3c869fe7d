"""The description of the routes is current and valid, and what the routes do is as it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import schemathesis
from asgi_client import AsgiClient
from hypothesis import HealthCheck, Phase, settings
from http_requests import fits, made
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from operation_doubles import ADMIN
from operation_table import NOT_THERE, TABLE, filled_in
from rest_examples import asked

from goscheduler.web import web_app
from goscheduler.web.openapi import document
from goscheduler.web.table import ROWS

COMMITTED = Path(__file__).parent.parent.parent / "docs" / "reference" / "openapi.json"
REMAKE = "python -m goscheduler.web.openapi > docs/reference/openapi.json"


def test_the_description_is_valid():
    validate(document())


def test_the_description_in_the_documents_is_current():
    assert json.loads(COMMITTED.read_text(encoding="utf-8")) == document(), REMAKE


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
def test_each_route_answers_as_it_is_described(scheduler, operations, client, row):
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
