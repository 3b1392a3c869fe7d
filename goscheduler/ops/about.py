"""The operation that tells what answers, and whom."""

from __future__ import annotations

from goscheduler._version import __version__
from goscheduler.ops.access import Role
from goscheduler.ops.model_around import About, StoreView
from goscheduler.ops.operation import Call, operation
from goscheduler.times import zone_name


@operation(Role.VIEWER)
def about(call: Call) -> About:
    """Return version and stores of what answers, and the rights of whoever asks."""
    who = call.principal
    stores = [
        StoreView(alias, type(store).__name__.removesuffix("JobStore"), store.address)
        for alias, store in call.stores()
    ]  # fmt: skip
    return About(
        __version__, zone_name(call.scheduler.timezone), stores, bool(getattr(call.scheduler, "read_only", False)),
        who.name, who.role.title, None if who.stores is None else sorted(who.stores),
        None if who.tags is None else sorted(who.tags), who.see_arguments,
    )  # fmt: skip
