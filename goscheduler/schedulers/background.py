"""A scheduler in the background of a program: ``start()`` returns at once."""

from __future__ import annotations

import threading

from goscheduler.config import SchedulerConfig
from goscheduler.schedulers.base import BaseScheduler
from goscheduler.schedulers.blocking import BlockingScheduler
from goscheduler.util import asbool

__all__ = ["BackgroundScheduler", "BaseScheduler", "BlockingScheduler"]


class BackgroundScheduler(BlockingScheduler):
    """Fires on a thread of its own. With ``daemon`` (the default) that thread does not keep the program alive."""

    extra_options = (*BlockingScheduler.extra_options, "daemon")

    def _apply(self, config: SchedulerConfig) -> None:
        super()._apply(config)
        self._daemon = asbool(config.extra.get("daemon", True))

    def _begin_loop(self) -> None:
        loop = self._claim_loop()
        if loop is not None:
            loop.thread = threading.Thread(
                target=self._turn, args=(loop,), name="goscheduler", daemon=self._daemon
            )
            loop.thread.start()
