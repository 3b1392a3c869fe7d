"""The statements of messages to PostgreSQL: each of them looks, decides by what it finds, and writes."""

from __future__ import annotations

import json
from collections.abc import Sequence

from goscheduler.jobstores.sqlalchemy.bulk import named
from goscheduler.jobstores.sqlalchemy.dialects.postgresql.batch import unless
from goscheduler.jobstores.sqlalchemy.holds import Work
from goscheduler.jobstores.sqlalchemy.settling import by_fence
from goscheduler.runs.model import Settlement

#: Texts that are given as one of JSON. To look for one of them, the server goes by an index, whatever it believes to
#: know about its tables; a join with them can make it read all of a table for each.
_TEXTS = "ARRAY(SELECT json_array_elements_text(CAST(%s AS JSON)))"


def end_untouched(work: Work, settlements: Sequence[Settlement]) -> None:
    """Remove, by a message, runs that are as they were when they were started, all of them or none.

    The message is refused, too, if runs are held until others have ended: somebody has to let them try again.
    """
    message, tables, dialect, _ = work
    runs = named(message, tables.runs)
    dialect.begin(message, tables)
    for fence, ids in by_fence(settlements).items():
        message.exec_driver_sql(
            f"WITH ended AS (DELETE FROM {runs} AS run WHERE run.id = ANY ({_TEXTS}) AND run.fence = {fence}"
            " AND run.owner IS NOT NULL AND run.revoked = 0 AND run.cancel IS NULL RETURNING 1)"
            + unless(f"(SELECT count(*) FROM ended) = {len(ids)}"),
            (json.dumps(ids),),
        )
    message.exec_driver_sql(unless(f"NOT EXISTS (SELECT 1 FROM {runs} AS run WHERE run.held IS NOT NULL)"))
