"""What others have chosen goes through forms, headers and files as it is, and leads nowhere else."""

from __future__ import annotations

import csv
import io
import re
from html import unescape
from urllib.parse import quote, urlencode

import pytest
from asgi_client import AsgiClient
from front_source import front_source
from hostile_texts import HOSTILE, seen
from page_doubles import OPERATOR

from goscheduler.locks import acquire
from goscheduler.ops.access import Principal, Role
from goscheduler.ops.tokens import StoreTokens, add_token
from goscheduler.web import web_app

ELSEWHERE = [
    "https://evil.example", "https:evil.example", "//evil.example", "///evil.example", "/\\evil.example",
    "\\\\evil.example", "/jobs\\..\\x", "/\t/evil.example", "/\n/evil.example", "\t//evil.example", " //evil.example",
    "javascript:alert(1)",
    "data:text/html,x", "jobs", "?q=x", "/a\r\nSet-Cookie: hostile=1", "/jobs\u2028", "/j\u00f6bs", "/jobs/../../admin",
    "/jobs/%2e%2e/%2e%2e/admin", "/..//evil.example", "/.//evil.example", "/jobs/.%2E/x", "",
]  # fmt: skip
#: Form → the fields that it needs beside where it leads to, and where it leads to then.
FORMS = {
    "/settings": ({"zone": "UTC"}, "/settings?"), "/act/undo": ({"pause": "x"}, "/jobs?"),
    "/act/cancel": ({}, "/runs?"), "/act/jobs": ({"act": "run", "id": "plain"}, "/jobs?"),
    "/act/letters": ({"act": "redrive", "error_type": "ValueError"}, "/dead?"),
}  # fmt: skip


@pytest.fixture
def source(full):
    return front_source(full)


@pytest.fixture
def browser(source):
    """Makes requests to the whole application, mounted at a path, as a browser at this machine does."""
    return AsgiClient(web_app(source), root_path="/jobs", accept="text/html", sec_fetch_site="same-origin")


def sent(browser, path, fields):
    """Return the answer to a form."""
    body = urlencode(fields, errors="surrogatepass").encode()
    return browser.request("POST", path, body=body, content_type="application/x-www-form-urlencoded")


@pytest.mark.parametrize("path", FORMS)
def test_a_form_leads_back_to_a_page_of_the_application_and_nowhere_else(browser, path, full):
    fields, otherwise = FORMS[path]
    for back in ELSEWHERE:
        named = {"id": full.run_now("plain")} if path == "/act/cancel" else fields
        answer = sent(browser, path, {**named, "back": back})
        assert (answer.status, "set-cookie" in answer.headers) == (303, path == "/settings"), back
        assert answer.headers["location"].startswith(f"/jobs{otherwise}"), back
    back = "/job?id=..%2F%2Fevil&store=a"
    named = {"id": full.run_now("plain")} if path == "/act/cancel" else fields
    assert sent(browser, path, {**named, "back": back}).headers["location"].startswith(f"/jobs{back}")


def test_the_question_before_an_act_leads_back_to_a_page_of_the_application_and_nowhere_else(browser):
    for path in ("/act/jobs?act=pause&id=plain", "/act/cancel?id=x", "/act/letters?act=redrive&id=x", "/login?x=y"):
        for back in ELSEWHERE:
            answer = browser.get(f"{path}&{urlencode({'back': back, 'next': back})}")
            assert answer.status == 200, path
            links = map(unescape, re.findall(r'(?:href|value)="([^"]*)"', answer.text))
            assert not back or back not in links, (path, back)


def test_a_log_in_leads_to_the_page_that_was_asked_for(source, full):
    shown = add_token(StoreTokens(source), "ann", Role.VIEWER, full.clock.now())[1]
    browser = AsgiClient(web_app(source, tokens=True), accept="text/html", sec_fetch_site="same-origin")
    named = f"/jobs/{quote('näme 🙂')}"
    for path in ("/jobs?q=tag%3Abilling", named, "/job?id=a%2Fb%3Fc%23d", "/jobs/%2522%250d%250a"):
        asked = browser.get(path).headers["location"]
        form = browser.get(asked).text
        goal = unescape(re.search(r'name="next" value="([^"]*)"', form)[1])
        assert sent(browser, "/login", {"token": shown, "next": goal}).headers["location"] == path
    for path in ("//evil.example", "/%2fevil.example", "/%5cevil.example", "/a%0d%0aSet-Cookie:%20x=1"):
        asked = browser.get(path)
        goal = unescape(re.search(r'name="next" value="([^"]*)"', browser.get(asked.headers["location"]).text)[1])
        location = sent(browser, "/login", {"token": shown, "next": goal}).headers["location"]
        assert re.match(r"/(?![/\\])[!-~]*$", location), location


def test_no_text_makes_a_header(browser):
    line = 'x"\r\nSet-Cookie: hostile=1'
    for path, fields in [
        ("/settings", {"zone": line}), ("/settings", {"theme": line}), ("/act/undo", {"pause": line}),
        ("/act/stop", {"id": line}), ("/act/edit", {"id": line, "trigger": "5 4 * * *"}),
        ("/act/message", {"act": "postpone", "id": line, "to": "2035-01-01T00:00Z"}),
        ("/act/process", {"action": "pause", "owner": line}), ("/act/alert", {"act": "ack", "id": line}),
        ("/messages/new", {"event": "x", "id": line, "payload": "1", "kind": "json"}),
    ]:  # fmt: skip
        answer = sent(browser, path, fields)
        assert answer.status < 500, path
        assert "hostile" not in answer.headers.get("set-cookie", ""), path
        assert not any("\r" in value or "\n" in value for value in answer.headers.values()), path
    answer = browser.get(f"/audit.csv?{urlencode({'actor': line, 'operation': line})}")
    assert answer.headers["content-disposition"] == 'attachment; filename="audit.csv"'


@pytest.mark.parametrize("begins", ["=", "+", "-", "@", "\t=", " =", '"=', "\u200b=", "\ufeff+", "\uff1d", "\uff20",
                                    "a;=", "a; @", 'a;"+', "a\t-"])  # fmt: skip
def test_no_cell_of_the_exported_audit_begins_a_formula_whatever_parts_the_cells(source, full, client, begins):
    text = f"{begins}HYPERLINK(0)"
    browser = client(source, Principal("ada", Role.ADMIN, see_arguments=True))
    full.pause_job("plain")
    source_call = Principal(seen(text), Role.ADMIN)
    client(source, source_call).post("/act/jobs", data={"act": "resume", "id": "plain", "reason": text})
    answer = browser.get("/audit.csv?operation=resume_jobs")
    for delimiter in (",", ";", "\t"):
        for row in csv.reader(io.StringIO(answer.text), delimiter=delimiter):
            for cell in row:
                assert not re.match(r'[\s"\u200b\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20]', cell), cell
    assert "HYPERLINK(0)" in answer.text


def test_an_act_reaches_what_has_line_ends_in_its_name(source, client):
    browser = client(source)
    for name in HOSTILE[-3:]:
        acquire(source.locks, name, 60)
        sheet = browser.get("/act/lock", params={"name": name}).text
        action = unescape(re.search(r'action="(/act/lock[^"]*)"', sheet)[1])
        fence = re.search(r"<code>(\d+)</code>", sheet)[1]
        assert "The lock is broken" in browser.post(action, data={"fence": fence, "reason": "x"}).text
    assert client(source, OPERATOR).post(action, data={"fence": fence}).status_code == 403
