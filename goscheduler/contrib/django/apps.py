"""The app: it finds the jobs that apps declare. It starts no thread and opens no store."""

from __future__ import annotations

from django.apps import AppConfig
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.module_loading import autodiscover_modules

from goscheduler.contrib.django._settings import NAME, project_settings


class GoschedulerConfig(AppConfig):  # type: ignore[misc]
    """``goscheduler.contrib.django`` in ``INSTALLED_APPS``."""

    name = "goscheduler.contrib.django"
    label = "goscheduler"
    verbose_name = "Scheduler"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the checks, and import the module ``jobs`` of each app."""
        from goscheduler.contrib.django import checks

        checks.register_checks()
        setting_changed.connect(_forget_scheduler, dispatch_uid="goscheduler")
        try:
            module = project_settings().autodiscover
        except ImproperlyConfigured:
            return  # the checks tell, and so does the first use
        if module is not None:
            autodiscover_modules(module)


def _forget_scheduler(*, setting: str, **_: object) -> None:
    from goscheduler.contrib.django import scheduler

    if setting in (NAME, "DATABASES"):
        scheduler.reset()
