"""What ``goscheduler jobs backfill`` prints."""

from __future__ import annotations

from collections import Counter
from typing import Any

from goscheduler._text import printable
from goscheduler.cli._print import note
from goscheduler.cli._text import field_cell, many
from goscheduler.times import local_timezone

#: So many fire times are shown; ``--json`` has all.
SHOWN = 20


def print_backfill(view: dict[str, Any]) -> None:
    """Print which fire times are run, which are left out, and how to go on."""
    times = [field_cell("at", time, local_timezone()) for time in view["times"]]
    for time in times if len(times) <= SHOWN else [*times[: SHOWN - 1], "…", times[-1]]:
        print(time)
    for why, count in Counter(each["why"] for each in view["skipped"]).items():
        print(printable(f"Left out: {many(count, 'fire time')}, because {why}."))
    runs = f"{many(len(times), 'run')} of job {view['job_id']}"
    if view["done"]:
        print(printable(f"Backfill {view['id']}: {runs}, at most {view['at_once']} at once."))
        if times:
            note(printable(f"Call it off: goscheduler backfills cancel {view['id']}"))
    else:
        note(printable(f"Nothing is run: --dry-run. It would be {runs}."))
    if view["note"]:
        note(printable(view["note"]))
