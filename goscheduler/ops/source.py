"""Where operations get their answers from: the scheduler of this process, or an observer of stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from goscheduler.messages import MessageScheduler

if TYPE_CHECKING:
    from goscheduler.documents.base import DocumentStore
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.periodic import ScheduleRegistry
    from goscheduler.schedulers.base import BaseScheduler


class Source:
    """What operations ask and act on.

    ``scheduler`` is one that runs in this process, or an :class:`~goscheduler.observer.Observer`. ``messages`` is the
    scheduler of messages on it; an observer needs none, unless they have a name of their own. ``documents`` are stores
    of documents by name, ``schedules`` the registry that the program declares, ``locks`` what keeps locks, if that is
    not the job store.
    """

    def __init__(
        self, scheduler: BaseScheduler, *, messages: MessageScheduler | None = None,
        documents: Mapping[str, DocumentStore] | None = None, schedules: ScheduleRegistry | None = None,
        locks: Any = None,
    ) -> None:  # fmt: skip
        self.scheduler = scheduler
        self._messages = messages
        self.documents = dict(documents or {})
        self.schedules = schedules
        self.locks = locks

    @property
    def stores(self) -> Mapping[str, BaseJobStore]:
        """The job stores by alias."""
        return self.scheduler.engine.stores

    @property
    def messages(self) -> MessageScheduler | None:
        """The scheduler of messages; None if there is none here."""
        if self._messages is None and self.scheduler.engine.observing:
            self._messages = MessageScheduler(scheduler=self.scheduler, jobstore=self.home)
        return self._messages

    @property
    def home(self) -> str:
        """The alias of the store that keeps what belongs to no store in particular."""
        return "default" if "default" in self.stores else min(self.stores)
