"""What stands around every page, also when something is wrong."""

from __future__ import annotations

import asyncio
from functools import partial

from page_doubles import ADMIN, OPERATOR, pages_app
from starlette.requests import Request

from goscheduler.errors import StoreUnavailable
from goscheduler.ops.access import Principal, Role
from goscheduler.ops.errors import EXISTS, NotFound
from goscheduler.ops.service import Operations
from goscheduler.web.pages import page_routes
from goscheduler.web.pages.routing import error_page


def test_a_store_that_does_not_answer_is_asked_once_for_a_page_and_told(full, client, monkeypatch):
    asked = []
    others = Operations.call

    def call(self, name, *args, **options):
        if self.source.scheduler is not full:
            return others(self, name, *args, **options)
        asked.append(name)
        raise StoreUnavailable("the server went away")

    monkeypatch.setattr(Operations, "call", call)
    answer = client(full).get("/jobs")
    assert answer.status_code == 503
    assert "The server went away." in answer.text
    assert "/dead" in answer.text
    assert asked == ["find_jobs"]


def test_counts_beside_the_navigation_are_read_again_after_five_seconds(full, client):
    browser = client(full)
    assert 'class="count bad">' in browser.get("/settings").text
    before = full.count_jobs().number
    full.remove_job("plain")
    assert f'quiet">{before}<' in browser.get("/settings").text
    full.clock.advance(6)
    assert f'quiet">{before - 1}<' in browser.get("/settings").text


def test_somebody_who_sees_a_part_has_counts_of_that_part(full, client):
    everything = client(full)
    everything.get("/jobs")
    part = client(full, Principal("tess", Role.VIEWER, tags=frozenset({"billing"})))
    assert 'quiet">2<' in part.get("/jobs").text


def test_every_application_has_routes_of_its_own(full):
    one, other = page_routes(), page_routes()
    one[1].app = partial(one[1].app)
    assert not isinstance(other[1].app, partial)
    assert not isinstance(page_routes()[1].app, partial)


def test_a_page_that_tells_an_error_asks_no_store(full, client, monkeypatch):
    class Refused(Exception):
        kind = EXISTS

    app = pages_app(full, OPERATOR)
    told = []

    async def refuse(scope, receive, send):
        scope["app"] = app
        request = Request(scope, receive)
        request.state.principal = None
        told.append(error_page(request, Refused("it is there already")))
        request.state.principal = ADMIN
        told.append(error_page(request, NotFound("there is no such page")))

    monkeypatch.setattr(Operations, "call", lambda *args, **options: 1 / 0)
    asyncio.run(refuse({"type": "http", "method": "GET", "path": "/x", "headers": [], "query_string": b"",
                        "scheme": "http", "server": ("localhost", 80)}, None, None))  # fmt: skip
    assert [(answer.status_code, b'role="alert"' in answer.body) for answer in told] == [(409, True), (404, True)]
    assert b"It is there already." in told[0].body


def test_a_link_to_another_page_of_a_list_does_not_repeat_what_was_done(full, client):
    text = client(full).get("/jobs?did=paused&n=1&undo=x&q=plain").text
    assert "1 job paused." in text
    assert 'name="back" value="/jobs?q=plain"' in text
