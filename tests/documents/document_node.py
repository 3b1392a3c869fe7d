"""A process that handles documents: ``document_node.py KIND URL --pipe FD --lock SECONDS [--slow]``.

It tells in the pipe what it does, and ends when its standard input is closed.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading

from goscheduler.documents import DocumentScheduler

PREFIX = "crowd:"
TABLE = "crowd"


def store_of(kind, url):
    """Return the store of documents that the processes share."""
    if kind == "mongodb":
        import pymongo

        from goscheduler.documents.mongodb import MongoDocumentStore

        return MongoDocumentStore(pymongo.MongoClient(url).get_default_database()["crowd"])
    if kind == "redis":
        from goscheduler.documents.redis import RedisDocumentStore

        return RedisDocumentStore(url, PREFIX)
    from goscheduler.documents.sqlalchemy import SQLAlchemyDocumentStore

    return SQLAlchemyDocumentStore(url, TABLE)


def name_of(kind, document):
    return document["_id" if kind == "mongodb" else "name"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("url")
    parser.add_argument("--pipe", type=int)
    parser.add_argument("--lock", type=float)
    parser.add_argument("--slow", action="store_true")
    options = parser.parse_args()

    def tell(*words):
        os.write(options.pipe, (" ".join(map(str, words)) + "\n").encode())

    def handle(document):
        name = name_of(options.kind, document)
        tell("began", name, os.getpid())
        if options.slow:
            threading.Event().wait(0.01)
        tell("ran", name, os.getpid())

    with DocumentScheduler(
        store_of(options.kind, options.url), handle, lock_duration=options.lock, concurrency=2, timezone="UTC",
        on_error=lambda error: tell("error", type(error).__name__, str(error).replace("\n", " ")[:200]),
    ):  # fmt: skip
        tell("ready", os.getpid())
        sys.stdin.read()


if __name__ == "__main__":
    main()
