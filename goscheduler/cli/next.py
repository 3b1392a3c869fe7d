"""``goscheduler next``: what a crontab line, or "every mon-fri at 09:00", means, and when it fires."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Annotated

import typer

from goscheduler._text import printable
from goscheduler.cli._command_error import errors_told
from goscheduler.cli._options import AsJson, Debug
from goscheduler.cli._print import aligned, note, print_json
from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.times import astimezone, convert_to_datetime, local_timezone, zone_name
from goscheduler.triggers.base import BaseTrigger
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.every import is_every, read_every


def show_next(
    expression: Annotated[
        str, typer.Argument(help='A crontab line, such as "0 9 * * 1-5" or @daily, or "every mon-fri at 09:00".')
    ],
    tz: Annotated[
        str | None, typer.Option("--tz", metavar="ZONE", help="Such as Europe/Berlin; this machine's if left out.")
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=1000, help="How many times to show.")] = 10,
    seconds: Annotated[bool, typer.Option("--seconds", help="The line has a sixth field in front.")] = False,
    dialect: Annotated[
        str, typer.Option(help="How the line is read: vixie, or apscheduler (0 is Monday).")
    ] = "vixie",
    after: Annotated[
        str | None, typer.Option(metavar="TIME", help="Show the times from this one on instead of from now.")
    ] = None,
    job_id: Annotated[str, typer.Option("--id", metavar="JOB_ID", help="The job whose id gives H its values.")] = "",
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Explain a crontab line, or a sentence with "every", and show its next times."""
    with errors_told(debug):
        wanted = astimezone(tz) or local_timezone()
        start = convert_to_datetime(after, wanted, "after") or SYSTEM_CLOCK.now()
        trigger = _trigger_of(expression, wanted, dialect, seconds).for_job(job_id).anchored(start)
        times = trigger.preview(count, start)
        zone = zone_name(wanted)
        if as_json:
            print_json({"expression": expression, "meaning": trigger.explain(), "timezone": zone, "times": times})
            return
        print(printable(trigger.explain()))
        print("\n".join(aligned([_time_row(time) for time in times])) if times else "never", flush=True)
        if len(times) < count:
            note("There are no more times.")


def _trigger_of(expression: str, zone: tzinfo, dialect: str, seconds: bool) -> BaseTrigger:
    if is_every(expression):
        return read_every(expression, zone)
    return CronTrigger.from_crontab(expression, zone, dialect=dialect, seconds=seconds)


def _time_row(time: datetime) -> list[str]:
    offset = f"{time:%z}"
    return [f"{time:%a %Y-%m-%d %H:%M:%S}", f"{offset[:3]}:{offset[3:5]}", str(time.tzname())]
