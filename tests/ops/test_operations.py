"""The operations: rights, arguments, audit, repeated requests, and what is hidden."""

from __future__ import annotations

import inspect
from datetime import timedelta

import pytest
from operation_doubles import ADMIN, fail, nothing
from operation_table import NOT_THERE, TABLE, dead_message, filled_in

from goscheduler.errors import (
    InvalidArgument,
    JobLookupError,
    ReadOnly,
    RunLookupError,
    StoreUnavailable,
    UnknownOption,
)
from goscheduler.locks import acquire
from goscheduler.messages import Message, Recurrence
from goscheduler.ops import errors
from goscheduler.ops.access import Forbidden, Principal, Role
from goscheduler.ops.audit import Audit
from goscheduler.ops.errors import Changed, NotFound, kind_of
from goscheduler.ops.redact import HIDDEN
from goscheduler.ops.registry import OPERATIONS
from goscheduler.ops.service import Operations
from goscheduler.ops.source import Source

VIEWER, OPERATOR = Principal("vic", Role.VIEWER), Principal("olga", Role.OPERATOR)

def test_the_table_names_every_operation():
    assert {name: operation.role.title for name, operation in OPERATIONS.items()} == {
        name: role for name, (role, _) in TABLE.items()
    }


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.ADMIN], ids=lambda role: role.title)
@pytest.mark.parametrize("name", TABLE)
def test_each_role_may_call_what_it_may_call(scheduler, operations, name, role):
    needed, arguments = TABLE[name]
    principal = Principal("ann", role)
    arguments = filled_in(arguments, scheduler, operations, principal)
    if role < Role.of(needed):
        before = [(job.id, job.next_run_time) for job in scheduler.get_jobs()]
        with pytest.raises(Forbidden, match=needed):
            operations.call(name, principal, arguments)
        assert before == [(job.id, job.next_run_time) for job in scheduler.get_jobs()]
    elif name in NOT_THERE:
        with pytest.raises(NOT_THERE[name]):
            operations.call(name, principal, arguments)
    else:
        assert operations.call(name, principal, arguments) is not None


@pytest.mark.parametrize("name", [name for name in TABLE if OPERATIONS[name].acts])
def test_every_act_is_in_the_audit(scheduler, operations, name):
    arguments = filled_in(TABLE[name][1], scheduler, operations, ADMIN)
    try:
        operations.call(name, ADMIN, {**arguments, "reason": "a test"}, via="http")
        result = "done"
    except NotFound:
        result = "failed"
    (entry, *_) = operations.call("audit", ADMIN)["items"]
    assert (entry["operation"], entry["actor"], entry["role"], entry["via"], entry["reason"], entry["status"]) == (
        name, "ada", "admin", "http", "a test", result,
    )  # fmt: skip


@pytest.mark.parametrize("name", [name for name in TABLE if not OPERATIONS[name].acts and name != "audit"])
def test_looking_is_not_in_the_audit(scheduler, operations, name):
    operations.call(name, ADMIN, filled_in(TABLE[name][1], scheduler, operations, ADMIN))
    assert operations.call("audit", ADMIN)["items"] == []


def test_no_operation_takes_a_function():
    for operation in OPERATIONS.values():
        assert not {"func", "function", "callable", "target", "module"} & {param.name for param in operation.params}


@pytest.mark.parametrize(
    "changes", [{"func": "os:system"}, {"task": "os:system"}, {"id": "x"}, {"next_run_time": None}, {}]
)
def test_what_cannot_be_edited_is_refused(call, scheduler, changes):
    with pytest.raises(InvalidArgument) as caught:
        call("edit_job", id="plain", changes=changes)
    assert caught.value.field.startswith("changes")
    assert scheduler.get_job("plain").func is nothing


@pytest.mark.parametrize(
    ("name", "arguments", "field"),
    [
        ("find_jobs", {"limit": 0}, "limit"),
        ("find_jobs", {"limit": 1_000_000}, "limit"),
        ("find_jobs", {"limit": "50"}, "limit"),
        ("find_jobs", {"limit": True}, "limit"),
        ("find_jobs", {"text": "x" * 1_000_000}, "text"),
        ("find_jobs", {"state": "asleep"}, "state"),
        ("find_jobs", {"after": "no cursor"}, "after"),
        ("find_jobs", {"due_before": "tomorrow-ish"}, "due_before"),
        ("find_jobs", {"jobstore": "nowhere"}, "jobstore"),
        ("find_runs", {"before": "no cursor"}, "before"),
        ("find_runs", {"outcome": "well"}, "outcome"),
        ("find_runs", {"later_than": float("nan")}, "later_than"),
        ("job", {}, "id"),
        ("job", {"id": ""}, "id"),
        ("job", {"id": "a\0b"}, "id"),
        ("pause_jobs", {"ids": ["plain"], "reason": "\ud800"}, "reason"),
        ("pause_jobs", {"ids": []}, "ids"),
        ("pause_jobs", {"ids": "plain"}, "ids"),
        ("edit_job", {"id": "plain", "changes": {"trigger": "61 * * * *"}}, "changes.trigger"),
        ("edit_job", {"id": "plain", "changes": {"trigger": {"type": "evil:boom"}}}, "changes.trigger.type"),
        ("edit_job", {"id": "plain", "changes": {"args": float("nan")}}, "changes"),
        ("postpone_job", {"id": "plain"}, "until"),
        ("postpone_job", {"id": "plain", "until": "soon"}, "until"),
        ("postpone_job", {"id": "plain", "until": "2001-01-01"}, "until"),
        ("redrive", {}, "ids"),
        ("redrive", {"ids": ["a"], "job_id": "b"}, "ids"),
        ("redrive", {"job_id": "b", "rate": 0}, "rate"),
        ("preview_bulk", {"act": "pause"}, "filters"),
        ("explain_trigger", {"trigger": "0 0 1--100000000 * *"}, "trigger"),
        ("explain_trigger", {"trigger": "* " * 200}, "trigger"),
        ("forecast", {"hours": 744, "bucket": 1}, "bucket"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_its_name(call, name, arguments, field):
    with pytest.raises(InvalidArgument) as caught:
        call(name, **arguments)
    assert caught.value.field is not None
    assert caught.value.field.startswith(field)
    assert kind_of(caught.value) is errors.INVALID
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "name", [name for name in TABLE if any(param.name == "jobstore" for param in OPERATIONS[name].params)]
)
def test_a_job_store_that_there_is_not_is_refused_by_its_name(scheduler, operations, name):
    arguments = {**filled_in(TABLE[name][1], scheduler, operations, ADMIN), "jobstore": "nowhere"}
    with pytest.raises(InvalidArgument) as caught:
        operations.call(name, ADMIN, arguments)
    assert caught.value.field == "jobstore"


def test_an_unknown_argument_is_refused_with_a_hint(call):
    with pytest.raises(UnknownOption, match="limit"):
        call("find_jobs", limt=3)
    with pytest.raises(NotFound):
        call("find_job")


def test_a_cursor_of_another_query_is_refused(call):
    page = call("find_jobs", limit=1)
    with pytest.raises(InvalidArgument) as caught:
        call("find_jobs", limit=1, tag="billing", after=page["next"])
    assert caught.value.field == "after"


@pytest.mark.parametrize("name", ["job", "why", "next_fires", "edit_job"])
def test_a_job_that_is_not_there(call, name):
    with pytest.raises(JobLookupError):
        call(name, id="nobody", **({"changes": {"name": "x"}} if name == "edit_job" else {}))


@pytest.mark.parametrize("name", ["pause_jobs", "resume_jobs", "run_jobs", "remove_jobs"])
def test_one_of_several_jobs_that_is_not_there_is_told(call, name):
    view = call(name, ids=["other", "nobody"])
    assert list(view["failed"]) == ["nobody"]
    assert view["changed"] + view["unchanged"] == ["other"]
    with pytest.raises(JobLookupError):
        call(name, ids=["nobody"])


def test_a_store_that_does_not_answer_is_unavailable_however_its_driver_says_so(call, scheduler, monkeypatch):
    def no_answer(*arguments, **options):
        raise ConnectionResetError("redis://:hush@db/0 is gone")

    store = scheduler.engine.stores["default"]
    monkeypatch.setattr(store, "is_outage", lambda error: isinstance(error, ConnectionResetError))
    monkeypatch.setattr(scheduler, "find_jobs", no_answer)
    with pytest.raises(StoreUnavailable, match="ConnectionResetError") as caught:
        call("find_jobs")
    assert "hush" not in str(caught.value)
    assert kind_of(caught.value) is errors.UNAVAILABLE


# What is built on jobs


def test_a_job_is_added_by_the_name_of_a_task(call, scheduler):
    row = call("add_job", job={"task": "greet", "id": "new", "trigger": {"type": "cron", "hour": 4}, "args": [1]})
    assert (row["id"], row["task"], row["state"]) == ("new", "greet", "scheduled")
    job = scheduler.get_job("new")
    assert (job.created_by, job.args, job.next_run_time.hour) == ("ada", (1,), 4)


@pytest.mark.parametrize(
    ("job", "field"),
    [
        ({}, "job.task"),
        ({"task": "os:system"}, "task"),
        ({"task": "operation_doubles:nothing"}, "task"),
        ({"task": "grete"}, "task"),
        ({"task": "greet", "func": "os:system"}, "func"),
        ({"task": "greet", "trigger": "61 * * * *"}, "trigger"),
        ({"task": "greet", "priority": "high"}, "priority"),
        ({"task": "greet", "id": ""}, "id"),
    ],
)
def test_a_job_that_makes_no_sense_is_not_added(call, scheduler, job, field):
    before = len(scheduler.get_jobs())
    with pytest.raises((InvalidArgument, UnknownOption)) as caught:
        call("add_job", job=job)
    assert getattr(caught.value, "field", field).startswith(field)
    assert len(scheduler.get_jobs()) == before


def test_a_job_is_added_within_the_scope_only(call, scheduler):
    scoped = Principal("sue", Role.ADMIN, tags=frozenset({"billing"}))
    with pytest.raises(Forbidden):
        call("add_job", scoped, job={"task": "greet", "id": "new", "tags": ["reports"]})
    assert scheduler.get_job("new") is None
    assert call("add_job", scoped, job={"task": "greet", "id": "new", "tags": ["billing"]})["id"] == "new"


def test_messages_are_listed_with_their_payload_and_a_total(call, operations, messages, scheduler):
    waiting, dead = messages.schedule_after("1h", "order.paid", {"n": 1}), dead_message(operations)
    page = call("messages", count=True)
    assert [(row["id"], row["event_name"], row["payload"], row["state"]) for row in page["items"]] == [
        (waiting, "order.paid", '{"n":1}', "pending"),
    ]  # fmt: skip
    assert (page["total"], page["exact"], page["next"]) == (1, True, None)
    assert [row["id"] for row in call("messages", state="dead")["items"]] == [dead]
    assert call("messages", VIEWER)["items"][0]["payload"] == HIDDEN
    with pytest.raises(NotFound, match="messages="):
        Operations(Source(scheduler)).call("messages", ADMIN)


def test_messages_are_passed_over_by_an_offset(call, messages):
    ids = [messages.schedule_after(f"{hours}h", "order.paid") for hours in (1, 2, 3)]
    page = call("messages", offset=1, limit=1, count=True)
    assert ([row["id"] for row in page["items"]], page["total"]) == (ids[1:2], 3)
    assert [row["id"] for row in call("messages", after=page["next"])["items"]] == ids[2:]
    for offset in (3, 10_000):
        page = call("messages", offset=offset, limit=1000, count=True)
        assert (page["items"], page["next"], page["total"]) == ([], None, 3)


def test_messages_are_passed_over_in_portions(call, messages, monkeypatch):
    monkeypatch.setattr("goscheduler.ops.fronts.PORTION", 2)
    ids = [messages.schedule_after(f"{hours}h", "order.paid") for hours in range(1, 8)]
    for offset in range(8):
        found = [row["id"] for row in call("messages", offset=offset, limit=2)["items"]]
        assert found == ids[offset : offset + 2]


def test_a_message_tells_since_when_and_how_it_comes_again(call, messages, scheduler):
    start = scheduler.clock.now()
    every = messages.schedule(Message("order.paid", scheduled_at=start, recurrence=Recurrence(
        interval=timedelta(minutes=5), max_occurrences=3,
    )))  # fmt: skip
    by_crontab = messages.schedule(Message("order.paid", recurrence=Recurrence(cron="0 9 * * 1-5", timezone="UTC")))
    once = messages.schedule_after("1h", "order.paid")
    scheduler.advance(timedelta(minutes=6))
    row = call("message", id=every)
    assert (row["created_at"], row["occurrences"], row["retries"]) == (start.isoformat(), 2, 0)
    assert row["recurrence"] == {
        "interval": 300.0, "cron": None, "timezone": "UTC", "max_occurrences": 3,
        "until": (start + timedelta(minutes=10)).isoformat(),
    }  # fmt: skip
    recurrence = call("message", id=by_crontab)["recurrence"]
    assert (recurrence["cron"], recurrence["max_occurrences"], recurrence["until"]) == ("0 9 * * mon-fri", None, None)
    assert (call("message", id=once)["recurrence"], call("message", id=once)["occurrences"]) == (None, 0)


def test_what_is_declared_is_compared_with_what_is_there(call):
    (row,) = call("schedules")
    assert (row["id"], row["declared"], row["state"]) == ("cleanup", True, None)
    assert [change["id"] for change in call("schedule_diff")["added"]] == ["cleanup"]


def test_documents_that_are_due_are_counted(call):
    (view,) = call("documents")
    assert (view["collection"], view["due"]) == ("crontab", 1)
    assert [row["id"] for row in view["upcoming"]] == ["due", "later"]
    with pytest.raises(NotFound, match="crontab"):
        call("documents", collection="other")


def test_a_lock_is_listed_and_broken_by_its_fence(call, source):
    lock = acquire(source.locks, "the lock")
    (row,) = call("locks", prefix="the")
    assert (row["name"], row["fence"]) == ("the lock", lock.fence)
    assert call("break_lock", name="the lock", fence=lock.fence + 1) is False
    assert call("break_lock", name="the lock", fence=lock.fence) is True
    assert call("locks") == []


def test_the_overview_tells_what_fails_and_what_comes_next(call):
    view = call("overview")
    assert (view["jobs"]["number"], view["failing"]["number"], view["paused"]["number"]) == (4, 1, 1)
    assert view["counts"]["failed"] == view["counts"]["dead"] == 1
    assert [group["job_ids"] for group in view["top_failing"]] == [["failing"]]
    assert [job["id"] for job in view["next_jobs"]] == ["other", "plain", "nightly"]


# Scope


SCOPED = Principal("sue", Role.ADMIN, tags=frozenset({"billing"}))


def test_who_may_see_some_tags_sees_no_other_jobs(call):
    assert sorted(job["id"] for job in call("find_jobs", SCOPED)["items"]) == ["failing", "plain"]
    assert call("count_jobs", SCOPED)["number"] == 2
    with pytest.raises(Forbidden):
        call("find_jobs", SCOPED, tag="reports")


@pytest.mark.parametrize("name", ["job", "why", "next_fires", "edit_job"])
def test_a_job_out_of_scope_is_not_there(call, name):
    more = {"changes": {"name": "x"}} if name == "edit_job" else {}
    with pytest.raises(JobLookupError):
        call(name, SCOPED, id="nightly", **more)


@pytest.mark.parametrize("name", ["pause_jobs", "resume_jobs", "run_jobs", "remove_jobs"])
def test_nothing_is_done_to_a_job_out_of_scope(call, scheduler, name):
    with pytest.raises(JobLookupError):
        call(name, SCOPED, ids=["nightly"])
    assert scheduler.get_job("nightly").next_run_time is not None
    assert scheduler.live_runs("nightly") == []


@pytest.mark.parametrize(
    ("name", "arguments", "what"),
    [
        ("run", {"id": "nope"}, "run"),
        ("cancel_runs", {"ids": ["nope"]}, "live run"),
        ("letter", {"id": "nope"}, "dead letter"),
        ("redrive", {"ids": ["nope"]}, "dead letter"),
    ],
)
def test_the_error_says_what_was_looked_for(call, name, arguments, what):
    with pytest.raises(RunLookupError, match=rf"^No {what} by the run id of nope was found$"):
        call(name, ADMIN, **arguments)


def test_runs_and_letters_out_of_scope_are_not_there(call, scheduler):
    elsewhere = Principal("rob", Role.ADMIN, tags=frozenset({"reports"}))
    assert call("find_letters", SCOPED)["items"][0]["job_id"] == "failing"
    assert call("find_letters", elsewhere)["items"] == []
    assert call("find_runs", elsewhere)["items"] == []
    run_id = scheduler.runs("failing")[0].run_id
    for name, arguments in {
        "run": {"id": run_id}, "letter": {"id": run_id}, "redrive": {"ids": [run_id]}, "discard": {"ids": [run_id]},
    }.items():  # fmt: skip
        with pytest.raises(LookupError):
            call(name, elsewhere, **arguments)
    assert len(scheduler.dead_letters()) == 1


@pytest.mark.parametrize("name", [name for name, operation in OPERATIONS.items() if operation.whole])
def test_what_is_about_all_jobs_is_not_for_those_who_see_a_part(scheduler, operations, name):
    with pytest.raises(Forbidden, match="a part"):
        operations.call(name, SCOPED, filled_in(TABLE[name][1], scheduler, operations, SCOPED))


def test_a_store_out_of_scope_is_not_there(call):
    nowhere = Principal("ned", Role.ADMIN, stores=frozenset({"elsewhere"}))
    with pytest.raises(InvalidArgument, match="no job store"):
        call("find_jobs", nowhere, jobstore="default")
    with pytest.raises(JobLookupError):
        call("job", nowhere, id="plain")


# What is hidden


def test_arguments_are_hidden_from_those_who_may_not_see_them(call):
    view = call("job", VIEWER, id="plain")
    assert (view["args"], view["kwargs"], view["metadata"]) == (HIDDEN, HIDDEN, HIDDEN)


def test_secrets_are_hidden_from_everybody(call):
    view = call("job", id="plain")
    assert view["args"] == [1]
    assert view["kwargs"] == {"password": HIDDEN, "n": 2}
    assert view["metadata"] == {"team": "blue"}


def test_a_hook_hides_more(scheduler):
    seen = []

    def hook(job, path, value):
        seen.append((job, path, value))
        return "hidden by the hook"

    view = Operations(Source(scheduler), redactor=hook).call("job", ADMIN, {"id": "plain"})
    assert view["args"] == ["hidden by the hook"]
    assert ("plain", "kwargs.n", 2) in seen


# Audit


def test_the_intent_is_written_before_the_act_and_the_outcome_after_it(scheduler, operations, monkeypatch):
    seen = []

    def pause_job(*args, **kwargs):
        seen.extend(operations.call("audit", ADMIN)["items"])

    monkeypatch.setattr(scheduler, "pause_job", pause_job)
    operations.call("pause_jobs", ADMIN, {"ids": ["plain"], "reason": "why not"})
    assert [(entry["operation"], entry["status"]) for entry in seen] == [("pause_jobs", "unknown")]
    (entry,) = operations.call("audit", ADMIN)["items"]
    assert (entry["status"], entry["outcome"]["changed"]) == ("done", ["plain"])


def test_what_cannot_be_audited_is_not_done(scheduler, operations, monkeypatch):
    def put_note(*args, **kwargs):
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(scheduler.engine.stores["default"], "put_note", put_note)
    with pytest.raises(StoreUnavailable, match="nothing was done"):
        operations.call("remove_jobs", ADMIN, {"ids": ["plain"]})
    assert scheduler.get_job("plain") is not None


def test_no_secret_is_kept_in_the_audit(call, scheduler):
    call("edit_job", id="plain", changes={"kwargs": {"password": "new hush", "n": 3}})
    store = scheduler.engine.stores["default"]
    texts = [note.text for kind in ("audit", "audit-outcome") for note in store.notes(kind)]
    assert len(texts) == 2
    assert not any("hush" in text for text in texts)
    (entry,) = call("audit")["items"]
    assert entry["arguments"]["changes"]["kwargs"] == {"password": HIDDEN, "n": 3}
    (hidden,) = call("audit", Principal("eve", Role.ADMIN))["items"]
    assert hidden["arguments"]["changes"]["kwargs"] == HIDDEN


def test_a_missing_entry_shows_as_a_gap(scheduler, operations):
    for job_id in ("plain", "nightly", "other"):
        scheduler.clock.advance(timedelta(seconds=1))
        operations.call("pause_jobs", ADMIN, {"ids": [job_id]})
    entries = operations.call("audit", ADMIN)
    assert entries["gaps"] == []
    newest, middle, _ = entries["items"]
    scheduler.engine.stores["default"].remove_note("audit", middle["id"])
    assert operations.call("audit", ADMIN)["gaps"] == [newest["id"]]


def test_entries_that_were_forgotten_by_age_are_no_gap(scheduler, operations):
    for job_id in ("plain", "nightly", "other"):
        scheduler.clock.advance(timedelta(seconds=1))
        operations.call("pause_jobs", ADMIN, {"ids": [job_id]})
    oldest = operations.call("audit", ADMIN)["items"][-1]
    store = scheduler.engine.stores["default"]
    Audit(store).forget(scheduler.clock.now() + timedelta(days=1), 1)
    assert oldest["id"] not in [entry["id"] for entry in operations.call("audit", ADMIN)["items"]]
    assert operations.call("audit", ADMIN)["gaps"] == []


def test_the_audit_comes_in_pages(scheduler, operations):
    for job_id in ("plain", "nightly", "other"):
        scheduler.clock.advance(timedelta(seconds=1))
        operations.call("pause_jobs", ADMIN, {"ids": [job_id]})
    first = operations.call("audit", ADMIN, {"limit": 2})
    rest = operations.call("audit", ADMIN, {"limit": 2, "before": first["next"]})
    ids = [entry["arguments"]["ids"] for entry in first["items"] + rest["items"]]
    assert ids == [["other"], ["nightly"], ["plain"]]
    assert rest["next"] is None


# Repeated requests


def test_a_repeated_request_is_answered_and_not_done_again(scheduler, operations):
    request = {"ids": ["plain"], "request_id": "r1"}
    first = operations.call("run_jobs", OPERATOR, request)
    assert operations.call("run_jobs", OPERATOR, request) == first
    assert len(scheduler.live_runs("plain")) == 1
    assert operations.call("run_jobs", ADMIN, request) != first  # somebody else's request


def test_a_request_id_is_for_one_request(operations):
    operations.call("pause_jobs", OPERATOR, {"ids": ["plain"], "request_id": "r1"})
    with pytest.raises(Changed, match="new one"):
        operations.call("pause_jobs", OPERATOR, {"ids": ["other"], "request_id": "r1"})


def test_a_request_that_failed_may_be_made_again(scheduler, operations):
    request = {"ids": ["later"], "request_id": "r1"}
    with pytest.raises(JobLookupError):
        operations.call("pause_jobs", OPERATOR, request)
    scheduler.add_job(nothing, "interval", hours=1, id="later")
    assert operations.call("pause_jobs", OPERATOR, request)["changed"] == ["later"]


def test_a_request_is_remembered_over_midnight_and_forgotten_after_a_day(scheduler, operations):
    request = {"ids": ["plain"], "request_id": "r1"}
    first = operations.call("run_jobs", OPERATOR, request)
    scheduler.advance(timedelta(hours=20))
    assert operations.call("run_jobs", OPERATOR, request) == first
    scheduler.advance(timedelta(days=2))
    assert operations.call("run_jobs", OPERATOR, request) != first


# Acts


def test_an_edit_of_what_has_changed_is_refused(call, scheduler):
    seen = call("job", id="plain")["etag"]
    scheduler.modify_job("plain", name="changed meanwhile")
    with pytest.raises(Changed) as caught:
        call("edit_job", id="plain", changes={"name": "mine"}, expect=seen)
    assert caught.value.etag == call("job", id="plain")["etag"] != seen
    assert scheduler.get_job("plain").name == "changed meanwhile"
    view = call("edit_job", id="plain", changes={"name": "mine"}, expect=caught.value.etag)
    assert (view["before"], view["after"]) == ({"name": "changed meanwhile"}, {"name": "mine"})
    assert view["etag"] == call("job", id="plain")["etag"]


def test_a_firing_leaves_the_etag_as_it_is(call, scheduler):
    seen = call("job", id="plain")["etag"]
    scheduler.advance(timedelta(hours=1))
    scheduler.run_due()
    assert scheduler.get_job("plain").run_count == 1
    assert call("job", id="plain")["etag"] == seen


def test_a_dry_run_changes_nothing_and_is_not_audited(call, scheduler):
    view = call("edit_job", id="plain", changes={"trigger": "0 4 * * *"}, dry_run=True)
    assert (view["done"], "cron" in view["after"]["trigger"]) == (False, True)
    assert "interval" in str(scheduler.get_job("plain").trigger)
    assert call("audit")["items"] == []


def test_a_new_trigger_gives_a_new_time(call, scheduler):
    call("edit_job", id="plain", changes={"trigger": {"type": "interval", "minutes": 5}})
    assert scheduler.get_job("plain").next_run_time == scheduler.clock.now() + timedelta(minutes=5)
    call("edit_job", id="failing", changes={"trigger": "every 5m"})
    assert scheduler.get_job("failing").next_run_time is None  # it is paused


def test_a_length_of_time_means_from_now_where_it_lies_ahead_and_ago_where_it_is_past(call, scheduler):
    scheduler.add_job(nothing, "interval", minutes=10, id="often")
    assert [job["id"] for job in call("find_jobs", due_before="15m")["items"]] == ["often"]
    assert call("count_jobs", due_before="15m")["number"] == 1
    preview = call("preview_bulk", act="pause", due_before="15m")
    assert preview["count"] == 1
    assert preview["filters"]["due_before"].startswith("20")  # it stays the same moment while the act goes on
    assert "no time" in call("why", id="often", at="5m")["sentence"]


def test_a_pause_is_undone_exactly(call, scheduler):
    undo = call("pause_jobs", ids=["plain", "failing", "nightly"], reason="migration")
    assert (undo["changed"], undo["unchanged"]) == (["plain", "nightly"], ["failing"])
    assert "migration" in call("why", id="plain")["sentence"]
    preview = call("preview_bulk", act="resume", pause_id=undo["undo_id"])
    assert (preview["count"], preview["examples"]) == (2, ["nightly", "plain"])
    view = call("start_bulk", ticket=preview["ticket"], reason="done")
    assert (view["state"], view["changed"]) == ("done", 2)
    assert [job.id for job in scheduler.get_jobs(state="paused")] == ["failing"]


def test_a_ticket_is_good_once_for_ten_minutes_and_for_one_person(call, scheduler):
    ticket = call("preview_bulk", act="pause", tag="reports")["ticket"]
    with pytest.raises(NotFound):
        call("start_bulk", OPERATOR, ticket=ticket)
    assert call("start_bulk", ticket=ticket)["changed"] == 2
    with pytest.raises(Changed):
        call("start_bulk", ticket=ticket)
    old = call("preview_bulk", act="resume", tag="reports")["ticket"]
    scheduler.advance(timedelta(minutes=11))
    with pytest.raises(NotFound, match="preview again"):
        call("start_bulk", ticket=old)


def test_removing_many_needs_an_admin(call):
    with pytest.raises(Forbidden):
        call("preview_bulk", OPERATOR, act="remove", tag="reports")
    ticket = call("preview_bulk", act="remove", tag="reports")["ticket"]
    with pytest.raises(NotFound):
        call("start_bulk", OPERATOR, ticket=ticket)


def test_dead_letters_are_redriven_at_a_rate(call, scheduler):
    for number in range(4):
        scheduler.add_job(fail, "date", id=f"late-{number}", args=[number], dead_letter=True, tags=["late"])
    scheduler.run_due()
    (group, *_) = call("letter_groups", tag="late")["groups"]
    assert (group["size"], group["signature"], group["task"]) == (4, "order … is broken", scheduler.runs()[0].task)
    view = call("redrive", signature=group["signature"], tag="late", rate=0.5)
    assert (view["count"], view["complete"]) == (4, True)
    now = scheduler.clock.now()
    due = sorted((run.due_at - now).total_seconds() for run in scheduler.live_runs())
    assert due == [0, 2, 4, 6]


@pytest.mark.parametrize("act", ["redrive", "discard"])
def test_a_dry_run_counts_dead_letters_and_leaves_them_as_they_are(call, scheduler, act):
    (run_id,) = [letter.run.id for letter in scheduler.dead_letters()]
    assert call(act, job_id="failing", dry_run=True) == {"count": 1, "examples": [run_id], "complete": True}
    assert call(act, ids=[run_id, "gone"], dry_run=True)["count"] == 1
    assert call(act, job_id="plain", dry_run=True)["count"] == 0
    with pytest.raises(InvalidArgument, match="ids"):
        call(act, dry_run=True)
    assert len(scheduler.dead_letters()) == 1
    assert call("audit")["items"] == []


def test_a_list_of_jobs_tells_the_schedule_in_words_and_the_last_error(call, scheduler):
    rows = {row["id"]: row for row in call("find_jobs")["items"]}
    assert rows["nightly"]["schedule"] == scheduler.get_job("nightly").trigger.explain()
    assert rows["failing"]["last_error"] == "ValueError: order 17 is broken"


def test_a_list_of_jobs_tells_their_last_outcomes_if_it_is_asked_to(call, scheduler):
    scheduler.resume_job("failing")
    scheduler.advance(timedelta(minutes=3))
    assert {tuple(row["last_outcomes"]) for row in call("find_jobs")["items"]} == {()}
    rows = {row["id"]: row["last_outcomes"] for row in call("find_jobs", outcomes=2)["items"]}
    assert (rows["failing"], rows["nightly"]) == (["failed", "failed"], [])


def test_letters_are_discarded_by_their_group(call, scheduler):
    assert call("discard", signature="no such")["count"] == 0
    assert call("discard", signature="order … is broken", job_id="failing")["count"] == 1
    assert scheduler.dead_letters() == []


def test_a_run_that_waits_is_cancelled(call, scheduler):
    run_id = scheduler.run_now("plain")
    assert call("cancel_runs", ids=[run_id], reason="not now")["changed"] == [run_id]
    record = scheduler.runs("plain")[0]
    assert (record.run_id, record.outcome.value, record.reason) == (run_id, "cancelled", "not now")
    with pytest.raises(LookupError):
        call("cancel_runs", ids=[run_id])


def test_the_history_comes_in_pages_of_any_filter(call, scheduler):
    for _ in range(5):
        scheduler.advance(timedelta(hours=1))
        scheduler.run_due()
    found, before = [], None
    while True:
        page = call("find_runs", job_id="plain", limit=2, before=before)
        found += [run["finished_at"] for run in page["items"]]
        before = page["next"]
        if before is None:
            break
    assert found == sorted(found, reverse=True)
    assert len(found) == len(set(found)) == 5
    assert call("find_runs", owner="nobody")["items"] == []
    ends = {run["outcome"] for run in call("find_runs", outcome=["failed", "succeeded"])["items"]}
    assert ends == {"failed", "succeeded"}
    assert {run["outcome"] for run in call("find_runs", outcome="failed")["items"]} == {"failed"}
    assert call("find_runs", later_than=0, limit=3)["items"] == []


def test_a_run_is_shown_with_its_attempts(call, scheduler):
    run_id = scheduler.runs("failing")[0].run_id
    view = call("run", id=run_id)
    assert (view["live"], view["dead"], [each["outcome"] for each in view["attempts"]]) == (None, True, ["failed"])


def test_what_did_not_run_is_told_with_the_job(call, scheduler):
    scheduler.add_job(nothing, "interval", minutes=10, id="often", misfire_grace_time=1)
    scheduler.advance(timedelta(minutes=10))
    assert call("job", id="often")["gaps"] == []
    scheduler.clock.advance(timedelta(minutes=25))
    scheduler.run_due()
    (gap, *_) = call("job", id="often")["gaps"]
    assert "missed" in gap["reason"]
    assert "did not" in call("why", id="often", at=gap["at"])["sentence"]


def test_a_run_that_stands_for_others_leaves_no_gap(call, scheduler):
    scheduler.add_job(nothing, "interval", minutes=10, id="often", misfire_grace_time=None)
    scheduler.clock.advance(timedelta(minutes=45))
    scheduler.run_due()
    assert [record.coalesced for record in scheduler.runs("often")] == [3]
    assert call("job", id="often")["gaps"] == []


def test_a_fire_time_without_a_record_is_a_gap(call, scheduler):
    scheduler.add_job(nothing, "interval", minutes=10, id="often")
    scheduler.advance(timedelta(minutes=30))
    history = scheduler.engine.stores["default"]._runs._history
    (lost,) = [record for record in history if record.job_id == "often" and record.scheduled_at.minute == 20 + 1]
    history.remove(lost)
    (gap,) = call("job", id="often")["gaps"]
    assert (gap["at"], "no record" in gap["reason"]) == (lost.scheduled_at.isoformat(), True)
    assert "no record" in call("why", id="often", at=gap["at"])["sentence"]


def test_a_forecast_counts_what_fires_by_executor(call, scheduler):
    view = call("forecast", hours=24)
    assert len(view["buckets"]) == 24
    assert sum(bucket["firings"] for bucket in view["buckets"]) == 24 + 24 + 1  # two each hour, one each night
    assert view["complete"]
    assert sum(bucket["by_executor"].get("default", 0) for bucket in view["buckets"]) == 49


@pytest.mark.parametrize(
    ("start", "hours"), [("2026-03-28T20:00+01:00", 24), ("2026-10-24T20:00+02:00", 24)], ids=["spring", "autumn"]
)
def test_a_forecast_marks_where_the_clock_is_changed(call, scheduler, start, hours):
    from datetime import datetime

    scheduler.clock.set(datetime.fromisoformat(start))
    view = call("forecast", hours=hours, timezone="Europe/Berlin")
    assert len(view["buckets"]) == hours
    assert [bucket["clock_changes"] for bucket in view["buckets"]].count(True) == 1


def test_a_trigger_is_explained(call):
    view = call(
        "explain_trigger", trigger="30 2 * * *", timezone="Europe/Berlin", after="2026-03-27T00:00+01:00", count=4
    )
    assert [time["offset"] for time in view["times"]] == ["+01:00", "+01:00", "+02:00", "+02:00"]
    assert [time["clock_changes"] for time in view["times"]] == [False, False, True, False]


def test_operations_on_a_read_only_observer_change_nothing(tmp_path):
    from goscheduler import BackgroundScheduler
    from goscheduler.observer import Observer

    url = f"sqlite:///{tmp_path}/jobs.db"
    worker = BackgroundScheduler(jobstores={"default": url})
    worker.start()
    worker.add_job(nothing, "interval", hours=1, id="plain")
    worker.shutdown()
    with Observer(url, read_only=True) as observer:
        operations = Operations(Source(observer))
        with pytest.raises(ReadOnly):
            operations.call("pause_jobs", ADMIN, {"ids": ["plain"]})
        assert operations.call("job", ADMIN, {"id": "plain"})["state"] == "scheduled"
        assert operations.call("audit", ADMIN)["items"] == []


def test_every_error_has_a_row_and_an_unknown_one_tells_nothing():
    raised = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, Exception)]
    assert raised
    secret = RuntimeError("the password is hush")
    assert (kind_of(secret), "hush" in errors.message_of(secret)) == (errors.INTERNAL, False)
