"""Whether figures of a soak are flat is judged as said: by the slope of the second half, whatever single samples do."""

from __future__ import annotations

import json
import random
import xml.etree.ElementTree as ElementTree

import pytest
from soak_report import MIB, judge, report, share_of_firings, slope, table, verdict_of

#: Every ten seconds of an hour.
MINUTES = [number / 6 for number in range(1, 361)]
NOISE = random.Random(7)


def figure(name, value):
    return judge(name, [(minute, value(minute)) for minute in MINUTES])


def test_what_grows_by_a_little_all_the_time_is_found_in_the_noise():
    growing = figure("node-0 rss", lambda minute: 60 * MIB + minute * 0.2 * MIB + NOISE.uniform(0, 3 * MIB))
    assert growing.flat is False
    assert growing.slope == pytest.approx(12 * MIB, rel=0.3)


def test_what_grows_only_in_the_beginning_is_flat():
    assert figure("node-0 rss", lambda minute: MIB * min(60 + minute, 80) + NOISE.uniform(0, MIB)).flat


def test_a_jump_that_goes_away_is_no_growth():
    assert figure("table goscheduler_history", lambda minute: (90 if 50 < minute < 55 else 8) * MIB).flat


def test_what_goes_up_and_down_is_flat():
    assert figure("used_memory", lambda minute: (10 + minute % 1) * MIB).flat


@pytest.mark.parametrize("name", ["node-1 threads", "node-0 descriptors", "connections"])
def test_one_more_every_quarter_of_an_hour_is_growth(name):
    assert figure(name, lambda minute: 20 + minute // 15).flat is False
    assert figure(name, lambda minute: 20).flat


def test_a_table_may_grow_by_a_share_of_what_it_is():
    assert figure("table big", lambda minute: 1000 * MIB + minute * MIB).flat
    assert figure("table small", lambda minute: 10 * MIB + minute * MIB).flat is False


def test_what_has_no_bound_is_told_and_not_judged():
    late = figure("node-0 late p99 ms", lambda minute: minute)
    assert late.flat is None
    assert "late p99" in table([late])


def test_the_slope_of_few_points_is_none():
    assert slope([(1.0, 5.0)]) == 0.0


@pytest.mark.parametrize(
    ("grows", "share", "minutes", "verdict"),
    [
        (False, 1.0, 60, "FLAT"),
        (True, 1.0, 60, "NOT FLAT"),
        (True, 0.5, 60, "NOT FLAT"),
        (False, 0.5, 60, "FLAT AT LESS LOAD"),
        (False, 1.0, 5, "TOO SHORT"),
    ],
)
def test_the_verdict_takes_all_into_account(grows, share, minutes, verdict):
    figures = [figure("connections", lambda minute: 7), figure("keys", lambda minute: 900 * (1 + grows * minute))]
    assert verdict_of(figures, share, minutes) == verdict


def test_firings_are_compared_with_those_that_were_due():
    series = {f"node-{number} firings a second": [(minute, 45.0) for minute in MINUTES] for number in range(2)}
    assert share_of_firings(series, 100) == pytest.approx(0.9)


@pytest.mark.parametrize(("growth", "status", "told"), [(0, 0, "redis: FLAT"), (2, 1, "redis: NOT FLAT")])
def test_a_folder_of_samples_becomes_a_table_a_picture_and_a_status(tmp_path, capsys, growth, status, told):
    folder = tmp_path / "redis"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps({"rate": 10, "nodes": 1, "begun": 1000.0}))
    times = [1000.0 + 60 * minute for minute in MINUTES]
    samples = [{"t": time, "node-0 threads": 20 + growth * (time - 1000) // 600} for time in times]
    lines = [
        {"t": time, "pause_ms": 1.0, "begun": {"steady": 90, "message": 10, "retry": 4},
         "late": {"p50": 1.0, "p99": 2.0, "max": None}}
        for time in times
    ]  # fmt: skip
    (folder / "samples.jsonl").write_text("\n".join(map(json.dumps, samples)))
    (folder / "node-0.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert report(tmp_path) == status
    assert told in capsys.readouterr().out
    assert told in (tmp_path / "report.md").read_text()
    ElementTree.parse(tmp_path / "redis.svg")
