"""The settings of a scheduler: checked, and replaced while it is stopped."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import tzinfo
from typing import TYPE_CHECKING, Any

from goscheduler.clock import SYSTEM_CLOCK, Clock
from goscheduler.config import DEFAULT_PREFIXES, SchedulerConfig, collect_settings, parse_settings
from goscheduler.errors import SchedulerAlreadyRunningError
from goscheduler.logs import GuardedLogger
from goscheduler.options import DEFAULTS, parse_options
from goscheduler.plugins import create_plugin

if TYPE_CHECKING:
    from goscheduler.schedulers._engine import Engine
    from goscheduler.schedulers._patience import Patience
    from goscheduler.tasks import TaskRegistry

STATE_STOPPED = 0
STATE_RUNNING = 1
STATE_PAUSED = 2

LOGGER = logging.getLogger("goscheduler.scheduler")


class SchedulerSettings:
    """What a scheduler was configured to be."""

    extra_options: tuple[str, ...] = ("clock",)
    """Options that this class knows beyond the common ones."""

    engine: Engine
    state: int
    task_registry: TaskRegistry
    given_settings: dict[str, Any]
    """What it was configured with, unchecked, for a front that adds to that."""
    _starting: Patience | None
    """The start that goes on."""

    def configure(
        self, gconfig: Mapping[str, Any] | None = None, prefix: str | Iterable[str] | None = DEFAULT_PREFIXES,
        **options: Any,
    ) -> None:
        """Replace the configuration; only while stopped. Pending jobs and listeners stay.

        :raises SchedulerAlreadyRunningError: if the scheduler runs
        """
        if self.state != STATE_STOPPED or self._starting is not None:
            raise SchedulerAlreadyRunningError
        settings = collect_settings(gconfig, prefix, options)
        self._configure(dict(settings))
        self.given_settings = settings

    def _configure(self, config: dict[str, Any]) -> None:
        """Check and apply settings. A subclass may take its own out of ``config`` before it calls this."""
        self._apply(parse_settings(config, self.extra_options))

    def _apply(self, config: SchedulerConfig) -> None:
        executors = {alias: create_plugin("executor", alias, value) for alias, value in config.executors.items()}
        stores = {alias: create_plugin("jobstore", alias, value) for alias, value in config.jobstores.items()}
        self.timezone: tzinfo = config.timezone
        self.jobstore_retry_interval = config.jobstore_retry_interval
        self._logger = self.engine.logger = GuardedLogger(config.logger or LOGGER)
        self.engine.clock = config.extra.get("clock") or SYSTEM_CLOCK
        self.engine.bus.dispatch = config.event_dispatch
        self.task_registry.registered_only = config.registered_only
        self.task_registry.resolver.allow(config.allowed_modules)
        self.engine.retention = config.retention
        self.engine.poll_interval, self.engine.leases.length = config.poll_interval, config.lease
        self._start_timeout = config.start_timeout
        self.engine.executors, self.engine.stores = executors, stores
        self.engine.enclose_by(config.around)
        self.engine.jobs.defaults = parse_options(config.job_defaults, DEFAULTS, where="job_defaults")

    @property
    def clock(self) -> Clock:
        return self.engine.clock
