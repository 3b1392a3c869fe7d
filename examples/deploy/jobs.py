"""The jobs of the examples: a scheduler whose store the variable GOSCHEDULER_STORE names."""

from __future__ import annotations

import os
import shutil

from goscheduler import BackgroundScheduler

scheduler = BackgroundScheduler(jobstores={"default": os.environ["GOSCHEDULER_STORE"]}, timezone="UTC")


def check_disk() -> str:
    usage = shutil.disk_usage("/")
    return f"{usage.used / usage.total:.0%} used"


scheduler.register("check-disk", check_disk)
scheduler.add_job("check-disk", "interval", minutes=5, id="check-disk", tags=["system"], if_exists="keep")
