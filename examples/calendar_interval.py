"""Every so many months or years at a time of day: calendar steps, where an interval would count hours."""

from __future__ import annotations

from datetime import datetime, timezone

from goscheduler import CalendarIntervalTrigger

rent = CalendarIntervalTrigger(months=1, hour=8, start_date="2026-01-31", timezone="UTC")
print(rent.explain())

# Months without a 31st are left out rather than moved.
for moment in rent.preview(4, after=datetime(2026, 1, 1, tzinfo=timezone.utc)):
    print(f"  {moment:%Y-%m-%d %H:%M}")
