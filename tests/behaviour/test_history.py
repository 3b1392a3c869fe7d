"""The history tells what ran, in plain values; it is found by filters, read by pages, and forgotten in time."""

from __future__ import annotations

import gc
import logging
import platform
import weakref
from datetime import timedelta

import pytest
import retry_doubles
from behaviour_doubles import START, PickledStore
from hypothesis import given, settings
from hypothesis import strategies as st
from retry_doubles import play, since_start

from goscheduler import BackgroundScheduler, Retry, fixed
from goscheduler.errors import InvalidArgument, UnknownOption
from goscheduler.events import EVENT_JOB_DEAD_LETTERED, EVENT_JOB_ERROR, EVENT_JOB_EXECUTED
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.runs.model import OutcomeKind
from goscheduler.runs.records import HistoryQuery, Retention
from goscheduler.schedulers import _housekeeping
from goscheduler.testing import EventRecorder, ManualScheduler

NO = ValueError("no")
SILENT = logging.CRITICAL + 1


def live(scheduler, *jobs):
    """Let jobs run once, a minute apart: (id, step, options)."""
    for job_id, step, options in jobs:
        scheduler.add_job(play, id=job_id, args=[step], **options)
        scheduler.advance(60)


def jobs_of(records):
    return [record.job_id for record in records]


# What is kept


def test_a_record_tells_where_and_by_whom_a_job_ran(scheduler):
    live(scheduler, ("job", "well", {"tags": ["shop"], "name": "the job"}))
    (record,) = scheduler.runs()
    assert (record.job_name, record.tags, record.executor) == ("the job", ("shop",), "default")
    assert record.task == "retry_doubles:play"
    assert (record.host, record.owner) == (platform.node(), scheduler.engine.owner)
    assert (record.fire_id, record.run_id) == (retry_doubles.played[0].fire_id, retry_doubles.played[0].run_id)


def test_a_record_is_made_of_plain_values(scheduler):
    live(scheduler, ("job", NO, {}), ("other", [1, {2}], {}))
    plain = (str, int, float, tuple, type(START), type(None))
    assert all(isinstance(value, plain) for record in scheduler.runs() for value in record)
    assert [record.result for record in scheduler.runs()] == ["[1, {2}]", None]


class Heavy:
    """A result, an argument or a part of an exception, of which somebody may keep hold."""


class HeavyError(Exception):
    pass


def test_the_history_keeps_no_object_of_the_user_alive(caplog):
    caplog.set_level(SILENT, "goscheduler")  # a captured log line keeps the exception
    alive = []

    def returns():
        alive.append(weakref.ref(heavy := Heavy()))
        return heavy

    def raises(argument):
        alive.append(weakref.ref(argument))
        alive.append(weakref.ref(error := HeavyError(Heavy())))
        alive.append(weakref.ref(error.args[0]))
        raise error

    with ManualScheduler() as scheduler:
        scheduler.add_job(returns, id="returns")
        scheduler.add_job(raises, id="raises", args=[Heavy()])
        scheduler.advance(1)
        assert sorted(jobs_of(scheduler.runs())) == ["raises", "returns"]
        gc.collect()
        assert [reference() for reference in alive] == [None] * 4


def test_a_result_and_a_message_of_ten_megabytes_are_cut_with_a_note(scheduler):
    live(scheduler, ("big", "x" * 10_000_000, {}), ("bad", ValueError("y" * 10_000_000), {}))
    bad, big = scheduler.runs()
    assert big.result == "x" * 1000 + "... (10000000 characters)"
    assert bad.error_message == "y" * 2000 + "... (10000000 characters)"


def test_an_exception_without_words_is_an_outcome_like_any_other(scheduler):
    live(scheduler, ("mute", retry_doubles.fail_speechlessly, {"retry": 1}), ("next", "well", {}))
    fine, mute = scheduler.runs()
    assert (fine.outcome, mute.outcome) == (OutcomeKind.SUCCEEDED, OutcomeKind.FAILED)
    assert (mute.error_type, len(scheduler.dead_letters())) == ("retry_doubles.Speechless", 1)


def test_an_exception_whose_words_end_the_program_hides_no_other_outcome(background):
    class LastWords(Exception):
        def __str__(self):
            raise SystemExit

    def fail():
        raise LastWords

    recorder = EventRecorder(background, EVENT_JOB_ERROR | EVENT_JOB_EXECUTED)
    background.start()
    background.add_job(fail, id="fail")
    recorder.wait_for(EVENT_JOB_ERROR, "fail", timeout=60)
    background.add_job(play, id="job", args=["well"])
    recorder.wait_for(EVENT_JOB_EXECUTED, "job", timeout=60)
    assert jobs_of(background.runs()) == ["job", "fail"]
    assert background.runs("fail")[0].error_message.endswith("raises SystemExit>")


# Filters


def test_the_history_is_found_by_outcome_tag_error_and_time(scheduler):
    live(scheduler, ("a", "well", {"tags": ["shop"]}), ("b", NO, {}), ("c", KeyError("gone"), {"tags": ["shop", "x"]}))

    def found(**filters):
        return jobs_of(scheduler.runs(**filters))

    assert found(outcome="failed") == ["c", "b"]
    assert found(outcome=OutcomeKind.SUCCEEDED) == ["a"]
    assert found(outcome=["succeeded", OutcomeKind.FAILED]) == ["c", "b", "a"]
    assert found(outcome="missed") == found(tag="nothing") == []
    assert found(tag="shop") == ["c", "a"]
    assert found(error_type=KeyError) == found(error_type="KeyError") == ["c"]
    assert found(since=START + timedelta(seconds=60)) == ["c", "b"]
    assert found(until=START + timedelta(seconds=60)) == ["a"]
    assert found(since="2m") == found(since=timedelta(minutes=2)) == ["c", "b"]
    assert found(until="2m") == ["a"]
    assert found(since="2026-01-01T00:01:00Z", until="2026-01-01T00:02:00Z") == ["b"]
    assert found(since="1m", until="2m") == []
    assert found(job_id="c", outcome="failed", tag="x", error_type="KeyError", since="1h", until="30s") == ["c"]


def test_times_without_a_zone_are_in_the_zone_of_the_scheduler(schedulers):
    scheduler = schedulers(ManualScheduler, timezone="Asia/Tokyo")
    scheduler.start()
    live(scheduler, ("a", "well", {}))
    assert jobs_of(scheduler.runs(since="2026-01-01 09:00")) == ["a"]
    assert jobs_of(scheduler.runs(since="2026-01-01 09:01")) == []


@pytest.mark.parametrize("method", ["runs", "dead_letters"])
@pytest.mark.parametrize(("field", "value"), [
    ("job_id", 5), ("since", "soon"), ("until", 5), ("tag", 5), ("error_type", int), ("before", "x"), ("limit", 0),
])
def test_a_filter_that_makes_no_sense_is_refused_by_name(scheduler, method, field, value):
    with pytest.raises(InvalidArgument, match=f"^{field} must be ") as caught:
        getattr(scheduler, method)(**{field: value})
    assert caught.value.field == field


def test_a_filter_that_makes_no_sense_redrives_nothing(scheduler):
    live(scheduler, ("a", NO, {"retry": 1}))
    with pytest.raises(InvalidArgument, match="since must be"):
        scheduler.redrive_all(since="soon")
    assert len(scheduler.dead_letters()) == 1


# Pages


def all_pages(scheduler, limit, **filters):
    found, page = [], scheduler.runs(limit=limit, **filters)
    while page:
        assert len(page) <= limit
        found += page
        page = scheduler.runs(limit=limit, before=page[-1].cursor, **filters)
    return found


def test_pages_go_on_where_the_last_one_ended_while_new_records_come(scheduler):
    scheduler.add_job(play, "interval", id="job", minutes=1, args=["well"])
    scheduler.advance("10m")
    first = scheduler.runs(limit=4)
    scheduler.advance("5m")
    second = scheduler.runs(limit=4, before=first[-1])
    assert [since_start(record.scheduled_at) // 60 for record in first + second] == [10, 9, 8, 7, 6, 5, 4, 3]
    assert scheduler.runs(limit=4, before=second[-1].cursor)[-1:] == scheduler.runs(before=second[-1])[-1:]


RUNS = st.lists(st.tuples(st.sampled_from(["default", "other"]), st.integers(0, 3), st.booleans()), max_size=12)


@settings(deadline=None, max_examples=60)
@given(RUNS, st.integers(1, 5))
def test_pages_over_several_stores_are_together_what_a_sort_gives(runs, limit):
    retry_doubles.played.clear()
    stores = {"default": MemoryJobStore(), "other": PickledStore()}
    with ManualScheduler(jobstores=stores) as scheduler:
        for number, (store, second, fine) in enumerate(runs):
            scheduler.add_job(
                play, "date", run_date=START + timedelta(seconds=second), id=str(number), jobstore=store,
                args=["well" if fine else NO],
            )  # fmt: skip
        scheduler.advance(10)
        expected = sorted(
            (record for store in stores.values() for record in store.history(HistoryQuery())),
            key=lambda record: (record.finished_at, record.run_id, record.fence), reverse=True,
        )  # fmt: skip
        assert len(expected) == len(runs)
        assert all_pages(scheduler, limit) == expected
        failed = [record for record in expected if record.outcome is OutcomeKind.FAILED]
        assert all_pages(scheduler, limit, outcome="failed") == failed


def test_dead_letters_can_be_read_by_pages(scheduler):
    live(scheduler, *((job_id, NO, {"retry": 1}) for job_id in "abcde"))
    first = scheduler.dead_letters(limit=2)
    second = scheduler.dead_letters(limit=2, before=first[-1])
    third = scheduler.dead_letters(limit=2, before=second[-1].record.cursor)
    assert [letter.record.job_id for letter in first + second + third] == list("edcba")


# Redriving by filter


def test_dead_letters_are_redriven_by_tag_error_and_time(scheduler):
    gone = KeyError("gone")
    live(
        scheduler, ("a", NO, {"retry": 1, "tags": ["shop"]}), ("b", gone, {"retry": 1}),
        ("c", NO, {"retry": 1, "tags": ["shop"]}), ("d", NO, {"retry": 1}),
    )  # fmt: skip

    def left():
        return [letter.record.job_id for letter in scheduler.dead_letters()]

    assert scheduler.redrive_all(tag="nothing") == scheduler.redrive_all(error_type=OSError) == 0
    assert scheduler.redrive_all(error_type=KeyError) == 1
    assert left() == ["d", "c", "a"]
    assert scheduler.redrive_all(tag="shop", until="2m") == 1
    assert left() == ["d", "c"]
    assert scheduler.redrive_all("c", since="1m") == 0
    assert scheduler.redrive_all(since="3m") == 2
    assert left() == []
    scheduler.run_due()
    assert sorted(left()) == list("abcd")


def test_nothing_is_lost_when_the_hook_for_dead_letters_fails(scheduler):
    def hook(event):
        raise RuntimeError("the mail server is down")

    scheduler.add_listener(hook, EVENT_JOB_DEAD_LETTERED)
    others = EventRecorder(scheduler, EVENT_JOB_DEAD_LETTERED)
    live(scheduler, ("job", NO, {"retry": Retry(2, fixed(1))}))
    (letter,) = scheduler.dead_letters()
    assert [event.run_id for event in others.events] == [letter.run.id]
    assert scheduler.redrive_all() == 1


# Retention


def test_old_records_are_forgotten_by_their_outcome(scheduler):
    scheduler.add_job(play, "interval", id="fine", days=1, args=["well"])
    scheduler.add_job(play, "interval", id="bad", days=1, args=[NO])
    scheduler.advance("40d")
    _housekeeping.prune(scheduler.engine)
    assert len(scheduler.runs("fine")) == 8  # today, and the seven days before
    assert len(scheduler.runs("bad")) == 31


def test_the_retention_is_an_option_of_the_scheduler():
    with ManualScheduler(retention={"succeeded": "2h", "succeeded_per_job": 3}) as scheduler:
        scheduler.add_job(play, "interval", id="often", minutes=1, args=["well"])
        scheduler.add_job(play, "interval", id="seldom", hours=1, args=["well"])
        scheduler.advance("5h")
        _housekeeping.prune(scheduler.engine)
        assert [since_start(record.scheduled_at) for record in scheduler.runs("often")] == [18000, 17940, 17880]
        assert len(scheduler.runs("seldom")) == 3


@pytest.mark.parametrize(("value", "expected"), [
    ({"retention": Retention(others=timedelta(days=90))}, Retention(others="90d")),
    ({"goscheduler.retention.succeeded_per_job": "5"}, Retention(succeeded_per_job=5)),
    ({"retention": None}, Retention()),
    ({}, Retention()),
])
def test_a_retention_comes_from_keywords_and_from_files(value, expected):
    files = {key: option for key, option in value.items() if "." in key}
    keywords = {key: option for key, option in value.items() if "." not in key}
    assert BackgroundScheduler(files, **keywords).engine.retention == expected


@pytest.mark.parametrize(("value", "error"), [
    ({"succeeded": "soon"}, InvalidArgument), ({"suceeded": "1d"}, UnknownOption), ("7d", TypeError),
])
def test_a_retention_that_makes_no_sense_is_refused(value, error):
    with pytest.raises(error):
        BackgroundScheduler(retention=value)


class Reluctant(MemoryJobStore):
    """Cannot forget, and counts how often it was asked to."""

    asked = 0

    def prune_history(self, retention, now, limit):
        self.asked += 1
        raise OSError("read-only")


def test_a_store_that_cannot_forget_does_not_keep_the_others_from_it(caplog):
    reluctant = Reluctant()
    with ManualScheduler(jobstores={"bad": reluctant, "default": MemoryJobStore()}) as scheduler:
        live(scheduler, ("kept", "well", {"jobstore": "bad"}), ("forgotten", "well", {}))
        scheduler.clock.advance("8d")
        _housekeeping.prune(scheduler.engine)
        assert jobs_of(scheduler.runs()) == ["kept"]
        assert 'Job store "bad" could not delete old records: read-only' in caplog.text
        asked = reluctant.asked
        scheduler.engine.outages.failed("bad", 0.0, 10.0)
        _housekeeping.prune(scheduler.engine)
        assert reluctant.asked == asked


def test_a_store_with_much_to_forget_is_asked_again_but_not_for_long(monkeypatch):
    monkeypatch.setattr(_housekeeping, "BATCH", 2)
    store = MemoryJobStore()
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        scheduler.add_job(play, "interval", id="job", minutes=1, args=["well"])
        scheduler.advance("9m")
        scheduler.remove_job("job")
        scheduler.clock.advance("8d")
        monkeypatch.setattr(_housekeeping, "MAX_PRUNING_SECONDS", 0.0)
        _housekeeping.prune(scheduler.engine)
        assert len(scheduler.runs()) == 7
        monkeypatch.setattr(_housekeeping, "MAX_PRUNING_SECONDS", 1.0)
        _housekeeping.prune(scheduler.engine)
        assert scheduler.runs() == []


def test_what_could_not_be_forgotten_at_once_is_forgotten_soon(monkeypatch):
    monkeypatch.setattr(_housekeeping, "BATCH", 2)
    monkeypatch.setattr(_housekeeping, "MAX_PRUNING_SECONDS", 0.0)
    with ManualScheduler() as scheduler:
        scheduler.add_job(play, "interval", id="job", minutes=1, args=["well"])
        scheduler.advance("9m")
        scheduler.remove_job("job")
        scheduler.clock.advance("8d")
        for seconds in range(5):
            scheduler.run_due()
            assert len(scheduler.runs()) == max(0, 7 - 2 * seconds)
            scheduler.clock.advance(1)
