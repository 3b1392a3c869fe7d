"""Calendars: when something is open, such as working days and opening hours.

Calendars are values: ``Weekdays("mon-fri") - Holidays("DE", subdiv="BY")``. Two of them are combined by ``|`` (where
either is open), ``&`` (where both are) and ``-`` (where the first is open and the second is not).
"""

from __future__ import annotations

from goscheduler.calendars.base import Calendar, DayCalendar
from goscheduler.calendars.dates import Dates
from goscheduler.calendars.holiday import Holidays
from goscheduler.calendars.hours import Hours
from goscheduler.calendars.named import Named, UnknownCalendar
from goscheduler.calendars.weekdays import Weekdays

__all__ = ["Calendar", "Dates", "DayCalendar", "Holidays", "Hours", "Named", "UnknownCalendar", "Weekdays"]
