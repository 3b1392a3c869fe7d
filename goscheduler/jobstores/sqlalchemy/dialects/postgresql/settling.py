"""Ends of runs on PostgreSQL as one batch of statements: one round trip, and no look at any row before it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from goscheduler.jobstores.sqlalchemy.bulk import table_name
from goscheduler.jobstores.sqlalchemy.dialects.postgresql.batch import abort_unless
from goscheduler.jobstores.sqlalchemy.locking import StoreContext
from goscheduler.jobstores.sqlalchemy.settling import limited, note_ends
from goscheduler.runs.model import Settlement
from goscheduler.runs.plan import keys_of

#: A batch has one statement for each fence of its runs, which is one for each transaction that started some of them.
MAX_FENCES_PER_BATCH = 4
#: The server looks up an array of ids by the index. A join with the ids can make it read the whole table for each.
_IDS = "ARRAY(SELECT json_array_elements_text(CAST(%s AS JSON)))"


def fits_batch(settlements: Sequence[Settlement]) -> bool:
    """Tell whether these ends only have to be recorded: no retry and no dead letter follows."""
    nothing_follows = all(settlement.dead is None and settlement.follow_up is None for settlement in settlements)
    return nothing_follows and 1 <= len(_ids_by_fence(settlements)) <= MAX_FENCES_PER_BATCH


def settle_in_batch(context: StoreContext, settlements: Sequence[Settlement], blocked: bool) -> None:
    """Record ends and remove their runs, all of them or none; unblock the next runs if runs are ``blocked``.

    The server aborts the batch if a run was cancelled, revoked or handed out again since its start. If no runs were
    blocked, as far as this process knows, it also aborts the batch if some are.
    """
    batch, runs = context.connection, table_name(context.connection, context.tables.runs)
    for fence, ids in _ids_by_fence(settlements).items():
        batch.exec_driver_sql(
            f"WITH ended AS (DELETE FROM {runs} AS run WHERE run.id = ANY ({_IDS}) AND run.fence = {fence}"
            " AND run.owner IS NOT NULL AND run.revoked = 0 AND run.cancel IS NULL RETURNING 1)"
            + abort_unless(f"(SELECT count(*) FROM ended) = {len(ids)}"),
            (json.dumps(ids),),
        )
    if not blocked:
        batch.exec_driver_sql(abort_unless(f"NOT EXISTS (SELECT 1 FROM {runs} AS run WHERE run.held IS NOT NULL)"))
    if ids := limited(settlements):
        usage = table_name(context.connection, context.tables.usage)
        batch.exec_driver_sql(f"DELETE FROM {usage} AS usage WHERE usage.run_id = ANY ({_IDS})", (json.dumps(ids),))
    note_ends(context, settlements)
    if blocked:
        keys = Counter(key for settlement in settlements for key in keys_of(settlement.attempt.run))
        context.dialect.unblock_in_batch(context.connection, context.tables, keys)


def _ids_by_fence(settlements: Sequence[Settlement]) -> dict[int, list[str]]:
    fences: dict[int, list[str]] = {}
    for settlement in settlements:
        run = settlement.attempt.run
        fences.setdefault(run.fence, []).append(run.id)
    return fences
