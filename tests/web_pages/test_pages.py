"""Every page, for everybody, on a full store and on an empty one; and what its forms do."""

from __future__ import annotations

import gzip
import hashlib
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from operation_doubles import fail
from page_doubles import ADMIN, OPERATOR, VIEWER
from web_page_ids import ODD_IDS

import goscheduler.web
from goscheduler.ops.access import Principal, Role
from goscheduler.ops.service import Operations

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

WEB = Path(goscheduler.web.__file__).parent
TEMPLATES = sorted((WEB / "templates").glob("*.html"))
#: Pages that need nothing, and texts that they have on a full store.
PAGES = {
    "/": "failing", "/?minutes=480": "last 8 h", "/?minutes=4320": "last 72 h",
    "/jobs": "plain", "/jobs?sort=id": "plain",
    "/jobs?q=last:failed": "failing", "/jobs?q=state:paused": "the numbers are audited", "/runs": "failing",
    "/runs?tab=live": "plain", "/runs?outcome=failed&job=failing&since=2h&late=0": "failing", "/dead": "order",
    "/dead/letters": "failing", "/dead/letters?error_type=ValueError": "failing", "/processes": "No process",
    "/settings": "Time zone", "/login": "Log in", "/limits": "api", "/limits?name=api": "5/1m", "/messages": "Messages",
    "/schedules": "No registry", "/documents": "No collection", "/locks": "Locks", "/alerts": "No alert",
    "/calendar": "what fires when", "/playground": "nothing is stored", "/playground?text=30+2+*+*+1": "every Monday",
}  # fmt: skip
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Page(HTMLParser):
    """What a page is made of; it fails on tags that are not closed in their order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.ids = [], [], []
        self.feed(text)
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def links(self):
        names = ("href", "src", "action", "formaction", "hx-get", "data-events")
        return [attrs[name] for _, attrs in self.tags for name in names if attrs.get(name)]


@pytest.mark.parametrize("principal", [VIEWER, OPERATOR, ADMIN], ids=lambda each: each.role.title)
@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_shown_to_everybody_with_what_they_may_do(full, client, principal, path):
    answer = client(full, principal).get(path)
    assert answer.status_code == 200, answer.text
    assert PAGES[path] in answer.text
    page = Page(answer.text)
    assert len(page.ids) == len(set(page.ids))
    acts = [link for link in page.links() if "/act/" in link]
    assert principal.role > Role.VIEWER or acts == []
    assert principal.role is Role.ADMIN or not any("remove" in link or "/act/edit" in link for link in acts)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_without_anything_says_so(empty, client, path):
    answer = client(empty).get(path)
    assert answer.status_code == 200
    Page(answer.text)


@pytest.mark.parametrize("principal", [VIEWER, OPERATOR, ADMIN], ids=lambda each: each.role.title)
@pytest.mark.parametrize("job_id", ["plain", "nightly", "failing", "retried", "once"])
def test_every_job_has_a_page_with_the_reason_first(full, client, principal, job_id):
    answer = client(full, principal).get(f"/jobs/{job_id}")
    assert answer.status_code == (404 if job_id == "once" else 200)
    page = Page(answer.text)
    assert answer.text.index('class="why') < answer.text.index('class="card')
    assert "hush" not in answer.text
    assert page.tags
    if job_id == "plain":
        assert ("blue" in answer.text) == principal.see_arguments


def test_the_page_of_a_paused_job_says_who_paused_it_and_why(full, client):
    text = client(full).get("/jobs/nightly").text
    assert "It was paused by ann: the numbers are audited" in text
    assert "Resume…" in text
    assert "Pause…" not in text


@pytest.mark.parametrize("job_id", ODD_IDS)
def test_any_id_has_a_page_and_stays_a_text(full, client, job_id):
    full.run_now(job_id)
    full.run_due()
    browser = client(full)
    for path in ("/jobs", "/", "/runs", "/runs?tab=live"):
        page = Page(browser.get(path, params={"q": job_id} if path == "/jobs" else {}).text)
        assert not any(tag == "img" or any(name.startswith("on") for name in attrs) for tag, attrs in page.tags)
    links = [link for link in Page(browser.get("/jobs?sort=id").text).links() if link.startswith("/job")]
    (own,) = {link for link in links if unquote(link.rpartition("=" if "?id=" in link else "/")[2].replace("+", " "))
              == job_id and "q=" not in link}  # fmt: skip
    answer = browser.get(own)
    assert answer.status_code == 200
    for link in {each for each in Page(answer.text).links() if "/act/" in each}:
        assert browser.get(link).status_code == 200, link


def test_scripts_and_styles_come_from_files_alone(full, client):
    browser = client(full)
    for path in [*PAGES, "/jobs/plain", "/jobs/nope"]:
        for tag, attrs in Page(browser.get(path).text).tags:
            assert "style" not in attrs, path
            assert tag != "style"
            assert not any(name.startswith("on") for name in attrs)
            if tag == "script":
                assert attrs["nonce"] == "n0nce"
                assert attrs["src"]


@pytest.mark.parametrize("root", ["", "/jobs", "/a/b"])
def test_every_link_leads_to_a_page_wherever_the_application_is_mounted(full, client, root):
    browser = client(full, root=root)
    run_id = full.runs("failing")[0].run_id
    seen, found = set(), [f"{root}/", f"{root}/jobs/failing", f"{root}/runs/{run_id}", f"{root}/dead"]
    for path in found:
        answer = browser.get(path)
        assert answer.status_code == 200, path
        for link in Page(answer.text).links():
            if link.startswith("#") or link in seen:
                continue
            seen.add(link)
            parts = urlsplit(link)
            assert (parts.scheme, parts.netloc) == ("", ""), link
            assert parts.path.startswith(f"{root}/"), link
            is_form = parts.path.startswith(f"{root}/act/") and not parts.query
            assert is_form or browser.get(link).status_code in (200, 204), link
    assert len(seen) > 30


def test_templates_escape_everything():
    for template in TEMPLATES:
        text = template.read_text(encoding="utf-8")
        for word in ("|safe", "| safe", "Markup", "autoescape", "style=", "hx-on", "javascript:"):
            assert word not in text, f"{template.name} has {word}"


def test_every_form_of_a_page_labels_its_fields(full, client):
    browser = client(full)
    for path in [*PAGES, "/act/jobs?act=pause&id=plain", "/act/edit?id=plain&trigger=5+4+*+*+*"]:
        page = Page(browser.get(path).text)
        for tag, attrs in page.tags:
            if tag == "input" and attrs.get("type") == "checkbox":
                assert attrs.get("aria-label"), path
        assert ("main", {"id": "main", "tabindex": "-1"}) in page.tags or path == "/login"


def test_assets_are_small_and_kept_for_good(full, client):
    browser = client(full)
    page = Page(browser.get("/").text)
    found = [link for link in page.links() if link.startswith("/static/")]
    sizes = {}
    for link in found:
        answer = browser.get(link)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        sizes[link] = len(gzip.compress(answer.content))
    assert len(found) == 5
    assert sum(sizes.values()) <= 50 * 1024, sizes
    assert (WEB / "static" / "app.css").stat().st_size <= 24 * 1024
    assert (WEB / "static" / "app.js").stat().st_size <= 8 * 1024
    assert sum(sizes.values()) + len(gzip.compress(browser.get("/").content)) <= 70 * 1024


@pytest.mark.parametrize("name", ["app.css", "nothing", "..%2f..%2fsite.py", "VENDOR.toml", "%2e%2e"])
def test_nothing_but_the_assets_is_served(full, client, name):
    assert client(full).get(f"/static/{name}").status_code == 404


def test_every_file_of_others_is_named_with_its_origin():
    folder = WEB / "static" / "vendor"
    told = tomllib.loads((folder / "VENDOR.toml").read_text(encoding="utf-8"))
    assert {each["file"] for each in told.values()} == {path.name for path in folder.glob("*.js")}
    for each in told.values():
        assert each["integrity"].startswith("sha512-")
        assert each["licence"]
        assert hashlib.sha256((folder / each["file"]).read_bytes()).hexdigest() == each["sha256"]
        assert re.fullmatch(r"\d+\.\d+\.\d+", each["version"])


def test_an_unknown_job_or_run_is_told_with_the_rest_of_the_page_in_reach(full, client):
    for path in ("/jobs/nope", "/job?id=", "/runs/nope", "/bulk?id=nope"):
        answer = client(full).get(path)
        assert answer.status_code in (404, 422), path
        assert 'role="alert"' in answer.text
        assert "/dead" in answer.text


@pytest.mark.parametrize(
    "path", ["/jobs?q=state:bogus", "/jobs?after=%00", "/runs?outcome=bogus", "/runs?late=x", "/runs?since=never"]
)
def test_a_search_that_makes_no_sense_is_told_beside_the_search(full, client, path):
    answer = client(full).get(path)
    assert answer.status_code == 200
    assert 'class="notice warn"' in answer.text
    assert "<form" in answer.text


def test_an_error_that_nobody_foresaw_is_a_page_and_tells_nothing(full, client, monkeypatch, caplog):
    monkeypatch.setattr(Operations, "call", lambda *args, **options: {}["the secret"])
    answer = client(full).get("/jobs")
    assert answer.status_code == 500
    assert "internal error" in answer.text
    assert "the secret" not in answer.text
    assert "the secret" in caplog.text


def test_whoever_may_see_some_jobs_gets_these_instead_of_the_overview(full, client):
    browser = client(full, Principal("tess", Role.OPERATOR, tags=frozenset({"billing"})))
    answer = browser.get("/")
    assert answer.url.path == "/jobs"
    assert "failing" in answer.text
    assert "nightly" not in answer.text
    assert browser.get("/jobs/nightly").status_code == 404
    assert browser.get("/jobs/plain").status_code == 200


def test_choices_are_kept_in_the_browser(full, client):
    browser = client(full)
    answer = browser.post("/settings", data={"zone": "Asia/Tokyo", "theme": "dark"})
    assert "Settings kept" in answer.text
    assert 'data-theme="dark"' in answer.text
    assert "Asia/Tokyo" in browser.get("/jobs").text
    for data in ({"zone": "Mars/Base"}, {"zone": "../etc/passwd"}, {"theme": "pink"}):
        assert browser.post("/settings", data=data).status_code == 422


@pytest.mark.parametrize("back", ["https://evil.example", "//evil.example", "/\\evil", "javascript:x", "\r\nX: y", ""])
def test_a_form_leads_back_to_pages_of_this_application_only(full, client, back):
    browser = client(full)
    answer = browser.post("/settings", data={"back": back}, follow_redirects=False)
    assert answer.headers["location"].startswith("/settings?")



def test_an_error_that_is_no_unicode_spoils_no_page(full, client):
    full.add_job(fail, "interval", seconds=1, args=["half \ud800 of a pair"], id="half", dead_letter=True)
    full.advance("3s")
    for path in ("/jobs", "/", "/runs", "/jobs/half", "/dead", "/jobs?did=paused&n=1&q=%ED%A0%80"):
        assert client(full).get(path).status_code == 200, path
