"""Hours of work under a steady load, to see whether anything grows: ``python soak.py --minutes 60 --rate 200``.

Two processes on each store fire jobs, retry some, deliver messages and forget their history. Every ten seconds it is
written down what they and the server take. At the end each figure is flat in the second half of the time, or not.
``python soak.py --report FOLDER`` judges once more what lies in a folder.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "servers")]

import psutil  # noqa: E402
from key_servers import Redis  # noqa: E402
from server_process import Server  # noqa: E402
from soak_report import report  # noqa: E402
from sql_servers import PostgreSQL  # noqa: E402

SECONDS = 10.0
NODES = 2


class Soak:
    """Processes on one store, and what they take."""

    def __init__(self, server: Server, measure: Callable[[Server], dict[str, float]], out: Path, rate: int) -> None:
        self._server, self._measure, self._rate = server, measure, rate
        self._out = out / server.kind
        self._out.mkdir(parents=True)
        self._nodes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self._server.start()
        settings = {"rate": self._rate, "nodes": NODES, "begun": time.time()}
        (self._out / "settings.json").write_text(json.dumps(settings))
        for number in range(NODES):
            command = [sys.executable, str(HERE / "soak_node.py"), self._server.url]
            command += [str(self._out / f"node-{number}.jsonl"), *([str(self._rate)] if number == 0 else [])]
            with (self._out / f"node-{number}.log").open("ab") as log:
                self._nodes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stderr=log, cwd=HERE))

    def sample(self) -> None:
        """Write down what everything takes now."""
        taken: dict[str, Any] = {"t": time.time()}
        for number, node in enumerate(self._nodes):
            if node.poll() is not None:
                raise ChildProcessError(f"a process has ended; see {self._out}/node-{number}.log")
            process = psutil.Process(node.pid)
            with process.oneshot():
                taken[f"node-{number} rss"] = process.memory_info().rss
                taken[f"node-{number} threads"] = process.num_threads()
                taken[f"node-{number} descriptors"] = process.num_fds()
                taken[f"node-{number} cpu seconds"] = sum(process.cpu_times()[:2])
        taken.update(self._measure(self._server))
        with (self._out / "samples.jsonl").open("a") as samples:
            samples.write(json.dumps(taken) + "\n")

    def stop(self) -> None:
        for node in self._nodes:
            assert node.stdin is not None
            node.stdin.close()
        for node in self._nodes:
            node.wait(120)

    def close(self) -> None:
        for node in self._nodes:
            node.kill()
            node.wait()
        self._server.close()


def measure_postgresql(server: Server) -> dict[str, float]:
    import psycopg

    with psycopg.connect(server.url.replace("+psycopg", ""), connect_timeout=30, autocommit=True) as connection:
        clients = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        (connections,) = connection.execute(clients).fetchone() or (0,)
        found = connection.execute(
            "SELECT relname, pg_total_relation_size(relid), n_live_tup FROM pg_stat_user_tables ORDER BY relname"
        ).fetchall()
    sizes = {f"table {name}": size for name, size, _ in found}
    return {"connections": connections - 1, **sizes, **{f"rows {name}": rows for name, _, rows in found}}


def measure_redis(server: Server) -> dict[str, float]:
    assert isinstance(server, Redis)
    with server._client() as client:
        told = client.info()
        keys = client.dbsize()
    return {"connections": told["connected_clients"] - 1, "used_memory": told["used_memory"], "keys": keys}


#: Kind → how its server is made in a folder, and how it is measured. They do not wait for the disk, which has nothing
#: to do with what grows; what PostgreSQL does about dead rows is what it does by default.
STORES: dict[str, tuple[Callable[[Path], Server], Callable[[Server], dict[str, float]]]] = {
    "postgresql": (lambda folder: PostgreSQL(folder, "-c", "autovacuum_naptime=60s"), measure_postgresql),
    "redis": (Redis, measure_redis),
}


def soak(stores: list[str], minutes: float, rate: int, out: Path) -> None:
    """Have all stores work for so long, and write what is seen into folders of ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    out.chmod(0o755)
    with ExitStack() as stack:
        soaks = []
        for kind in stores:
            make, measure = STORES[kind]
            soaks.append(Soak(make(out / f"server-{kind}"), measure, out, rate))
            stack.callback(soaks[-1].close)
            soaks[-1].start()
        pause = threading.Event().wait
        due = time.monotonic()
        end = due + minutes * 60
        while due < end:
            due += SECONDS
            pause(max(0.0, due - time.monotonic()))
            for each in soaks:
                each.sample()
        for each in soaks:
            each.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=int, default=200, help="firings a second on each store")
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--out", type=Path, default=Path("build", "soak"))
    parser.add_argument("--report", type=Path, help="judge a folder, and run nothing")
    options = parser.parse_args()
    if options.report is None:
        out = options.out.resolve() / time.strftime("%Y%m%d-%H%M%S")
        soak(options.stores.split(","), options.minutes, options.rate, out)
    else:
        out = options.report
    return report(out)


if __name__ == "__main__":
    sys.exit(main())
