"""Move the jobs of one scheduler to another through a JSON file."""

from __future__ import annotations

import io

from goscheduler import BackgroundScheduler


def backup(database: str) -> None:
    print(f"Backing up {database}")


if __name__ == "__main__":
    file = io.StringIO()  # or a path

    old = BackgroundScheduler(timezone="UTC")
    old.add_job(backup, "cron", hour=1, args=["orders"], id="backup")
    old.start(paused=True)
    old.export_jobs(file)
    old.shutdown()

    file.seek(0)
    new = BackgroundScheduler(timezone="UTC")
    new.start(paused=True)
    new.import_jobs(file)
    (job,) = new.get_jobs()
    print(f"{job.id}: {job.name}{job.args} on {job.trigger}")
    new.shutdown()
