"""What the forms of the pages do, without JavaScript: each leads to a question, and from there back to its page."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest
from operation_doubles import fail, nothing
from page_doubles import ADMIN, OPERATOR, VIEWER

from goscheduler.ops.audit import Audit
from goscheduler.testing import ManualScheduler

FIELD = re.compile(r'<input type="hidden" name="([^"]*)" value="([^"]*)">')


def asked(answer):
    """Return the hidden fields of the question that an answer shows."""
    assert answer.status_code == 200, answer.text
    sheet = answer.text[answer.text.index('id="sheet"') :].partition("</form>")[0]
    found = {}
    for name, value in FIELD.findall(sheet):
        found.setdefault(unescape(name), []).append(unescape(value))
    return found


def last_act(scheduler):
    """Return the newest entry of the audit."""
    return Audit(scheduler.engine.stores["default"]).entries(None, 1)[0]


def test_a_job_is_paused_with_a_reason_and_the_pause_is_undone(full, client):
    browser = client(full, OPERATOR)
    fields = asked(browser.get("/act/jobs?act=pause&id=plain&back=/jobs/plain"))
    answer = browser.post("/act/jobs", data={**fields, "reason": "a look at it"})
    assert answer.url.path == "/jobs/plain"
    assert "1 job paused." in answer.text
    assert "Paused by olga: a look at it. It stays so until somebody resumes it." in answer.text
    assert (last_act(full)["reason"], last_act(full)["via"]) == ("a look at it", "web")
    undo = dict(FIELD.findall(answer.text[answer.text.index("/act/undo") :].partition("</form>")[0]))
    answer = browser.post("/act/undo", data=undo)
    assert "1 job resumed" in answer.text
    assert full.get_job("plain").next_run_time is not None


def test_a_mark_means_the_job_of_its_store_although_another_store_has_one_of_the_same_id(client):
    with ManualScheduler(jobstores={"default": {"type": "memory"}, "eu": {"type": "memory"}}) as scheduler:
        for store in ("default", "eu"):
            scheduler.add_job(nothing, "interval", hours=1, id="twin", jobstore=store)
        browser = client(scheduler)
        marks = re.findall(r'name="id" value="([^"]*)"', browser.get("/jobs").text)
        assert sorted(marks) == ["default\ttwin", "eu\ttwin"]
        fields = asked(browser.get("/act/jobs", params={"act": "pause", "id": "eu\ttwin"}))
        assert "1 job paused." in browser.post("/act/jobs", data={**fields, "reason": "x"}).text
        assert scheduler.get_job("twin", "eu").next_run_time is None
        assert scheduler.get_job("twin", "default").next_run_time is not None
        assert browser.get("/jobs/twin?store=eu").text.count("Paused by ada: x") == 1
        fields = asked(browser.get("/act/jobs", params={"act": "pause", "id": marks}))
        answer = browser.post("/act/jobs", data={**fields, "reason": "y"})
        assert "1 job paused." in answer.text


def test_undo_resumes_what_the_pause_has_paused_and_nothing_else(full, client):
    browser = client(full, OPERATOR)
    fields = asked(browser.get("/act/jobs?act=pause&id=plain&id=nightly"))
    answer = browser.post("/act/jobs", data={**fields, "reason": "x"})
    assert "1 job paused." in answer.text
    undo = dict(FIELD.findall(answer.text[answer.text.index("/act/undo") :].partition("</form>")[0]))
    browser.post("/act/undo", data=undo)
    assert [job.id for job in full.get_jobs(state="paused")] == ["nightly"]


def test_marked_jobs_are_resumed_run_and_removed(full, client):
    browser = client(full, ADMIN)
    fields = asked(browser.get("/act/jobs?act=resume&id=nightly"))
    assert "1 job resumed" in browser.post("/act/jobs", data=fields).text
    fields = asked(browser.get("/act/jobs?act=run&id=nightly&id=failing"))
    assert "2 jobs will run now" in browser.post("/act/jobs", data=fields).text
    fields = asked(browser.get("/act/jobs?act=remove&id=nightly&back=/jobs/nightly"))
    answer = browser.post("/act/jobs", data={**fields, "reason": "old"})
    assert (answer.url.path, full.get_job("nightly")) == ("/jobs", None)
    assert "1 job removed." in answer.text


def test_all_that_fit_are_paused_in_the_background_and_that_is_undone(empty, client):
    for number in range(120):
        empty.add_job(nothing, "interval", hours=1, id=f"j-{number:03d}", tags=["many"])
    empty.add_job(nothing, "interval", hours=1, id="other")
    browser = client(empty, OPERATOR)
    answer = browser.get("/act/jobs?act=pause&all=1&q=tag:many")
    fields = asked(answer)
    assert "120 jobs" in answer.text
    assert "115 more" in answer.text
    assert browser.post("/act/jobs", data={**fields, "reason": "x", "word": "no"}).status_code == 422
    answer = browser.post("/act/jobs", data={**fields, "reason": "x", "word": "pause"})
    assert answer.url.path == "/bulk"
    bulk_id = answer.url.params["id"]
    while empty.count_jobs(state="paused").number < 120 or "going on" in answer.text:
        answer = browser.get(f"/bulk?id={bulk_id}")
    assert "Undo this pause" in answer.text
    answer = browser.post("/act/undo", data={"pause": bulk_id, "back": "/jobs"})
    assert "120 jobs resumed" in answer.text
    assert empty.count_jobs(state="paused").number == 0


def test_the_selector_of_an_act_is_the_search_of_the_list(full, client):
    answer = client(full).get("/act/jobs?act=pause&all=1&q=tag:billing")
    assert "failing" in answer.text
    assert "plain" in answer.text
    assert "nightly" not in answer.text
    assert client(full).get("/act/jobs?act=pause&all=1&q=").status_code == 422


@pytest.mark.parametrize(
    "path", ["/act/jobs?act=pause", "/act/jobs?act=explode&id=plain", "/act/letters?act=x", "/act/cancel",
             "/act/process?action=explode&owner=x"]
)  # fmt: skip
def test_a_question_that_makes_no_sense_is_told(full, client, path):
    answer = client(full).get(path)
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text


def test_nobody_does_by_a_form_what_their_role_does_not_allow(full, client):
    before = full.get_job("plain").next_run_time
    acts = [
        ("/act/jobs", {"act": "pause", "id": "plain"}), ("/act/jobs", {"act": "remove", "id": "plain"}),
        ("/act/edit", {"id": "plain", "trigger": "every 5m"}),
        ("/act/letters", {"act": "discard", "job_id": "failing"}),
        ("/act/cancel", {"id": "x"}), ("/act/process", {"action": "drain", "owner": "x"}),
    ]  # fmt: skip
    for path, data in acts:
        answer = client(full, VIEWER).post(path, data=data)
        assert answer.status_code == 403, path
        assert "this needs the role" in answer.text.lower()
    assert client(full, OPERATOR).post("/act/jobs", data={"act": "remove", "id": "plain"}).status_code == 403
    assert full.get_job("plain").next_run_time == before
    assert len(full.dead_letters()) > 0


def test_a_schedule_is_compared_before_it_is_changed(full, client):
    browser = client(full)
    answer = browser.get("/act/edit", params={"id": "plain", "trigger": "30 2 * * *", "zone": "Europe/Berlin"})
    assert "at 02:30 every day (Europe/Berlin)" in answer.text
    assert "0 of the next 10 times" in answer.text
    form = answer.text[answer.text.index('<form method="post" class="card"') :].partition("</form>")[0]
    fields = {unescape(name): unescape(value) for name, value in FIELD.findall(form)}
    stale = {**fields, "expect": "another"}
    assert browser.post("/act/edit", data=stale).status_code == 412
    answer = browser.post("/act/edit", data={**fields, "reason": "nights are quiet"})
    assert "1 job changed." in answer.text
    assert full.get_job("plain").trigger.explain() == "at 02:30 every day (Europe/Berlin)"


def test_the_zone_of_a_new_schedule_is_that_of_the_old_one(full, client):
    answer = client(full).get("/act/edit", params={"id": "nightly", "trigger": "30 2 * * *"})
    assert "at 02:30 every day (Europe/Berlin)" in answer.text


@pytest.mark.parametrize("text", ["61 * * * *", "never", "<b>", "0 0 31 2 *"])
def test_a_schedule_that_makes_no_sense_is_told_in_its_form(full, client, text):
    answer = client(full).get("/act/edit", params={"id": "plain", "trigger": text})
    assert answer.status_code == 200
    assert 'class="notice bad"' in answer.text
    assert "Change the schedule" not in answer.text


def test_a_group_of_dead_letters_is_counted_and_redriven_at_a_rate(full, client):
    for number in range(12):
        full.add_job(fail, "date", id=f"late-{number}", args=[number], dead_letter=True, tags=["late"])
    full.run_due()
    browser = client(full, OPERATOR)
    answer = browser.get("/act/letters?act=redrive&tag=late")
    assert "12 dead letters" in answer.text
    fields = asked(answer)
    assert fields["tag"] == ["late"]
    answer = browser.post("/act/letters", data={**fields, "rate": "1", "reason": "mended"})
    assert "12 dead letters will be tried again." in answer.text
    now = full.clock.now()
    due = sorted((run.due_at - now).total_seconds() for run in full.live_runs() if run.job_id.startswith("late"))
    assert due == list(range(12))


def test_one_dead_letter_is_discarded_from_the_page_of_its_run(full, client):
    browser = client(full, OPERATOR)
    run_id = full.dead_letters()[0].run.id
    answer = browser.get(f"/runs/{run_id}")
    assert "dead letter" in answer.text
    fields = asked(browser.get(f"/act/letters?act=discard&id={run_id}&back=/runs/{run_id}"))
    answer = browser.post("/act/letters", data={**fields, "reason": "known"})
    assert "1 dead letter discarded." in answer.text
    assert run_id not in [letter.run.id for letter in full.dead_letters()]


def test_a_run_that_waits_is_cancelled(full, client):
    browser = client(full, OPERATOR)
    (run,) = full.live_runs("plain")
    fields = asked(browser.get(f"/act/cancel?id={run.id}&back=/runs"))
    answer = browser.post("/act/cancel", data={**fields, "reason": "not now"})
    assert "1 run cancelled." in answer.text
    assert full.runs("plain")[0].reason == "not now"


def test_a_job_that_is_gone_shows_what_the_history_knows(full, client):
    answer = client(full).get("/jobs/once")
    assert answer.status_code == 404
    assert "There is no such job any more" in answer.text
    assert "succeeded" in answer.text


def test_a_body_that_is_too_long_is_refused(full, client):
    assert client(full).post("/act/jobs", content=b"x" * 1_000_001).status_code == 413


def test_the_next_run_of_a_job_is_left_out_or_put_off(full, client):
    browser, before = client(full, OPERATOR), full.get_job("plain").next_run_time
    assert "Skip or put off…" in browser.get("/jobs/plain").text
    fields = asked(browser.get("/act/next?id=plain&back=/jobs/plain"))
    answer = browser.post("/act/next", data={**fields, "act": "skip", "reason": "the shop is closed"})
    assert (answer.url.path, "The next run is left out." in answer.text) == ("/jobs/plain", True)
    skipped = full.get_job("plain").next_run_time
    assert skipped - before == timedelta(minutes=10)
    assert last_act(full)["reason"] == "the shop is closed"
    answer = browser.post("/act/next", data={**fields, "act": "postpone", "until": "2h"})
    assert "The next run is put off." in answer.text
    assert full.get_job("plain").next_run_time == full.clock.now() + timedelta(hours=2)
    assert "until" in browser.post("/act/next", data={**fields, "act": "postpone", "until": "soon"}).text
    assert browser.post("/act/next", data={**fields, "act": "remove"}).status_code == 422
    assert "Skip or put off…" not in client(full, VIEWER).get("/jobs/plain").text
    assert "Skip or put off…" not in browser.get("/jobs/nightly").text


def test_one_click_changes_the_colours_and_keeps_the_time_zone(full, client):
    browser = client(full)
    browser.post("/settings", data={"zone": "Asia/Tokyo", "theme": "system"})
    for theme in ("light", "dark", "system"):
        page = browser.get("/jobs?q=plain").text
        (path,) = re.findall('action="(/settings[^"]*)"', page)
        (chosen,) = re.findall('name="theme" value="([^"]*)"', page)
        answer = browser.post(unescape(path), data={"theme": chosen})
        assert str(answer.url).endswith("/jobs?q=plain")
        assert f'data-theme="{theme}"' in answer.text
        assert "Asia/Tokyo" in answer.text


def test_one_dead_letter_is_tried_first_and_the_others_only_if_it_succeeds(client):
    outcomes = []

    def work():
        if not outcomes or outcomes.pop():
            raise ValueError("the shop does not answer")

    with ManualScheduler() as scheduler:
        for number in range(3):
            scheduler.add_job(work, "date", id=f"call-{number}", dead_letter=True)
        scheduler.run_due()
        browser = client(scheduler, OPERATOR)
        fields = asked(browser.get("/act/letters?act=redrive&error_type=ValueError"))
        answer = browser.post("/act/letters", data={**fields, "rate": "first"})
        assert (answer.url.path, "It is tried now." in answer.text) == ("/dead/first", True)
        outcomes.append(True)
        scheduler.run_due()
        page = browser.get(str(answer.url)).text
        assert ("It failed again." in page, "Try the others" in page) == (True, False)
        assert len(scheduler.dead_letters()) == 3
        answer = browser.post("/act/letters", data={**fields, "rate": "first"})
        outcomes.append(False)
        scheduler.run_due()
        page = browser.get(str(answer.url)).text
        assert ("It succeeded." in page, "2 other letters" in page, "Try the others" in page) == (True, True, True)
        assert len(scheduler.dead_letters()) == 2
        assert browser.post("/act/letters", data={"act": "redrive", "error_type": "KeyError", "rate": "first"}
                            ).status_code == 404  # fmt: skip
