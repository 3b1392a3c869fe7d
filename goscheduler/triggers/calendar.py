"""A trigger whose fire times follow a calendar: what falls into closed time is left out, or moved.

The calendar is asked when the next fire time is computed, and again when it fires: a holiday that was decreed meanwhile
makes the firing skipped. Moved fire times are those of :mod:`goscheduler.triggers._moving`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, tzinfo
from typing import Any

from goscheduler.calendars.base import HORIZON, Calendar
from goscheduler.calendars.named import Named, unknown_names
from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import InvalidArgument, NeverFires, shown
from goscheduler.times import UTC, from_micros, micros_of, to_micros
from goscheduler.triggers._moving import next_moved, time_for
from goscheduler.triggers._steps import bounded, step
from goscheduler.triggers.base import BaseTrigger, current_state
from goscheduler.triggers.combining import BaseCombiningTrigger, unpacked
from goscheduler.triggers.date import DateTrigger

ON_CLOSED = ("skip", "after", "before")

_TOLD = {"skip": "not if closed", "after": "later if closed", "before": "earlier if closed"}
_HORIZON = micros_of(HORIZON)


class CalendarTrigger(BaseCombiningTrigger):
    """Fires when ``trigger`` does while ``calendar`` is open. ``on_closed`` says what becomes of other fire times:
    "skip" leaves them out; "after" moves them to the next day that is open at the same time of day, or to when it
    opens; "before" to the last such day, or the last second in which it was open. All those of one closed stretch make
    one run.

    A calendar without a zone is read in that of the trigger.
    """

    __slots__ = ("_alone", "_names", "_zone", "calendar", "on_closed")

    def __init__(
        self,
        trigger: BaseTrigger,
        calendar: Calendar | str,
        on_closed: str = "skip",
        *,
        timezone: tzinfo | str | None = None,
    ) -> None:
        self.set_up([trigger], None, calendar, on_closed)
        if not unknown_names(self.calendar.names) and self.calendar.next_open(self._here(SYSTEM_CLOCK.now())) is None:
            message = f"calendar never opens in the next ten years: {self.calendar.explain()}"
            raise NeverFires(message, field="calendar", value=calendar)

    def set_up(
        self,
        triggers: Iterable[BaseTrigger],
        jitter: float | str | None,
        calendar: Calendar | str | None = None,
        on_closed: str = "skip",
    ) -> None:
        super().set_up(triggers, jitter)
        if len(self.triggers) != 1:
            raise InvalidArgument("triggers must be the one trigger that is asked", field="triggers", value=triggers)
        if on_closed not in ON_CLOSED:
            expected = ", ".join(ON_CLOSED)
            message = f"on_closed must be one of {expected}, got {shown(on_closed)}"
            raise InvalidArgument(message, field="on_closed", value=on_closed)
        self.calendar, self.on_closed = calendar_of(calendar), on_closed
        self._zone = zone_of(self.triggers[0])
        child = self.triggers[0]
        self._names = tuple(dict.fromkeys((*self.calendar.names, *super().calendar_names)))
        self._alone = (
            on_closed == "skip" and not self.jitter and not isinstance(child, BaseCombiningTrigger)
            and not getattr(child, "jitter", None)
        )  # fmt: skip

    @property
    def calendar_names(self) -> tuple[str, ...]:
        return self._names

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        if self._alone and previous_fire_time is not None:  # on the path of every firing
            nominal = self.triggers[0]._nominal_fire_time(previous_fire_time, now)
            if nominal is not None and self.calendar.is_open(self._here(nominal)):
                return nominal
        return super().get_next_fire_time(previous_fire_time, now)

    def _nominal_fire_time(self, previous: datetime | None, now: datetime) -> datetime | None:
        nominal = self.triggers[0]._nominal_fire_time(previous, now)
        if nominal is not None and previous is None and to_micros(nominal) < to_micros(now):
            return self._of_the_past(nominal)
        if self.on_closed == "skip":
            is_open = nominal is not None and self.calendar.is_open(self._here(nominal))
            return nominal if is_open else self._open_from(nominal)
        after = to_micros(now) - 1 if previous is None else to_micros(previous)
        zone = self._zone or (nominal or now).tzinfo or UTC
        with bounded():
            return next_moved(self.calendar, self._first, after, zone, self.on_closed == "after")

    def _open_from(self, nominal: datetime | None) -> datetime | None:
        """Return the first fire time from ``nominal`` on that falls into open time."""
        limit = None if nominal is None else to_micros(nominal) + _HORIZON
        with bounded():
            while nominal is not None and limit is not None and to_micros(nominal) <= limit:
                step()
                here = self._here(nominal)
                if self.calendar.is_open(here):
                    return nominal
                opens = self.calendar.next_open(here)
                nominal = None if opens is None else self.triggers[0]._first_from(opens)
        return None

    def _of_the_past(self, nominal: datetime) -> datetime | None:
        """Return what becomes of a date that has passed already: a job that is new runs at once then."""
        here = self._here(nominal)
        if self.calendar.is_open(here):
            return nominal
        return None if self.on_closed == "skip" else time_for(self.calendar, here, self.on_closed == "after")

    def _first(self, moment: int) -> datetime | None:
        """Return the first fire time of the trigger that is asked, not before an instant."""
        try:
            found = self.triggers[0]._first_from(from_micros(moment, UTC))
        except OverflowError:
            return None
        return None if found is None else self._here(found)

    def _here(self, moment: datetime) -> datetime:
        zone = self._zone
        return moment if zone is None or moment.tzinfo is zone else moment.astimezone(zone)

    def _delay_until(self, nominal: datetime) -> datetime | None:
        times = [super()._delay_until(nominal), self.calendar.next_closed(self._here(nominal))]
        return min((time for time in times if time is not None), key=to_micros, default=None)

    def closed(self, moment: datetime) -> str:
        return self.calendar.why(self._here(moment))

    def starting_at(self, first: datetime) -> BaseTrigger:
        return self.with_children([self.triggers[0].starting_at(first)])

    def same_schedule_as(self, other: BaseTrigger) -> bool:
        return (
            isinstance(other, CalendarTrigger)
            and super().same_schedule_as(other)
            and (self.calendar, self.on_closed) == (other.calendar, other.on_closed)
        )

    def explain(self) -> str:
        return f"{self.triggers[0].explain()}, {_TOLD[self.on_closed]}; open: {self.calendar.explain()}"

    def definition(self) -> dict[str, Any]:
        return super().definition() | {"calendar": self.calendar, "on_closed": self.on_closed}

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"calendar": self.calendar, "on_closed": self.on_closed}

    def __setstate__(self, state: Any) -> None:
        state = current_state(type(self), state, 1)
        children = [unpacked(child) for child in state["triggers"]]
        self.set_up(children, state["jitter"], state["calendar"], state["on_closed"])

    def __str__(self) -> str:
        return f"calendar[{self.triggers[0]}, {self.on_closed}, {self.calendar.explain()}]"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} ({self.triggers[0]!r}, {self.calendar!r}, on_closed={self.on_closed!r})>"


def calendar_of(value: object) -> Calendar:
    """Return the calendar that is given, or that has the name that is given."""
    if isinstance(value, Calendar):
        return value
    if isinstance(value, str):
        return Named(value)
    message = f"calendar must be a calendar or the name of one, got {shown(value)}"
    raise InvalidArgument(message, field="calendar", value=value)


def on_calendar(trigger: BaseTrigger, options: Mapping[str, Any]) -> BaseTrigger:
    """Return a trigger on the ``calendar`` of the options, with their ``on_closed``; without one, as it is."""
    if options.get("calendar") is None:
        if options.get("on_closed") is not None:
            raise InvalidArgument("on_closed needs a calendar", field="on_closed", value=options["on_closed"])
        return trigger
    return CalendarTrigger(trigger, options["calendar"], options.get("on_closed") or "skip")


def zone_of(trigger: BaseTrigger) -> tzinfo | None:
    """Return the zone whose dates a trigger goes by; None if it cannot be told."""
    if isinstance(trigger, DateTrigger):
        return trigger.run_date.tzinfo
    if isinstance(trigger, BaseCombiningTrigger):
        return zone_of(trigger.triggers[0])
    zone = getattr(trigger, "timezone", None)
    return zone if isinstance(zone, tzinfo) else None
