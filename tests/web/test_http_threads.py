"""However many requests come at once, at most eight ask the stores."""

from __future__ import annotations

import asyncio
import threading

from starlette.routing import Route

from goscheduler.web.app import taking_turns
from goscheduler.web.site import THREADS, Site


class Crowd:
    """Counts how many are inside at once, and lets them go when a test says so."""

    def __init__(self):
        self.inside = self.most = self.total = 0
        self.full = threading.Event()
        self.go = threading.Event()
        self._lock = threading.Lock()

    def enter(self):
        with self._lock:
            self.inside += 1
            self.total += 1
            self.most = max(self.most, self.inside)
            if self.inside == THREADS:
                self.full.set()
        assert self.go.wait(60)
        with self._lock:
            self.inside -= 1


def test_requests_to_the_api_and_pages_share_eight_turns(source):
    site, crowd = Site(source), Crowd()

    async def page(scope, receive, send):
        await asyncio.to_thread(crowd.enter)
        await site.run(lambda: None)  # one that has its turn needs no other

    async def main():
        asked = [site.run(crowd.enter) for _ in range(10)]
        asked += [site.alone(page, {}, None, None) for _ in range(10)]
        answers = asyncio.gather(*asked)
        assert await asyncio.to_thread(crowd.full.wait, 60)
        crowd.go.set()
        await asyncio.wait_for(answers, 60)

    for _ in range(2):  # also in another event loop
        crowd.full.clear()
        crowd.go.clear()
        asyncio.run(main())
    assert (crowd.most, crowd.total) == (THREADS, 40)


def test_applications_share_no_routes_of_pages(source):
    shared = Route("/", lambda request: None)
    before = shared.app
    first, second = (taking_turns(Site(source), shared) for _ in range(2))
    assert shared.app is before
    assert first.app.args == second.app.args == (before,)
    assert first.path == "/"
