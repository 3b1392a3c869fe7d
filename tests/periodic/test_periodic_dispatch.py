"""Firings that are handed to a queue: what arrives there, and what happens when nothing does."""

from __future__ import annotations

import logging
import threading
from datetime import datetime, timedelta, timezone

import dramatiq
import pytest
import queue_tasks
import redis
import rq
from celery import Celery
from celery.contrib.testing.worker import start_worker
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker

from goscheduler import BackgroundScheduler
from goscheduler.errors import described
from goscheduler.events import EVENT_JOB_EXECUTED
from goscheduler.periodic import (
    CeleryDispatch,
    Dispatch,
    DramatiqDispatch,
    RQDispatch,
    Schedule,
    ScheduleRegistry,
)
from goscheduler.runs.model import OutcomeKind
from goscheduler.testing import EventRecorder, ManualScheduler

UTC = timezone.utc
ONE = datetime(2026, 1, 1, 1, tzinfo=UTC)
FACTS = {"schedule_id": "cleanup", "scheduled_at": ONE.isoformat(), "trigger_type": "cron"}
NOWHERE = "redis://127.0.0.1:1/0"


def registry_of(dispatch=None, **changes):
    registry = ScheduleRegistry(dispatch=dispatch)
    given = {"id": "cleanup", "cron": "0 * * * *", "job": "clean", "payload": {"max_age_days": 30}, **changes}
    registry.register(Schedule(**given))
    return registry


@pytest.fixture
def scheduler():
    with ManualScheduler() as scheduler:
        scheduler.advance(60)
        yield scheduler


def dispatch_of(**changes):
    given = {
        "schedule_id": "cleanup", "job": "clean", "payload": {"max_age_days": 30}, "priority": 5, "task_id": "run-1",
        "scheduled_at": ONE, "attempt": 1,
    }  # fmt: skip
    return Dispatch(**{**given, **changes})


def test_a_function_is_given_each_firing(scheduler):
    given = []
    scheduler.sync(registry_of(given.append, priority="high"))
    scheduler.advance("2h")
    first, second = given
    assert (first.schedule_id, first.job, first.priority) == ("cleanup", "clean", 2)
    assert first.payload == {"max_age_days": 30}
    assert (first.scheduled_at, first.attempt, second.scheduled_at) == (ONE, 1, ONE + timedelta(hours=1))
    records = {record.run_id for record in scheduler.runs("cleanup")}
    assert {first.task_id, second.task_id} == records
    assert first.facts == FACTS
    assert scheduler.schedule_state("cleanup").run_count == 2


def test_a_dispatcher_cannot_change_the_payload_of_later_firings(scheduler):
    given = []

    def greedy(dispatch):
        given.append(dict(dispatch.payload))
        dispatch.payload.clear()

    scheduler.sync(registry_of(greedy))
    scheduler.advance("2h")
    assert given == [{"max_age_days": 30}] * 2


def test_the_dispatcher_given_to_a_sync_goes_before_the_one_of_the_registry(scheduler):
    ours, theirs = [], []
    scheduler.sync(registry_of(theirs.append), dispatch=ours.append)
    scheduler.advance("1h")
    assert (len(ours), theirs) == (1, [])


def test_a_coroutine_function_can_be_the_dispatcher():
    given, done = [], threading.Event()

    async def publish(dispatch):
        given.append(dispatch.schedule_id)
        done.set()

    scheduler = BackgroundScheduler(timezone="UTC")
    scheduler.sync(registry_of(publish))
    recorder = EventRecorder(scheduler)
    scheduler.start()
    try:
        scheduler.run_now("cleanup")
        recorder.wait_for(EVENT_JOB_EXECUTED, "cleanup")
    finally:
        scheduler.shutdown()
    assert given == ["cleanup"]
    assert done.is_set()


def test_a_firing_that_could_not_be_handed_over_is_recorded_and_tried_again_soon(scheduler):
    given, broken = [], [ConnectionError("the broker is away")] * 2

    def publish(dispatch):
        given.append(dispatch)
        if broken:
            raise broken.pop()

    scheduler.sync(registry_of(publish))
    scheduler.advance_to(ONE)
    state = scheduler.schedule_state("cleanup")
    assert (state.last_error, state.last_success) == ("ConnectionError: the broker is away", None)
    assert state.next_run == ONE + timedelta(hours=1)
    scheduler.advance(10)
    state = scheduler.schedule_state("cleanup")
    assert ONE < state.last_success < ONE + timedelta(seconds=5)
    assert (state.run_count, state.last_error) == (3, "ConnectionError: the broker is away")
    assert [one.attempt for one in given] == [1, 2, 3]
    assert {one.task_id for one in given} == {given[0].task_id}
    assert {one.scheduled_at for one in given} == {ONE}
    outcomes = [record.outcome for record in scheduler.runs("cleanup")]
    assert outcomes == [OutcomeKind.SUCCEEDED, OutcomeKind.FAILED, OutcomeKind.FAILED]


def test_a_firing_that_is_never_taken_ends_among_the_dead_letters_and_can_be_redriven(scheduler):
    given, away = [], [True]

    def publish(dispatch):
        if away:
            raise ConnectionError("the broker is away")
        given.append(dispatch.scheduled_at)

    scheduler.sync(registry_of(publish, cron="0 1 1 1 *"))
    scheduler.advance("2d")
    (letter,) = scheduler.dead_letters("cleanup")
    assert letter.run.attempt == 100
    assert letter.run.due_at - ONE > timedelta(hours=7)
    away.clear()
    scheduler.redrive(letter.run.id)
    scheduler.run_due()
    assert given == [ONE]


class Outage:
    """A queue that is away until it is told to come back."""

    def __init__(self):
        self.away = True
        self.taken = []

    def __call__(self, firing):
        if self.away:
            raise ConnectionError("the broker is away")
        self.taken.append(firing.scheduled_at)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_one_firing_stands_for_those_that_gathered_while_the_queue_was_away(scheduler, asynchronous):
    queue = Outage()

    async def publish(firing):
        queue(firing)

    scheduler.sync(registry_of(publish if asynchronous else queue, cron="* * * * *"))
    scheduler.advance("1h")
    back, queue.away = scheduler.clock.now(), False
    scheduler.advance("10m")
    assert queue.taken == [back + timedelta(minutes=each) for each in range(11)]
    reasons = {record.reason for record in scheduler.runs("cleanup", outcome="cancelled")}
    assert reasons == {"a newer firing of its schedule stands for it"}
    assert scheduler.dead_letters() == []


def test_every_firing_is_handed_over_late_if_the_schedule_does_not_coalesce(scheduler):
    queue = Outage()
    scheduler.sync(registry_of(queue, cron="* * * * *", options={"coalesce": False}))
    scheduler.advance("1h")
    queue.away = False
    scheduler.advance("10m")
    assert len(queue.taken) == len(set(queue.taken)) == 71


def test_a_firing_that_somebody_has_asked_for_is_not_called_off(scheduler):
    queue = Outage()
    scheduler.sync(registry_of(queue, options={"retry": None, "dead_letter": True}))
    scheduler.advance("1h")
    (letter,) = scheduler.dead_letters()
    scheduler.pause()
    scheduler.redrive(letter.run.id)
    scheduler.advance("1h")
    queue.away = False
    scheduler.resume()
    scheduler.run_due()
    assert queue.taken == [ONE + timedelta(hours=1), ONE]


def test_a_schedule_may_have_a_retry_policy_of_its_own(scheduler):
    def publish(dispatch):
        raise ConnectionError

    scheduler.sync(registry_of(publish, options={"retry": 2}))
    scheduler.advance("1h")
    scheduler.advance(30)
    assert len(scheduler.dead_letters("cleanup")) == 1


def test_what_was_handed_over_can_be_called_here_again_after_a_change(scheduler):
    scheduler.register("clean", lambda max_age_days: None)
    scheduler.sync(registry_of(print))
    plan = scheduler.sync(registry_of())
    assert plan.details["cleanup"] == "job: clean (dispatched) → clean, payload, retry"


def celery_with(*names):
    app = Celery("shop", broker="memory://")
    for name in names:
        app.task(queue_tasks.clean, name=name, shared=False)
    return CeleryDispatch(app)


def dramatiq_with(*names):
    broker = StubBroker()
    for name in names:
        dramatiq.actor(lambda: None, actor_name=name, broker=broker)
    return DramatiqDispatch(broker)


@pytest.mark.parametrize("queue_with", [celery_with, dramatiq_with])
@pytest.mark.parametrize(("misspelt", "hint"), [("clean_pu", "; did you mean 'clean_up'?"), ("zzz", "")])
def test_a_task_that_the_queue_does_not_have_is_told_at_the_sync(scheduler, caplog, queue_with, misspelt, hint):
    scheduler.sync(registry_of(queue_with("clean_up"), job=misspelt))
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert 'Schedule "cleanup" is handed over all the same' in warning.getMessage()
    assert warning.getMessage().endswith(f"has no task '{misspelt}' in this process{hint}")


@pytest.mark.parametrize(
    "dispatch", [celery_with("clean"), celery_with(), dramatiq_with("clean"), dramatiq_with(), print], ids=str
)
def test_nothing_is_told_of_a_task_that_is_known_or_of_a_queue_whose_tasks_are_not(scheduler, caplog, dispatch):
    scheduler.sync(registry_of(dispatch))
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_an_application_that_must_not_be_finished_by_others_is_not_asked(scheduler):
    app = Celery("shop", broker="memory://", autofinalize=False)
    app.task(queue_tasks.clean, name="send", shared=False)
    scheduler.sync(registry_of(CeleryDispatch(app)))
    assert not app.finalized


@pytest.fixture
def url(redis_server, fresh):
    return fresh(redis_server).url


@pytest.fixture
def unchanged_logging():
    """Leave logging as it was: the worker of Celery takes the root logger for its own."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.mark.usefixtures("unchanged_logging")
def test_a_worker_of_celery_gets_the_task(url, scheduler):
    app, got, done = Celery("app", broker=url, set_as_current=False), [], threading.Event()
    app.conf.update(worker_hijack_root_logger=False, broker_connection_retry_on_startup=True)

    @app.task(name="clean", bind=True, shared=False)
    def clean(self, max_age_days):
        got.append((self.request.id, max_age_days, {name: self.request.headers[name] for name in FACTS}))
        done.set()

    scheduler.sync(registry_of(CeleryDispatch(app), priority="low"))
    scheduler.advance("1h")
    with start_worker(app, pool="solo", perform_ping_check=False, shutdown_timeout=30):
        assert done.wait(60)
    assert got == [(scheduler.runs("cleanup")[0].run_id, 30, FACTS)]


@pytest.mark.parametrize(("priority", "sent"), [(2, 2), (5, 0), (8, 8)])
def test_celery_is_told_a_priority_that_is_not_the_normal_one(url, priority, sent):
    app = Celery("app", broker=url, set_as_current=False)
    CeleryDispatch(app)(dispatch_of(priority=priority))
    with app.connection_for_read() as connection, connection.SimpleQueue("celery") as queue:
        message = queue.get(timeout=60)
        message.ack()
    assert message.properties.get("priority", 0) == sent
    assert message.headers["task"] == "clean"
    assert message.headers["id"] == "run-1"
    assert message.payload[1] == {"max_age_days": 30}


def test_for_amqp_the_priority_is_turned_round():
    class App:
        """A stand-in for an application whose broker is RabbitMQ."""

        sent = None

        class transport:
            driver_type = "amqp"

        def connection_for_write(self):
            return self

        def __enter__(self):
            return self

        def __exit__(self, *exc_info):
            return None

        def send_task(self, name, **options):
            self.sent = options

    app = App()
    CeleryDispatch(app, queue="slow", headers={"tenant": "a"})(dispatch_of(priority=2))
    assert (app.sent["priority"], app.sent["queue"]) == (7, "slow")
    assert app.sent["headers"] == {**FACTS, "tenant": "a"}


def test_a_worker_of_rq_gets_the_job_once_however_often_it_was_handed_over(url, scheduler):
    connection = redis.Redis.from_url(url)
    queue_tasks.CALLS.clear()
    dispatch = RQDispatch(connection, "slow")

    def twice(firing):
        dispatch(firing)
        dispatch(firing)

    scheduler.sync(registry_of(twice, job="queue_tasks.clean"))
    scheduler.advance("1h")
    queue = rq.Queue("slow", connection=connection)
    assert queue.count == 1
    rq.SimpleWorker([queue], connection=connection).work(burst=True, logging_level="ERROR")
    (called,) = queue_tasks.CALLS
    assert called == (scheduler.runs("cleanup")[0].run_id, 30, FACTS)
    connection.close()


def test_rq_puts_what_is_more_urgent_than_normal_to_the_front(url):
    with redis.Redis.from_url(url) as connection:
        queue = rq.Queue(connection=connection)
        dispatch = RQDispatch(queue, result_ttl=60)
        for number, priority in enumerate([5, 8, 2]):
            dispatch(dispatch_of(task_id=f"run-{number}", priority=priority))
        assert queue.get_job_ids() == ["run-2", "run-0", "run-1"]
        assert queue.fetch_job("run-0").result_ttl == 60


def test_a_worker_of_dramatiq_gets_the_message(url, scheduler):
    broker, got = RedisBroker(url=url), []

    @dramatiq.actor(broker=broker, actor_name="clean", queue_name="slow")
    def clean(max_age_days):
        got.append(max_age_days)

    scheduler.sync(registry_of(DramatiqDispatch(broker)))
    scheduler.advance("1h")
    worker = dramatiq.Worker(broker, worker_timeout=10, worker_threads=1)
    worker.start()
    try:
        broker.join("slow", timeout=20_000)
        worker.join()
    finally:
        worker.stop()
        broker.close()
    assert got == [30]


def test_dramatiq_sends_to_actors_that_only_the_worker_knows(url, scheduler):
    sender, receiver = RedisBroker(url=url), RedisBroker(url=url)
    scheduler.sync(registry_of(DramatiqDispatch(sender, queue="elsewhere", tenant="a")))
    scheduler.advance("1h")
    consumer = receiver.consume("elsewhere", timeout=5000)
    message = next(iter(consumer))
    assert (message.actor_name, message.kwargs) == ("clean", {"max_age_days": 30})
    assert message.message_id == scheduler.runs("cleanup")[0].run_id
    assert {**FACTS, "tenant": "a"}.items() <= message.options.items()
    consumer.ack(message)
    consumer.close()
    for broker in (sender, receiver):
        broker.close()


def away(kind):
    """Return a dispatcher whose broker does not answer."""
    if kind == "celery":
        return CeleryDispatch(Celery("app", broker=NOWHERE, set_as_current=False))
    if kind == "rq":
        return RQDispatch(redis.Redis.from_url(NOWHERE))
    return DramatiqDispatch(RedisBroker(url=NOWHERE))


@pytest.mark.parametrize("kind", ["celery", "rq", "dramatiq"])
def test_a_broker_that_does_not_answer_is_an_error_of_the_attempt(scheduler, kind):
    scheduler.sync(registry_of(away(kind)))
    scheduler.advance_to(ONE)
    state = scheduler.schedule_state("cleanup")
    assert "Error" in state.last_error
    assert "127.0.0.1:1" in state.last_error or "Connection" in state.last_error
    (retry,) = scheduler.live_runs("cleanup")
    assert (retry.state, retry.attempt, retry.scheduled_at) == ("pending", 2, ONE)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: CeleryDispatch("redis://"), "app must be a Celery application"),
        (lambda: RQDispatch("default"), "queue must be an rq.Queue or a Redis connection"),
        (lambda: DramatiqDispatch("redis://"), "broker must be a Broker of Dramatiq"),
    ],
)
def test_what_is_no_queue_is_refused(make, told):
    with pytest.raises(TypeError, match=told):
        make()


@pytest.mark.parametrize(("module", "make"), [("rq", lambda: RQDispatch(None)), ("dramatiq", DramatiqDispatch)])
def test_a_library_that_is_not_installed_is_named_with_its_extra(monkeypatch, module, make):
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(ImportError, match=rf'pip install "goscheduler\[{module}\]"') as error:
        make()
    assert described(error.value).startswith("ImportError")


def test_a_dispatcher_tells_what_it_is_and_nothing_secret():
    app = Celery("shop", broker="redis://:hunter2@localhost", set_as_current=False)
    queue = rq.Queue("slow", connection=redis.Redis(password="hunter2"))
    shown = [repr(CeleryDispatch(app)), repr(RQDispatch(queue)), repr(DramatiqDispatch(StubBroker()))]
    assert shown == ["<CeleryDispatch ('shop')>", "<RQDispatch ('slow')>", "<DramatiqDispatch (StubBroker)>"]
    assert "max_age_days" not in repr(dispatch_of())
