"""The search box of the jobs page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goscheduler.ops.registry import OPERATIONS
from goscheduler.web.pages.query import FILTERS, job_search, query_of


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        ("orders", {"text": "orders"}),
        ("orders sync", {"text": "orders sync"}),
        ('"two  words"', {"text": "two  words"}),
        ("state:paused tag:billing", {"state": "paused", "tag": "billing"}),
        ('tag:"big customers" x', {"tag": "big customers", "text": "x"}),
        ("next:<1h", {"due_before": "1h"}),
        ("next:2h", {"due_before": "2h"}),
        ("last:timed-out", {"last_outcome": "timed out"}),
        ("executor:gpu task:a.b store:main", {"executor": "gpu", "task": "a.b", "jobstore": "main"}),
        ("orders:sync", {"text": "orders:sync"}),
        ('a:"b c"', {"text": "a:b c"}),
        ("http://x/y", {"text": "http://x/y"}),
    ],
)
def test_a_text_says_which_jobs_are_meant(text, arguments):
    search = job_search(text)
    assert (search.arguments, search.mistakes) == (arguments, [])


@pytest.mark.parametrize(
    ("text", "mistake"), [("tag:a tag:b", "tag: is given twice"), ('tag:""', "tag: needs a value")]
)
def test_what_cannot_be_meant_is_told(text, mistake):
    assert mistake in job_search(text).mistakes[0]


@given(st.text())
def test_any_text_is_read_and_asks_for_nothing_that_the_operation_does_not_know(text):
    known = {param.name for param in OPERATIONS["find_jobs"].params}
    assert job_search(text).arguments.keys() <= known


def test_every_filter_is_one_of_all_operations_on_many_jobs():
    for name in ("find_jobs", "count_jobs", "preview_bulk"):
        assert set(FILTERS.values()) <= {param.name for param in OPERATIONS[name].params}


def test_a_query_that_a_page_makes_is_read_as_it_was_meant():
    assert job_search(query_of(tag="big customers", executor="gpu", state=None)).arguments == {
        "tag": "big customers", "executor": "gpu",
    }  # fmt: skip
