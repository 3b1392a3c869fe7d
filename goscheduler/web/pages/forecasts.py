"""Forecasts in the background: a page does not wait long for one, and one that is young serves all who ask."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

from goscheduler.ops.access import Principal
from goscheduler.web.site import Site

#: A forecast is shown for so many seconds before it is made again.
KEPT = 60.0
#: A page waits for one so many seconds; so many if it has an old one to show.
WAITS, WAITS_WITH_OLD = 1.5, 0.3
MOST_KEPT = 64

Key = tuple[object, ...]


class Made(NamedTuple):
    """A forecast, and how many seconds ago it was made."""

    view: Mapping[str, Any]
    age: float


class Forecasts:
    """The forecasts of one site. At most one is made at a time."""

    def __init__(self, site: Site) -> None:
        self._site = ref(site)
        self._pool = ThreadPoolExecutor(1, "goscheduler-forecast")
        self._lock = threading.Lock()
        self._kept: dict[Key, tuple[float, Mapping[str, Any]]] = {}
        self._under_way: dict[Key, Future[Mapping[str, Any]]] = {}

    def of(self, principal: Principal, arguments: Mapping[str, Any], patience: float = WAITS) -> Made | None:
        """Return a forecast that somebody may see, an old one while a new one is made; None if there is none yet.

        What goes wrong while it is made is raised for whoever asks next.
        """
        key = (principal.stores, principal.tags, *sorted(arguments.items()))
        now = self._site_now().source.scheduler.clock.monotonic()
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and now - kept[0] < KEPT:
                return Made(kept[1], now - kept[0])
            making = self._under_way.get(key)
            if making is None:
                making = self._under_way[key] = self._pool.submit(self._make, key, principal, dict(arguments))
        wait([making], patience if kept is None else min(patience, WAITS_WITH_OLD))
        if making.done():
            with self._lock:
                self._under_way.pop(key, None)
            return Made(making.result(), 0.0)
        return None if kept is None else Made(kept[1], now - kept[0])

    def _make(self, key: Key, principal: Principal, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        site = self._site_now()
        view: Mapping[str, Any] = site.operations.call("forecast", principal, arguments, via="web")
        with self._lock:
            while len(self._kept) >= MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = site.source.scheduler.clock.monotonic(), view
        return view

    def _site_now(self) -> Site:
        site = self._site()
        assert site is not None  # whoever asks has it
        return site


_OF_SITE: WeakKeyDictionary[Site, Forecasts] = WeakKeyDictionary()


def forecasts_of(site: Site) -> Forecasts:
    """Return the forecasts of a site."""
    return _OF_SITE.setdefault(site, Forecasts(site))
