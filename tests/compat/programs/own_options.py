"""A subclass with an option of its own, read in _configure, as the schedulers of APScheduler do themselves."""

from __future__ import annotations

from apscheduler.schedulers.background import BackgroundScheduler


class Application(BackgroundScheduler):
    def _configure(self, config):
        self.app_name = config.pop("app_name", "unnamed")
        self.zone_given = "timezone" in config
        super()._configure(config)


def main(show):
    scheduler = Application(app_name="shop", timezone="UTC")
    show(scheduler.app_name, scheduler.zone_given, str(scheduler.timezone))
    scheduler.configure({"apscheduler.app_name": "bakery", "apscheduler.daemon": "no"})
    show(scheduler.app_name, scheduler.zone_given, scheduler._daemon)
