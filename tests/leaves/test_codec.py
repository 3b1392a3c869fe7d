from __future__ import annotations

import enum
import math
import random
import sys
import threading
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import pytest
import pytz
from dateutil import tz as dateutil_tz
from hypothesis import given
from hypothesis import strategies as st

from goscheduler.codec import MAX_DEPTH, CodecError, decode, dumps, encode, loads, register_type, types
from goscheduler.errors import InvalidArgument
from goscheduler.triggers.base import BaseTrigger
from goscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from goscheduler.triggers.combining import AndTrigger, OrTrigger
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.date import DateTrigger
from goscheduler.triggers.interval import IntervalTrigger

BERLIN = ZoneInfo("Europe/Berlin")
TAG = "@type"


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Invoice:
    number: int
    lines: tuple[str, ...] = ()
    colour: Colour = Colour.RED
    total: int = field(default=0, init=False)


class Point:
    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y


class Unregistered: ...


@pytest.fixture(autouse=True)
def _types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register this module's types, for one test."""
    monkeypatch.setattr(types, "_by_name", dict(types._by_name))
    monkeypatch.setattr(types, "_by_class", dict(types._by_class))
    register_type(Colour, "colour")
    register_type(Invoice, "invoice")
    register_type(Point, "point", lambda point: {"x": point.x, "y": point.y}, lambda state: Point(**state))


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are equal in type, zone, fold and order, all the way down; NaN equals itself."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, (datetime, time)):
        return (one.replace(tzinfo=None), one.fold) == (other.replace(tzinfo=None), other.fold) and same(
            one.tzinfo, other.tzinfo
        )
    if isinstance(one, tzinfo):
        return repr(one) == repr(other)
    if isinstance(one, (float, Decimal)):
        return repr(one) == repr(other)
    return bool(one == other)


ZONES = st.one_of(
    st.just(timezone.utc),
    st.sampled_from(["Europe/Berlin", "America/New_York", "UTC", "Etc/GMT+5", "Australia/Lord_Howe"]).map(ZoneInfo),
    st.timedeltas(timedelta(hours=-23, minutes=-59), timedelta(hours=23, minutes=59)).map(timezone),
    st.builds(timezone, st.timedeltas(timedelta(hours=-20), timedelta(hours=20)), st.text(min_size=1, max_size=5)),
)
HASHABLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=2**62, max_value=2**200),
    st.floats(allow_nan=False),
    st.text(st.characters()),
    st.binary(),
    st.uuids(),
    st.decimals(allow_nan=False),
    st.dates(),
    st.timedeltas(),
    st.datetimes(timezones=st.none() | ZONES),
    st.builds(lambda moment, fold: moment.replace(fold=fold), st.datetimes(timezones=ZONES), st.integers(0, 1)),
    st.builds(lambda moment, zone: moment.replace(tzinfo=zone), st.times(), st.none() | ZONES),
    ZONES,
    st.sampled_from(Colour),
)
VALUES = st.recursive(
    HASHABLE | st.just(math.nan) | st.just(Decimal("NaN")) | st.binary().map(bytearray),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=3) | st.just(TAG) | st.just("value"), inner, max_size=4),
        st.dictionaries(HASHABLE, inner, max_size=4),
        st.sets(HASHABLE, max_size=4),
        st.frozensets(HASHABLE, max_size=4),
    ),
    max_leaves=15,
)


@given(VALUES)
def test_whatever_can_be_stored_comes_back_exactly(value: Any) -> None:
    assert same(loads(dumps(value)), value)


@given(st.sets(st.integers() | st.text()))
def test_equal_sets_give_equal_records(members: set[Any]) -> None:
    assert dumps(members) == dumps({*sorted(members, key=str, reverse=True)})


@pytest.mark.parametrize(
    ("value", "record"),
    [
        (None, None),
        ([1, "a", 1.5, True], [1, "a", 1.5, True]),
        ({"a": {"b": 1}}, {"a": {"b": 1}}),
        ((1, 2), {TAG: "tuple", "value": [1, 2]}),
        ({1: "a"}, {TAG: "dict", "value": [[1, "a"]]}),
        ({TAG: "tuple"}, {TAG: "dict", "value": [[TAG, "tuple"]]}),
        (2**63, {TAG: "int", "value": "8000000000000000"}),
        (-(2**63), -(2**63)),
        (math.inf, {TAG: "float", "value": "inf"}),
        (date(2026, 1, 2), {TAG: "date", "value": "2026-01-02"}),
        (datetime(2026, 1, 2, 3), {TAG: "datetime", "value": "2026-01-02T03:00:00"}),
        (
            datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
            {TAG: "datetime", "value": "2026-10-25T02:30:00", "zone": "Europe/Berlin", "fold": 1},
        ),
        (
            datetime(2026, 1, 2, tzinfo=timezone.utc),
            {TAG: "datetime", "value": "2026-01-02T00:00:00", "zone": "Z"},
        ),
        (
            datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=-2, minutes=-30))),
            {TAG: "datetime", "value": "2026-01-02T00:00:00", "zone": "-02:30"},
        ),
        (time(3, 4, 5, 6), {TAG: "time", "value": "03:04:05.000006"}),
        (timedelta(days=-1, microseconds=5), {TAG: "timedelta", "value": [-1, 0, 5]}),
        (Decimal("1.10"), {TAG: "decimal", "value": "1.10"}),
        (UUID(int=5), {TAG: "uuid", "value": "00000000-0000-0000-0000-000000000005"}),
        (b"\xff\x00", {TAG: "bytes", "value": "/wA="}),
        ({3, 1}, {TAG: "set", "value": [1, 3]}),
        (BERLIN, {TAG: "zone", "value": "Europe/Berlin"}),
        (Colour.BLUE, {TAG: "object", "name": "colour", "value": "BLUE"}),
    ],
)
def test_the_form_of_records_stays_what_it_is(value: object, record: object) -> None:
    assert encode(value) == record
    assert same(decode(record), value)


def test_registered_enums_dataclasses_and_classes_come_back() -> None:
    invoice = Invoice(7, ("a", "b"), Colour.BLUE)
    assert loads(dumps([invoice, Colour.RED])) == [invoice, Colour.RED]
    point = loads(dumps(Point(1, {2: 3})))
    assert (point.x, point.y) == (1, {2: 3})


TRIGGERS = [
    DateTrigger("2030-01-01 12:00", "Europe/Berlin"),
    IntervalTrigger(minutes=5, start_date="2026-01-01", end_date="2027-01-01", timezone="Asia/Tokyo", jitter=3),
    IntervalTrigger(seconds=1.5),
    CronTrigger(day="last", hour="*/3", timezone="Europe/Berlin", jitter=5),
    CronTrigger.from_crontab("0 9 13 * fri", "America/New_York"),
    CalendarIntervalTrigger(months=1, hour=3, start_date="2026-01-31", timezone="Europe/Berlin"),
    OrTrigger([CronTrigger(hour=1), AndTrigger([IntervalTrigger(hours=2), CronTrigger(minute=0)])], jitter=2),
]


@pytest.mark.parametrize("trigger", TRIGGERS, ids=str)
def test_a_built_in_trigger_comes_back_and_fires_at_the_same_times(trigger: BaseTrigger) -> None:
    back = loads(dumps(trigger))
    assert type(back) is type(trigger)
    assert repr(back) == repr(trigger)
    assert fire_times(back) == fire_times(trigger)


def fire_times(trigger: BaseTrigger) -> list[datetime]:
    random.seed(5)  # the same jitter for everybody
    return trigger.preview(3, datetime(2026, 5, 6, tzinfo=timezone.utc))


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"conn": Point([0, 0, 0, threading.Lock()], 0)}, "kwargs['conn'].x[3]"),
        ({"conn": {5: (1, open)}}, "kwargs['conn'][5][1]"),
        ([{"a": {Unregistered()}}], "kwargs[0]['a'][0]"),
        ((number for number in ()), "kwargs"),
        (sys.stdout, "kwargs"),
        (Unregistered, "kwargs"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_place_and_the_ways_out(value: object, place: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        encode(value, "kwargs")
    assert str(caught.value).startswith(f"{place} cannot be stored: ")
    assert "register_type" in str(caught.value)
    assert "pickle serializer" in str(caught.value)
    assert caught.value.field == place


class Text(str): ...


class Number(int): ...


@pytest.mark.parametrize(
    "value",
    [Text("a"), Number(1), OrderedDict(), namedtuple("Pair", "a b")(1, 2), enum.IntEnum("E", "A").A],  # type: ignore[attr-defined]
)
def test_a_subclass_is_refused_because_it_would_come_back_as_its_base(value: object) -> None:
    with pytest.raises(InvalidArgument, match="cannot be stored"):
        encode(value)


def test_a_subclass_of_a_registered_class_is_refused() -> None:
    class Special(Point): ...

    with pytest.raises(InvalidArgument, match=r"test_codec\.\S*Special"):
        encode(Special(1, 2))


class Odd(tzinfo):
    """A zone of the user's own, without a name."""


class Nowhere(Odd):
    zone = "Europe/Nowhere"


class Shifted(Odd):
    def utcoffset(self, dt: datetime | None) -> timedelta:
        return timedelta(hours=3)


@pytest.mark.parametrize(
    "value", [datetime(2026, 1, 1, tzinfo=Odd()), time(12, tzinfo=Shifted()), Odd(), Shifted(), Nowhere()]
)
def test_a_time_zone_without_a_name_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgument, match=r"value\[0\] cannot be stored: .* is a time zone without a name"):
        encode([value])


PYTZ_BERLIN = pytz.timezone("Europe/Berlin")
TWICE = datetime(2026, 10, 25, 2, 30)


@pytest.mark.parametrize(
    ("value", "zone"),
    [
        (PYTZ_BERLIN.localize(TWICE, is_dst=True), "Europe/Berlin"),
        (PYTZ_BERLIN.localize(TWICE, is_dst=False), "Europe/Berlin"),
        (pytz.utc.localize(TWICE), "UTC"),
        (pytz.FixedOffset(90).localize(TWICE), "UTC+01:30"),
        (TWICE.replace(tzinfo=dateutil_tz.gettz("Europe/Berlin"), fold=1), "Europe/Berlin"),
        (TWICE.replace(tzinfo=dateutil_tz.tzutc()), "UTC"),
        (TWICE.replace(tzinfo=dateutil_tz.tzstr("EST5EDT")), "UTC-05:00"),
        (TWICE.replace(tzinfo=Shifted()), "UTC+03:00"),
    ],
    ids=str,
)
def test_a_moment_in_a_zone_of_another_library_comes_back_in_the_zone_that_it_names_or_with_its_offset(
    value: datetime, zone: str
) -> None:
    back = loads(dumps(value))
    assert (back.timestamp(), str(back.tzinfo)) == (value.timestamp(), zone)


@pytest.mark.parametrize(
    ("value", "zone"),
    [
        (PYTZ_BERLIN, ZoneInfo("Europe/Berlin")),
        (dateutil_tz.gettz("Europe/Berlin"), ZoneInfo("Europe/Berlin")),
        (pytz.FixedOffset(90), timezone(timedelta(minutes=90))),
        (dateutil_tz.tzoffset("X", 5400), timezone(timedelta(minutes=90))),
    ],
    ids=repr,
)
def test_a_zone_of_another_library_comes_back_as_the_standard_one(value: tzinfo, zone: tzinfo) -> None:
    assert loads(dumps(value)) == zone


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidArgument, match="nested deeper than 100 levels, or contains itself"):
        encode(loop)


WRAPPERS = [lambda v: [v], lambda v: (v,), lambda v: {"a": v}, lambda v: {1: v}, lambda v: Point(v, 0)]


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_what_is_nested_as_deeply_as_can_be_stored_can_be_read_back(wrap: Any) -> None:
    value, levels = 0, 0
    while levels <= MAX_DEPTH:
        try:
            record = encode(wrap(value))
        except InvalidArgument:
            break
        value, levels = wrap(value), levels + 1
    assert MAX_DEPTH // 2 <= levels <= MAX_DEPTH
    assert encode(decode(record)) == record


def test_a_record_above_the_limit_is_refused_with_both_numbers() -> None:
    with pytest.raises(InvalidArgument, match="args takes 12 bytes when stored, the limit is 10"):
        dumps("x" * 10, "args", limit=10)
    with pytest.raises(CodecError, match="The record has 12 bytes, the limit is 10"):
        loads(dumps("x" * 10), limit=10)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "NaN",
        "-Infinity",
        "[1e999]",
        b"\xff\xfe",
        "[" * 100_000,
        "[" * 101 + "]" * 101,
        "9" * 10_000,
        '{"@type": "module"}',
        '{"@type": ["tuple"]}',
        '{"@type": null}',
        '{"@type": "tuple"}',
        '{"@type": "tuple", "value": "ab"}',
        '{"@type": "set", "value": [[]]}',
        '{"@type": "dict", "value": [[[], 1]]}',
        '{"@type": "dict", "value": [[1]]}',
        '{"@type": "int", "value": "1_0"}',
        '{"@type": "int", "value": 5}',
        '{"@type": "float", "value": "1.5"}',
        '{"@type": "datetime", "value": "yesterday"}',
        '{"@type": "datetime", "value": 5}',
        '{"@type": "datetime", "value": "2026-01-01T00:00:00-02:00"}',
        '{"@type": "datetime", "value": "2026-01-01T00:00:00", "zone": "../../etc/passwd"}',
        '{"@type": "datetime", "value": "2026-01-01T00:00:00", "zone": "Mars/Phobos"}',
        '{"@type": "datetime", "value": "2026-01-01T00:00:00", "zone": null}',
        '{"@type": "datetime", "value": "2026-01-01T00:00:00", "fold": 7}',
        '{"@type": "zone", "value": "+99:00"}',
        '{"@type": "timedelta", "value": [1]}',
        '{"@type": "timedelta", "value": [1e300, 0, 0]}',
        '{"@type": "decimal", "value": "1,5"}',
        '{"@type": "uuid", "value": "x"}',
        '{"@type": "bytes", "value": "%%%"}',
        '{"@type": "object"}',
        '{"@type": "object", "name": "os:system", "value": "ls"}',
        '{"@type": "object", "name": ["point"], "value": 1}',
        '{"@type": "object", "name": "point", "value": {"z": 1}}',
        '{"@type": "object", "name": "colour", "value": "GREEN"}',
        '{"@type": "object", "name": "invoice", "value": {"number": 1, "hidden": 2}}',
        '{"@type": "object", "name": "date", "value": {}}',
        '{"@type": "object", "name": "date", "value": 5}',
        '{"@type": "object", "name": "cron", "value": {"version": 99}}',
        '{"@type": "object", "name": "or", "value": {"triggers": [["os:system", {}]], "jitter": null}}',
        '{"@type": "object", "name": "and", "value": {"triggers": [], "jitter": null}}',
    ],
)
def test_malformed_records_give_one_kind_of_error(text: str | bytes) -> None:
    with pytest.raises(CodecError):
        loads(text)


PRIME = sys.hash_info.modulus
#: Kind → many different values of it that have one hash, as records hold them.
ALIKE: dict[str, list[Any]] = {
    "ints": [{TAG: "int", "value": format(5 + number * PRIME, "x")} for number in range(5000)],
    "decimals": [{TAG: "decimal", "value": str(5 + number * PRIME)} for number in range(5000)],
    "uuids": [{TAG: "uuid", "value": str(UUID(int=5 + number * PRIME))} for number in range(5000)],
    "tuples": [{TAG: "tuple", "value": [{TAG: "int", "value": format(number * PRIME, "x")}]} for number in range(5000)],
    "frozensets": [
        {TAG: "frozenset", "value": [{TAG: "int", "value": format(number * PRIME, "x")}]} for number in range(5000)
    ],
}


@pytest.mark.parametrize("kind", list(ALIKE))
@pytest.mark.parametrize("container", ["set", "frozenset", "dict"])
def test_a_set_or_dict_with_many_members_of_one_hash_is_refused(kind: str, container: str) -> None:
    members = ALIKE[kind]
    assert len({hash(decode(member)) for member in members}) == 1
    record = {TAG: container, "value": [[member, 1] for member in members] if container == "dict" else members}
    with pytest.raises(CodecError, match="the same hash"):
        decode(record)


def test_a_set_that_could_not_be_read_back_is_not_written() -> None:
    alike = {5 + number * PRIME for number in range(20)}
    for value in (alike, frozenset(alike), dict.fromkeys(alike)):
        with pytest.raises(InvalidArgument, match="the same hash"):
            dumps(value)
    assert loads(dumps({2**number for number in range(400)})) == {2**number for number in range(400)}


@pytest.mark.parametrize("value", [16**4300, -(16**4300), Decimal("9" * 4301)], ids=["int", "negative", "decimal"])
def test_a_number_of_too_many_digits_is_refused_both_ways(value: Any) -> None:
    with pytest.raises(InvalidArgument, match="digits"):
        dumps(value)
    kind, digits = ("decimal", str(value)) if isinstance(value, Decimal) else ("int", format(value, "x"))
    with pytest.raises(CodecError, match="digits"):
        decode({TAG: kind, "value": digits})


def test_a_type_that_is_not_registered_here_is_named() -> None:
    with pytest.raises(CodecError, match="No type is registered under the name 'of_another_program'"):
        decode({TAG: "object", "name": "of_another_program", "value": 1})


def test_decoding_imports_nothing_that_the_data_names() -> None:
    name = "this"  # a module of the standard library that nobody imports
    assert name not in sys.modules
    for hostile in (
        {TAG: "object", "name": f"{name}:s", "value": {}},
        {TAG: name, "value": {}},
        {TAG: "object", "name": "or", "value": {"triggers": [[f"{name}:s", {}]], "jitter": None}},
    ):
        with pytest.raises(CodecError):
            decode(hostile)
    assert name not in sys.modules


def test_data_that_is_no_json_is_refused() -> None:
    with pytest.raises(CodecError, match="Expected JSON, got"):
        decode({"a": {1, 2}})


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((5, "five"), TypeError, "Expected a class to register, got 5"),
        ((Unregistered, ""), InvalidArgument, "name must be a nonempty, printable string, got ''"),
        ((Unregistered, "a\0b"), InvalidArgument, "name must be a nonempty, printable string"),
        ((Unregistered, 5), InvalidArgument, "name must be a nonempty, printable string, got 5"),
        ((Unregistered, "point"), InvalidArgument, "The name 'point' is taken"),
        ((Unregistered, "cron"), InvalidArgument, "The name 'cron' is taken"),
        ((Unregistered, "other"), InvalidArgument, "it does not tell its state"),
        ((Unregistered, "other", str), InvalidArgument, "Give both to_state and from_state"),
        ((datetime, "moment"), InvalidArgument, "datetime can be stored already"),
    ],
)
def test_a_registration_that_makes_no_sense_is_refused(arguments: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        register_type(*arguments)


def test_registering_a_class_again_is_fine() -> None:
    register_type(Colour, "colour")
    assert loads(dumps(Colour.RED)) is Colour.RED


def test_a_stored_copy_is_not_affected_by_later_changes() -> None:
    argument = {"to": ["a"]}
    record = encode(argument)
    argument["to"].append("b")
    assert decode(record) == {"to": ["a"]}


def test_bytes_and_uuids_survive_as_they_are() -> None:
    value = [bytes(range(256)), uuid4()]
    assert loads(dumps(value).encode()) == value
