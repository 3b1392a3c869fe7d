"""A server that stands still: every call ends in time, and a lock that cannot be renewed is given up."""

from __future__ import annotations

import os

import pytest
from lock_places import SHARED

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import StoreUnavailable
from goscheduler.locks import acquire

#: ``GOSCHEDULER_FULL=1`` freezes all of them.
SERVERS = SHARED[1:] if os.environ.get("GOSCHEDULER_FULL") else ["redis"]


@pytest.mark.serial
@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_that_stands_still_costs_the_lock_and_no_more_time_than_allowed(kind, private_server, place_of, fresh):
    server = private_server(kind)
    url = fresh(server).url
    held = acquire(url, "report", 1.5, renew=True)
    assert held.held
    server.freeze()
    try:
        begun = SYSTEM_CLOCK.monotonic()
        assert held.lost.wait(15)
        assert SYSTEM_CLOCK.monotonic() - begun < 1.5 + 9  # a new connection to MariaDB may take seven seconds
        assert not held.held
        begun = SYSTEM_CLOCK.monotonic()
        with pytest.raises(StoreUnavailable):
            acquire(url, "other", 1.5)
        assert SYSTEM_CLOCK.monotonic() - begun < 16  # that is tried twice
    finally:
        server.thaw()
    later = acquire(url, "report", 30, wait=20)
    assert later.fence > held.fence
    assert later.release()
