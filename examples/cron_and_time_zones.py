"""Explain a crontab line and preview its times before a job depends on it, even across a clock change."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from goscheduler import CronTrigger

berlin = ZoneInfo("Europe/Berlin")

weekdays = CronTrigger.from_crontab("0 9 * * 1-5", timezone=berlin)
print(weekdays.explain())
for moment in weekdays.preview(3, after=datetime(2026, 1, 2, 12, 0, tzinfo=berlin)):
    print(f"  {moment:%a %Y-%m-%d %H:%M %Z}")

# In the night of 29 March 2026 there is no 02:30 in Berlin: that run happens at the first instant after the gap.
nightly = CronTrigger(hour=2, minute=30, timezone=berlin)
print(nightly.explain())
for moment in nightly.preview(3, after=datetime(2026, 3, 28, 0, 0, tzinfo=berlin)):
    print(f"  {moment:%a %Y-%m-%d %H:%M %Z}")
