"""Somebody who may do everything, and what the jobs of the tests of operations do."""

from __future__ import annotations

from goscheduler.ops.access import Principal, Role

ADMIN = Principal("ada", Role.ADMIN, see_arguments=True)


def nothing(*args, **kwargs):
    return "done"


def fail(order):
    raise ValueError(f"order {order} is broken")
