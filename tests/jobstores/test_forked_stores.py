"""A store that was started before a fork starts again in the child, on connections of its own."""

from __future__ import annotations

import os
import traceback

import pytest
from record_places import STORES

from goscheduler.testing.contract import JobMaker


@pytest.mark.serial
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("kind", sorted(STORES))
def test_parent_and_forked_child_use_one_store(kind, url_of, scheduler, opened):
    store = opened(STORES[kind].from_url(url_of(kind)))
    make_job = JobMaker(scheduler)
    store.add_job(make_job("of the parent"))
    child = os.fork()
    if not child:
        os._exit(_use_in_child(store, scheduler, make_job))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert {job.id for job in store.get_all_jobs()} == {"of the parent", "of the child"}


def _use_in_child(store, scheduler, make_job):
    try:
        store.start(scheduler, "default")
        assert store.lookup_job("of the parent") is not None
        store.add_job(make_job("of the child"))
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
