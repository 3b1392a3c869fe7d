"""PostgreSQL behind PgBouncer, which lends one connection of the server to many."""

from __future__ import annotations

import logging
import math
import threading

import pytest
from sqlalchemy import create_engine

from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore

LIMITS = "SELECT current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout')"
#: What the pooler is told, and whether words between processes come through.
POOLERS = {
    "of transactions": (["pool_mode=transaction"], False),
    "of transactions that ignores wishes": (["pool_mode=transaction", "ignore_startup_parameters=options"], False),
    "of sessions": (["pool_mode=session"], True),
}


@pytest.mark.parametrize("kind", POOLERS)
def test_behind_a_pooler_transactions_have_limits_and_others_are_heard_or_it_is_polled(
    kind, postgresql, fresh, private_server, opened, make_job, caplog
):
    settings, is_listening = POOLERS[kind]
    url = private_server("pgbouncer", str(postgresql.port), *settings).in_front_of(fresh(postgresql).url)
    store, other = (opened(SQLAlchemyJobStore(url)) for _ in range(2))
    assert limits_of(store) == limits_of(other) == ("7s", "7s")
    with caplog.at_level(logging.WARNING):
        heard = threading.Event()
        store.subscribe(heard.set)
    assert (store.poll_after() == math.inf) is is_listening
    assert ("NOTIFY does not arrive" in caplog.text) is not is_listening
    heard.clear()
    other.add_job(make_job("a"))
    assert not is_listening or heard.wait(60)
    assert store.lookup_job("a") is not None


def limits_of(store):
    return store._database.write(lambda work: tuple(work.connection.exec_driver_sql(LIMITS).one()))


def test_on_an_engine_of_somebody_else_transactions_have_limits_and_the_connections_stay_as_they_were(
    postgresql, fresh, opened
):
    engine = create_engine(fresh(postgresql).url, pool_size=1, max_overflow=0)
    assert limits_of(opened(SQLAlchemyJobStore(engine=engine))) == ("7s", "7s")
    with engine.connect() as connection:
        assert tuple(connection.exec_driver_sql(LIMITS).one()) == ("0", "0")
    engine.dispose()
