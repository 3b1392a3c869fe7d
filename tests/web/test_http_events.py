"""The stream of events: it says what has changed to everybody who watches, and looks once for all of them."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from asgi_client import AsgiClient
from operation_doubles import nothing

from goscheduler import BackgroundScheduler
from goscheduler.observer import Observer
from goscheduler.ops.access import Principal, Role
from goscheduler.ops.service import Operations
from goscheduler.web import site, watch, web_app
from goscheduler.web.site import THREADS

SOON = 60


class Stream:
    """A stream that a test reads."""

    def __init__(self, app, query, headers=()):
        self._app = app
        self._query = query
        self._headers = [(b"host", b"localhost"), *headers]
        self.sent = asyncio.Queue()
        self._gone = asyncio.Event()

    async def open(self):
        scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1", "method": "GET",
            "scheme": "http", "path": "/v1/events", "raw_path": b"/v1/events", "query_string": self._query.encode(),
            "root_path": "", "headers": self._headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        }  # fmt: skip
        self.task = asyncio.create_task(self._app(scope, self._receive, self.sent.put))
        self.start = await self.next()
        return self

    async def _receive(self):
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def next(self):
        return await asyncio.wait_for(self.sent.get(), SOON)

    async def text(self):
        return (await self.next())["body"].decode()

    async def event(self):
        return json.loads((await self.text()).split("data: ")[1])

    async def leave(self):
        self._gone.set()
        await asyncio.wait_for(self.task, SOON)


@asynccontextmanager
async def streams(app, *queries, headers=()):
    found = [await Stream(app, query, headers).open() for query in queries]
    yield found
    for stream in found:
        await stream.leave()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(watch, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(watch, "NOTICE_EVERY", 0.01)


@pytest.fixture
def looks(monkeypatch):
    """The operations that were asked for, by the streams."""
    asked = []
    call = Operations.call

    def noted(self, name, principal, *arguments, **more):
        answer = call(self, name, principal, *arguments, **more)
        if principal is watch.LOOKER:
            asked.append(name)
        return answer

    monkeypatch.setattr(Operations, "call", noted)
    return asked


async def seen(looks, number):
    """Wait until topics were looked at so often."""
    for _ in range(SOON * 100):
        if len(looks) >= number:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"only {len(looks)} looks")


def test_a_change_is_told_and_what_has_changed_is_not(app, scheduler, looks):
    async def main():
        async with streams(app, "topics=job:plain,job:other") as (stream,):
            assert stream.start["status"] == 200
            assert dict(stream.start["headers"])[b"content-type"].startswith(b"text/event-stream")
            assert await stream.text() == "retry: 3000\n\n"
            await seen(looks, 4)
            await asyncio.to_thread(scheduler.pause_job, "plain")
            assert await stream.event() == {"topic": "job:plain", "version": 1}
            await asyncio.to_thread(scheduler.resume_job, "plain")
            assert await stream.event() == {"topic": "job:plain", "version": 2}

    asyncio.run(main())


def test_however_many_watch_a_topic_is_looked_at_once(app, scheduler, looks, monkeypatch):
    monkeypatch.setattr(watch, "LOOK_EVERY", 3600)

    async def main():
        async with streams(app, *["topics=jobs"] * 20) as found:
            for stream in found:
                await stream.text()
            await seen(looks, 1)
            assert looks == ["find_jobs"]

    asyncio.run(main())


def test_nobody_looks_where_nobody_watches(app, looks):
    async def main():
        async with streams(app, "topics=jobs"):
            await seen(looks, 2)
        others = {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}
        await asyncio.wait_for(asyncio.gather(*others), SOON)  # the look has ended by itself

    asyncio.run(main())


def test_at_most_fifty_streams_are_open_and_those_that_were_left_count_no_longer(app, looks):
    async def main():
        for _ in range(3):
            async with streams(app, *["topics=jobs"] * watch.MOST_STREAMS):
                refused = await Stream(app, "topics=jobs").open()
                assert refused.start["status"] == 429
        threads = 0
        for number in range(200):
            async with streams(app, "topics=jobs") as (stream,):
                assert stream.start["status"] == 200
            threads = threads if number else threading.active_count()
        left = {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}
        await asyncio.wait_for(asyncio.gather(*left), SOON)  # the look, which ends by itself
        assert len(left) <= 1
        assert threading.active_count() <= threads + THREADS

    asyncio.run(main())


def test_what_is_read_again_after_an_event_is_not_what_was_kept(tmp_path, looks, monkeypatch):
    monkeypatch.setattr(site, "KEPT_SECONDS", 1e9)
    url = f"sqlite:///{tmp_path}/jobs.db"
    worker = BackgroundScheduler(jobstores={"default": url})
    worker.start(paused=True)
    worker.add_job(nothing, "interval", hours=1, id="plain")

    async def main(app):
        async def states():
            answer = await asyncio.to_thread(AsgiClient(app).get, "/v1/jobs")
            return [job["state"] for job in answer.json()["items"]]

        async with streams(app, "topics=jobs") as (stream,):
            await stream.text()
            await seen(looks, 1)
            assert await states() == ["scheduled"]
            await asyncio.to_thread(worker.pause_job, "plain")
            await stream.event()
            assert await states() == ["paused"]

    with Observer(url) as observer:
        asyncio.run(main(web_app(observer)))
    worker.shutdown()


def test_a_stream_that_was_broken_is_told_of_everything_again(app, looks):
    async def main():
        async with streams(app, "topics=jobs,runs", headers=[(b"last-event-id", b"7")]) as (stream,):
            await stream.text()
            assert (await stream.text()).count("data: ") == 2

    asyncio.run(main())


def test_a_stream_without_events_has_comments_and_ends_after_a_quarter_of_an_hour(app, scheduler, looks):
    async def main():
        stream = await Stream(app, "topics=limits").open()
        await stream.text()
        await asyncio.to_thread(scheduler.clock.advance, timedelta(seconds=16))
        assert await stream.text() == ": here\n\n"
        await asyncio.to_thread(scheduler.clock.advance, timedelta(seconds=900))
        assert (await stream.next())["more_body"] is False
        await asyncio.wait_for(stream.task, SOON)

    asyncio.run(main())


def test_streams_end_with_their_server(app, looks, monkeypatch):
    async def main():
        stream = await Stream(app, "topics=jobs").open()
        await stream.text()
        monkeypatch.setattr(watch, "server_is_ending", lambda: True)
        assert (await stream.next())["more_body"] is False
        await asyncio.wait_for(stream.task, SOON)

    asyncio.run(main())


def test_a_store_that_does_not_answer_ends_no_stream(app, scheduler, looks, monkeypatch):
    async def main():
        async with streams(app, "topics=jobs") as (stream,):
            await stream.text()
            await seen(looks, 1)
            with monkeypatch.context() as broken:
                broken.setattr(Operations, "call", lambda *arguments, **more: 1 / 0)
                assert (await stream.event())["version"] == 1
            assert (await stream.event())["version"] == 2

    asyncio.run(main())


@pytest.mark.parametrize("query", ["", "topics=", "topics=weather", "topics=job:", "topics=jobs:x",
                                   "topics=" + ",".join(f"job:{n}" for n in range(21))])  # fmt: skip
def test_topics_that_there_are_not_are_refused(client, query):
    assert client.get(f"/v1/events?{query}").status == 422


def test_what_somebody_may_not_see_they_may_not_watch(source):
    principal = Principal("sue", Role.VIEWER, tags=frozenset({"billing"}))
    client = AsgiClient(web_app(source, principal=lambda: principal))
    for topic, status in [("overview", 403), ("audit", 403), ("job:other", 404), ("job:nobody", 404)]:
        assert client.get(f"/v1/events?topics={topic}").status == status


def test_head_opens_no_stream(client):
    answer = client.request("HEAD", "/v1/events?topics=jobs")
    assert (answer.status, answer.body) == (200, b"")


def test_under_wsgi_there_are_no_streams(source):
    assert AsgiClient(web_app(source, streams=False)).get("/v1/events?topics=jobs").status == 404


@pytest.mark.parametrize("topic", watch.TOPICS)
def test_what_has_not_changed_looks_the_same(operations, topic):
    operation, _ = watch.TOPICS[topic]
    if operation in watch.OPERATIONS:
        assert watch.fingerprint(operations, topic) == watch.fingerprint(operations, topic)
