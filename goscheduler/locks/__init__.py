"""Distributed locks: one holder at a time among all processes and machines that share a server.

``acquire`` returns a :class:`Lock` or None, ``lock`` a :class:`Lock` or raises. Both take a job store, a client of a
driver, or a URL. A lock ends by itself when its time is over, so that a crash leaves none behind; therefore a holder
that stood still may believe for a while that it has what another one has by now. The number :attr:`Lock.fence` grows
with every acquisition of a name, so that whatever is written to can tell the two apart.
"""

from __future__ import annotations

from goscheduler.errors import LockLost, LockNotAcquired
from goscheduler.locks._acquiring import acquire, lock
from goscheduler.locks._listing import break_lock, held_locks
from goscheduler.locks._lock import Lock
from goscheduler.locks.base import HeldLock, LockBackend

__all__ = [
    "HeldLock",
    "Lock",
    "LockBackend",
    "LockLost",
    "LockNotAcquired",
    "acquire",
    "break_lock",
    "held_locks",
    "lock",
]
