"""PostgreSQL and MariaDB: a process that stands still in the middle of a transaction holds up nobody but who wants the
very jobs and limits that it has hold of."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from sqlalchemy import create_engine, delete, insert, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from goscheduler._drivers.sql_watchdog import Watchdog
from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.jobstores.base import PartlySettled
from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from goscheduler.jobstores.sqlalchemy import claiming as claiming_module
from goscheduler.jobstores.sqlalchemy.claiming import Claiming
from goscheduler.jobstores.sqlalchemy.dialects.base import Dialect
from goscheduler.jobstores.sqlalchemy.transactions import UnknownOutcome
from goscheduler.runs.limits import Limit
from goscheduler.runs.records import HistoryQuery
from goscheduler.runs.retry import Retry
from goscheduler.runs.transitions import asked_for, crashed
from goscheduler.testing.clock import ManualClock
from goscheduler.testing.contract import NOW, Requests, failed, succeeded
from goscheduler.testing.scheduler import ManualScheduler
from goscheduler.triggers.date import DateTrigger

pytestmark = pytest.mark.xdist_group("sql-frozen")

SECOND = timedelta(seconds=1)
#: How long something may take that is not held up, in seconds.
PATIENCE = 30


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def database(request, shared_server):
    """Return one database for all tests: to make one takes longer than most of them."""
    with shared_server(request.param).fresh() as space:
        store = SQLAlchemyJobStore(space.url)
        store.upgrade_schema()
        store.shutdown()
        yield create_engine(space.url, poolclass=NullPool), space.url


@pytest.fixture
def url(database):
    engine, url = database
    with engine.begin() as connection:
        for table in ("jobs", "runs", "history", "dead", "limits", "usage", "owners"):
            connection.execute(text(f"DELETE FROM goscheduler_{table}"))
    return url


@pytest.fixture
def no_limits(monkeypatch):
    """Let a transaction stand still for as long as the test takes."""
    monkeypatch.setattr(Dialect, "set_lease", lambda self, lease: setattr(self, "idle_seconds", 59.0), raising=False)
    monkeypatch.setattr(Watchdog, "_end_overdue", lambda self, now: None)


@pytest.fixture
def stores(url, opened, no_limits):
    return [opened(SQLAlchemyJobStore(url, server_time=False)) for _ in range(2)]


class Gated(Requests):
    """Asks a store, and stands still when the first job or run is decided about."""

    def __init__(self):
        super().__init__()
        self.stands = threading.Event()
        self.may_go_on = threading.Event()

    def _request(self, now, **options):
        request = super()._request(now, **options)
        return request._replace(plan=self._gated(request.plan), admit=self._gated(request.admit))

    def _gated(self, decide):
        def gated(*args):
            decision = decide(*args)
            if not self.stands.is_set():
                self.stands.set()
                assert self.may_go_on.wait(PATIENCE)
            return decision

        return gated

    def _new_id(self):
        return f"frozen-{super()._new_id()}"


class Frozen:
    """Something that a store does, and that stands still in the middle of it for the length of a ``with`` block."""

    def __init__(self, action, gate):
        self._action, self._gate = action, gate
        self._thread = threading.Thread(target=self._run)
        self.result = None

    def _run(self):
        try:
            self.result = self._action()
        finally:
            self._gate.stands.set()

    def __enter__(self):
        self._thread.start()
        assert self._gate.stands.wait(PATIENCE)
        return self

    def __exit__(self, *exc_info):
        self._gate.may_go_on.set()
        self._thread.join()


def claiming(store, **options):
    gate = Gated()
    return Frozen(lambda: gate.claim(store, **options), gate)


def firing(store, **options):
    gate = Gated()
    return Frozen(lambda: gate.fire(store, **options), gate)


def in_time(action):
    """Return what an action returns that must not wait for who stands still."""
    results = []
    thread = threading.Thread(target=lambda: results.append(action()), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert results, "it waits, or has failed"
    return results[0]


def ask(store, job, run_id):
    store.add_run(asked_for(job, run_id, NOW))


def ids(answer):
    return sorted(run.job.id for run in answer.runs)


@pytest.fixture
def requests():
    return Requests()


def test_while_a_claimer_stands_still_others_fire_claim_and_end_what_is_not_its(stores, make_job, requests):
    frozen, other = stores
    busy = make_job("busy", due=None)
    other.add_jobs([busy, make_job("fires"), make_job("asked", due=None)])
    ask(other, busy, "first")
    with claiming(frozen, room={"default": 1}) as claim:
        ask(other, make_job("asked", due=None), "second")
        fired = in_time(lambda: requests.fire(other))
        claimed = in_time(lambda: requests.claim(other))
        assert in_time(lambda: other.settle([succeeded(run) for run in [*fired.runs, *claimed.runs]])) == ()
        other.remove_job("fires")
        other.forget_job("fires")
    assert (ids(fired), ids(claimed)) == (["fires"], ["asked"])
    assert ids(claim.result) == ["busy"]


def test_while_a_firing_stands_still_others_fire_claim_and_end_what_is_not_its(stores, make_job, requests):
    frozen, other = stores
    other.add_jobs([make_job("busy", due=NOW - SECOND), make_job("fires"), make_job("asked", due=None)])
    with firing(frozen, room={"default": 1}) as fire:
        ask(other, make_job("asked", due=None), "second")
        ask(other, make_job("busy"), "third")
        fired = in_time(lambda: requests.fire(other))
        claimed = in_time(lambda: requests.claim(other))
        assert in_time(lambda: other.settle([succeeded(run) for run in [*fired.runs, *claimed.runs]])) == ()
    assert (ids(fired), ids(claimed)) == (["fires"], ["asked"])
    assert ids(fire.result) == ["busy"]
    assert len(other.live_runs("busy")) == 1


def test_a_limit_that_somebody_has_hold_of_holds_up_only_jobs_that_share_it(stores, make_job, requests):
    frozen, other = stores
    shared, own = [Limit("shared", concurrency=1)], [Limit("own", concurrency=1)]
    other.add_jobs([make_job("known", limits=[*shared, *own])])
    other.settle([succeeded(run) for run in requests.fire(other).runs])
    other.remove_job("known")
    other.add_jobs([make_job("busy", due=NOW - 3 * SECOND, limits=shared)])
    with firing(frozen, room={"default": 1}) as fire:
        other.add_jobs([make_job("waits", due=NOW - 2 * SECOND, limits=shared), make_job("goes", limits=own)])
        fired = in_time(lambda: requests.fire(other, room={"default": 1}))
        assert ids(fired) == ["goes"]
        again = in_time(lambda: requests.fire(other))
        assert again.runs == []
        assert timedelta(0) < again.next_due - NOW < SECOND / 2
    assert ids(fire.result) == ["busy"]
    assert requests.fire(other).runs == []
    assert ids(requests.claim(other)) == []
    other.settle([succeeded(run) for run in fire.result.runs])
    assert ids(requests.claim(other)) == ["waits"]


def test_runs_of_a_limit_that_somebody_has_hold_of_do_not_keep_others_from_being_claimed(stores, make_job, requests):
    frozen, other = stores
    shared = [Limit("shared", concurrency=1)]
    jobs = [make_job(f"job-{number}", due=None, limits=shared) for number in range(4)]
    free = make_job("free", due=None)
    other.add_jobs([*jobs, free])
    ask(other, jobs[0], "a")
    with claiming(frozen, room={"default": 1}):
        for number, job in enumerate(jobs[1:]):
            ask(other, job, f"b-{number}")
        other.add_run(asked_for(free, "c", NOW)._replace(due_at=NOW))
        assert ids(in_time(lambda: requests.claim(other, room={"default": 1}))) == ["free"]
    assert len(other.live_runs()) == 2


def test_a_run_that_an_end_unblocks_while_another_process_looks_at_it_does_not_wait_for_ever(
    stores, make_job, requests, monkeypatch
):
    slow, other = stores
    jobs = [make_job(f"job-{number}", due=None, limits=[Limit("one", concurrency=1)]) for number in range(3)]
    other.add_jobs(jobs)
    for number, job in enumerate(jobs):
        ask(other, job, f"run-{number}")
    search, lock_limits = Claiming._waiting, claiming_module.lock_limits
    started = []

    def found_by_the_slow_one(self, times):
        found = search(self, times)
        if self._context.connection.engine is slow._database.engine and not started:
            started.extend(requests.claim(other).runs)  # the others are held
        return found

    def counted_by_the_slow_one(context, texts):
        limits = lock_limits(context, texts)
        if context.connection.engine is slow._database.engine and len(started) == 1:
            assert other.settle([succeeded(started[0])]) in ((), None)  # unblocks one of those that are being claimed
            started.append(None)
        return limits

    monkeypatch.setattr(Claiming, "_waiting", found_by_the_slow_one)
    monkeypatch.setattr(claiming_module, "lock_limits", counted_by_the_slow_one)
    claimed = [*requests.claim(slow).runs]
    assert len(started) == 2
    monkeypatch.undo()
    for turn in range(1, 3):
        other.settle([succeeded(run) for run in claimed[-1:]])
        claimed += requests.claim(other, now=NOW + turn * SECOND).runs
    assert sorted(run.job.id for run in [started[0], *claimed]) == ["job-0", "job-1", "job-2"]


@pytest.mark.parametrize("is_there", [True, False])
def test_of_a_job_of_which_somebody_claims_a_run_no_other_run_is_claimed(stores, make_job, requests, is_there):
    frozen, other = stores
    job = make_job("a", due=None)
    if is_there:
        other.add_job(job)
    for number in range(3):
        ask(other, job, f"run-{number}")
    with claiming(frozen, room={"default": 1}) as claim:
        assert in_time(lambda: requests.claim(other)).runs == []
    assert len(claim.result.runs) == 1
    assert requests.claim(other).runs == []
    done = 0
    while live := other.live_runs():
        assert len(live) == 1
        other.settle([succeeded(live[0])])
        done += 1
        requests.claim(other)
    assert done == 3


def test_a_job_that_is_added_again_does_not_fire_while_a_run_of_its_former_self_is_claimed(stores, make_job, requests):
    frozen, other = stores
    once = DateTrigger(NOW, timezone="UTC")
    ask(other, make_job("a", trigger=once), "left")
    with claiming(frozen) as claim:
        other.add_job(make_job("a"))
        ask(other, make_job("a"), "new")
        assert in_time(lambda: requests.fire(other)).runs == []
        assert in_time(lambda: requests.claim(other)).runs == []
    assert len(claim.result.runs) == 1
    assert len(other.live_runs("a")) == 1


@pytest.mark.parametrize("by", ["its job", "a limit"])
def test_a_run_that_waits_for_one_that_ends_meanwhile_is_not_forgotten(stores, make_job, requests, by):
    claimer, other = stores
    limits = [Limit("one", concurrency=1)] if by == "a limit" else []
    first, second = (make_job(job_id, due=None, limits=limits) for job_id in ("a", "a" if by == "its job" else "b"))
    ask(other, first, "first")
    (live,) = requests.claim(other).runs
    ask(other, second, "second")
    with claiming(claimer) as claim:
        assert in_time(lambda: other.settle([succeeded(live)])) == ()
    assert claim.result.runs == []
    assert [run.id for run in requests.claim(other, now=NOW + SECOND).runs] == ["second"]


@pytest.mark.parametrize("by", ["its job", "a limit"])
def test_a_run_that_waits_for_one_that_is_just_ending_is_not_forgotten(stores, make_job, requests, by):
    claimer, other = stores
    limits = [Limit("one", concurrency=1)] if by == "a limit" else []
    first, second = (make_job(job_id, due=None, limits=limits) for job_id in ("a", "a" if by == "its job" else "b"))
    ask(other, first, "first")
    requests.claim(other)
    ask(other, second, "second")
    runs, usage = other._tables.runs, other._tables.usage
    with other._database.engine.begin() as ending:
        ending.execute(delete(runs).where(runs.c.id == "first"))
        ending.execute(delete(usage).where(usage.c.run_id == "first"))
        ending.execute(select(runs.c.id).where(runs.c.held.is_not(None))).all()
        assert in_time(lambda: requests.claim(claimer)).runs == []
    assert [run.id for run in requests.claim(other, now=NOW + SECOND).runs] == ["second"]


@pytest.mark.parametrize("held", ["the job", "the run"])
@pytest.mark.parametrize("touched", [False, True])
def test_an_end_whose_rows_another_process_holds_is_put_off_and_the_others_are_written(
    stores, make_job, requests, held, touched
):
    frozen, other = stores
    other.add_jobs([make_job("busy"), make_job("free")])
    runs = sorted(requests.fire(other).runs, key=lambda run: run.job.id)
    if touched:
        other.cancel_run(runs[1].id, "enough", None)
    table = frozen._tables.jobs if held == "the job" else frozen._tables.runs
    row = table.c.id == ("busy" if held == "the job" else runs[0].id)
    with frozen._database.engine.begin() as holding:
        holding.execute(select(table.c.id).where(row).with_for_update()).one()
        part = in_time(lambda: caught(lambda: other.settle([succeeded(run) for run in runs])))
        assert ([end.attempt.run.job.id for end in part.left], part.refused) == (["busy"], [])
        assert [record.job_id for record in other.history(HistoryQuery())] == ["free"]
    assert other.settle(part.left) == ()
    assert sorted(record.job_id for record in other.history(HistoryQuery())) == ["busy", "free"]
    assert [job.run_count for job in other.get_all_jobs()] == [1, 1]


def test_a_lost_run_whose_job_another_process_holds_is_recovered_later(stores, make_job, requests):
    frozen, other = stores
    other.add_jobs([make_job("busy"), make_job("free")])
    requests.fire(other, owner="lost")
    jobs = frozen._tables.jobs
    with frozen._database.engine.begin() as holding:
        holding.execute(select(jobs.c.id).where(jobs.c.id == "busy").with_for_update()).one()
        recovered = in_time(lambda: recover(other))
        assert [end.attempt.run.job.id for end in recovered] == ["free"]
    assert [end.attempt.run.job.id for end in recover(other)] == ["busy"]


def recover(store):
    return store.recover_runs(NOW, lambda run, host="": crashed(run, NOW, lambda: 0.5, host))


def caught(action):
    with pytest.raises(PartlySettled) as error:
        action()
    return error.value


def test_a_retry_of_a_job_that_is_gone_is_claimed(stores, make_job, requests):
    store, _ = stores
    store.add_job(make_job("a", trigger=DateTrigger(NOW, timezone="UTC"), retry=Retry(max_attempts=2, backoff=1)))
    store.settle([failed(run) for run in requests.fire(store).runs])
    assert store.get_all_jobs() == []
    assert [run.attempt for run in requests.claim(store, now=NOW + 60 * SECOND).runs] == [2]


@pytest.mark.parametrize(
    ("lease", "postgresql", "mariadb"), [(3, "750ms", 1), (30, "7s", 7), (1, "500ms", 1), (12, "3s", 3)]
)
def test_the_server_ends_a_transaction_that_stands_still_for_a_quarter_of_a_lease(
    url, lease, postgresql, mariadb, make_job
):
    scheduler = ManualScheduler(clock=ManualClock(NOW), lease=lease)
    store = SQLAlchemyJobStore(url)
    store.upgrade_schema()  # has made connections
    store.start(scheduler, "default")
    with store._database.engine.connect() as connection:
        if connection.dialect.name == "postgresql":
            shown = connection.exec_driver_sql("SHOW idle_in_transaction_session_timeout").scalar()
            assert shown == postgresql
        else:
            assert connection.exec_driver_sql("SELECT @@idle_transaction_timeout").scalar() == mariadb
    store.shutdown()


#: The queries for the number of a session, and for whether the session of a number is there.
OWN_SESSION = {"postgresql": "SELECT pg_backend_pid()", "mysql": "SELECT CONNECTION_ID()"}
SESSION = {
    "postgresql": "SELECT COUNT(*) FROM pg_stat_activity WHERE pid = :session",
    "mysql": "SELECT COUNT(*) FROM information_schema.processlist WHERE id = :session",
}


@pytest.fixture
def hasty_store(url):
    """Return a store of a scheduler with a short lease: after a moment the server ends a transaction that is idle."""
    store = SQLAlchemyJobStore(url)
    store.start(ManualScheduler(clock=ManualClock(NOW), lease=2), "default")
    yield store
    store.shutdown()


def stand_still_until_the_session_is_ended(context):
    kind = context.connection.dialect.name
    session = context.connection.execute(text(OWN_SESSION[kind])).scalar_one()
    with create_engine(context.connection.engine.url, poolclass=NullPool).connect() as onlooker:
        look = text(SESSION[kind])
        pause, deadline = threading.Event().wait, SYSTEM_CLOCK.monotonic() + PATIENCE
        while onlooker.execute(look, {"session": session}).scalar():
            assert SYSTEM_CLOCK.monotonic() < deadline, "the server has not ended the session"
            onlooker.rollback()
            pause(0.02)


def counted(stands_still, attempts):
    """Return a step that adds a limit, and stands still in the midst of it in its first ``stands_still`` attempts."""

    def step(context):
        attempts.append(len(attempts))
        limits = context.tables.limits
        context.connection.execute(insert(limits), {"name": f"attempt-{len(attempts)}", "state": "[]"})
        if len(attempts) <= stands_still:
            stand_still_until_the_session_is_ended(context)
        context.connection.execute(select(limits.c.name)).all()

    return step


def written(store):
    with store._database.reading() as connection:
        return list(connection.execute(select(store._tables.limits.c.name)).scalars())


def test_what_stood_still_until_the_server_ended_its_transaction_is_done_once_more(hasty_store):
    attempts = []
    hasty_store._database.write(counted(1, attempts))
    assert written(hasty_store) == ["attempt-2"]


def test_what_stands_still_again_is_not_done_a_third_time_and_is_an_outage(hasty_store):
    attempts = []
    with pytest.raises(DBAPIError) as raised:
        hasty_store._database.write(counted(2, attempts))
    assert hasty_store.is_outage(raised.value)
    assert (len(attempts), written(hasty_store)) == (2, [])


def test_a_commit_is_sent_again_only_where_it_is_certain_that_it_was_not_done(hasty_store):
    attempts = []

    def step(context):
        counted(0, attempts)(context)
        if len(attempts) == 1:
            stand_still_until_the_session_is_ended(context)

    names = []
    try:
        hasty_store._database.write(step)
        names = [f"attempt-{len(attempts)}"]
    except UnknownOutcome:
        assert hasty_store._database.engine.dialect.name == "mysql", "PostgreSQL says what has become of it"
    assert written(hasty_store) == names
