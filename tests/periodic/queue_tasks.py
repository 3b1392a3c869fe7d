"""Tasks that workers of RQ find by name, and a note of their calls."""

from __future__ import annotations

from rq import get_current_job

CALLS = []


def clean(max_age_days):
    job = get_current_job()
    CALLS.append((job.id, max_age_days, dict(job.meta)))
