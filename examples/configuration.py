"""A scheduler from a plain dict, as it comes out of an ini, JSON or YAML file: values may be strings."""

from __future__ import annotations

from goscheduler import BackgroundScheduler

SETTINGS = {
    "goscheduler.timezone": "Europe/Berlin",
    "goscheduler.executors.default.type": "threadpool",
    "goscheduler.executors.default.max_workers": "20",
    "goscheduler.jobstores.default.type": "memory",
    "goscheduler.job_defaults.coalesce": "false",
    "goscheduler.job_defaults.max_instances": "3",
    "another_program.setting": "is left alone",
}


def work() -> None:
    print("working")


scheduler = BackgroundScheduler(SETTINGS)
scheduler.start(paused=True)
job = scheduler.add_job(work, "interval", minutes=5)
print(f"time zone {scheduler.timezone}, at most {job.max_instances} at once, coalescing: {job.coalesce}")
scheduler.shutdown()

# A misspelt option is refused, not ignored.
try:
    BackgroundScheduler({"goscheduler.timezon": "Europe/Berlin"})
except TypeError as error:
    print(error)
