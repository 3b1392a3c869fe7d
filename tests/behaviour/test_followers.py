"""Jobs that follow others; what holds in every store is in ``goscheduler.testing.contract_following``."""

from __future__ import annotations

import sqlite3
from datetime import timedelta

import pytest
from behaviour_doubles import HoldingExecutor, calls, note
from sqlalchemy import create_engine

from goscheduler.errors import InvalidArgument, StoreUnavailable, UnknownOption
from goscheduler.executors.context import current_run
from goscheduler.job import copy_with
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.runs.model import JobState, OutcomeKind
from goscheduler.runs.queries import Note
from goscheduler.runs.retry import Snooze
from goscheduler.testing import ManualScheduler
from goscheduler.triggers.after import AfterTrigger


def snooze():
    raise Snooze(30)


def fail():
    raise ValueError


def tell_upstream():
    note({job_id: run.scheduled_at for job_id, run in current_run().upstream.items()})


@pytest.fixture
def followers(scheduler, jobcalls):
    """A started scheduler with a job "up" that is run by hand."""
    scheduler.add_job(note, "interval", days=9, args=["up"], id="up")
    return scheduler


def run_up(scheduler, times=1):
    for _ in range(times):
        scheduler.run_now("up")
    scheduler.run_due()


def test_jobs_added_before_the_start_in_any_order_follow_each_other(jobcalls):
    scheduler = ManualScheduler()
    last = scheduler.add_job(note, after="middle", args=["last"], id="last")
    scheduler.add_job(note, after="up", args=["middle"], id="middle")
    scheduler.add_job(note, "interval", days=9, args=["up"], id="up")
    assert last.state is JobState.PENDING
    with pytest.raises(InvalidArgument, match="cannot wait for itself"):
        scheduler.add_job(note, after="x", id="x")
    with scheduler:
        run_up(scheduler)
        assert calls == ["up", "middle", "last"]
        assert last.state is JobState.WAITING
        assert "waits for middle" in str(last)


def test_a_start_with_a_follower_of_nothing_fails_and_says_what_was_meant():
    scheduler = ManualScheduler()
    scheduler.add_job(note, "interval", days=9, id="extract")
    scheduler.add_job(note, after="extrat", id="load")
    with pytest.raises(InvalidArgument, match="did you mean 'extract'"):
        scheduler.start()


def test_what_cannot_be_followed_is_refused_at_the_call_and_nothing_is_added(followers):
    followers.add_jobstore(MemoryJobStore(), "other")
    followers.add_job(note, "interval", days=9, id="elsewhere", jobstore="other")
    followers.add_job(note, after="up", id="down")
    before = len(followers.get_jobs())
    for options, message in (
        ({"after": "upp"}, "there is no job 'upp' in the job store; did you mean 'up'?"),
        ({"after": "elsewhere"}, "'elsewhere' is in the job store 'other'"),
        ({"after": "self", "id": "self"}, "the job 'self' cannot wait for itself"),
        ({"after": "up", "trigger": "cron"}, "after takes the place of a trigger"),
    ):
        with pytest.raises(InvalidArgument, match=message.replace("?", r"\?")):
            followers.add_job(note, **options)
    with pytest.raises(InvalidArgument, match="'a' waits for itself, by way of 'c' and 'b'"):
        followers.add_jobs({"func": note, "id": one, "after": other} for one, other in ("ac", "cb", "ba"))
    with pytest.raises(InvalidArgument, match="'up' waits for itself, by way of 'down'"):
        followers.reschedule_job("up", after="down")
    with pytest.raises(InvalidArgument, match="'up' waits for itself, by way of 'down'"):
        followers.modify_job("up", trigger=AfterTrigger("down"))
    with pytest.raises(UnknownOption):
        followers.add_job(note, after="up", hour=3)
    assert len(followers.get_jobs()) == before


def test_a_circle_that_two_processes_have_made_is_found_and_suspends(followers):
    followers.add_job(note, after="up", id="down")
    store = followers.engine.stores["default"]
    store.edit_job("up", lambda job: copy_with(job, trigger=AfterTrigger("down"), next_run_time=None))
    followers.advance("61s")
    if store.keeps_objects:
        assert followers.get_job("down").suspended == "waits for itself: 'down' waits for itself, by way of 'up'"


def test_ends_while_the_follower_runs_are_followed_by_one_run_after_it(jobcalls):
    holding = HoldingExecutor()
    with ManualScheduler(executors={"holding": holding}) as scheduler:
        scheduler.add_job(note, "interval", days=9, args=["up"], id="up")
        scheduler.add_job(note, after="up", id="down", executor="holding")
        run_up(scheduler, 2)
        assert len(holding.held) == 1, "two ends before it starts"
        run_up(scheduler)
        run_up(scheduler, 2)
        assert len(holding.held) == 1
        assert len(scheduler.engine.stores["default"].pending_runs("down")) == 1, "three ends while it runs"
        holding.finish()
        scheduler.run_due()
        assert len(holding.held) == 1
        holding.finish()
        scheduler.advance("2m")
        assert [record.outcome for record in scheduler.runs("down")] == [OutcomeKind.SUCCEEDED] * 2
        assert holding.held == []


def test_runs_that_are_snoozed_skipped_missed_or_cancelled_have_not_ended(followers):
    followers.add_job(snooze, "interval", days=9, id="snoozing")
    followers.add_job(note, "interval", hours=1, id="late", misfire_grace_time=5)
    followers.add_job(note, "interval", days=9, id="cancelled")
    for on in ("success", "failure", "end"):
        for one in ("snoozing", "late", "cancelled"):
            followers.add_job(note, after=one, on=on, args=[(one, on)], id=f"{one}-{on}")
    followers.run_now("snoozing")
    followers.cancel_run(followers.run_now("cancelled"))
    followers.run_due()
    followers.clock.advance("90m")
    followers.run_due()
    assert [record.outcome for record in followers.runs("late")] == [OutcomeKind.MISSED]
    assert calls == []


def test_running_a_follower_by_hand_moves_no_cursor_and_it_knows_whom_it_follows(followers):
    followers.add_job(tell_upstream, after="up", id="down")
    followers.run_now("down")
    followers.run_due()
    assert calls == [{}]
    run_up(followers)
    (record,) = followers.runs("up")
    assert calls[1:] == ["up", {"up": record.scheduled_at}]


def test_a_follower_that_is_added_again_keeps_what_it_has_followed(followers):
    followers.add_job(note, after="up", args=["down"], id="down")
    run_up(followers)
    followers.add_job(note, after="up", args=["again"], id="down", replace_existing=True)
    followers.advance("61s")
    assert calls == ["up", "down"]
    run_up(followers)
    assert calls == ["up", "down", "up", "again"]
    followers.modify_job("down", trigger=AfterTrigger("up", on="failure"))
    run_up(followers)
    assert calls == ["up", "down", "up", "again", "up"]
    assert followers.get_job("down").state is JobState.WAITING


def test_followers_are_paused_and_resumed_with_others_and_a_paused_one_is_added(followers):
    followers.add_job(note, after="up", args=["down"], id="down", tags=["x"])
    followers.add_job(note, after="up", args=["asleep"], id="asleep", next_run_time=None)
    assert followers.get_job("asleep").state is JobState.PAUSED
    followers.pause_jobs(tag="x")
    assert followers.get_job("down").state is JobState.PAUSED
    run_up(followers)
    followers.resume_jobs(tag="x")
    followers.advance(1)
    assert followers.get_job("down").state is JobState.WAITING
    run_up(followers)
    assert calls == ["up", "up", "down"]


def test_followers_move_with_a_file_and_go_on_where_they_were(followers, tmp_path, jobcalls):
    followers.add_job(note, after="up", args=["middle"], id="middle")
    followers.add_job(note, after="middle", args=["last"], id="a-last")
    followers.pause_job("a-last")
    run_up(followers)
    followers.export_jobs(tmp_path / "jobs.json")
    calls.clear()
    with ManualScheduler() as scheduler:
        scheduler.import_jobs(tmp_path / "jobs.json")
        assert scheduler.get_job("middle").state is JobState.WAITING
        assert scheduler.get_job("a-last").state is JobState.PAUSED
        run_up(scheduler)
        assert calls == ["up", "middle"]


def test_a_chain_gives_each_step_its_own_arguments_and_the_options_to_all(followers):
    jobs = followers.chain(
        [note, {"func": note, "args": ["two"]}, {"func": note, "args": ["three"], "retry": 5}],
        "interval", hours=1, id="nightly", retry=2, delay="30s", args=["one"], replace_existing=True,
    )  # fmt: skip
    assert [(job.id, str(job.trigger), job.retry.max_attempts) for job in jobs] == [
        ("nightly", "interval[1:00:00]", 2), ("nightly.2", "after[nightly, delay=0:00:30]", 2),
        ("nightly.3", "after[nightly.2, delay=0:00:30]", 5),
    ]  # fmt: skip
    followers.advance("61m")
    assert calls == ["one", "two", "three"]
    for steps in ([], "note", None):
        with pytest.raises(InvalidArgument, match="steps must"):
            followers.chain(steps)


def test_a_failure_without_a_retry_is_an_end_too(followers):
    followers.add_job(fail, "interval", days=9, id="bad")
    followers.add_job(note, after="bad", on="failure", args=["alert"], id="alert")
    followers.run_now("bad")
    followers.run_due()
    assert calls == ["alert"]


def test_a_store_that_keeps_no_history_is_followed_by_its_last_success(jobcalls):
    with ManualScheduler(jobstores={"default": MemoryJobStore(history=0)}) as scheduler:
        scheduler.add_job(note, "interval", hours=1, args=["up"], id="up")
        scheduler.add_job(note, after="up", args=["down"], id="down")
        scheduler.advance("3h")
        assert calls == ["up", "down"] * 3


def test_schedulers_without_followers_ask_their_stores_nothing_when_a_run_ends(followers, monkeypatch):
    store = followers.engine.stores["default"]
    asked = []
    for name in ("notes", "lookup_job", "history", "edit_jobs"):
        monkeypatch.setattr(store, name, lambda *_, name=name: asked.append(name))
    followers.engine.following.settled("default", [])
    assert asked == []


def test_a_follower_that_a_blackout_has_skipped_waits_again(followers):
    followers.add_job(note, after="up", args=["down"], id="down")
    now = followers.clock.now()
    followers.add_blackout(now, now + timedelta(hours=1), action="skip", job_id="down")
    run_up(followers)
    assert [record.outcome for record in followers.runs("down")] == [OutcomeKind.SKIPPED]
    assert followers.get_job("down").state is JobState.WAITING


def test_a_follower_that_cannot_be_read_for_a_while_is_followed_again_afterwards(tmp_path, jobcalls):
    path = tmp_path / "jobs.db"
    with ManualScheduler(jobstores={"default": f"sqlite:///{path}"}) as scheduler:
        scheduler.add_job(note, "interval", days=9, args=["up"], id="up")
        scheduler.add_job(note, after="up", args=["down"], id="down")
        scheduler.add_job(note, after="up", id="gone")
        scheduler.remove_job("gone")
        with sqlite3.connect(path) as rows:
            ((whole,),) = rows.execute("select definition from goscheduler_jobs where id = 'down'")
            rows.execute("update goscheduler_jobs set definition = '{broken' where id = 'down'")
        scheduler.clock.advance(timedelta(days=2))
        scheduler.engine.following.look()
        with sqlite3.connect(path) as rows:
            rows.execute("update goscheduler_jobs set definition = ? where id = 'down'", (whole,))
        scheduler.engine.following.look()
        run_up(scheduler)
        assert calls == ["up", "down"]
        noted = [each.text for each in scheduler.engine.stores["default"].notes("follower")]
        assert noted == ['{"job": "down", "after": ["up"]}'], "the note of a job that is gone goes"


def test_a_job_that_follows_again_whom_it_followed_before_keeps_that_note_and_loses_the_others(followers):
    followers.add_job(note, "interval", days=9, id="other")
    followers.add_job(note, after="up", args=["down"], id="down")
    for upstream in ("other", "up"):  # the second time there is a note already
        followers.clock.advance(timedelta(hours=1))
        followers.engine.following.look()
        followers.reschedule_job("down", after=upstream)
    followers.clock.advance(timedelta(days=2))
    followers.engine.following.look()
    run_up(followers)
    assert calls == ["up", "down"]
    (left,) = followers.engine.stores["default"].notes("follower")
    assert left.text == '{"job": "down", "after": ["up"]}'


def test_notes_that_a_newer_version_has_written_are_left_alone_and_the_others_count(jobcalls):
    store = MemoryJobStore()
    odd = [
        Note("follower", key, text) for key, text in (
            ("0006474846204000.0", '{"v": 2}'), ("no-hex", '{"job": "a", "after": ["up"]}'), ("1.0", "["), ("2.0", "7"),
            ("3.0", '{"job": 1, "after": ["up"]}'), ("4.0", '{"job": "a", "after": "up"}'),
        )
    ]  # fmt: skip
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        for each in odd:
            store.put_note(each)
        scheduler.add_job(note, "interval", days=9, args=["up"], id="up")
        scheduler.add_job(note, after="up", args=["down"], id="down")
        scheduler.advance("61s")
        run_up(scheduler)
        assert calls == ["up", "down"]
        assert {each.key for each in odd} < {each.key for each in store.notes("follower")}


def test_many_followers_of_one_job_are_fired_in_portions_and_ask_once_how_it_ended(followers, monkeypatch):
    for number in range(12):
        followers.add_job(note, after="up", args=[number], id=f"down-{number:02}", max_instances=1)
    store, following = followers.engine.stores["default"], followers.engine.following
    lookup, history, asked = store.lookup_job, store.history, []

    def slow_lookup(job_id):
        followers.clock.advance(timedelta(seconds=0.05 if job_id.startswith("down") else 0))
        return lookup(job_id)

    monkeypatch.setattr(store, "history", lambda query: asked.append(query) or history(query))
    with monkeypatch.context() as slow:
        slow.setattr(store, "lookup_job", slow_lookup)
        slow.setattr(following, "look", lambda: False)
        run_up(followers)
        fired = set(calls) - {"up"}
        assert 0 < len(fired) < 12, "the thread that settles does not do it all"
        assert [query.job_id for query in asked] == ["up"]
    followers.run_due()
    assert set(calls) == {"up", *range(12)}, "housekeeping goes on at once"


def test_an_outage_while_an_end_is_followed_is_waited_for_once_and_the_end_is_followed_later(followers, monkeypatch):
    for number in range(5):
        followers.add_job(note, after="up", args=[number], id=f"down-{number}")
    store, following, asked = followers.engine.stores["default"], followers.engine.following, []
    lookup = store.lookup_job

    def lookup_or_fail(job_id):
        if job_id.startswith("down"):
            asked.append(job_id)
            raise StoreUnavailable("no answer")
        return lookup(job_id)

    with monkeypatch.context() as outage:
        outage.setattr(store, "lookup_job", lookup_or_fail)
        outage.setattr(following, "look", lambda: False)
        run_up(followers)
    assert len(asked) == 1
    assert calls == ["up"]
    followers.run_due()
    assert set(calls) == {"up", *range(5)}


def test_a_follower_that_is_to_be_paused_is_so_whatever_way_it_was_said(followers):
    followers.add_job(note, after="up", args=["replaced"], id="replaced")
    followers.add_job(note, after="up", args=["new"], id="replaced", next_run_time=None, replace_existing=True)
    followers.add_job(note, "interval", minutes=7, args=["clock"], id="clock", next_run_time=None)
    followers.modify_job("clock", trigger=AfterTrigger("up"))
    followers.add_job(note, after="up", args=["modified"], id="modified")
    followers.modify_job("modified", next_run_time=None)
    ids = ["replaced", "clock", "modified"]
    assert [followers.get_job(one).state for one in ids] == [JobState.PAUSED] * 3
    run_up(followers)
    assert calls == ["up"]
    for one in ids:
        followers.resume_job(one)
    followers.modify_job("modified", trigger=AfterTrigger("up", on="end"))
    assert [followers.get_job(one).state for one in ids] == [JobState.WAITING] * 3
    followers.advance(1)
    run_up(followers)
    assert calls[:2] == ["up", "up"]
    assert set(calls[2:]) == {"new", "clock", "modified"}
    followers.pause_job("modified")
    followers.add_job(note, after="up", args=["again"], id="modified", replace_existing=True)
    assert followers.get_job("modified").state is JobState.WAITING, "it follows otherwise: success, not any end"


def test_what_fires_once_is_kept_for_its_followers_however_these_came_to_follow_it(followers):
    once = {"func": note, "trigger": "date", "run_date": followers.clock.now() + timedelta(minutes=5)}
    for one in ("modified", "rescheduled"):
        followers.add_job(note, "interval", days=1, id=f"down-{one}")
        followers.add_job(id=one, **once)
    followers.modify_job("down-modified", trigger=AfterTrigger("modified"))
    followers.reschedule_job("down-rescheduled", after="rescheduled")
    followers.add_jobs([{**once, "id": "together"}, {"func": note, "after": "together", "id": "down-together"}])
    for one in ("added", "turned", "replaced"):
        followers.add_job(note, "interval", days=9, id=one)
        followers.add_job(note, after=one, id=f"down-{one}")
    followers.remove_job("added")
    followers.add_job(id="added", **once)
    followers.reschedule_job("turned", trigger="date", run_date=once["run_date"])
    followers.add_job(id="replaced", replace_existing=True, **once)
    followers.advance("6m")
    for one in ("modified", "rescheduled", "together", "added", "turned", "replaced"):
        assert followers.get_job(one).state is JobState.COMPLETED, one
        assert len(followers.runs(f"down-{one}")) == 1, one
        assert followers.get_job(f"down-{one}").state is JobState.WAITING, one


def test_what_fires_once_is_kept_for_a_follower_that_is_part_of_a_transaction(tmp_path):
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    engine = create_engine(url)
    with ManualScheduler(jobstores={"default": url}) as scheduler:
        scheduler.add_job(note, "date", run_date=scheduler.clock.now() + timedelta(minutes=5), id="once")
        with engine.begin() as connection:
            scheduler.add_job(note, after="once", id="down", connection=connection)
        assert scheduler.get_job("once").auto_remove is False
    engine.dispose()


def test_a_chain_that_replaces_a_longer_one_removes_the_further_steps_and_nothing_else(followers):
    steps = [{"func": note, "args": [number]} for number in range(5)]
    followers.chain(steps, "interval", hours=1, id="nightly")
    followers.add_job(note, after="nightly.2", args=["mine"], id="nightly.x")
    followers.add_job(note, "interval", days=9, id="nightly.6")
    followers.chain(steps[:2], "interval", hours=1, id="nightly", if_exists="replace")
    ids = {job.id for job in followers.get_jobs()}
    assert ids == {"up", "nightly", "nightly.2", "nightly.x", "nightly.6"}
    followers.chain(steps[:1], "interval", hours=1, id="nightly", if_exists="keep")
    followers.advance("61m")
    assert calls == [0, 1, "mine"]


def test_a_chain_that_is_shorter_in_the_next_program_is_so_after_its_start(tmp_path, jobcalls):
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    for number, left in ((4, 4), (2, 2)):
        scheduler = ManualScheduler(jobstores={"default": url})
        scheduler.chain([note] * 3, "interval", hours=1, id="nightly", replace_existing=True)
        jobs = scheduler.chain([note] * number, "interval", hours=1, id="nightly", replace_existing=True)
        assert len(scheduler.get_jobs()) == number, "among those that wait for the start"
        with scheduler:
            assert len(scheduler.get_jobs()) == left
            assert jobs[-1].state is JobState.WAITING


def test_a_follower_has_no_fire_times_that_a_backfill_could_run(followers):
    followers.add_job(note, after="up", id="down")
    with pytest.raises(InvalidArgument, match="a job that follows others has no fire times"):
        followers.backfill("down", "2d", "1d")
