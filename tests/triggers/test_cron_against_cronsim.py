"""The crontab dialect against cronsim, which follows Debian's cron."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim
from hypothesis import assume, given
from hypothesis import strategies as st

from goscheduler.errors import NeverFires
from goscheduler.triggers.cron import CronTrigger

MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]


def _items(lowest: int, highest: int) -> st.SearchStrategy[str]:
    number = st.integers(lowest, highest)
    return st.one_of(
        number.map(str),
        st.integers(1, highest - lowest).map("*/{}".format),
        st.tuples(number, number).filter(lambda pair: pair[0] < pair[1]).flatmap(_ranges),
        number.filter(lambda first: first < highest).flatmap(
            lambda first: st.integers(1, highest - first).map(lambda step: f"{first}/{step}")
        ),
    )


def _ranges(pair: tuple[int, int]) -> st.SearchStrategy[str]:
    first, last = pair
    stepped = st.integers(1, last - first).map(lambda step: f"{first}-{last}/{step}")
    return st.one_of(st.just(f"{first}-{last}"), stepped)


def _field(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(st.just("*"), st.lists(items, min_size=1, max_size=4).map(",".join))


LINES = st.tuples(
    _field(_items(0, 59)),
    _field(_items(0, 23)),
    _field(st.one_of(_items(1, 31), st.just("L"))),
    _field(st.one_of(_items(1, 12), st.sampled_from(MONTHS))),
    _field(
        st.one_of(
            _items(0, 6),
            st.just("7"),
            st.sampled_from(WEEKDAYS),
            st.builds("{}#{}".format, st.integers(0, 7), st.integers(1, 5)),
            st.integers(0, 7).map("{}L".format),
        )
    ),
).map(" ".join)


def _ours(line: str, zone: timezone | ZoneInfo, start: datetime, n: int) -> list[datetime]:
    try:
        trigger = CronTrigger.from_crontab(line, zone)
    except NeverFires:
        return []
    return trigger.preview(n, after=start + timedelta(seconds=1))


@given(line=LINES, days=st.integers(0, 20_000), minutes=st.integers(0, 1439))
def test_a_crontab_line_fires_in_utc_when_cronsim_says(line: str, days: int, minutes: int) -> None:
    start = datetime(1990, 1, 1, tzinfo=timezone.utc) + timedelta(days=days, minutes=minutes)
    # cronsim refuses dates that no month has when it reads the line, and gives up after 50 years.
    ours = _ours(line, timezone.utc, start, 6)
    assume(ours and ours[-1].year - start.year < 40)
    assert ours == list(islice(CronSim(line, start), 6))


@given(line=LINES, zone=st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]))
def test_a_crontab_line_fires_in_a_zone_when_cronsim_says_away_from_clock_changes(line: str, zone: str) -> None:
    start = datetime(2026, 5, 1, 12, tzinfo=ZoneInfo(zone))
    ours = [moment for moment in _ours(line, ZoneInfo(zone), start, 40) if moment.month in (5, 6, 7, 8)]
    assume(ours and ours[-1].year == 2026)
    assert ours == list(islice(CronSim(line, start), len(ours)))
