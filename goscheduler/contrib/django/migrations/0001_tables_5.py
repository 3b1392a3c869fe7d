"""The tables of the job store, version 5, in the database that ``GOSCHEDULER["STORE"]`` names."""

from __future__ import annotations

from django.db import migrations, models

from goscheduler.contrib.django._tables import StoreTables


class Migration(migrations.Migration):  # type: ignore[misc]
    initial = True
    atomic = False  # the operation is, where tables are made
    dependencies = ()
    operations = (
        StoreTables(5),
        migrations.CreateModel(
            name="Job",
            fields=[("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False))],
            options={"managed": False, "default_permissions": ("view", "change"), "verbose_name": "job"},
        ),
    )
