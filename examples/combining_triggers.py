"""``AndTrigger`` fires when all its triggers do, ``OrTrigger`` when any does."""

from __future__ import annotations

from datetime import datetime, timezone

from goscheduler import AndTrigger, CronTrigger, OrTrigger

after = datetime(2026, 1, 1, tzinfo=timezone.utc)

friday_the_13th = AndTrigger([
    CronTrigger(day=13, timezone="UTC"),
    CronTrigger(day_of_week="fri", timezone="UTC"),
])
print(friday_the_13th.explain())
for moment in friday_the_13th.preview(3, after=after):
    print(f"  {moment:%a %Y-%m-%d}")

late_on_mondays = OrTrigger([
    CronTrigger(day_of_week="tue-fri", hour=7, timezone="UTC"),
    CronTrigger(day_of_week="mon", hour=9, timezone="UTC"),
])
print(late_on_mondays.explain())
for moment in late_on_mondays.preview(3, after=after):
    print(f"  {moment:%a %Y-%m-%d %H:%M}")
