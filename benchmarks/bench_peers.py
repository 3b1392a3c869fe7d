"""No-op jobs a second, beside task queues that use the same Redis or PostgreSQL.

One process enqueues the jobs and is gone; then one process with ten threads works them off. The time is that from the
first job to the last one. goscheduler is measured more strictly: from before it looks into the store until every end
is in the history. It promises more than most of the others, too: each peer's line says what becomes of a job if the
process dies or the job fails, and what stays of it. All have their options by default, and servers with the settings
of production: what the server has acknowledged is on its disk.

RQ has no threads. Its Worker forks for each job; its SimpleWorker runs one job after another in the process itself.

``python benchmarks/bench_peers.py [redis|postgresql ...]``, both by default.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version

import peers
from bench_durable import place
from measure import Row, Sample, compare, in_fresh_process, print_table, take_turns, without_bar

#: Server → those who use it beside goscheduler.
BESIDE: dict[str, tuple[type[peers.Peer], ...]] = {
    "redis": (peers.Dramatiq, peers.Huey, peers.RQ, peers.ForkingRQ, peers.CeleryThreads),
    "postgresql": (peers.Procrastinate,),
}


def main(rounds: int = 3, jobs: int = 5_000, few: int = 500, kinds: Sequence[str] = ()) -> list[Row]:
    """Run ``jobs`` jobs, but only ``few`` where one runs after another."""
    rows: list[Row] = []
    for kind in kinds or BESIDE:
        contenders = (peers.Goscheduler, *BESIDE[kind])
        for peer in contenders:
            print(f"  {_named(peer)}: {peer.promises}", flush=True)
        with place(kind) as url:
            rows += _rows(kind, contenders, url, rounds, jobs, few)
    return rows


def _rows(kind: str, contenders: Sequence[type[peers.Peer]], url: str, rounds: int, jobs: int, few: int) -> list[Row]:
    def measure(name: str) -> float:
        count = few if issubclass(peers.BY_NAME[name], peers.RQ) else jobs
        _clear(url)
        in_fresh_process("peers", "fill", name, url, count)
        return float(in_fresh_process("peers", "rate", name, url, count))

    rates = take_turns(rounds, [peer.__name__ for peer in contenders], measure)
    ours, *theirs = (Sample(tuple(rates[peer.__name__]), unit="/s") for peer in contenders)
    rows = []
    for peer, sample in zip(contenders[1:], theirs, strict=True):
        row = compare(f"{kind}: no-op jobs, beside {_named(peer)}", ours, sample, at_least=peer.bar)
        rows.append(row if peer.bar else without_bar(row))
    return rows


def _named(peer: type[peers.Peer]) -> str:
    return f"{peer.package} {version(peer.package)}{f' ({peer.note})' if peer.note else ''}"


def _clear(url: str) -> None:
    """Remove what the one before has left."""
    if url.startswith("redis:"):
        import redis

        with redis.Redis.from_url(url) as client:
            client.flushdb()
        return
    import psycopg

    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")


if __name__ == "__main__":
    print_table(main(kinds=sys.argv[1:]))
