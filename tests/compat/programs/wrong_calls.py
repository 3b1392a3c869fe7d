"""Wrong calls that programs catch: the type of each error and the words that people search for."""

from __future__ import annotations

from apscheduler.schedulers.background import BackgroundScheduler


def work(a, b=1, *, flag=False):
    pass


CALLS = [
    {"func": 5},
    {"func": "non.sense"},
    {"func": "no_such_module:x"},
    {"func": work},
    {"func": work, "args": (1, 2, 3)},
    {"func": work, "args": (1,), "kwargs": {"c": 1}},
    {"func": work, "args": (1,), "kwargs": {"a": 1}},
    {"func": work, "args": (1,), "name": ""},
    {"func": work, "args": (1,), "id": 5},
    {"func": work, "args": (1,), "trigger": 5},
    {"func": work, "args": (1,), "trigger": "nonsense"},
    {"func": work, "args": (1,), "trigger": "cron", "hour": "25"},
    {"func": work, "args": (1,), "trigger": "date", "run_date": "tomorrow"},
    {"func": work, "args": (1,), "trigger": "date", "run_date": 5},
    {"func": work, "args": (1,), "misfire_grace_time": 0},
    {"func": work, "args": (1,), "max_instances": "x"},
    {"func": work, "args": (1,), "executor": 5},
    {"func": work, "args": (1,), "next_run_time": 5},
    {"func": work, "args": (1,), "trigger": "interval", "hours": 1, "timezone": 5},
]

ERRORS = (TypeError, ValueError, LookupError, AttributeError)


def main(show):
    scheduler = BackgroundScheduler(timezone="UTC")
    scheduler.start(paused=True)
    for call in CALLS:
        try:
            scheduler.add_job(**call)
        except ERRORS as error:
            show(next(kind.__name__ for kind in ERRORS if isinstance(error, kind)), str(error).split()[:2])
        else:
            show("accepted", sorted(call))
    show(scheduler.get_jobs())
    scheduler.shutdown()
