"""A retry policy is a pure decision: attempt, error and age in, delay and reason out."""

from __future__ import annotations

import copy
import math
import pickle
import random
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import each_row

from goscheduler import codec
from goscheduler.errors import InvalidArgument
from goscheduler.options import JobOptions
from goscheduler.runs.model import Attempt, DeadLetter, Outcome, OutcomeKind, Run, Source
from goscheduler.runs.records import record_of
from goscheduler.runs.retry import (
    LONGEST_DELAY,
    MOST_ATTEMPTS,
    Backoff,
    Decision,
    GiveUp,
    Retry,
    RetryLater,
    Snooze,
    exponential,
    fixed,
    linear,
)
from goscheduler.runs.transitions import put_back, redriven, retried, settle

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
NOW = START + timedelta(seconds=40)
HUGE = pytest.param(10**400, id="huge")
NO_SECONDS = [-1, -0.001, math.nan, math.inf, -math.inf, True, False, "5", None, LONGEST_DELAY + 1, 10**400, 1j, [1]]


class Trouble(LookupError):
    class Worse(Exception):
        """Lives inside another class, so that its name has a dot."""


def no_jitter():
    raise AssertionError("nothing is drawn here")


# Backoffs


@pytest.mark.parametrize(("backoff", "delays"), [
    (fixed(0), [0, 0, 0]),
    (fixed(7), [7, 7, 7]),
    (fixed(0.25), [0.25, 0.25, 0.25]),
    (linear(5), [5, 10, 15, 20]),
    (linear(5, cap=12), [5, 10, 12, 12]),
    (linear(5, cap=5), [5, 5, 5]),
    (linear(0), [0, 0, 0]),
    (exponential(1), [1, 2, 4, 8, 16]),
    (exponential(2, factor=3), [2, 6, 18, 54]),
    (exponential(1, factor=1.5), [1, 1.5, 2.25]),
    (exponential(1, factor=1), [1, 1, 1]),
    (exponential(1, factor=2, cap=5), [1, 2, 4, 5, 5]),
    (exponential(3, cap=3), [3, 3]),
    (exponential(0), [0, 0, 0]),
])
def test_a_backoff_waits_as_its_name_says_and_never_longer_than_its_cap(backoff, delays):
    assert [backoff.delay(attempt) for attempt in range(1, len(delays) + 1)] == delays


@pytest.mark.parametrize("attempt", [1000, 1025, 2000, MOST_ATTEMPTS])
@pytest.mark.parametrize(("backoff", "expected"), [
    (exponential(1, cap=300), 300),
    (exponential(1, factor=1e6, cap=300), 300),
    (exponential(1), LONGEST_DELAY),
    (exponential(0, cap=300), 0),
    (exponential(9, factor=1, cap=300), 9),
    (linear(1e6, cap=2e6), 2e6),
    (fixed(3), 3),
])
def test_a_late_attempt_overflows_nothing(backoff, expected, attempt):
    assert backoff.delay(attempt) == expected


@given(
    base=st.floats(0, 1e6), factor=st.floats(1, 1e6), room=st.floats(0, 1e6), attempt=st.integers(1, MOST_ATTEMPTS)
)
def test_any_backoff_stays_between_its_first_delay_and_its_cap_and_never_shrinks(base, factor, room, attempt):
    for backoff in (exponential(base, factor, base + room), linear(base, base + room), fixed(base)):
        assert base <= backoff.delay(attempt) <= base + room
        assert backoff.delay(attempt) <= backoff.delay(attempt + 1)


@pytest.mark.parametrize(("make", "field"), [
    (fixed, "seconds"),
    (linear, "step"),
    (exponential, "base"),
    (lambda value: linear(1, cap=value), "cap"),
    (lambda value: exponential(1, cap=value), "cap"),
    (RetryLater, "seconds"),
    (Snooze, "seconds"),
], ids=["fixed", "linear", "exponential", "linear cap", "exponential cap", "RetryLater", "Snooze"])
@each_row(["value"], [(value,) for value in NO_SECONDS])
def test_what_is_no_sensible_number_of_seconds_is_refused_by_the_name_of_its_field(make, field, value):
    with pytest.raises(InvalidArgument, match=rf"^{field} must be ") as caught:
        make(value)
    assert caught.value.field == field


@pytest.mark.parametrize("make", [linear, exponential])
def test_a_cap_below_the_first_delay_is_refused(make):
    with pytest.raises(InvalidArgument, match=r"^cap must be not below the first delay \(10\), got 9") as caught:
        make(10, cap=9)
    assert caught.value.field == "cap"


@pytest.mark.parametrize("factor", [0, 0.99, -2, math.nan, math.inf, 1e7, True, "2", None, HUGE])
def test_a_factor_that_is_no_number_from_one_up_is_refused(factor):
    with pytest.raises(InvalidArgument, match=r"^factor must be ") as caught:
        exponential(1, factor=factor)
    assert caught.value.field == "factor"


@pytest.mark.parametrize("wrong", [
    {"base": -1.0}, {"base": math.nan}, {"base": math.inf}, {"base": "soon"}, {"cap": math.nan}, {"cap": -1.0},
    {"factor": math.nan}, {"factor": 0.5}, {"kind": "unheard of"}, {"base": 10.0, "cap": 9.0},
])
def test_a_backoff_that_a_stored_record_describes_is_checked_like_one_that_was_made_here(wrong):
    record = {"kind": "exponential", "base": 1.0, "factor": 2.0, "cap": 300.0, **wrong}
    with pytest.raises(ValueError, match=next(reversed(wrong))):
        codec.decode({"@type": "object", "name": "backoff", "value": codec.encode(record)})


# The fields of a policy


@pytest.mark.parametrize("value", [0, -1, True, False, 2.0, "3", math.nan, 10**9, MOST_ATTEMPTS + 1, HUGE])
def test_a_number_of_attempts_that_cannot_be_made_is_refused(value):
    with pytest.raises(InvalidArgument, match=r"^max_attempts must be ") as caught:
        Retry(max_attempts=value)
    assert caught.value.field == "max_attempts"


@pytest.mark.parametrize("value", [1, 2, MOST_ATTEMPTS, None])
def test_any_other_number_of_attempts_is_taken(value):
    assert Retry(max_attempts=value).max_attempts == value


def test_a_policy_without_a_number_of_attempts_never_ends():
    policy = Retry(max_attempts=None, backoff=5)
    assert policy.decide(1, OSError(), age=0) == Decision(5, "attempt 1 failed")
    assert policy.decide(10 * MOST_ATTEMPTS, OSError(), age=0).delay == 5
    assert codec.loads(codec.dumps(policy, "retry")) == policy


@pytest.mark.parametrize("value", [-0.1, 1.1, 2, math.nan, math.inf, -math.inf, True, "0.1", None, HUGE])
def test_a_jitter_that_is_no_share_is_refused(value):
    with pytest.raises(InvalidArgument, match=r"^jitter must be ") as caught:
        Retry(jitter=value)
    assert caught.value.field == "jitter"


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, True, "10", HUGE])
def test_a_deadline_that_leaves_no_time_is_refused(value):
    with pytest.raises(InvalidArgument, match=r"^deadline must be ") as caught:
        Retry(deadline=value)
    assert caught.value.field == "deadline"


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, True, "exponential", None, object(), HUGE])
def test_a_backoff_that_is_none_is_refused_by_the_name_of_the_field(value):
    with pytest.raises(InvalidArgument, match=r"^backoff must be ") as caught:
        Retry(backoff=value)
    assert caught.value.field == "backoff"


def test_a_plain_number_of_seconds_is_a_fixed_backoff():
    assert Retry(backoff=5).backoff == fixed(5)


@pytest.mark.parametrize("field", ["retry_on", "give_up_on"])
@pytest.mark.parametrize("value", [
    int, object, 5, None, [int], (ValueError, 5), [None], "", [""], ValueError("an instance"),
])
def test_what_is_no_exception_type_is_refused(field, value):
    with pytest.raises((InvalidArgument, TypeError), match=field):
        Retry(**{field: value})


@pytest.mark.parametrize(("given", "kept"), [
    (ValueError, ("builtins.ValueError",)),
    ([ValueError, OSError], ("builtins.ValueError", "builtins.OSError")),
    ({KeyError}, ("builtins.KeyError",)),
    (IOError, ("builtins.OSError",)),
    ("billing.Declined", ("billing.Declined",)),
    (["billing.Declined", KeyError], ("billing.Declined", "builtins.KeyError")),
    (Trouble.Worse, (f"{__name__}.Trouble.Worse",)),
    ((), ()),
])
def test_exception_types_are_kept_as_names(given, kept):
    assert Retry(retry_on=given).retry_on == kept
    assert Retry(give_up_on=given).give_up_on == kept


@pytest.mark.parametrize(("value", "policy"), [
    (None, None),
    (1, Retry(max_attempts=1)),
    (5, Retry(max_attempts=5)),
    (Retry(max_attempts=2, jitter=0.5), Retry(max_attempts=2, jitter=0.5)),
])
def test_an_option_is_a_policy_or_a_number_of_attempts_or_none(value, policy):
    assert Retry.of(value) == policy


@pytest.mark.parametrize("value", [True, False, 2.5, "three", [], {}, fixed(1), object()])
def test_any_other_option_is_refused(value):
    with pytest.raises(InvalidArgument, match=r"^retry must be None, a number of attempts or a Retry") as caught:
        Retry.of(value)
    assert caught.value.field == "retry"


def test_a_number_of_attempts_below_one_is_refused_as_an_option_too():
    with pytest.raises(InvalidArgument, match="max_attempts must be between 1 and"):
        Retry.of(0)


POLICIES = [
    Retry(),
    Retry(7, linear(2, cap=9), 0.25, (ValueError, "billing.Declined"), (KeyError,), 3600),
    Retry(2, fixed(0)),
    Retry(9, exponential(0.5, 1.5, 60), retry_on=[OSError], deadline=0.5),
]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("travel", [
    lambda policy: pickle.loads(pickle.dumps(policy)),
    lambda policy: codec.loads(codec.dumps(policy)),
    copy.copy,
    copy.deepcopy,
], ids=["pickle", "codec", "copy", "deepcopy"])
def test_a_policy_comes_back_from_storage_as_it_was(policy, travel):
    returned = travel(policy)
    assert returned == policy
    assert hash(returned) == hash(policy)
    assert [type(name) for name in returned.retry_on] == [str] * len(policy.retry_on)
    assert returned.decide(1, OSError(), 0, lambda: 0.5) == policy.decide(1, OSError(), 0, lambda: 0.5)


@pytest.mark.parametrize("signal", [RetryLater(2.5, "busy"), RetryLater(), Snooze(4, "closed"), GiveUp("hopeless")])
def test_what_a_job_raises_to_say_what_it_wants_survives_a_pickle(signal):
    returned = pickle.loads(pickle.dumps(signal))
    assert type(returned) is type(signal)
    assert vars(returned) == vars(signal)


# The decision


FIVE = Retry(5, linear(10))


@pytest.mark.parametrize(("attempt", "delay"), [(1, 10), (2, 20), (4, 40), (5, None), (6, None), (99, None)])
def test_attempts_are_made_up_to_the_greatest_number_and_no_more(attempt, delay):
    beyond = f"attempt {attempt} failed, beyond the 5 of its policy"  # as after a redrive
    reason = f"attempt {attempt} of 5 failed" if attempt <= 5 else beyond
    assert FIVE.decide(attempt, ValueError(), 0, lambda: 0) == Decision(delay, reason)


def test_an_attempt_without_an_error_may_be_tried_again():
    assert FIVE.decide(1, None, 0, lambda: 0).delay == 10
    assert FIVE.decide(5, None, 0, lambda: 0).delay is None
    assert Retry(5, fixed(1), retry_on=(KeyError,)).decide(1, None, 0, lambda: 0).delay == 1


@pytest.mark.parametrize(("retry_on", "give_up_on", "error", "again"), [
    (Exception, (), ValueError(), True),
    (Exception, (), KeyboardInterrupt(), False),
    (Exception, (), SystemExit(), False),
    (BaseException, (), SystemExit(), True),
    (ValueError, (), ValueError(), True),
    (ValueError, (), UnicodeError(), True),
    (ValueError, (), UnicodeDecodeError("utf-8", b"", 0, 1, ""), True),
    (UnicodeError, (), ValueError(), False),
    (LookupError, (), Trouble(), True),
    (LookupError, (), Trouble.Worse(), False),
    (Trouble.Worse, (), Trouble.Worse(), True),
    ("builtins.LookupError", (), KeyError(), True),
    (f"{__name__}.Trouble", (), Trouble(), True),
    ("elsewhere.Trouble", (), Trouble(), False),
    ((OSError, KeyError), (), ConnectionResetError(), True),
    ((OSError, KeyError), (), IndexError(), False),
    ((), (), ValueError(), False),
    (Exception, ValueError, ValueError(), False),
    (Exception, ValueError, UnicodeError(), False),
    (Exception, ValueError, KeyError(), True),
    (Exception, "builtins.LookupError", Trouble(), False),
    (KeyError, LookupError, KeyError(), False),
    (ValueError, ValueError, ValueError(), False),
])
def test_only_failures_of_the_wanted_types_are_tried_again(retry_on, give_up_on, error, again):
    policy = Retry(3, fixed(1), retry_on=retry_on, give_up_on=give_up_on)
    decision = policy.decide(1, error, 0, lambda: 0)
    assert (decision.delay is not None) is again
    if not again:
        assert decision.reason == f"{type(error).__name__} is not tried again"


@pytest.mark.parametrize(("error", "reason"), [
    (GiveUp(), "the job gave up"),
    (GiveUp("no such customer"), "the job gave up: no such customer"),
    (type("Hopeless", (GiveUp,), {})("for good"), "the job gave up: for good"),
])
def test_a_job_that_gives_up_is_not_tried_again_however_many_attempts_are_left(error, reason):
    assert Retry(1000, retry_on=GiveUp).decide(1, error, 0, no_jitter) == Decision(None, reason)


@pytest.mark.parametrize(("policy", "attempt", "delay"), [
    (Retry(3, fixed(99)), 1, 2.5),
    (Retry(3, fixed(99)), 3, None),
    (Retry(3, fixed(99), retry_on=KeyError), 1, 2.5),
    (Retry(3, fixed(99), give_up_on=Exception), 1, 2.5),
    (Retry(3, fixed(99), deadline=2), 1, None),
    (Retry(3, fixed(99), deadline=3), 1, 2.5),
])
def test_retry_later_sets_the_delay_and_counts_as_an_attempt(policy, attempt, delay):
    assert policy.decide(attempt, RetryLater(2.5), 0, lambda: 0).delay == delay


@pytest.mark.parametrize(("age", "again"), [(0, True), (49.5, True), (50, True), (50.001, False), (1e9, False)])
def test_no_attempt_begins_after_the_deadline(age, again):
    decision = Retry(3, fixed(10), deadline=60).decide(1, ValueError(), age, lambda: 0)
    assert decision == (
        Decision(10, "attempt 1 of 3 failed") if again
        else Decision(None, "the next attempt would begin over 60 seconds after the fire time")
    )


def test_the_jitter_counts_towards_the_deadline():
    policy = Retry(3, fixed(10), jitter=1, deadline=15)
    assert policy.decide(1, ValueError(), 0, lambda: 0.5).delay == 15
    assert policy.decide(1, ValueError(), 0, lambda: 0.51).delay is None


@pytest.mark.parametrize(("jitter", "drawn", "delay"), [
    (0, 0.9, 100), (0.1, 0, 100), (0.1, 0.5, 105), (0.1, 1, 110), (1, 1, 200), (0.5, 0.5, 125),
])
def test_jitter_adds_up_to_its_share_of_the_delay(jitter, drawn, delay):
    assert Retry(3, fixed(100), jitter).decide(1, ValueError(), 0, lambda: drawn).delay == pytest.approx(delay)


def test_the_same_seed_gives_the_same_delays():
    policy = Retry(50, exponential(1, cap=30), jitter=0.3)

    def delays(seed):
        draw = random.Random(seed).random
        return [policy.decide(attempt, ValueError(), 0, draw).delay for attempt in range(1, 50)]

    assert delays(1) == delays(1)
    assert delays(1) != delays(2)
    assert len(set(delays(1))) == 49


def test_even_with_jitter_no_delay_is_longer_than_a_year():
    assert Retry(3, fixed(LONGEST_DELAY), jitter=1).decide(1, None, 0, lambda: 1).delay == LONGEST_DELAY


@given(
    attempts=st.integers(1, 50), base=st.floats(0, 1000), factor=st.floats(1, 10), room=st.floats(0, 1000),
    jitter=st.floats(0, 1), deadline=st.none() | st.floats(0.001, 5000), drawn=st.floats(0, 1),
)
def test_any_policy_ends_and_keeps_its_bounds(attempts, base, factor, room, jitter, deadline, drawn):
    policy = Retry(attempts, exponential(base, factor, base + room), jitter, deadline=deadline)
    age, attempt = 0.0, 1
    while (delay := policy.decide(attempt, ValueError(), age, lambda: drawn).delay) is not None:
        assert base <= delay <= (base + room) * (1 + jitter)
        age, attempt = age + delay, attempt + 1
    assert attempt <= attempts
    assert deadline is None or age <= deadline
    assert attempt == attempts or deadline is not None


# Settling, for every outcome


def a_run(retry=None, dead_letter=None, **fields):
    wanted = retry is not None if dead_letter is None else dead_letter
    job = SimpleNamespace(
        id="job", retry=retry, dead_letter=wanted, name="job", func_ref=None, options=JobOptions()
    )
    return Run("run", job, START, START, owner="me", fence=4)._replace(**fields)


THRICE = Retry(3, fixed(10))
ERROR = ValueError("no")
NOTHING = (None, None)


def at(seconds):
    return NOW + timedelta(seconds=seconds)


def again(attempt, due_at):
    return "retried", attempt, due_at


@pytest.mark.parametrize(("run", "outcome", "expected"), [
    (a_run(THRICE), Outcome(OutcomeKind.SUCCEEDED), NOTHING),
    (a_run(THRICE, attempt=3), Outcome(OutcomeKind.SUCCEEDED), NOTHING),
    (a_run(), Outcome(OutcomeKind.FAILED, error=ERROR), NOTHING),
    (a_run(dead_letter=True), Outcome(OutcomeKind.FAILED, error=ERROR), (None, "attempt 1 of 1 failed")),
    (a_run(THRICE), Outcome(OutcomeKind.FAILED, error=ERROR), (again(2, at(10)), None)),
    (a_run(THRICE, attempt=2), Outcome(OutcomeKind.FAILED, error=ERROR), (again(3, at(10)), None)),
    (a_run(THRICE, attempt=3), Outcome(OutcomeKind.FAILED, error=ERROR), (None, "attempt 3 of 3 failed")),
    (a_run(THRICE, dead_letter=False, attempt=3), Outcome(OutcomeKind.FAILED, error=ERROR), NOTHING),
    (a_run(THRICE), Outcome(OutcomeKind.FAILED), (again(2, at(10)), None)),
    (a_run(THRICE), Outcome(OutcomeKind.TIMED_OUT), (again(2, at(10)), None)),
    (a_run(THRICE, attempt=3), Outcome(OutcomeKind.TIMED_OUT), (None, "attempt 3 of 3 failed")),
    (a_run(THRICE), Outcome(OutcomeKind.FAILED, error=RetryLater(3)), (again(2, at(3)), None)),
    (a_run(), Outcome(OutcomeKind.FAILED, error=RetryLater(3)), NOTHING),
    (a_run(THRICE), Outcome(OutcomeKind.FAILED, error=GiveUp("why")), (None, "the job gave up: why")),
    (a_run(dead_letter=True), Outcome(OutcomeKind.FAILED, error=GiveUp()), (None, "the job gave up")),
    (a_run(Retry(3, fixed(1), deadline=40)), Outcome(OutcomeKind.FAILED, error=ERROR),
     (None, "the next attempt would begin over 40 seconds after the fire time")),
    (a_run(Retry(3, fixed(1), deadline=41)), Outcome(OutcomeKind.FAILED, error=ERROR), (again(2, at(1)), None)),
    (a_run(Retry(3, fixed(1), give_up_on=ValueError)), Outcome(OutcomeKind.FAILED, error=ERROR),
     (None, "ValueError is not tried again")),
    (a_run(THRICE), Outcome(OutcomeKind.SNOOZED, error=Snooze(7)), (("put back", 1, at(7)), None)),
    (a_run(THRICE, attempt=3), Outcome(OutcomeKind.SNOOZED, error=Snooze(7)), (("put back", 3, at(7)), None)),
    (a_run(), Outcome(OutcomeKind.SNOOZED, error=Snooze(0)), (("put back", 1, at(0)), None)),
    (a_run(THRICE), Outcome(OutcomeKind.SNOOZED), (("put back", 1, START), None)),
    (a_run(THRICE), Outcome(OutcomeKind.CANCELLED), NOTHING),
    (a_run(THRICE, attempt=3), Outcome(OutcomeKind.CANCELLED), NOTHING),
    (a_run(THRICE), Outcome(OutcomeKind.MISSED), NOTHING),
    (a_run(THRICE), Outcome(OutcomeKind.SKIPPED), NOTHING),
])
def test_the_end_of_an_attempt_leads_to_nothing_or_another_attempt_or_the_dead_letters(run, outcome, expected):
    settlement = settle(run, outcome, NOW, lambda: 0)
    assert settlement.attempt == Attempt(run, outcome, NOW)
    follow_up, dead = expected
    assert settlement.dead == dead
    if follow_up is None:
        assert settlement.follow_up is None
    else:
        change, attempt, due_at = follow_up
        wanted = retried(run, due_at) if change == "retried" else put_back(run, due_at)
        assert settlement.follow_up == wanted
        assert (settlement.follow_up.attempt, settlement.follow_up.due_at) == (attempt, due_at)


def test_the_jitter_of_a_settlement_comes_from_the_source_that_is_given():
    run = a_run(Retry(3, fixed(10), jitter=0.5))
    settlement = settle(run, Outcome(OutcomeKind.FAILED, error=ERROR), NOW, lambda: 0.5)
    assert settlement.follow_up.due_at == at(12.5)


def test_a_retry_keeps_its_fire_time_and_fence_and_says_that_it_is_one():
    before = a_run(THRICE, coalesced=2, crashes=1)
    after = retried(before, at(5))
    assert after == before._replace(owner=None, attempt=2, due_at=at(5), source=Source.RETRY)


@pytest.mark.parametrize("source", Source)
def test_a_redriven_run_is_one_more_attempt_at_the_same_firing_whatever_led_to_it(source):
    dead = a_run(THRICE, attempt=3, source=source, crashes=1)
    record = record_of(Attempt(dead, Outcome(OutcomeKind.FAILED, error=ERROR), NOW))
    letter = DeadLetter(dead, record, "attempt 3 of 3 failed")
    assert redriven(letter, at(99)) == dead._replace(owner=None, attempt=4, due_at=at(99), source=Source.REDRIVE)


class Unspeakable:
    def __str__(self):
        raise RuntimeError("no words")

    __repr__ = __str__


class Silent(GiveUp):
    def __init__(self):
        """Leave out the base class, as happens."""


class Vague(RetryLater):
    def __init__(self):
        """Leave out the base class, as happens."""


class Drowsy(Snooze):
    def __init__(self):
        """Leave out the base class, as happens."""


def changed(error, **attributes):
    vars(error).update(attributes)
    return error


@pytest.mark.parametrize("error", [
    Silent(), Vague(), GiveUp(Unspeakable()), changed(RetryLater(1), seconds=math.nan),
    changed(RetryLater(1), seconds=-5), changed(RetryLater(1), seconds=math.inf), changed(RetryLater(1), seconds="1"),
], ids=["silent", "vague", "unspeakable", "nan", "negative", "infinite", "text"])
def test_whatever_a_job_raises_the_end_of_its_run_can_be_settled(error):
    settlement = settle(a_run(THRICE), Outcome(OutcomeKind.FAILED, error=error), NOW, lambda: 0)
    if isinstance(error, GiveUp):
        assert settlement.dead.startswith("the job gave up")
    else:
        assert settlement.follow_up.due_at >= NOW


@pytest.mark.parametrize("error", [
    Drowsy(), changed(Snooze(1), seconds=math.nan), changed(Snooze(1), seconds=-5), changed(Snooze(1), seconds="1"),
], ids=["drowsy", "nan", "negative", "text"])
def test_whatever_a_job_snoozes_for_the_end_of_its_run_can_be_settled(error):
    settlement = settle(a_run(THRICE), Outcome(OutcomeKind.SNOOZED, error=error), NOW, lambda: 0)
    assert settlement.follow_up.due_at >= NOW


def test_a_backoff_made_by_hand_is_the_same_as_one_of_the_named_ones():
    assert Backoff("exponential", 1.0, 2.0, 300.0) == exponential(1, 2, 300) == Retry().backoff
