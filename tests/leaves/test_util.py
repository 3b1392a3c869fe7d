from __future__ import annotations

import copy
import pickle

import apscheduler.util
import pytest

import goscheduler.util
from goscheduler.errors import InvalidArgument
from goscheduler.util import asbool, asint, undefined

APSCHEDULER_NAMES = [
    "asbool asdate asint astimezone check_callable_args convert_to_datetime datetime_ceil datetime_repr",
    "datetime_to_utc_timestamp datetime_utc_add get_callable_name iscoroutinefunction_partial localize maybe_ref",
    "normalize obj_to_ref ref_to_obj timedelta_seconds timezone_repr undefined utc_timestamp_to_datetime",
]


@pytest.mark.parametrize("name", " ".join(APSCHEDULER_NAMES).split())
def test_every_name_of_apschedulers_util_is_here(name: str) -> None:
    assert hasattr(apscheduler.util, name)
    assert hasattr(goscheduler.util, name)


def test_undefined_is_falsy_and_stays_itself_when_copied_and_pickled() -> None:
    assert not undefined
    assert repr(undefined) == "<undefined>"
    assert copy.copy(undefined) is copy.deepcopy(undefined) is undefined
    assert pickle.loads(pickle.dumps(undefined)) is undefined
    assert type(undefined)() is undefined


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((word, True) for word in ("true", "Yes", " on ", "Y", "t", "1")),
        *((word, False) for word in ("false", "No", " off ", "N", "f", "0")),
        (1, True),
        (0, False),
        (None, False),
    ],
)
def test_booleans_are_read_as_configuration_files_spell_them(value: object, expected: bool) -> None:
    assert asbool(value) is expected


@pytest.mark.parametrize("value", ["maybe", "", "2"])
def test_other_words_are_no_booleans(value: str) -> None:
    with pytest.raises(InvalidArgument, match=f'Unable to interpret value "{value}" as boolean'):
        asbool(value)


def test_integers_are_read_from_text() -> None:
    assert asint("5") == 5
    assert asint(5) == 5
    assert asint(None) is None
    with pytest.raises(ValueError, match="Expected an integer, got 'five'"):
        asint("five")
