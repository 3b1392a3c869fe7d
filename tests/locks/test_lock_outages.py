"""A server that stands still: every call ends, and a lock that cannot be renewed is given up."""

from __future__ import annotations

import os

import pytest
from lock_places import RENEWED, SHARED

from goscheduler.errors import StoreUnavailable
from goscheduler.locks import acquire

#: ``GOSCHEDULER_FULL=1`` freezes all of them.
SERVERS = SHARED[1:] if os.environ.get("GOSCHEDULER_FULL") else ["redis"]


@pytest.mark.serial
@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_that_stands_still_costs_the_lock_and_holds_up_nobody(kind, private_server, place_of, fresh):
    server = private_server(kind)
    url = fresh(server).url
    held = acquire(url, "report", RENEWED, renew=True)
    assert held.held
    server.freeze()
    try:
        assert held.lost.wait(60)
        assert not held.held
        with pytest.raises(StoreUnavailable):  # and does not wait until the server goes on, which it never would
            acquire(url, "other", RENEWED)
    finally:
        server.thaw()
    later = acquire(url, "report", 30, wait=60)
    assert later.fence > held.fence
    assert later.release()
