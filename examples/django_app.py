"""A Django project with jobs, in one file: a job in a transaction, and the worker that runs it.

Needs ``pip install "goscheduler[django,sqlalchemy]"``. ``python examples/django_app.py`` shows it all at once; with
arguments it is the ``manage.py`` of the project: ``python examples/django_app.py goscheduler worker``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import django
from django.conf import settings
from django.core.management import call_command, execute_from_command_line
from django.db import transaction

DATABASE = os.environ.setdefault("DATABASE", str(Path(tempfile.mkdtemp()) / "shop.db"))

settings.configure(
    SECRET_KEY="only an example",
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": DATABASE}},
    INSTALLED_APPS=["goscheduler.contrib.django"],
    GOSCHEDULER={"STORE": "db:default", "JOB_DEFAULTS": {"retry": 3}},
)
django.setup()

from goscheduler.contrib.django import scheduler  # noqa: E402 - a project has this in jobs.py


@scheduler.scheduled_job("cron", hour=2, id="expire-carts")
def expire_carts() -> None:
    """Delete old carts here."""


def bill(order: int) -> None:
    print(f"billed order {order}", flush=True)


class OutOfStock(Exception):
    """There is nothing left to sell."""


def buy(order: int, stock: int) -> None:
    """What a view does: the order and its job are written together, or neither is."""
    with transaction.atomic():
        scheduler.add_job(bill, args=[order], id=f"bill-{order}")
        if stock == 0:
            raise OutOfStock


def main() -> None:
    call_command("migrate", verbosity=0)
    try:
        buy(6, stock=0)
    except OutOfStock:
        print("rolled back:", [job.id for job in scheduler.get_jobs()])
    buy(7, stock=1)
    print("committed:", [job.id for job in scheduler.get_jobs()])

    command = [sys.executable, __file__, "goscheduler", "worker"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as worker:
        assert worker.stdout is not None
        print("the worker:", worker.stdout.readline().strip())
        worker.terminate()
    print("declared by the worker:", [job.id for job in scheduler.get_jobs()])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        execute_from_command_line(sys.argv)
    else:
        main()
