"""The lifespan of an ASGI application that has a scheduler in it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from types import SimpleNamespace

import pytest

from goscheduler import AsyncIOScheduler, BackgroundScheduler
from goscheduler.contrib.asgi import lifespan
from goscheduler.errors import InvalidArgument, SchedulerAlreadyRunningError


def work() -> None:
    """The job of these tests."""


@pytest.mark.parametrize("cls", [AsyncIOScheduler, BackgroundScheduler])
def test_the_scheduler_runs_inside_of_the_other_lifespan_and_both_are_in_the_state(cls):
    order: list[str] = []
    ran = threading.Event()
    scheduler = cls()

    @contextlib.asynccontextmanager
    async def inner(app):
        order.append(f"opens, running: {scheduler.running}")
        yield {"pool": 7}
        order.append(f"closes, running: {scheduler.running}")

    async def main():
        app = SimpleNamespace(state=SimpleNamespace())
        async with lifespan(scheduler, inner=inner, timeout=60)(app) as state:
            assert state == {"pool": 7, "scheduler": scheduler}
            assert app.state.scheduler is scheduler
            scheduler.add_job(ran.set)
            assert await asyncio.to_thread(ran.wait, 60)
        async with lifespan(scheduler)(object()) as state:
            assert state == {"scheduler": scheduler}
            assert scheduler.running

    asyncio.run(main())
    assert order == ["opens, running: False", "closes, running: False"]


def test_it_is_shut_down_when_the_application_fails_and_not_started_when_the_other_lifespan_does(tmp_path):
    scheduler = AsyncIOScheduler(jobstores={"default": f"sqlite:///{tmp_path / 'jobs.sqlite'}"})

    @contextlib.asynccontextmanager
    async def broken(app):
        raise OSError("no pool")
        yield

    async def main():
        with contextlib.suppress(KeyError):
            async with lifespan(scheduler, role="add")(object()):
                await scheduler.aio.add_job(work, "interval", hours=1, id="a")
                assert await scheduler.aio.processes() == []
                raise KeyError
        assert not scheduler.running
        with pytest.raises(OSError, match="no pool"):
            async with lifespan(scheduler, inner=broken)(object()):
                pass
        assert not scheduler.running
        async with lifespan(scheduler, role="off")(object()) as state:
            assert (state, scheduler.running) == ({"scheduler": scheduler}, False)

    asyncio.run(main())


def test_what_somebody_else_has_started_is_not_shut_down():
    scheduler = BackgroundScheduler()

    async def main():
        async with lifespan(scheduler, role="off")(object()):
            scheduler.start()
        assert scheduler.running
        with pytest.raises(SchedulerAlreadyRunningError):
            async with lifespan(scheduler)(object()):
                pass
        assert scheduler.running

    asyncio.run(main())
    scheduler.shutdown()


def test_several_workers_with_the_memory_store_are_told_of_once_a_process(monkeypatch, caplog):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/uvicorn", "app:app", "--workers", "2"])

    async def main():
        async with lifespan(AsyncIOScheduler())(object()):
            pass

    asyncio.run(main())
    [warning] = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith("2 processes serve, and each of them runs every job: the job store is the memory of each")


def test_a_role_that_is_none_is_refused_before_the_application_is_served():
    with pytest.raises(InvalidArgument, match="role must be 'run', 'add' or 'off', got 'adding'"):
        lifespan(AsyncIOScheduler(), role="adding")
