"""Use the rows of your own table as a crontab: once, repeatedly, and removed at the end."""

from __future__ import annotations

import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Event

try:
    import sqlalchemy as sa

    from goscheduler.documents.sqlalchemy import SQLAlchemyDocumentStore
except ImportError:
    raise SystemExit('SQLAlchemy is not installed: pip install "goscheduler[sqlalchemy]"') from None

from goscheduler.documents import DocumentScheduler

MAILS = sa.Table(
    "mails",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("text", sa.String(80)),
    sa.Column("sleep_until", sa.DateTime(timezone=True), index=True),
    sa.Column("interval", sa.String(80)),
    sa.Column("repeat_until", sa.DateTime(timezone=True)),
    sa.Column("auto_remove", sa.Boolean),
)


def main(folder: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{folder}/mails.db")
    MAILS.metadata.create_all(engine)
    now = datetime.now(timezone.utc)
    past = now - timedelta(seconds=6)
    rows = [
        {"text": "welcome", "sleep_until": now - timedelta(seconds=9), "auto_remove": True},
        {"text": "broken", "sleep_until": now - timedelta(seconds=8)},
        {"text": "daily news", "sleep_until": now - timedelta(seconds=7), "interval": "0 7 * * *"},
        {"text": "last chance", "sleep_until": past, "interval": "* * * * *", "repeat_until": past},
        {"text": "next year", "sleep_until": now + timedelta(days=365)},
    ]
    with engine.begin() as connection:
        for row in rows:
            connection.execute(MAILS.insert().values(row))

    all_done = Event()
    with DocumentScheduler(
        SQLAlchemyDocumentStore(engine, MAILS), send, on_error=complain, on_idle=all_done.set, timezone="UTC"
    ):
        all_done.wait()

    with engine.connect() as connection:
        for row in connection.execute(MAILS.select().order_by(MAILS.c.id)):
            print(f"{row.text}: {'rests' if row.sleep_until is None else 'sleeps'}")
    engine.dispose()


async def send(mail: dict[str, object]) -> None:
    if mail["text"] == "broken":
        raise ConnectionError("no mail server")
    print(f"sent {mail['text']}")


def complain(error: Exception, mail: dict[str, object] | None) -> None:
    print(f"{mail and mail['text']}: {error}; it comes again when its lock has run out")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
