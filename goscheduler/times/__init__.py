"""Reading, converting and printing times, zones and lengths of time.

- ``micros``: moments as whole microseconds since 1970, which can be compared whatever their zones are
- ``zones``: time zones, and wall times that do not exist
- ``parsing``: what users and configuration files write
"""

from __future__ import annotations

from goscheduler.times.micros import (
    EPOCH,
    SECOND,
    UTC,
    datetime_ceil,
    datetime_repr,
    datetime_to_utc_timestamp,
    datetime_utc_add,
    from_micros,
    micros_of,
    timedelta_seconds,
    to_micros,
    utc_timestamp,
    utc_timestamp_to_datetime,
)
from goscheduler.times.parsing import (
    asdate,
    convert_to_datetime,
    parse_duration,
    parse_number,
)
from goscheduler.times.zones import (
    astimezone,
    first_instant_at,
    in_standard_zone,
    local_timezone,
    localize,
    normalize,
    standard_zone,
    timezone_repr,
    zone_name,
)

__all__ = [
    "EPOCH",
    "SECOND",
    "UTC",
    "asdate",
    "astimezone",
    "convert_to_datetime",
    "datetime_ceil",
    "datetime_repr",
    "datetime_to_utc_timestamp",
    "datetime_utc_add",
    "first_instant_at",
    "from_micros",
    "in_standard_zone",
    "local_timezone",
    "localize",
    "micros_of",
    "normalize",
    "parse_duration",
    "parse_number",
    "standard_zone",
    "timedelta_seconds",
    "timezone_repr",
    "to_micros",
    "utc_timestamp",
    "utc_timestamp_to_datetime",
    "zone_name",
]
