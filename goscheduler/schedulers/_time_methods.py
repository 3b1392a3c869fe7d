"""The methods of a scheduler that are about when jobs fire."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, TypeVar

from goscheduler.schedulers._list_methods import ListMethods

_F = TypeVar("_F", bound=Callable[..., Any])


class TimeMethods(ListMethods):
    """Says when jobs fire, in words."""

    if TYPE_CHECKING:

        def scheduled_job(self, trigger: Any, **options: Any) -> Callable[[_F], _F]: ...

    def every(
        self,
        what: str | float | timedelta,
        *,
        on: str | int | Iterable[str] | None = None,
        at: str | time | Iterable[str | time] | None = None,
        start_date: datetime | date | str | None = None,
        end_date: datetime | date | str | None = None,
        timezone: tzinfo | str | None = None,
        jitter: float | str | None = None,
        **options: Any,
    ) -> Callable[[_F], _F]:
        """Return a decorator that adds the function as a job: ``@scheduler.every("mon-fri", at="09:00", id="mail")``.

        The schedule is that of :func:`goscheduler.every`; ``options`` are those of :meth:`scheduled_job`.
        """
        from goscheduler.triggers.every import every  # few programs need it

        zone = self.timezone if timezone is None else timezone
        trigger = every(
            what, on=on, at=at, start_date=start_date, end_date=end_date, timezone=zone, jitter=jitter
        )
        return self.scheduled_job(trigger, **options)
