"""Named limits: what may be given, how starts in a sliding window are counted, and what a ledger lets through."""

from __future__ import annotations

import copy
import json
import pickle
from collections import Counter
from datetime import datetime, timedelta, timezone
from itertools import count

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from goscheduler.errors import InvalidArgument
from goscheduler.runs.limits import BUCKETS, MOST_LIMITS, MOST_RUNS, MOST_WINDOWS, Ledger, Limit, Obstacle, limits_of

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
HUGE = pytest.param(10**400, id="huge")
MICROSECOND = timedelta(microseconds=1)


def after(seconds):
    return NOW + timedelta(seconds=seconds)


def started(ledger, limits, moment):
    """Start a run if the ledger lets it; tell whether it did."""
    if ledger.obstacle(limits, moment) is not None:
        return False
    ledger.take(limits, moment)
    return True


def reloaded(ledger, live=None):
    """Return a ledger made from what this one would have a store write."""
    return Ledger(live or {}, json.loads(json.dumps(ledger.changed)))


# What a limit may be


@pytest.mark.parametrize(("rate", "per", "kept"), [
    ("100/1m", (100, 60.0), "100/1m"),
    ("100/m", (100, 60.0), "100/1m"),
    ("5/s", (5, 1.0), "5/1s"),
    ("1/30s", (1, 30.0), "1/30s"),
    ("10/2h", (10, 7200.0), "10/2h"),
    ("10/h", (10, 3600.0), "10/1h"),
    ("7/1d", (7, 86_400.0), "7/1d"),
    ("7/31d", (7, 2_678_400.0), "7/31d"),
    ("7/4w", (7, 2_419_200.0), "7/4w"),
    ("3/1h30m", (3, 5400.0), "3/1h30m"),
    ("3/1.5s", (3, 1.5), "3/1.5s"),
    ("3/1000ms", (3, 1.0), "3/1000ms"),
    (" 007 / 1M ", (7, 60.0), "7/1m"),
    (f"{MOST_RUNS}/s", (MOST_RUNS, 1.0), f"{MOST_RUNS}/1s"),
])  # fmt: skip
def test_a_rate_is_a_count_and_a_window(rate, per, kept) -> None:
    limit = Limit("api", rate=rate)
    assert (limit.per, limit.rate) == (per, kept)
    assert Limit("api", rate=kept) == limit


@pytest.mark.parametrize("rate", [
    "", "/", "100", "100/", "/1m", "0/1m", "-1/1m", "+1/1m", "1.5/1m", "1e3/1m", "1_000/1m", "x/1m", "٣/1m", "²/1m",
    "100/1m/2", "100/-1m", "100/1 fortnight", "100/60", "100/1", "100/0s", "100/500ms", "100/0.999999s", "100/32d",
    "100/31d1us", "100/²s", "100/٣s", f"{MOST_RUNS + 1}/s", "9" * 5000 + "/s", "1/" + "1s" * 5000, "100 per minute",
    100, 1.5, (100, 60), True, b"100/1m", timedelta(minutes=1), ["100/1m"],
], ids=lambda rate: repr(rate)[:20])  # fmt: skip
def test_a_rate_that_makes_no_sense_is_refused(rate) -> None:
    with pytest.raises(InvalidArgument, match="rate must be") as caught:
        Limit("api", rate=rate)
    assert caught.value.field == "rate"
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize("concurrency", [0, -1, 1.0, 2.5, "5", True, False, MOST_RUNS + 1, HUGE, [1], float("nan"), 1j])
def test_a_concurrency_that_is_no_whole_number_above_zero_is_refused(concurrency) -> None:
    with pytest.raises(InvalidArgument, match="concurrency must be a whole number from 1") as caught:
        Limit("mail", concurrency=concurrency)
    assert caught.value.field == "concurrency"


@pytest.mark.parametrize(
    "name", ["", None, 5, b"mail", ["mail"], "a\nb", "a\x00b", "\x1b[2J", "a\u202eb", "a\u2028b", "\ud800", "x" * 256]
)
def test_a_name_that_not_every_store_and_terminal_can_take_is_refused(name) -> None:
    with pytest.raises(InvalidArgument, match="name must be") as caught:
        Limit(name, concurrency=1)
    assert caught.value.field == "name"
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["mail", "x" * 255, "Grüße an alle", "メール", "a b/c:d", "✉"])
def test_a_printable_name_of_up_to_255_characters_is_taken(name) -> None:
    assert Limit(name, concurrency=1).name == name


def test_a_limit_that_limits_nothing_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="Limit 'mail' limits nothing; give concurrency or rate"):
        Limit("mail")


def test_a_limit_is_a_value_that_survives_copying_and_pickling() -> None:
    limit = Limit("api", 5, "100/1m")
    assert limit == Limit("api", concurrency=5, rate="100/m")
    assert hash(limit) == hash(Limit("api", 5, "100/1m"))
    assert len({limit, Limit("api", 5, "100/1m"), Limit("api", 5), Limit("api", 5, "99/1m"), Limit("mail", 5)}) == 4
    assert repr(limit) == "Limit(name='api', concurrency=5, rate='100/1m')"
    for twin in (copy.deepcopy(limit), pickle.loads(pickle.dumps(limit))):
        assert (twin, twin.per) == (limit, (100, 60.0))
    with pytest.raises(AttributeError):
        limit.concurrency = 6


def test_a_limit_without_a_rate_has_no_figures_for_one() -> None:
    assert Limit("mail", 5).per is None


# The option


MAIL, API = Limit("mail", concurrency=5), Limit("api", rate="100/1m")


@pytest.mark.parametrize(("given_", "limits"), [
    (None, ()),
    ((), ()),
    ([], ()),
    (MAIL, (MAIL,)),
    ([MAIL], (MAIL,)),
    ((MAIL, API), (API, MAIL)),
    ([API, MAIL], (API, MAIL)),
    ({MAIL, API}, (API, MAIL)),
])  # fmt: skip
def test_the_option_takes_none_or_one_or_several_and_keeps_them_by_name(given_, limits) -> None:
    assert limits_of(given_) == limits


def test_the_option_takes_a_generator() -> None:
    assert limits_of(limit for limit in (MAIL, API)) == (API, MAIL)


@pytest.mark.parametrize(
    "value", ["mail", b"mail", 5, True, {"mail": 5}, {}, [MAIL, "api"], [None], [[MAIL]], object(), Limit]
)
def test_an_option_that_holds_no_limits_is_refused(value) -> None:
    with pytest.raises(InvalidArgument, match="limits must be a Limit or a collection of them, got ") as caught:
        limits_of(value)
    assert caught.value.field == "limits"


def test_two_limits_of_one_name_on_a_job_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="limits must be of different names") as caught:
        limits_of([MAIL, Limit("mail", rate="1/s")])
    assert caught.value.field == "limits"


def test_an_endless_supply_of_limits_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=f"limits must be at most {MOST_LIMITS}"):
        limits_of(Limit(f"limit {number}", 1) for number in count())


# Concurrency


def test_a_run_over_the_concurrency_waits_until_another_has_ended() -> None:
    ledger = Ledger(live={"mail": 4})
    limits = (MAIL,)
    assert ledger.obstacle(limits, NOW) is None
    ledger.take(limits, NOW)
    assert ledger.obstacle(limits, NOW) == Obstacle("mail", None, 'limit "mail" is full: 5 of 5 are running')
    ledger.give_back(limits)
    assert ledger.obstacle(limits, NOW) is None


def test_each_run_obeys_its_own_figure_against_the_count_of_all() -> None:
    narrow, wide = (Limit("mail", 3),), (Limit("mail", 5),)
    ledger = Ledger()
    assert [started(ledger, narrow, NOW) for _ in range(4)] == [True, True, True, False]
    assert [started(ledger, wide, NOW) for _ in range(3)] == [True, True, False]
    obstacle = ledger.obstacle(narrow, NOW)
    assert obstacle is not None
    assert obstacle.reason == 'limit "mail" is full: 5 of 3 are running'


def test_a_run_that_names_a_limit_only_for_its_rate_counts_as_live_too() -> None:
    ledger = Ledger()
    ledger.take((Limit("mail", rate="100/1m"),), NOW)
    assert ledger.obstacle((Limit("mail", 1),), NOW) is not None


def test_limits_of_other_names_are_not_touched() -> None:
    ledger = Ledger()
    ledger.take((Limit("mail", 1, "1/1m"),), NOW)
    assert ledger.obstacle((Limit("post", 1, "1/1m"),), NOW) is None


def test_more_given_back_than_taken_leaves_nothing_and_no_credit() -> None:
    ledger = Ledger(live={"mail": 1})
    for _ in range(3):
        ledger.give_back((Limit("mail", 1),))
    assert [started(ledger, (Limit("mail", 1),), NOW) for _ in range(2)] == [True, False]


def test_giving_back_a_run_does_not_give_back_its_start() -> None:
    limits = (Limit("api", 1, "1/1m"),)
    ledger = Ledger()
    ledger.take(limits, NOW)
    ledger.give_back(limits)
    obstacle = ledger.obstacle(limits, NOW)
    assert obstacle is not None
    assert obstacle.reason == 'limit "api" allows 1 in 1m'


# Rates


def test_a_run_over_the_rate_is_told_when_to_look_again() -> None:
    limits = (Limit("api", rate="2/1m"),)
    ledger = Ledger()
    assert [started(ledger, limits, after(second)) for second in (0.5, 10.5, 20.5)] == [True, True, False]
    assert ledger.obstacle(limits, after(20.5)) == Obstacle("api", after(61), 'limit "api" allows 2 in 1m')
    assert ledger.obstacle(limits, after(61) - MICROSECOND) is not None
    assert [started(ledger, limits, after(second)) for second in (61, 61, 70.999, 71)] == [True, False, False, True]


def test_a_smaller_figure_waits_until_enough_starts_have_left_the_window() -> None:
    ledger = Ledger()
    for second in range(5):
        ledger.take((Limit("api", rate="100/1m"),), after(second))
    for most, opens in ((5, 61), (4, 62), (2, 64), (1, 65)):
        obstacle = ledger.obstacle((Limit("api", rate=f"{most}/1m"),), after(30))
        assert obstacle is not None
        assert obstacle.until == after(opens)
    assert ledger.obstacle((Limit("api", rate="6/1m"),), after(30)) is None


def test_asking_changes_nothing_whatever_the_moment() -> None:
    limits = (Limit("api", rate="1/1m"),)
    ledger = Ledger()
    ledger.take(limits, NOW)
    before = ledger.changed
    assert ledger.obstacle(limits, after(3600)) is None
    assert ledger.obstacle(limits, after(1)) is not None
    assert ledger.obstacle((Limit("api", rate="1/1h"),), after(1)) is not None
    assert ledger.changed == before


def test_a_run_blocked_by_one_limit_takes_nothing_from_the_others() -> None:
    both = (Limit("api", rate="1/1m"), Limit("mail", 1))
    ledger = Ledger(live={"mail": 1})
    assert not started(ledger, both, NOW)
    assert started(ledger, both[:1], NOW)
    ledger.give_back((Limit("mail", 1),))
    assert not started(ledger, both, after(1))
    assert started(ledger, both[1:], after(1))


def test_a_moment_without_a_zone_is_refused_before_anything_is_counted() -> None:
    ledger = Ledger()
    with pytest.raises(TypeError):
        ledger.take((Limit("mail", 1, "1/1m"),), datetime(2026, 1, 1))
    assert ledger.changed == {}
    assert ledger.obstacle((Limit("mail", 1, "1/1m"),), NOW) is None


def test_only_names_that_were_taken_from_are_written() -> None:
    ledger = Ledger(rates={"old": ((60_000_000, ((1, 1),)),)})
    assert ledger.changed == {}
    ledger.take((Limit("api", rate="2/1m"), Limit("mail", 5)), after(0.5))
    assert ledger.changed == {"api": ((60_000_000, ((int(NOW.timestamp()), 1),)),)}


def test_a_ledger_made_from_another_goes_on_from_its_starts_however_often() -> None:
    limits = (Limit("api", 1, "1/1m"),)
    ledger = Ledger()
    ledger.take(limits, NOW)
    heir = Ledger(rates=Ledger(rates=ledger.rates).rates)
    assert heir.changed == {}
    assert heir.obstacle(limits, NOW) == Obstacle("api", after(61), 'limit "api" allows 1 in 1m')


def test_a_start_without_a_rate_of_its_own_counts_for_those_that_have_one() -> None:
    ledger = Ledger()
    ledger.take((Limit("api", rate="2/1m"),), NOW)
    ledger = reloaded(ledger)
    ledger.take((Limit("api", concurrency=5),), NOW)
    assert ledger.obstacle((Limit("api", rate="2/1m"),), NOW) is not None
    assert reloaded(ledger).obstacle((Limit("api", rate="2/1m"),), NOW) is not None


MOMENTS = st.integers(0, 4_000_000)
LENGTHS = st.sampled_from(["1s", "1.000007s", "2s", "1.7s"])


@given(st.integers(1, 6), LENGTHS, st.lists(MOMENTS, max_size=80), st.booleans())
@example(1, "1s", [0, 1_000_000], False)
@example(2, "1s", [16_000, 1_000_100, 1_000_200], False)
@example(1, "1.000007s", [16_666, 1_016_673], True)
def test_no_window_ever_holds_more_starts_than_the_rate_allows(most, length, moments, by_way_of_a_store) -> None:
    limit = Limit("api", rate=f"{most}/{length}")
    window = timedelta(seconds=limit.per[1])
    ledger, log = Ledger(), []
    for microseconds in sorted(moments):
        moment = NOW + timedelta(microseconds=microseconds)
        recent = [start for start in log if start >= moment - window]
        if len(recent) >= most:
            assert ledger.obstacle((limit,), moment) is not None
        elif started(ledger, (limit,), moment):
            log.append(moment)
            ledger = reloaded(ledger) if by_way_of_a_store else ledger


@given(st.integers(1, 6), LENGTHS, st.lists(MOMENTS, max_size=80))
def test_nothing_is_held_up_by_starts_that_are_more_than_a_bucket_out_of_the_window(most, length, moments) -> None:
    limit = Limit("api", rate=f"{most}/{length}")
    reach = timedelta(seconds=limit.per[1]) * (BUCKETS + 1) / BUCKETS + MICROSECOND
    ledger, log = Ledger(), []
    for microseconds in sorted(moments):
        moment = NOW + timedelta(microseconds=microseconds)
        if started(ledger, (limit,), moment):
            log.append(moment)
        else:
            assert len([start for start in log if start >= moment - reach]) >= most


@given(st.integers(1, 40), st.sampled_from(["1s", "1.000007s", "1m", "7m", "1h", "31d"]), st.data())
def test_a_stream_that_looks_again_when_told_to_loses_one_bucket_a_window_at_most(most, length, data) -> None:
    limit = Limit("api", rate=f"{most}/{length}")
    window = timedelta(seconds=limit.per[1])
    moment = NOW + timedelta(microseconds=data.draw(st.integers(0, 10**9)))
    ledger, log = Ledger(), []
    while len(log) < 4 * most:
        obstacle = ledger.obstacle((limit,), moment)
        if obstacle is None:
            ledger.take((limit,), moment)
            log.append(moment)
            moment += MICROSECOND * data.draw(st.integers(0, 3))
        else:
            assert obstacle.until > moment
            assert ledger.obstacle((limit,), obstacle.until - MICROSECOND) is not None
            moment = obstacle.until
    most_time = window * (BUCKETS + 2) / BUCKETS + timedelta(milliseconds=1)
    assert all(later - start <= most_time for start, later in zip(log, log[most:], strict=False))
    assert all(later - start > window for start, later in zip(log, log[most:], strict=False))


@given(LENGTHS, st.lists(st.integers(-200_000, 4_000_000), min_size=1, max_size=300))
def test_the_state_stays_small_and_in_order_even_when_clocks_disagree(length, moments) -> None:
    limit = Limit("api", rate=f"{MOST_RUNS}/{length}")
    ledger = Ledger()
    for microseconds in moments:
        ledger.take((limit,), NOW + timedelta(microseconds=microseconds))
    ((_, buckets),) = ledger.changed["api"]
    numbers = [number for number, _ in buckets]
    assert len(buckets) <= BUCKETS + 1
    assert numbers == sorted(set(numbers))
    assert numbers[-1] - numbers[0] <= BUCKETS


def test_the_state_of_a_steady_stream_holds_one_window_and_one_bucket() -> None:
    ledger = Ledger()
    for second in range(200):
        ledger.take((Limit("api", rate="1000/1m"),), after(second))
    first = int(NOW.timestamp()) + 139
    assert ledger.changed == {"api": ((60_000_000, tuple((first + number, 1) for number in range(61))),)}


# Clocks that disagree


def test_a_start_ahead_of_this_clock_counts_and_so_does_one_behind_it() -> None:
    limits = (Limit("api", rate="2/1m"),)
    ledger = Ledger()
    assert started(ledger, limits, after(50))
    assert started(ledger, limits, after(0))
    assert ledger.obstacle(limits, after(0)) == Obstacle("api", after(111), 'limit "api" allows 2 in 1m')
    assert ledger.obstacle(limits, after(100)) is not None


@pytest.mark.parametrize(("rate", "counts", "forgotten"), [("2/1s", 59, 61), ("2/1m", 59, 62), ("2/1h", 3590, 3700)])
def test_starts_of_a_clock_that_was_far_ahead_are_forgotten(rate, counts, forgotten) -> None:
    limits = (Limit("api", rate=rate),)
    ahead, far_ahead = Ledger(), Ledger()
    for _ in range(2):
        ahead.take(limits, after(counts))
        far_ahead.take(limits, after(forgotten))
    assert ahead.obstacle(limits, NOW) is not None
    assert [started(far_ahead, limits, NOW) for _ in range(3)] == [True, True, False]
    assert far_ahead.obstacle(limits, after(4000)) is None


def test_starts_of_a_wrong_clock_do_not_hide_the_others() -> None:
    ledger = Ledger()
    ledger.take((Limit("api", rate="2/1d"),), NOW)
    ledger.take((Limit("api", rate="2/1d"),), after(86_400 * 0.9))
    assert ledger.obstacle((Limit("api", rate="1/1d"),), after(-86_400 * 0.2)) is not None
    assert ledger.obstacle((Limit("api", rate="2/1d"),), after(-86_400 * 0.2)) is None


# One name, several windows


def test_starts_are_shared_by_windows_of_different_length() -> None:
    minute, hour = (Limit("api", rate="2/1m"),), (Limit("api", rate="3/1h"),)
    ledger = Ledger()
    assert started(ledger, hour, after(0))
    assert started(ledger, minute, after(1))
    assert started(ledger, minute, after(100))
    assert not started(ledger, hour, after(3000))
    assert started(ledger, minute, after(3000))
    assert not started(reloaded(ledger), hour, after(3659))
    assert started(reloaded(ledger), hour, after(3660))


def test_a_window_that_is_new_under_its_name_begins_with_what_is_remembered() -> None:
    ledger = Ledger()
    for second in (0, 50, 55):
        ledger.take((Limit("api", rate="3/1m"),), after(second))
    assert ledger.obstacle((Limit("api", rate="3/2m"),), after(59)) is not None
    assert ledger.obstacle((Limit("api", rate="4/2m"),), after(59)) is None
    assert ledger.obstacle((Limit("api", rate="2/10s"),), after(59)) is not None
    assert ledger.obstacle((Limit("api", rate="2/1s"),), after(59)) is None
    ledger.take((Limit("api", rate="4/2m"),), after(59))
    assert not started(reloaded(ledger), (Limit("api", rate="4/2m"),), after(110))
    assert started(reloaded(ledger), (Limit("api", rate="4/2m"),), after(124))


def test_a_shorter_window_takes_starts_for_as_late_as_they_can_have_been() -> None:
    ledger = Ledger()
    ledger.take((Limit("api", rate="9/1h"),), after(59))
    assert ledger.obstacle((Limit("api", rate="1/10s"),), after(61)) is not None
    assert ledger.obstacle((Limit("api", rate="1/10s"),), after(71)) is None


def test_a_new_window_begins_with_what_the_longest_of_the_others_remembers() -> None:
    ledger = Ledger()
    ledger.take((Limit("api", rate="9/1h"),), after(0))
    ledger.take((Limit("api", rate="9/1m"),), after(300))
    assert ledger.obstacle((Limit("api", rate="2/10m"),), after(301)) is not None


def test_a_new_window_does_not_begin_with_starts_of_a_wrong_clock() -> None:
    ledger = Ledger()
    ledger.take((Limit("api", rate="1/1m"),), after(86_400))
    assert ledger.obstacle((Limit("api", rate="1/1h"),), NOW) is None


def test_windows_that_are_out_of_use_give_way_to_those_in_use() -> None:
    ledger = Ledger()
    for minutes in range(1, MOST_WINDOWS + 4):
        ledger.take((Limit("api", rate=f"100/{minutes}m"),), NOW)
    lengths = [length // 60_000_000 for length, _ in ledger.changed["api"]]
    assert lengths == list(range(MOST_WINDOWS + 3, 3, -1))


@given(st.lists(st.tuples(st.integers(0, 5_000_000), st.sampled_from(["2/1s", "4/2s", "3/1.7s"])), max_size=60))
def test_with_mixed_windows_each_run_still_obeys_its_own(starts) -> None:
    # Every window has been in use, so that each has seen everything.
    known = [Limit("api", rate=rate) for rate in ("2/1s", "4/2s", "3/1.7s")]
    ledger, log = Ledger(), []
    for limit in known:
        ledger.take((limit,), NOW)
        log.append(NOW)
    for microseconds, rate in sorted(starts):
        limit = Limit("api", rate=rate)
        moment = NOW + timedelta(microseconds=microseconds)
        if started(ledger, (limit,), moment):
            most, seconds = limit.per
            log.append(moment)
            assert len([start for start in log if start >= moment - timedelta(seconds=seconds)]) <= most


# The whole ledger against a plain model


LIMITS = [
    (Limit("a", 2),),
    (Limit("a", 3, "4/1s"),),
    (Limit("a", 2), Limit("b", rate="3/2s")),
    (Limit("a", rate="5/1s"), Limit("b", 1), Limit("c", 2, "2/1s")),
    (),
]
STEPS = st.lists(st.tuples(st.sampled_from(["start", "end", "reload"]), st.sampled_from(LIMITS), st.integers(0, 400)))


@given(STEPS)
def test_a_ledger_keeps_every_limit_and_takes_all_or_nothing(steps) -> None:
    ledger, running, states, moment = Ledger(), [], {}, NOW
    starts: list[tuple[str, datetime]] = []
    # Every window has been in use, so that each has seen everything since.
    for limits in LIMITS:
        ledger.take(limits, after(-3600))
        ledger.give_back(limits)
    for action, limits, milliseconds in steps:
        moment += timedelta(milliseconds=milliseconds)
        if action == "start":
            before = ledger.changed
            if started(ledger, limits, moment):
                running.append(limits)
                starts += [(limit.name, moment) for limit in limits]
                assert_kept(limits, running, starts, moment)
            else:
                assert ledger.changed == before
        elif action == "end" and running:
            ledger.give_back(running.pop(0))
        elif action == "reload":
            states |= json.loads(json.dumps(ledger.changed))
            ledger = Ledger(Counter(limit.name for each in running for limit in each), states)


def assert_kept(limits, running, starts, moment) -> None:
    for limit in limits:
        live = [1 for each in running for other in each if other.name == limit.name]
        assert limit.concurrency is None or len(live) <= limit.concurrency
        if limit.per is not None:
            most, seconds = limit.per
            first = moment - timedelta(seconds=seconds)
            assert sum(name == limit.name and start >= first for name, start in starts) <= most
