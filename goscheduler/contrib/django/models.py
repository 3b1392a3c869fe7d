"""No tables of Django: the job store has its own. One model without a table carries the permissions of the admin."""

from __future__ import annotations

from django.db import models


class Job(models.Model):  # type: ignore[misc]
    """Carries ``goscheduler.view_job`` and ``goscheduler.change_job``."""

    class Meta:
        managed = False
        default_permissions = ("view", "change")
        verbose_name = "job"
        app_label = "goscheduler"
