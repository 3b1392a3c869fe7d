"""The calendar: cells of a map, clock changes, forecasts that are kept. The playground: what typed schedules mean."""

from __future__ import annotations

import re
import threading
from collections import Counter
from datetime import datetime, timedelta, timezone
from html import unescape
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_doubles import ADMIN, OPERATOR

from goscheduler.errors import InvalidArgument
from goscheduler.ops.access import Principal, Role
from goscheduler.ops.source import Source
from goscheduler.web.pages.forecasts import KEPT, Forecasts
from goscheduler.web.pages.heatmap import LEVELS, WIDTH, Load, day_map, level_of, loads_of, scale_of, short, week_map
from goscheduler.web.pages.payloads import MOST_CHARACTERS, dump, preview_of
from goscheduler.web.pages.schedule_text import cli_of, python_of, typed
from goscheduler.web.site import Site

BERLIN = ZoneInfo("Europe/Berlin")
A_MINUTE = 60.0


def hours_from(start, number, length=timedelta(hours=1)):
    """Return loads one after the other, whatever the clock on the wall does."""
    first = start.astimezone(timezone.utc)
    starts = [(first + index * length).astimezone(start.tzinfo) for index in range(number + 1)]
    return [
        Load(each, index, each.utcoffset() != starts[index + 1].utcoffset()) for index, each in enumerate(starts[:-1])
    ]  # fmt: skip


# The map


def test_a_day_has_a_column_for_each_hour_and_a_row_for_each_part_of_it():
    start = datetime(2026, 5, 4, 22, tzinfo=BERLIN)
    found = day_map(hours_from(start, 144, timedelta(minutes=10)))
    assert [label.text for label in found.columns][:4] == ["22", "23", "00", "01"]
    assert [label.text for label in found.rows] == [":00", ":10", ":20", ":30", ":40", ":50"]
    assert found.cells[0].x < found.cells[6].x
    assert found.cells[0].y < found.cells[1].y
    assert found.cells[6].title == "Mon 04 May 23:00: 6 firings"


@pytest.mark.parametrize(
    ("day", "number", "twice", "missing"), [((2026, 10, 24), 49, 2, None), ((2026, 3, 28), 47, None, 2)],
    ids=["autumn", "spring"],
)  # fmt: skip
def test_a_week_has_a_place_for_each_hour_of_the_clock_two_cells_for_one_that_is_repeated(day, number, twice, missing):
    found = week_map(hours_from(datetime(*day, tzinfo=BERLIN), number))
    turning = [label for label in found.rows if label.turns]
    assert len(turning) == 1
    on_that_day = [cell for cell in found.cells if cell.title.startswith(turning[0].text)]
    hours = Counter(datetime.fromisoformat(cell.at).hour for cell in on_that_day)
    assert hours[2] == (2 if twice else 0)
    assert hours[5] == 1
    if twice:
        first, second = (cell for cell in on_that_day if datetime.fromisoformat(cell.at).hour == 2)
        assert first.x + first.width < second.x
    assert sum(cell.turns for cell in found.cells) == 1
    assert "the clock is changed" in next(cell.title for cell in found.cells if cell.turns)


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=170))
def test_cells_stay_in_the_frame_and_do_not_overlap(values):
    loads = [each._replace(firings=value) for each, value in
             zip(hours_from(datetime(2026, 5, 4, 7, tzinfo=BERLIN), len(values)), values, strict=True)]  # fmt: skip
    for found in (week_map(loads), day_map(loads, 60)):
        assert len({(cell.x, cell.y) for cell in found.cells}) == len(values)
        for cell in found.cells:
            assert 0 <= cell.level <= LEVELS
            assert (cell.level == 0) == (cell.text == "")
            assert cell.y + cell.height <= found.height
            if found is not None and len(values) <= 24:
                assert cell.x + cell.width <= WIDTH
        assert found.total == sum(values)


@given(st.lists(st.integers(1, 10**6), min_size=1))
def test_the_most_is_strongest_and_more_is_never_weaker(values):
    scale = scale_of(values)
    levels = [level_of(value, scale) for value in sorted(values)]
    assert levels == sorted(levels)
    assert levels[-1] == LEVELS


def test_a_small_difference_shows_where_all_is_much_the_same():
    scale = scale_of([591] * 100 + [653])
    assert level_of(591, scale) < level_of(653, scale)


@pytest.mark.parametrize(
    ("value", "text"), [(0, ""), (7, "7"), (9999, "9999"), (10_000, "10k"), (1_250_000, "1M"), (20_000_000, "20M")]
)
def test_a_count_has_room_in_its_cell(value, text):
    assert short(value) == text


def test_one_executor_is_told_apart_and_what_is_over_says_so():
    now = datetime(2026, 5, 4, 12, 30, tzinfo=timezone.utc)
    buckets = [
        {"start": f"2026-05-04T{hour}:00:00+00:00", "firings": 5, "by_executor": {"gpu": 2}, "clock_changes": False}
        for hour in ("11", "12")
    ]  # fmt: skip
    assert [load.firings for load in loads_of(buckets, "gpu", timedelta(hours=1), now)] == [2, 2]
    assert [load.firings for load in loads_of(buckets, "none", timedelta(hours=1), now)] == [0, 0]
    found = week_map(loads_of(buckets, "none", timedelta(hours=1), now))
    assert [cell.title.rpartition(": ")[2] for cell in found.cells] == ["has passed", "nothing fires"]


# Forecasts


class Counting:
    """A site whose operations count how often they are asked, and wait where a test wants it."""

    def __init__(self, scheduler):
        self.site = Site(Source(scheduler))
        self.asked, self.gate, self.error = 0, threading.Event(), None
        self.gate.set()
        self.site.operations = self

    def call(self, name, principal, arguments, *, via):
        self.asked += 1
        assert self.gate.wait(A_MINUTE)
        if self.error is not None:
            raise self.error
        return {"number": self.asked}


def test_a_forecast_is_made_once_a_minute_however_many_ask(empty):
    counting = Counting(empty)
    forecasts = Forecasts(counting.site)
    assert [forecasts.of(ADMIN, {}, A_MINUTE).view["number"] for _ in range(5)] == [1] * 5
    empty.clock.advance(timedelta(seconds=KEPT + 1))
    counting.gate.clear()
    assert forecasts.of(ADMIN, {}, A_MINUTE).view["number"] == 1  # the old one, while another is made
    counting.gate.set()
    forecasts._pool.shutdown()
    assert forecasts.of(ADMIN, {}, A_MINUTE).view["number"] == 2


def test_nobody_waits_long_and_nobody_sees_the_forecast_of_another_scope(empty):
    counting = Counting(empty)
    forecasts = Forecasts(counting.site)
    counting.gate.clear()
    assert forecasts.of(ADMIN, {}, 0) is None
    assert forecasts.of(ADMIN, {}, 0) is None
    counting.gate.set()
    assert forecasts.of(ADMIN, {}, A_MINUTE).view["number"] == 1
    scoped = Principal("sam", Role.VIEWER, tags=frozenset({"billing"}))
    assert forecasts.of(scoped, {}, A_MINUTE).view["number"] == 2


def test_a_forecast_that_fails_says_so_to_whoever_asked_and_is_made_again(empty):
    counting = Counting(empty)
    forecasts = Forecasts(counting.site)
    counting.error = ValueError("broken")
    with pytest.raises(ValueError, match="broken"):
        forecasts.of(ADMIN, {}, A_MINUTE)
    counting.error = None
    assert forecasts.of(ADMIN, {}, A_MINUTE).view["number"] == 2


def shown(browser, path):
    """Return the calendar once its forecast is made; each request waits a while for it."""
    for _ in range(60):
        answer = browser.get(path)
        assert answer.status_code == 200
        if "Busiest" in answer.text:
            return answer.text
        assert answer.headers["refresh"]
    raise AssertionError("there is no forecast after a minute")


@pytest.mark.parametrize("span", ["24h", "7d"])
def test_a_cell_of_the_calendar_leads_to_its_jobs(full, client, span):
    browser = client(full)
    text = shown(browser, f"/calendar?span={span}")
    cells = [unescape(link) for link in re.findall(r'href="(/calendar\?[^"#]*at=[^"#]*)', text)]
    assert cells
    listed = shown(browser, cells[-1])
    assert 'id="cell"' in listed
    assert "/jobs/failing" in listed or "/jobs/plain" in listed
    assert browser.get("/calendar?at=whenever").status_code == 422


def test_a_calendar_is_read_in_the_zone_that_was_chosen_and_marks_the_change_of_the_clock(full, client):
    full.clock.set(datetime(2026, 10, 24, 12, tzinfo=timezone.utc))
    browser = client(full)
    browser.cookies.set("gs_zone", "Europe/Berlin")
    text = shown(browser, "/calendar?span=7d")
    assert "in Europe/Berlin" in text
    assert "the marked cell, that of Sun 25 Oct 02:00." in text
    assert "Sun 25 ±" in text


# The playground


@pytest.mark.parametrize(
    ("text", "kind"),
    [("30 2 * * *", "crontab"), ("@daily", "crontab"), ("every 5m", "every"), ("Every 1h 30m", "every"),
     ("2026-12-24 18:00", "date"), ('{"type": "date"}', "object")],
)  # fmt: skip
def test_a_text_is_taken_for_what_it_looks_like(text, kind):
    assert typed(text).kind == kind


def test_json_that_is_none_is_refused_by_name():
    with pytest.raises(InvalidArgument, match="JSON"):
        typed('{"type": ')


@pytest.mark.parametrize(
    ("text", "dialect", "end"),
    [
        ("30 2 * * 1", "vixie", "scheduler.add_job(task, CronTrigger.from_crontab('30 2 * * 1', 'Europe/Berlin'))"),
        ("30 2 * * 1", "apscheduler", "'Europe/Berlin', dialect='apscheduler'))"),
        ("*/5 30 2 * * 1", "vixie", "'Europe/Berlin', seconds=True))"),
        ("every 1h 30m", "vixie", "scheduler.add_job(task, 'interval', seconds=5400)"),
        ("2026-12-24 18:00", "vixie", "'date', run_date='2026-12-24 18:00', timezone='Europe/Berlin')"),
        ('{"type": "calendarinterval", "months": 1}', "vixie",
         "'calendarinterval', months=1, timezone='Europe/Berlin')"),
    ],
)  # fmt: skip
def test_a_program_says_the_same(text, dialect, end):
    code = python_of(typed(text), "Europe/Berlin", dialect)
    assert code.endswith(end)
    compile(code, "copied", "exec")


def test_a_shell_says_the_same_of_crontab_lines_alone():
    line = cli_of(typed("0 0 1 2 * mon"), "UTC", "apscheduler", 50)
    assert line == "goscheduler next '0 0 1 2 * mon' --tz UTC --count 50 --dialect apscheduler --seconds"
    assert cli_of(typed("every 5m"), "UTC", "vixie", 50) is None
    assert python_of(typed('{"type": "or", "triggers": []}'), "UTC", "vixie") is None
    assert python_of(typed('{"type": "date", "); evil(": 1}'), "UTC", "vixie") is None


def play(browser, **query):
    answer = browser.get("/playground", params={"zone": "Europe/Berlin", "after": "2026-03-27T00:00+01:00", **query})
    assert answer.status_code == 200
    return answer.text


def test_a_line_that_two_dialects_read_differently_is_shown_side_by_side(empty, client):
    browser = client(empty)
    text = play(browser, text="30 2 * * 1")
    assert "At 02:30 on every Monday" in text
    assert "at 02:30 on every Tuesday" in text
    assert "No time below is the same" in text
    assert "reads it in the same way" in play(browser, text="30 2 * * *")
    assert "of these times are the same" in play(browser, text="0 9 1 * mon")
    assert "does not read it" in play(browser, text="0 9 * * 7")


def test_fifty_times_are_shown_and_the_change_of_the_clock_is_marked(empty, client):
    text = play(client(empty), text="30 2 * * *")
    assert text.count("Sun 2026-03-29 03:30:00") + text.count("Sun 2026-03-29 02:30:00") <= 1
    assert len(re.findall(r"\b20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", text)) == 50
    assert "clock change, now +02:00" in text


def test_an_admin_takes_a_schedule_from_the_playground_to_a_job(full, client):
    assert "Compare with its" in play(client(full), text="30 2 * * *")
    assert "Compare with its" not in play(client(full, OPERATOR), text="30 2 * * *")
    assert "Compare with its" not in play(client(full), text="30 2 * * 1", dialect="apscheduler")
    compared = client(full).get("/act/edit", params={"id": "plain", "trigger": "30 2 * * *"})
    assert (compared.status_code, "at 02:30 every day" in compared.text) == (200, True)


@pytest.mark.parametrize(
    "text",
    ["99 * * * *", "0 0 1--100000000 * *", "{", "every never", "2026-13-01 00:00", '{"type": "os.system"}', "x" * 999],
)
def test_what_is_no_schedule_is_told_beside_the_form(empty, client, text):
    answer = client(empty).get("/playground", params={"text": text})
    assert (answer.status_code, 'class="notice bad"' in answer.text) == (200, True)


# Payloads


@pytest.mark.parametrize(
    ("payload", "is_base64", "kind", "text"),
    [
        ('{"a": 1}', False, "JSON", '{\n  "a": 1\n}'), ("[1", False, "text", "[1"), ("", False, "empty", ""),
        ("•••", False, "hidden", "•••"), ("aGk=", True, "bytes", "00000000  68 69" + " " * 44 + "hi"),
        ("17", False, "text", "17"),
    ],
)  # fmt: skip
def test_a_payload_is_shown_as_what_it_is(payload, is_base64, kind, text):
    found = preview_of(payload, is_base64)
    assert (found.kind, found.text.rstrip()) == (kind, text)


@given(st.binary(max_size=200))
def test_a_dump_has_every_byte(content):
    lines = dump(content).splitlines()
    assert b"".join(bytes.fromhex(line[10:57]) for line in lines) == content


def test_of_a_long_payload_the_beginning_is_shown():
    for payload, is_base64 in (("x" * 200_000, False), ("[" * 200_000, False), ("QUJD" * 100_000, True)):
        found = preview_of(payload, is_base64)
        assert (len(found.text) <= MOST_CHARACTERS, found.cut) == (True, True)
