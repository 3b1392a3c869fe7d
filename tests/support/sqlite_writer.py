"""A process that writes to a SQLite file all the time: ``sqlite_writer.py FILE``. It says when it has begun to."""

from __future__ import annotations

import sqlite3
import sys


def main() -> None:
    connection = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
    connection.execute("CREATE TABLE IF NOT EXISTS written (number INTEGER)")
    print("writes", flush=True)
    for number in iter(int, 1):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO written VALUES (?)", [(number,)] * 100)
        connection.execute("COMMIT")


if __name__ == "__main__":
    main()
