"""Runs that wait for other runs to end, in the SQL store: how they are held, and how an end unblocks them.

A run waits because others are live. The end of a run unblocks one waiting run, and would miss a run whose wait is not
committed yet. So whoever writes that a run waits locks the rows of the live runs before. If such a row is locked
already, its run is just ending, and one run tries again in a moment instead of waiting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from sqlalchemy import and_, func, or_, select
from sqlalchemy.engine import Connection

from goscheduler.jobstores.sqlalchemy.locking import StoreContext, lock, lock_rows
from goscheduler.jobstores.sqlalchemy.tables import Tables
from goscheduler.runs.limits import Ledger
from goscheduler.runs.plan import JOB_KEY, LIMIT_KEY, Refusal, limit_of_key
from goscheduler.times import to_micros

#: The pause before another try for rows that other processes have locked.
RETRY_LOCKED_AFTER = timedelta(milliseconds=50)
#: So many keys are looked after at once under which runs wait for nothing any more.
MAX_ORPHANED_KEYS = 500
NONE_FREED: Mapping[str, str | None] = MappingProxyType({})


def changes_of_refused(
    context: StoreContext,
    refused: Iterable[tuple[str, int, Refusal]],
    now: datetime,
    ledger: Ledger,
    live: Mapping[str, Sequence[str]],
    freed: Mapping[str, str | None] = NONE_FREED,
) -> list[dict[str, Any]]:
    """Return the columns by which refused runs, given by id and due time, are held or put off.

    ``ledger`` counts the live runs that were in their way, those that this transaction has started included. ``live``
    has the ids of the live runs of a job, ``freed`` the key by which an end has unblocked a run.
    """
    refused = list(refused)
    ending = _ending(context, {refusal.key for _, _, refusal in refused if refusal.key is not None}, ledger, live)
    retries = ending - _held_before(context, ending)
    changes: list[dict[str, Any]] = []
    for run_id, due, (held, until) in refused:
        # A run that was unblocked under the same key may be the one that such an end has unblocked: if it were held
        # again, that end would have unblocked none.
        is_unblocked = held is not None and ending[held] > 0 and freed.get(run_id) == held
        if until is None and held is not None and (is_unblocked or retries[held] > 0):
            retries[held] -= 1
            until = now + RETRY_LOCKED_AFTER
        if until is not None:
            # Its due time stays, and with that its rank: it gets older.
            changes.append({"id": run_id, "held": None, "ready": max(to_micros(until), due), "freed": None})
        else:
            changes.append({"id": run_id, "held": held, "ready": None, "freed": None})
    return changes


def _ending(
    context: StoreContext, keys: Collection[str], ledger: Ledger, live: Mapping[str, Sequence[str]]
) -> Counter[str]:
    """Return key → number of its live runs that are just ending. The others end after this transaction."""
    if not keys or not context.dialect.skips_locked:
        return Counter()
    limits = {name: key for key in keys if (name := limit_of_key(key)) is not None}
    under = {key: live.get(key.partition(":")[2], ()) for key in keys if limit_of_key(key) is None}
    counts = Counter({key: len(ids) for key, ids in under.items()})
    counts.update({key: ledger.running(name) for name, key in limits.items()})
    under.update({limits[name]: ids for name, ids in _counted_ids(context, limits).items()})
    staying = lock(context, context.tables.runs.c.id, sorted({run_id for ids in under.values() for run_id in ids}))
    return counts - Counter({key: sum(run_id in staying for run_id in ids) for key, ids in under.items()})


def _held_before(context: StoreContext, most: Counter[str]) -> Counter[str]:
    """Return key → number of runs that were held under it before this transaction, no more than ``most``.

    Whoever wrote that these wait has seen to it that every end since finds them, so as many ends have unblocked one.
    """
    if not most:
        return Counter()
    found = context.dialect.blocked_longest(context.connection, context.tables.runs, most)
    return Counter(key for _, key in found)


def _counted_ids(context: StoreContext, names: Collection[str]) -> dict[str, list[str]]:
    """Return name of a limit → ids of the live runs that count under it now; some may have ended since the count."""
    usage = context.tables.usage
    query = select(usage.c.name, usage.c.run_id).where(context.dialect.column_in(usage.c.name, sorted(names)))
    found: dict[str, list[str]] = {}
    for name, run_id in context.connection.execute(query) if names else ():
        found.setdefault(name, []).append(run_id)
    return found


def has_blocked_runs(context: StoreContext) -> bool:
    """Tell whether runs wait for other runs to end."""
    runs = context.tables.runs
    return context.connection.execute(select(runs.c.id).where(runs.c.held.is_not(None)).limit(1)).first() is not None


def unblock_next(context: StoreContext, keys: Counter[str]) -> bool:
    """Unblock as many waiting runs under each key as its count; true if there were any.

    It takes a few statements for any number of keys: the rows of jobs are locked meanwhile.
    """
    return bool(keys) and has_blocked_runs(context) and bool(_unblock(context, keys))


def _unblock(context: StoreContext, keys: Counter[str]) -> list[str]:
    rows = _lock_blocked_longest(context, keys)
    context.dialect.update_rows(context.connection, context.tables.runs, [
        {"id": row.id, "held": None, "freed": row.held, "ready": row.due} for row in rows
    ])  # fmt: skip
    return [row.id for row in rows]


def orphaned_keys(connection: Connection, tables: Tables) -> list[str]:
    """Return keys under which runs wait although none is live or was unblocked, so that no end will unblock them.

    An end unblocks none where another process has locked the only one that waits, for whatever reason.
    """
    runs, usage = tables.runs, tables.usage
    waits = select(runs.c.held.label("key")).where(runs.c.held.is_not(None)).distinct().subquery()
    counted = usage.c.name == func.substr(waits.c.key, len(LIMIT_KEY) + 1)
    live = and_(runs.c.job_id == func.substr(waits.c.key, len(JOB_KEY) + 1), runs.c.owner.is_not(None))
    freed = runs.alias()
    query = select(waits.c.key).where(
        or_(~waits.c.key.startswith(LIMIT_KEY), ~select(usage.c.run_id).where(counted).exists()),
        or_(~waits.c.key.startswith(JOB_KEY), ~select(runs.c.id).where(live).exists()),
        ~select(freed.c.id).where(freed.c.freed == waits.c.key).exists(),
    )
    return list(connection.execute(query.limit(MAX_ORPHANED_KEYS)).scalars())


def unblock_orphans(context: StoreContext) -> bool:
    """Unblock a run under each of these keys; true if there were any. One too many is refused, and waits again."""
    return bool(_unblock(context, Counter(orphaned_keys(context.connection, context.tables))))


def _lock_blocked_longest(context: StoreContext, keys: Counter[str]) -> list[Any]:
    """Lock the runs that have been held longest under each key, as many as it is counted, and return their rows."""
    runs = context.tables.runs
    taken: list[Any] = []
    passed: set[str] = set()
    wanted = +keys
    while wanted:
        most = {key: count + len(passed) for key, count in wanted.items()}
        found: dict[str, list[str]] = {key: [] for key in wanted}
        for run_id, key in context.dialect.blocked_longest(context.connection, runs, most):
            if run_id not in passed and len(found[key]) < wanted[key]:
                found[key].append(run_id)
        ids = [run_id for key in wanted for run_id in found[key]]
        passed.update(ids)
        query = select(runs.c.id, runs.c.held, runs.c.due).where(context.dialect.column_in(runs.c.id, ids))
        left = Counter(wanted)
        for row in lock_rows(context, query.where(runs.c.held.is_not(None), runs.c.freed.is_(None))) if ids else ():
            # It may be held under another key by now. It is taken all the same: an end that looks for it under that
            # key passes it, because it is locked here. One too many is refused, and waits again.
            taken.append(row)
            left[row.held] -= left[row.held] > 0
        # Others have locked the rest of those that were found. Where fewer were found than wanted there are no more.
        wanted = Counter({key: left[key] for key, count in wanted.items() if left[key] and len(found[key]) == count})
    return taken
