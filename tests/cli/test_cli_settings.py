"""What a worker is asked for on its command line is checked, and done to the scheduler before it starts."""

from __future__ import annotations

import pytest

from goscheduler import AsyncIOScheduler, BackgroundScheduler, ProcessPoolExecutor, ThreadPoolExecutor
from goscheduler.cli._command_error import CommandError
from goscheduler.cli._settings import Settings, apply_settings, doubt_about_unit, read_names, read_seconds
from goscheduler.testing import ManualScheduler


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5", 5.0), ("0.5", 0.5), ("5000ms", 5.0), ("2s", 2.0), ("1m30s", 90.0), (" 7 ", 7.0), ("86400", 86_400.0)],
)
def test_a_poll_interval_is_seconds_or_a_duration(text: str, seconds: float) -> None:
    assert read_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-1", "abc", "5 parsecs", "inf", "nan", "1e3", "86401", "0ms", "9" * 5000])
def test_an_impossible_poll_interval_is_refused_by_name(text: str) -> None:
    with pytest.raises(CommandError, match="--poll-interval") as refused:
        read_seconds(text)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("text", "names"), [("a,b", {"a", "b"}), (" a , b ,", {"a", "b"}), ("a", {"a"}), ("a,a", {"a"})]
)
def test_queues_are_names_separated_by_commas(text: str, names: set[str]) -> None:
    assert read_names(text) == names


@pytest.mark.parametrize("text", ["", ",", " , "])
def test_queues_without_a_name_are_refused(text: str) -> None:
    with pytest.raises(CommandError, match="--queues"):
        read_names(text)


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        ("3000", "The poll interval is 3000 seconds; if you mean milliseconds, write 3000ms, else 3000s"),
        (" 600.5 ", "The poll interval is 600.5 seconds; if you mean milliseconds, write 600.5ms, else 600.5s"),
        ("600", None), ("3000ms", None), ("3000s", None), ("1h", None),
    ],
)  # fmt: skip
def test_a_number_without_a_unit_that_may_be_milliseconds_is_doubted(text: str, doubt: str | None) -> None:
    assert doubt_about_unit(text) == doubt


def test_the_poll_interval_is_given_to_the_scheduler() -> None:
    scheduler = BackgroundScheduler()
    apply_settings(scheduler, Settings(poll_interval=2.5))
    assert scheduler.poll_interval == 2.5


def test_without_settings_a_scheduler_stays_as_it_is() -> None:
    scheduler = BackgroundScheduler()
    before = scheduler.poll_interval
    apply_settings(scheduler, Settings())
    assert scheduler.poll_interval == before
    assert scheduler.engine.executors == {}


@pytest.mark.parametrize("executor", [ThreadPoolExecutor(2), ProcessPoolExecutor(2)])
def test_concurrency_sets_the_size_of_the_default_pool(executor: ThreadPoolExecutor | ProcessPoolExecutor) -> None:
    apply_settings(BackgroundScheduler(executors={"default": executor}), Settings(concurrency=7))
    assert executor.max_workers == 7


def test_concurrency_makes_the_default_pool_where_none_is_configured() -> None:
    scheduler = BackgroundScheduler()
    apply_settings(scheduler, Settings(concurrency=3))
    executor = scheduler.engine.executors["default"]
    assert isinstance(executor, ThreadPoolExecutor)
    assert executor.max_workers == 3


def test_concurrency_needs_a_pool() -> None:
    with pytest.raises(CommandError, match=r"--concurrency needs a pool.*AsyncIOExecutor"):
        apply_settings(AsyncIOScheduler(), Settings(concurrency=3))


def test_concurrency_needs_the_default_executor_to_be_kept() -> None:
    scheduler = BackgroundScheduler(executors={"mail": ThreadPoolExecutor(1)})
    with pytest.raises(CommandError, match="which --queues leaves to other workers"):
        apply_settings(scheduler, Settings(concurrency=3, queues=frozenset({"mail"})))


def test_a_queue_that_nobody_knows_is_refused_with_those_that_are() -> None:
    scheduler = BackgroundScheduler(executors={"mail": ThreadPoolExecutor(1)})
    with pytest.raises(CommandError, match="there is no executor 'male'; there are: default, mail"):
        apply_settings(scheduler, Settings(queues=frozenset({"male"})))


def test_jobs_of_other_queues_are_neither_run_nor_suspended() -> None:
    scheduler = ManualScheduler()
    scheduler.add_executor("debug", "mail")
    apply_settings(scheduler, Settings(queues=frozenset({"mail"})))
    ran: list[str] = []
    with scheduler:
        left = scheduler.add_job(ran.append, "interval", minutes=1, args=["left"], id="left")
        scheduler.add_job(ran.append, "interval", minutes=1, args=["mailed"], id="mail", executor="mail")
        due = left.next_run_time
        scheduler.advance("3m")
        assert ran == ["mailed"] * 3
        assert left.suspended is None
        assert left.next_run_time == due
