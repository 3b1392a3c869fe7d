"""The pages about limits, messages, schedules, documents, locks, time, the audit, alerts and settings."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import timedelta
from html import unescape

import pytest
from front_source import MARKUP, MESSAGE_IDS, front_source
from page_doubles import ADMIN, OPERATOR, VIEWER

from goscheduler.ops.access import Principal, Role
from goscheduler.ops.audit import Audit
from goscheduler.runs.queries import Note

#: Path → what a page has of a source that has everything.
PAGES = {
    "/limits": "0 of 2", "/limits?name=api": "5/1m", "/messages": "reminder.due",
    "/messages?state=dead": "nobody wants",
    "/messages?event_name=picture": "0 7 * * * (UTC), 3 times in all", "/message?id=json": "4711",
    "/message?id=bytes": "picture", "/message?id=dead": "Why is it dead?", "/schedules": "every 30 minutes",
    "/documents": "never taken", "/documents?collection=crontab": "due", "/locks": "nightly-close",
    "/locks?prefix=night": "nightly-close", "/alerts": "failing", "/alerts?state=firing": "failing",
    "/settings": "Memory",
}  # fmt: skip


@pytest.fixture
def source(full):
    return front_source(full)


def words(text):
    """Return the text of a page without its tags, on one line."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


def test_each_page_shows_what_there_is_to_everybody_with_what_they_may_do(source, client):
    for principal in (VIEWER, OPERATOR, ADMIN):
        browser = client(source, principal)
        for path, text in PAGES.items():
            answer = browser.get(path)
            assert answer.status_code == 200, path
            if principal.see_arguments or path != "/message?id=json":
                assert text in unescape(answer.text), path
            assert MARKUP not in answer.text, path
            assert principal is not VIEWER or "/act/" not in answer.text, path
            assert ("/act/lock" in answer.text) == (principal is ADMIN and path.startswith("/locks")), path


def test_the_audit_is_for_admins_and_others_do_not_see_it_named(source, client):
    assert client(source, OPERATOR).get("/audit").status_code == 403
    assert client(source, OPERATOR).get("/audit.csv").status_code == 403
    assert ">Audit<" not in client(source, OPERATOR).get("/limits").text
    assert ">Audit<" in client(source).get("/limits").text


def test_the_navigation_counts_what_waits_and_what_fires(source, client):
    text = words(client(source).get("/settings").text)
    assert f"Messages {2 + len(MESSAGE_IDS)}" in text
    assert "Locks 2" in text
    assert "Alerts 2" in text


def test_whoever_sees_a_part_of_the_jobs_is_told_what_is_about_all_of_them(source, client):
    browser = client(source, Principal("sam", Role.OPERATOR, tags=frozenset({"billing"})))
    for path in ("/limits", "/messages", "/schedules", "/locks", "/alerts"):
        answer = browser.get(path)
        assert (answer.status_code, "about all jobs" in answer.text) == (403, True), path
    settings = browser.get("/settings").text
    assert "tags billing" in settings
    assert (">Jobs" in settings, ">Limits" in settings) == (True, False)
    assert browser.get("/calendar").status_code == 200


# Messages


def test_a_payload_is_a_text_whatever_it_says_it_is(source, client):
    text = client(source).get("/message", params={"id": MESSAGE_IDS[0]}).text
    assert "&lt;script&gt;alert(1)" in text
    assert MARKUP not in text
    assert "89 50 4e 47" in client(source).get("/message?id=bytes").text


def test_payloads_and_metadata_are_hidden_from_those_who_may_not_see_arguments_and_secrets_from_all(source, client):
    hidden, shown = (client(source, each).get("/message?id=json").text for each in (VIEWER, ADMIN))
    assert ("4711" in hidden, "billing" in hidden, "you may not see payloads" in hidden) == (False, False, True)
    assert ("4711" in shown, "billing" in shown, "hush" in shown) == (True, True, False)


@pytest.mark.parametrize("message_id", MESSAGE_IDS)
def test_any_message_id_has_a_page_whose_acts_lead_to_it(source, client, message_id):
    browser = client(source)
    text = browser.get("/message", params={"id": message_id}).text
    for link in map(unescape, re.findall(r'href="(/act/message[^"]*)"', text)):
        sheet = browser.get(link)
        assert (sheet.status_code, MARKUP in sheet.text) == (200, False)
    answer = browser.post("/act/message", data={"act": "cancel", "id": message_id, "reason": "a mistake"})
    assert "It was not delivered" in answer.text
    assert browser.get("/message", params={"id": message_id}).status_code == 404


def test_a_message_gets_another_time_and_keeps_its_reason_in_the_audit(source, client, full):
    data = {"act": "postpone", "id": "json", "to": "2035-01-01T12:00Z", "reason": "not yet"}
    answer = client(source, OPERATOR).post("/act/message", data=data)
    assert "01 Jan 2035 12:00" in answer.text
    entry = Audit(full.engine.stores["default"]).entries(None, 1)[0]
    assert (entry["operation"], entry["reason"], entry["via"]) == ("postpone_message", "not yet", "web")


def test_a_message_that_is_gone_is_told_to_be_too_late(source, client):
    browser = client(source)
    sheet = browser.get("/act/message?act=cancel&id=json")
    assert "Take it back" in sheet.text
    source.messages.cancel("json")
    assert "Too late" in browser.post("/act/message", data={"act": "cancel", "id": "json", "reason": "x"}).text


def test_a_dead_message_is_tried_again_and_discarded(source, client, full):
    browser = client(source)
    assert "another attempt" in browser.post("/act/message", data={"act": "redrive", "id": "dead"}).text
    full.run_due()
    assert source.messages.get("dead").state.value == "dead"
    assert "was discarded" in browser.post("/act/message", data={"act": "discard", "id": "dead", "reason": "x"}).text
    assert "No message fits" in browser.get("/messages?state=dead").text


def test_a_form_schedules_a_message(source, client):
    form = {
        "event": "order.paid", "payload": '{"n": [1]}', "kind": "json", "deliver_at": "2035-01-01T12:00Z", "id": "made",
        "metadata": '{"team": "blue"}', "cron": "0 12 * * *", "timezone": "UTC", "reason": "by hand",
    }  # fmt: skip
    answer = client(source, OPERATOR).post("/messages/new", data=form)
    assert "The message is scheduled" in answer.text
    made = source.messages.get("made")
    assert (made.payload, made.metadata, made.recurring) == (b'{"n":[1]}', {"team": "blue"}, True)


@pytest.mark.parametrize(
    ("change", "mistake"),
    [
        ({"payload": "{"}, "payload must be JSON"), ({"event": ""}, "event"), ({"deliver_at": "soon"}, "deliver_at"),
        ({"metadata": "[1]"}, "metadata"), ({"cron": "0 99 * * *"}, "99"), ({"id": "json"}, "json"),
        ({"kind": "base64", "payload": "%%"}, "payload_base64"),
    ],
)  # fmt: skip
def test_a_form_with_a_mistake_is_shown_again_with_what_was_typed(source, client, change, mistake):
    form = {"event": "order.paid", "payload": "[1]", "kind": "json", "reason": "typed before", **change}
    answer = client(source).post("/messages/new", data=form)
    assert answer.status_code in (409, 422)
    notice = words(answer.text.partition('class="notice bad"')[2].partition("</div>")[0])
    assert mistake.lower() in notice.lower()
    assert "typed before" in answer.text


def test_a_search_for_messages_that_makes_no_sense_says_why(source, client):
    answer = client(source).get("/messages?due_after=soon")
    assert (answer.status_code, "due_after" in answer.text.lower()) == (200, True)


# Schedules and locks


def test_schedules_are_shown_beside_what_the_store_has(source, client):
    text = words(client(source).get("/schedules").text)
    for part in ("new new in the code", "changed changed in the code", "gone gone from the code", "not synced"):
        assert part in text
    assert "cron every hour (UTC) every 30 minutes (UTC)" in text
    assert "same" in text


def test_a_lock_is_broken_by_an_admin_who_types_its_fence(source, client):
    (lock,) = [each for each in source.locks.locks("", 10) if each.name == "nightly-close"]
    browser = client(source)
    assert str(lock.fence) in browser.get("/act/lock?name=nightly-close").text
    form = {"name": lock.name, "reason": "its host is gone"}
    assert "nobody has this lock" in browser.post("/act/lock", data={**form, "fence": lock.fence + 1}).text
    assert browser.post("/act/lock", data={**form, "fence": "x"}).status_code == 422
    assert client(source, OPERATOR).post("/act/lock", data={**form, "fence": lock.fence}).status_code == 403
    assert "The lock is broken" in browser.post("/act/lock", data={**form, "fence": lock.fence}).text
    assert browser.get("/act/lock?name=nightly-close").status_code == 404


# The audit


def test_the_audit_tells_who_did_what_and_why_and_what_is_different_now(source, client):
    browser = client(source)
    browser.post("/act/jobs", data={"act": "pause", "id": "plain", "reason": "the shop moves"})
    browser.post("/act/edit", data={"id": "plain", "store": "", "trigger": "5 4 * * *", "reason": "quieter then"})
    text = words(browser.get("/audit").text)
    assert "ada admin, web" in text
    assert "the shop moves" in text
    assert "changes trigger 5 4 * * *" in text
    edits = browser.get("/audit?operation=edit_job").text
    assert ("quieter then" in edits, "the shop moves" in edits) == (True, False)
    assert len(re.findall("<(?:del|ins) ", edits)) >= 2
    assert "No entry fits" in browser.get("/audit?actor=nobody").text
    assert "since" in browser.get("/audit?since=whenever").text


def test_a_gap_in_the_audit_is_told(source, client, full):
    browser = client(source)
    for reason in ("first", "second", "third"):
        full.clock.advance(timedelta(seconds=1))
        browser.post("/act/jobs", data={"act": "run", "id": "plain", "reason": reason})
    store = full.engine.stores["default"]
    assert "entry is missing" not in browser.get("/audit").text
    second = store.notes("audit", None, 3)[1]
    store.remove_note("audit", second.key)
    assert "entry is missing" in browser.get("/audit").text
    store.put_note(Note("audit-head", "audit-head", "another digest"))
    assert "The newest entry is missing" in browser.get("/audit").text


def test_the_exported_audit_has_no_cell_that_a_spreadsheet_computes(source, client, full):
    browser = client(source)
    for reason in ("=HYPERLINK(0)", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "fine, really"):
        full.clock.advance(timedelta(seconds=1))
        browser.post("/act/jobs", data={"act": "run", "id": "plain", "reason": reason})
    answer = browser.get("/audit.csv?operation=run_jobs")
    assert answer.headers["content-type"].startswith("text/csv")
    assert "attachment" in answer.headers["content-disposition"]
    head, *rows = csv.reader(io.StringIO(answer.text))
    assert head[:5] == ["at", "actor", "role", "via", "operation"]
    reasons = [row[head.index("reason")] for row in rows]
    assert reasons == ["fine, really", "'=1", "'=1", "'@SUM(A1)", "'-1", "'+1", "'=HYPERLINK(0)"]
    assert not any(cell.lstrip()[:1] in ("=", "+", "-", "@") for row in rows for cell in row if cell)


def test_a_text_that_is_no_unicode_spoils_neither_the_audit_nor_its_file(source, client, full):
    entry = {"actor": "ada", "operation": "run_jobs", "reason": "\ud800", "arguments": {"ids": ["\udfff"]}}
    full.engine.stores["default"].put_note(Note("audit", "0" * 16 + "-x", json.dumps(entry)))
    assert client(source).get("/audit").status_code == 200
    assert client(source).get("/audit.csv").status_code == 200


# Alerts and settings


def test_an_alert_is_acknowledged_and_silenced_with_a_reason(source, client):
    browser = client(source, OPERATOR)
    ack, _ = map(unescape, re.findall(r'href="(/act/alert\?act=ack[^"]*)"', browser.get("/alerts").text))
    assert "as long as it fires" in browser.get(ack).text
    alert_id = ack.rpartition("=")[2]
    said = words(browser.post("/act/alert", data={"act": "ack", "id": alert_id, "reason": "I look at it"}).text)
    assert "acknowledged by olga : I look at it" in said or "acknowledged by olga: I look at it" in said
    silence = {"act": "silence", "id": alert_id, "until": "8h", "reason": "known"}
    said = words(browser.post("/act/alert", data=silence).text)
    assert "silenced by olga" in said
    assert "End the silence" in said
    assert "silenced by" not in words(browser.post("/act/alert", data={"act": "unsilence", "id": alert_id}).text)
    assert browser.get("/act/alert?act=ack&id=nope").status_code == 404
    assert browser.get("/act/alert?act=delete&id=nope").status_code == 422


def test_settings_tell_the_rights_and_keep_zone_and_colours(source, client):
    browser = client(source, OPERATOR)
    text = words(browser.get("/settings").text)
    assert "operator: looks; pauses" in text
    assert "without arguments" in text
    kept = browser.post("/settings", data={"zone": "Asia/Tokyo", "theme": "dark"})
    assert 'data-theme="dark"' in kept.text
    assert "Asia/Tokyo" in browser.get("/limits").text
    assert browser.post("/settings", data={"zone": "Nowhere/Land", "theme": "dark"}).status_code == 422
