"""A trigger of your own for sunrise and sunset: plain arithmetic, right to within a few minutes.

Where the sun does not set on a day, that day is left out.
"""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from goscheduler.triggers.base import BaseTrigger

UTC = timezone.utc
NOON_2000 = datetime(2000, 1, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
#: The sun has risen when its upper edge is on the horizon, as the air bends its light.
ALTITUDE = math.radians(-0.833)
TILT = math.radians(23.44)


class SunTrigger(BaseTrigger):
    """Fires at ``event``, "sunrise" or "sunset", at a place, ``offset`` later."""

    def __init__(
        self, event: str, latitude: float, longitude: float, zone: str = "UTC", offset: timedelta = timedelta(0)
    ) -> None:
        if event not in ("sunrise", "sunset"):
            raise ValueError(f"event must be sunrise or sunset, got {event!r}")
        if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
            raise ValueError(f"there is no place at latitude {latitude}, longitude {longitude}")
        self.event, self.latitude, self.longitude = event, latitude, longitude
        self.timezone, self.offset = ZoneInfo(zone), offset

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        earliest = now if previous_fire_time is None else previous_fire_time + timedelta(microseconds=1)
        day = (earliest - self.offset).astimezone(UTC).date() - DAY
        for _ in range(400):  # the polar night is shorter
            moment = self.on(day)
            if moment is not None and moment + self.offset >= earliest:
                return (moment + self.offset).astimezone(self.timezone)
            day += DAY
        return None

    def on(self, day: date) -> datetime | None:
        """Return when it happens in the solar day around noon of a date, None if it does not."""
        turns = (day - NOON_2000.date()).days - self.longitude / 360
        anomaly = math.radians((357.5291 + 0.98560028 * turns) % 360)
        centre = 1.9148 * math.sin(anomaly) + 0.02 * math.sin(2 * anomaly) + 0.0003 * math.sin(3 * anomaly)
        along = anomaly + math.radians(centre + 180 + 102.9372)
        noon = turns + 0.0053 * math.sin(anomaly) - 0.0069 * math.sin(2 * along)
        declination = math.asin(math.sin(along) * math.sin(TILT))
        place = math.radians(self.latitude)
        height = math.sin(ALTITUDE) - math.sin(place) * math.sin(declination)
        share = height / max(math.cos(place) * math.cos(declination), 1e-12)
        if abs(share) > 1:
            return None
        half_day = math.degrees(math.acos(share)) / 360
        found = NOON_2000 + timedelta(days=noon + (half_day if self.event == "sunset" else -half_day))
        return found.replace(second=0, microsecond=0)

    def explain(self) -> str:
        return f"at {self.event} at {self.latitude:g}, {self.longitude:g}"


lamps = SunTrigger("sunset", 52.52, 13.405, "Europe/Berlin")
print(lamps.explain())
for after in (date(2026, 3, 20), date(2026, 6, 21), date(2026, 12, 21)):
    print(*(f"{moment:%d %b %H:%M %Z}" for moment in lamps.preview(1, datetime(*after.timetuple()[:3], tzinfo=UTC))))
north = SunTrigger("sunset", 69.65, 18.96, "Europe/Oslo")
print("after the polar day:", f"{north.preview(1, datetime(2026, 6, 1, tzinfo=UTC))[0]:%b}")
