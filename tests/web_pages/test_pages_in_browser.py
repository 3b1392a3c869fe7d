"""The pages in a real browser: an operator finds a failing job, reads why, pauses it with a reason, and undoes that."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest
import uvicorn
import warm
from operation_doubles import fail, nothing
from page_doubles import ADMIN, OPERATOR, pages_app
from typer.testing import CliRunner
from web_page_ids import ODD_IDS

from goscheduler.cli.app import app as commands
from goscheduler.testing import ManualScheduler

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
PAGES = ("/", "/jobs", "/jobs/failing", "/runs", "/runs?tab=live", "/dead", "/dead/letters", "/processes", "/settings",
         "/login", "/limits", "/messages", "/calendar?span=7d", "/playground?text=30+2+*+*+1", "/alerts", "/documents",
         "/audit", "/act/jobs?act=pause&id=plain", "/act/edit?id=plain&trigger=5+4+*+*+*", "/act/next?id=plain",
         "/jobs/nope")  # fmt: skip
A_MINUTE = 60_000
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}
AXE = (Path(__file__).parent.parent / "vendor" / "axe.min.js").read_text(encoding="utf-8")
TAGS = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
LOOK = """options => axe.run(document, options).then(told => told.violations.flatMap(
  rule => rule.nodes.map(node => [rule.id, node.target.join(" ") + " " + node.failureSummary])))"""

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason="chromium is not installed"), pytest.mark.xdist_group("browser"),
]  # fmt: skip


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def serve():
    """Serves the pages on a free port, and returns their address."""
    servers = []

    def serve(scheduler, principal=OPERATOR, root=""):
        listening = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(
            pages_app(scheduler, principal, root), log_config=None, lifespan="off", ws="none",
            timeout_graceful_shutdown=1,
        )  # fmt: skip
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{listening.getsockname()[1]}{root}"

    yield serve
    for server, thread in servers:
        server.should_exit = True
        thread.join()


@pytest.fixture
def tab(chromium):
    """Opens a tab. What its console says, unless it is expected, and every dialog is a mistake of the pages."""
    mistakes, contexts, expected = [], [], ["404"]

    def tab(**options):
        context = chromium.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(A_MINUTE)
        page.on("console", lambda said: mistakes.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: mistakes.append(str(error)))
        page.on("dialog", lambda dialog: (mistakes.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        return page

    tab.expected = expected
    yield tab
    for context in contexts:
        context.close()
    assert [said for said in mistakes if not any(words in said for words in expected)] == []


@pytest.fixture
def store(tmp_path):
    """The URL of a store with jobs of a tenant, and with two dead letters of one error."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    with ManualScheduler(jobstores={"default": url}) as scheduler:
        for number in (7, 8):
            scheduler.add_job(fail, "date", id=f"import-orders-{number}", args=[number], dead_letter=True)
            scheduler.add_job(nothing, "interval", hours=1, id=f"report-{number}", tags=["tenant-7"])
        scheduler.add_job(nothing, "interval", hours=1, id="report-of-another", tags=["tenant-8"])
        scheduler.run_due()
    return url


@pytest.fixture
def command(tmp_path):
    """Starts ``goscheduler web`` in a process of its own, and returns the process and its address."""
    processes = []

    def command(*arguments, port=0):
        root = Path(__file__).resolve().parent.parent.parent
        process = warm.start(
            "-u", "-m", "goscheduler", "web", "--port", str(port), *arguments, cwd=tmp_path, stdin=warm.DEVNULL,
            stdout=warm.PIPE, stderr=warm.STDOUT, text=True, env={**os.environ, "PYTHONPATH": str(root)},
        )  # fmt: skip
        processes.append(process)
        while "Listening on" not in (line := process.stdout.readline()):
            assert line, "it has ended"
        return process, line.split("Listening on ")[1].split("/;")[0]

    yield command
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("script", [True, False], ids=["with JavaScript", "without JavaScript"])
def test_an_operator_finds_a_failing_job_reads_why_and_pauses_it_and_undoes_that(full, serve, tab, script):
    address = serve(full, root="/jobs")
    page = tab(java_script_enabled=script)
    page.goto(f"{address}/jobs")
    page.fill("#jobs-search", "ailin")
    if not script:
        page.press("#jobs-search", "Enter")
    page.wait_for_url("**q=ailin*")
    page.click("td.name a >> text=failing")
    assert "Last error: ValueError: order 17 is broken" in page.inner_text(".why")
    page.click(".head >> text=Pause…")
    page.fill("[name=reason]", "orders are looked at")
    page.click("#sheet button.main")
    page.wait_for_selector("text=1 job paused.")
    assert "It was paused by olga: orders are looked at" in page.inner_text(".why")
    assert [job.id for job in full.get_jobs(state="paused")] == ["failing", "nightly"]
    page.click("#notices >> text=Undo")
    page.wait_for_selector("text=1 job resumed")
    assert [job.id for job in full.get_jobs(state="paused")] == ["nightly"]


def test_the_keyboard_is_enough(full, serve, tab):
    page = tab()
    page.goto(serve(full) + "/")
    page.keyboard.press("g")
    page.keyboard.press("j")
    page.wait_for_url("**/jobs")
    page.keyboard.press("/")
    page.keyboard.type("plain\n")
    page.wait_for_url("**q=plain*")
    page.keyboard.press("j")
    page.keyboard.press("x")
    assert page.is_checked("tr.at input[name=id]")
    page.keyboard.press("p")
    page.wait_for_selector("dialog[open] [name=reason]:focus")
    page.keyboard.type("why not\n")
    page.wait_for_selector("text=1 job paused.")
    page.keyboard.press("?")
    page.wait_for_selector("#keys[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("#keys", state="hidden")
    page.keyboard.press("j")
    page.wait_for_selector("tr.at")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/plain")


def test_no_page_has_a_barrier_or_is_wider_than_a_phone_and_none_complains(full, serve, tab):
    """Each page is visited once, and looked at in both colours and both widths."""
    address, found = serve(full, ADMIN), []
    page = tab(viewport=WIDE, reduced_motion="reduce")
    dead = full.dead_letters()[0].run.id
    for path in (*PAGES, f"/runs/{full.runs('retried')[0].run_id}", f"/dead/first?run={dead}&error_type=ValueError"):
        page.emulate_media(color_scheme="light")
        page.set_viewport_size(WIDE)
        page.goto(f"{address}{path}")
        page.evaluate(AXE)
        found += [f"{path}, light: {each}" for each in barriers(page)]
        page.emulate_media(color_scheme="dark")
        found += [f"{path}, dark: {each}" for each in barriers(page, colours=True)]
        page.set_viewport_size(PHONE)
        found += [f"{path}, dark, on a phone: {each}" for each in barriers(page)]
        page.emulate_media(color_scheme="light")
        found += [f"{path}, light, on a phone: {each}" for each in barriers(page, colours=True)]
        wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        found += [f"{path} is {wide} px too wide"] if wide > 0 else []
    assert found == []


def barriers(page, colours=False):
    """Return what axe finds: all of WCAG 2.2 A and AA, or what only other colours can change."""
    told = page.evaluate(LOOK, {
        "runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]} if colours else TAGS,
        "rules": {} if colours else {"target-size": {"enabled": True}}, "resultTypes": ["violations"],
    })  # fmt: skip
    return [f"{rule}: {where}" for rule, where in told]


def test_no_id_becomes_code(full, serve, tab):
    page = tab()
    address = serve(full, ADMIN)
    for job_id in ODD_IDS:
        page.goto(f"{address}/jobs")
        page.click(f"td.name a:text-is({job_id!r})" if "'" not in job_id else "td.name a:has-text(\"' or 1\")")
        assert page.inner_text("h1") == job_id
        page.click(".head >> text=Pause…")
        assert job_id in page.inner_text("dialog[open]")


def test_an_act_on_nothing_stays_on_the_list_and_asks_for_a_mark(full, serve, tab):
    page = tab()
    page.goto(serve(full) + "/jobs")
    page.click(".bar >> text=Pause…")
    assert page.evaluate("document.activeElement.name") == "id"
    assert page.url.endswith("/jobs")
    page.keyboard.press("Space")
    page.click(".bar >> text=Pause…")
    page.wait_for_selector("dialog[open] [name=reason]")


def test_a_page_that_is_open_follows_what_happens(full, serve, tab):
    page = tab()
    page.goto(serve(full) + "/jobs/plain")
    page.wait_for_selector("#live-switch >> text=Live")
    full.pause_job("plain", by="ann", reason="from elsewhere")
    page.wait_for_selector(".why >> text=from elsewhere")
    page.click("#live-switch")
    assert page.inner_text("#live-switch") == "Not live"


def test_an_admin_logs_in_redrives_a_group_pauses_a_tenant_and_undoes_that(store, command, tab):
    added = CliRunner().invoke(commands, ["token", "add", "olga", "--role", "admin", "--store", store])
    token = added.stdout.strip()
    _, address = command("--store", store, "--tokens", "store")
    page = tab()
    page.goto(f"{address}/dead")
    page.click("summary >> text=Log in with a token")
    page.fill("[name=token]", token)
    page.click("button >> text=Log in")
    page.wait_for_url("**/dead")
    assert "order … is broken" in page.inner_text("main")
    page.click("td >> text=Try again…")
    page.fill("dialog[open] [name=reason]", "the order service is back")
    page.click("dialog[open] button.main")
    page.wait_for_selector("text=2 dead letters will be tried again.")
    page.goto(f"{address}/jobs?q=tag:tenant-7")
    page.check("input[name=all][value='1']")
    page.click(".bar >> text=Pause…")
    page.fill("dialog[open] [name=reason]", "tenant 7 moves")
    page.click("dialog[open] button.main")
    page.wait_for_selector("text=Undo this pause")
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        paused = scheduler.get_jobs(state="paused")
        assert [(job.id, job.stats.paused_by) for job in paused] == [("report-7", "olga"), ("report-8", "olga")]
        assert (scheduler.dead_letters(), len(scheduler.live_runs())) == ([], 2)
    page.click("text=Undo this pause")
    page.wait_for_selector("text=2 jobs resumed")
    page.goto(f"{address}/audit")
    told = page.inner_text("main")
    assert all(words in told for words in ("olga", "the order service is back", "tenant 7 moves", "127.0.0.1"))


def test_a_page_says_that_its_server_is_gone_and_goes_on_when_it_is_back(store, command, tab):
    tab.expected.append("ERR_")  # what the browser says of a server that is gone
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process, address = command("--store", store, port=port)
    page = tab()
    page.goto(f"{address}/jobs/report-7")
    page.wait_for_selector("#live-switch >> text=Live")
    process.kill()
    process.wait()
    page.wait_for_selector("#live-switch >> text=Connection lost")
    assert "report-7" in page.inner_text("h1")
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        scheduler.pause_job("report-7", by="ann", reason="while nobody served")
    command("--store", store, port=port)
    page.wait_for_selector(".why >> text=while nobody served")
    page.wait_for_selector("#live-switch >> text=Live")


def test_without_the_stream_of_events_a_page_asks_from_time_to_time(full, serve, tab):
    tab.expected.append("ERR_FAILED")
    page = tab()
    page.route("**/v1/events*", lambda route: route.abort())
    page.goto(serve(full) + "/jobs/plain")
    full.pause_job("plain", by="ann", reason="from elsewhere")
    page.wait_for_selector(".why >> text=from elsewhere")
