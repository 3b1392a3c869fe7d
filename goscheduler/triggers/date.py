"""A trigger that fires once."""

from __future__ import annotations

from datetime import date, datetime, tzinfo
from typing import Any

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.times import astimezone, convert_to_datetime, datetime_repr, local_timezone, to_micros
from goscheduler.triggers.base import Backlog, BaseTrigger, current_state, stored_flag, stored_moment


class DateTrigger(BaseTrigger):
    """Fires once, at ``run_date``, also when that is past; without one, now.

    ``run_date`` is a datetime, a date or a string; what has no zone of its own is read in ``timezone``, by default the
    machine's.
    """

    __slots__ = ("floating", "run_date")

    def __init__(self, run_date: datetime | date | str | None = None, timezone: tzinfo | str | None = None) -> None:
        zone = astimezone(timezone)
        if zone is None and getattr(run_date, "tzinfo", None) is None:
            zone = local_timezone()
        given = convert_to_datetime(run_date, zone, "run_date")
        self.floating = given is None
        self.run_date = given or SYSTEM_CLOCK.now().astimezone(zone)

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        return self.run_date if previous_fire_time is None else None

    def _nominal_fire_time(self, previous: datetime | None, now: datetime) -> datetime | None:
        return self.run_date if previous is None or to_micros(self.run_date) > to_micros(previous) else None

    def backlog(self, first: datetime, now: datetime, keep: int = 1) -> Backlog:
        return Backlog(1, (first,) if keep > 0 else ())

    def anchored(self, now: datetime) -> DateTrigger:
        if not self.floating:
            return self
        copy = object.__new__(type(self))
        copy.floating = True
        copy.run_date = now.astimezone(self.run_date.tzinfo)
        return copy

    def _rule(self) -> object:
        return None if self.floating else (to_micros(self.run_date), self.run_date.tzinfo)

    def explain(self) -> str:
        return f"once at {datetime_repr(self.run_date)}"

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = {"version": 1, "run_date": self.run_date}
        return state | {"floating": True} if self.floating else state

    def __setstate__(self, state: Any) -> None:
        state = current_state(type(self), state, 1)
        self.run_date = stored_moment(state["run_date"], "run_date")
        self.floating = stored_flag(state.get("floating", False), "floating")

    def __str__(self) -> str:
        return f"date[{datetime_repr(self.run_date)}]"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} (run_date='{datetime_repr(self.run_date)}')>"
