"""goscheduler in Django: put ``"goscheduler.contrib.django"`` into ``INSTALLED_APPS``, and set ``GOSCHEDULER``.

``from goscheduler.contrib.django import scheduler`` gives the scheduler of the project. In a web process it adds jobs,
in ``manage.py goscheduler worker`` it runs them.
"""

from __future__ import annotations

from goscheduler.contrib.django._proxy import ProjectScheduler

__all__ = ["ProjectScheduler", "scheduler"]

scheduler = ProjectScheduler()
"""The scheduler of this project, in whatever process the code runs."""
