"""Texts that somebody else has chosen, on every page in a real browser: they are shown, and nothing of them runs."""

from __future__ import annotations

import platform
import socket
import threading
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote_plus, urlencode, urlsplit

import pytest
import uvicorn
from hostile_texts import ATTRIBUTE, ELEMENT, FIELDS, HOSTILE, POLYGLOT, Held, hostile_source, of, seen
from starlette.routing import Route

from goscheduler.ops.access import Principal, Role
from goscheduler.ops.service import Operations
from goscheduler.testing import ManualScheduler
from goscheduler.web import web_app
from goscheduler.web.pages import page_routes

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
A_MINUTE = 60_000
#: What the addresses of pages say, whether a page heeds it or not.
NAMES = (
    "q", "error", "next", "why", "did", "n", "failed", "undo", "back", "after", "before", "cursor", "store", "id",
    "job", "name", "tag", "since", "until", "sort", "state", "executor", "zone", "owner", "times", "act", "action",
    "span", "tab", "all", "minutes", "at", "outcome", "late", "task", "error_type", "signature", "job_id", "prefix",
    "event_name", "due_after", "due_before", "collection", "actor", "operation", "status", "text", "dialect",
    "trigger", "theme",
)  # fmt: skip
#: Without these, some pages answer that they are missing, and show nothing else.
NEEDED = {
    "/act/jobs": {"act": "pause", "id": of("job")}, "/act/edit": {"id": of("job")},
    "/act/letters": {"act": "discard"}, "/act/message": {"act": "cancel", "id": "m x"}, "/act/cancel": {"id": "x"},
    "/act/process": {"action": "pause"}, "/act/lock": {"name": of("lock")}, "/playground": {"text": "every 5m"},
    "/job": {"id": of("job")},
}  # fmt: skip
#: No links lead to these, or no address tells how the page comes to be.
APART = {"/static/{name}", "/audit.csv", "/login", "/bulk", "/act/cancel", "/run", "/dead/first"}
#: What a page must not have, whatever it shows, and its text.
LOOK = f"""(page) => {{
  const wrong = [];
  for (const each of page.querySelectorAll("*")) {{
    const names = each.getAttributeNames();
    if (each.matches("{ELEMENT}, [{ATTRIBUTE}], img, style, iframe, object, embed, base, script:not([src])"))
      wrong.push(each.outerHTML);
    if (names.some((name) => name.startsWith("on"))) wrong.push(each.outerHTML);
    if (names.some((name) => name.startsWith("hx-")) && !each.matches("body, form.search")) wrong.push(each.outerHTML);
    for (const name of ["href", "src", "action", "formaction", "data-events", "hx-get"])
      if (each.hasAttribute(name) && new URL(each.getAttribute(name), location.href).origin !== location.origin)
        wrong.push(each.outerHTML);
  }}
  const links = [...page.querySelectorAll("a[href]")].map((link) => new URL(link.getAttribute("href"), location.href));
  return {{ wrong, text: page.documentElement.textContent, links: links.map(String) }};
}}"""
#: Asks for pages, and returns what is wrong with each of them.
ASK = f"""async (paths) => {{
  const look = {LOOK};
  const wrong = [];
  for (let at = 0; at < paths.length; at += 6)
    await Promise.all(paths.slice(at, at + 6).map(async (path) => {{
      const answer = await fetch(path, {{ headers: {{ accept: "text/html" }} }});
      const found = look(new DOMParser().parseFromString(await answer.text(), "text/html")).wrong;
      if (answer.status >= 500) found.push(answer.status);
      if (found.length) wrong.push([path, found]);
    }}));
  return wrong;
}}"""
#: The addresses that links and forms of a page have.
FORMS = """() => [
  ...[...document.querySelectorAll("a[href]")].map((link) => link.href),
  ...[...document.forms].map((form) => `${form.getAttribute("action")}?${new URLSearchParams(new FormData(form))}`),
].map(String)"""
#: Tells of what the policy of the pages has stopped.
REPORTS = "document.addEventListener('securitypolicyviolation', (event) => console.error('policy ' + event.blockedURI))"

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason="chromium is not installed"), pytest.mark.serial,
]  # fmt: skip


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory):
    """A scheduler on a store that is shared, with everything, and one run that goes on."""
    store = {"type": "sqlalchemy", "url": f"sqlite:///{tmp_path_factory.mktemp('hostile')}/jobs.db"}
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((platform, "node"), (socket, "gethostname")):
            patch.setattr(module, name, lambda: of("host"))
        executors = {"default": {"type": "debug"}, "pool": {"type": "threadpool", "max_workers": 1}}
        held = Held()
        with ManualScheduler(jobstores={"default": store}, executors=executors) as scheduler:
            scheduler.source = hostile_source(scheduler)
            scheduler.register("hold", held.run)
            scheduler.add_job("hold", "date", id="held", executor="pool")
            scheduler.run_due()
            assert held.has_begun.wait(60)
            scheduler.advance(30)
            yield scheduler
            held.is_over.set()


@pytest.fixture(scope="module")
def operations(scheduler):
    """Calls an operation as somebody who may do everything."""
    called, ada = Operations(scheduler.source), Principal(of("actor"), Role.ADMIN, see_arguments=True)

    def call(name, **arguments):
        return called.call(name, ada, arguments)

    return call


@pytest.fixture(scope="module")
def address(scheduler):
    """Where the whole application is served, to somebody with a hostile name who may do everything."""
    ada = Principal(of("actor"), Role.ADMIN, see_arguments=True)
    app = web_app(scheduler.source, principal=lambda: ada)
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_config=None, lifespan="off", ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser
        browser.close()


class Tab:
    """A tab of the browser, in which nothing may run that is not ours."""

    def __init__(self, context, address):
        self.address, self.mistakes, self.texts = address, [], []
        context.add_init_script(REPORTS)
        self.page = context.new_page()
        self.page.set_default_timeout(A_MINUTE)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.mistakes.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.mistakes.append(f"dialog: {dialog.message}"), dialog.dismiss()))

    def _said(self, message):
        refused = "the server responded with a status of 4" in message.text  # as it does where there is no such thing
        if message.type in ("error", "warning") and not refused:
            self.mistakes.append(message.text)

    def open(self, path):
        """Open a page, and return its links."""
        answer = self.page.goto(f"{self.address}{path}")
        assert answer.status < 500, f"{path}: {answer.status}"
        assert "hostile" not in answer.headers.get("set-cookie", ""), path
        assert urlsplit(self.page.url).netloc == urlsplit(self.address).netloc, self.page.url
        return self.look(path)

    def look(self, path="the page"):
        """Make sure that nothing on the page is made of a text."""
        found = self.page.evaluate(f"({LOOK})(document)")
        assert found["wrong"] == [], path
        assert self.mistakes == [], path
        self.texts.append(found["text"])
        return [link.removeprefix(self.address) for link in found["links"]]


@pytest.fixture
def tab(chromium, address):
    context = chromium.new_context()
    yield Tab(context, address)
    context.close()


def kind_of(link):
    """Return what links of one kind have in common: the page, and which words its address has."""
    parts = urlsplit(link)
    path = next((f"{root}{{id}}" for root in ("/jobs/", "/runs/") if parts.path.startswith(root)), parts.path)
    query = parse_qsl(parts.query)
    return path, tuple(sorted({(name, value if name in ("act", "action") else "") for name, value in query}))


def crawled(tab):
    """Open what links lead to, one page of each kind, rather one that has a name of a field; return the pages."""
    waiting, known, kinds = ["/"], {"/"}, set()
    while waiting:
        link = waiting.pop(0)
        if kind_of(link) in kinds:
            continue
        kinds.add(kind_of(link))
        found = {each.partition("#")[0] for each in tab.open(link)} - known
        known |= found
        waiting = sorted({*waiting, *(each for each in found if not each.startswith("/audit.csv"))}, key=_rank)
    return {path for path, _ in kinds}


def _rank(link):
    text = unquote_plus(unquote_plus(link))
    return ATTRIBUTE not in text, ELEMENT not in text, "held" not in text, text


def pages():
    """Return the paths of all pages."""
    return {route.path for route in page_routes() if isinstance(route, Route) and "GET" in route.methods}


def test_on_all_pages_that_links_lead_to_the_texts_of_a_store_are_shown_and_nothing_of_them_runs(tab, operations):
    reached = crawled(tab)
    assert pages() - reached - APART == set()
    for path, query in _apart(operations):
        tab.open(f"{path}?{urlencode(query)}")
    shown = "\n".join(tab.texts).replace('\\"', '"')  # as JSON has it
    assert [field for field in FIELDS if of(field) not in shown] == []
    assert [text for text in HOSTILE if seen(text) not in shown] == []


def _apart(operations):
    """Return pages that no link leads to, and those that show what each other page of their kind has not."""
    job_id, event = of("job"), of("event")
    (live,) = operations("live_runs", job_id="held")
    bulk = operations("start_bulk", ticket=operations("preview_bulk", act="resume", text=job_id)["ticket"])
    (dead,) = operations("messages", event_name=event, state="dead")["items"]
    runs = [operations("find_runs", job_id=each, limit=1)["items"][0] for each in (job_id, f"fail {job_id}")]
    return [
        *(("/run", {"id": run["run_id"]}) for run in (live, *runs)), ("/act/cancel", {"id": live["run_id"]}),
        *(("/job", {"id": each}) for each in (job_id, f"fail {job_id}", "nobody")), ("/bulk", {"id": bulk["id"]}),
        *(("/message", {"id": each}) for each in (dead["id"], f"m {event}")), ("/login", {}), ("/dead", {}),
        ("/dead/first", {"run": runs[1]["run_id"], "error_type": runs[1]["error_type"]}), ("/audit", {}),
        ("/jobs", {"q": "job"}),
    ]  # fmt: skip


def test_each_text_is_shown_on_the_pages_of_its_job_run_and_message(tab, operations):
    for text in HOSTILE:
        job_id = f"fail {seen(text)}"
        (run,) = operations("find_runs", job_id=job_id, limit=1)["items"]
        for path, query in (
            ("/job", {"id": job_id}), ("/run", {"id": run["run_id"], "job": job_id}), ("/message", {"id": job_id}),
            ("/act/jobs", {"act": "remove", "id": job_id}), ("/dead/letters", {"error_type": run["error_type"]}),
        ):  # fmt: skip
            tab.open(f"{path}?{urlencode(query)}")


def test_no_text_in_an_address_becomes_code(tab):
    for path in shown_pages():
        tab.open(full_of(POLYGLOT, path))
    others = ["javascript:alert(1)//", "//evil.example", "\\\\evil.example", "a\r\nSet-Cookie: x=1", "\x00\x1b[31m"]
    assert tab.page.evaluate(ASK, [full_of(text, path) for path in shown_pages() for text in others]) == []
    tab.look()


def shown_pages():
    """Return the paths of all pages that a browser shows."""
    return sorted(pages() - {"/static/{name}", "/audit.csv"})


def full_of(text, path):
    """Return the address of a page in which everything is one text, but for what the page cannot be shown without."""
    query = {**dict.fromkeys(NAMES, text), **NEEDED.get(path, {})}
    return f"{path.replace('{id}', quote(text, safe=''))}?{urlencode(query)}"


def test_no_word_of_an_address_becomes_code_beside_others_that_make_sense(tab):
    paths = [path for path in shown_pages() if "{id}" not in path]
    words = {path: {"did", "back", "next", "after", "store", *NEEDED.get(path, {})} for path in paths}
    for path in paths:
        tab.open(f"{path}?{urlencode(NEEDED.get(path, {}))}")
        for link in tab.page.evaluate(FORMS):
            words.get(urlsplit(link).path, set()).update(dict(parse_qsl(urlsplit(link).query, True)))
    asked = [
        f"{path}?{urlencode({**NEEDED.get(path, {}), word: text})}"
        for path in paths
        for word in sorted(words[path])
        for text in (POLYGLOT, *([f"/jobs?q={POLYGLOT}"] if word in ("back", "next") else ()))
    ]
    assert len(asked) > 150
    assert tab.page.evaluate(ASK, asked) == []
    tab.look()


def test_what_comes_into_a_page_that_is_open_does_not_run(tab, operations):
    page, job_id = tab.page, of("job")
    tab.open(f"/job?{urlencode({'id': job_id})}")
    page.wait_for_selector("#live-switch >> text=Live")
    operations("pause_jobs", ids=[job_id], reason=POLYGLOT[-255:])
    page.wait_for_selector(".why >> text=evil.example")
    tab.look()
    page.click(".head >> text=Resume…")
    assert job_id in page.inner_text("dialog[open]")
    tab.look()
    tab.open("/jobs")
    page.fill("#jobs-search", POLYGLOT)
    page.wait_for_selector("text=No job fits this search")
    tab.look()
    page.fill("#jobs-search", ELEMENT)
    page.wait_for_selector("td.name a >> text=fail job")
    tab.look()


def test_a_lock_is_broken_from_its_page_whatever_its_name(tab):
    page = tab.page
    tab.open("/locks")
    for number in range(2):
        row = page.locator("tbody tr", has_text=("Set-Cookie", "gpj.exe")[number])
        fence = row.locator("td[data-label=Fence]").inner_text()
        row.locator("text=Break…").click()
        page.fill("dialog[open] [name=fence]", fence)
        page.fill("dialog[open] [name=reason]", "its holder is gone")
        page.click("dialog[open] button.danger")
        page.wait_for_selector("text=The lock is broken.")
        tab.look()
        assert row.count() == 0


def test_what_is_written_from_right_to_left_does_not_turn_what_stands_beside_it(tab):
    tab.open("/dead")
    error = tab.page.locator("td.name a", has_text="gpj.exe").first
    assert error.evaluate("(each) => getComputedStyle(each).unicodeBidi") == "isolate"
