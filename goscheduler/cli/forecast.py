"""``goscheduler forecast``: what fires in the hours to come, as bars."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import datetime, tzinfo
from typing import Annotated, Any

import typer

from goscheduler._text import printable
from goscheduler.cli._options import Where, grouped
from goscheduler.cli._print import aligned, note, print_json, width_of_output
from goscheduler.cli._session import opened
from goscheduler.cli._text import many
from goscheduler.times import astimezone, local_timezone

#: The shortest bar of the fullest hour, in characters.
SHORTEST = 10
BAR, PLAIN_BAR = "█", "#"


@grouped
def show_forecast(
    where: Where,
    hours: Annotated[int, typer.Option(help="How far to look ahead.")] = 24,
    bucket: Annotated[int, typer.Option(metavar="MINUTES", help="Length of one line.")] = 60,
    tag: Annotated[str | None, typer.Option(help="Only jobs with this tag.")] = None,
    executor: Annotated[str | None, typer.Option(help="Only jobs of this executor.")] = None,
    task: Annotated[str | None, typer.Option(help="Only jobs of this task or function.")] = None,
    tz: Annotated[
        str | None, typer.Option("--tz", metavar="ZONE", help="Such as Europe/Berlin; this machine's if left out.")
    ] = None,
) -> None:
    """Show how much fires in each hour to come, by executor."""
    with opened(where) as session:
        view = session.call(
            "forecast", hours=hours, bucket=bucket, tag=tag, executor=executor, task=task, timezone=tz
        )
        if where.as_json:
            print_json(view)
            return
        zone = astimezone(tz) or local_timezone()
        print("\n".join(_lines(view["buckets"], zone, width_of_output())))
        _print_total(view)


def _lines(buckets: list[dict[str, Any]], zone: tzinfo, width: int) -> list[str]:
    starts = [datetime.fromisoformat(bucket["start"]).astimezone(zone) for bucket in buckets]
    rows = [
        [f"{start:%a %d %H:%M %Z}", f"{bucket['firings']:,}", "clock changes" if bucket["clock_changes"] else ""]
        for start, bucket in zip(starts, buckets, strict=True)
    ]
    number_width = max(len(row[1]) for row in rows)
    heads = aligned([[row[0], row[1].rjust(number_width)] for row in rows])
    tails = ["  ".join(filter(None, (_shares(bucket), row[2]))) for bucket, row in zip(buckets, rows, strict=True)]
    most = max(bucket["firings"] for bucket in buckets)
    longest = max(SHORTEST, width - len(heads[0]) - max(map(len, tails)) - 4)
    bar = BAR if _can_show(BAR) else PLAIN_BAR
    bars = [bar * _bar_length(bucket["firings"], most, longest) for bucket in buckets]
    return ["  ".join(filter(None, parts)) for parts in zip(heads, bars, tails, strict=True)]


def _bar_length(firings: int, most: int, longest: int) -> int:
    return 0 if not firings else max(1, round(firings / most * longest))


def _shares(bucket: dict[str, Any]) -> str:
    by_executor = sorted(bucket["by_executor"].items())
    return printable(", ".join(f"{alias} {firings:,}" for alias, firings in by_executor))


def _can_show(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _print_total(view: dict[str, Any]) -> None:
    total: Counter[str] = Counter()
    for bucket in view["buckets"]:
        total.update(bucket["by_executor"])
    shares = ", ".join(f"{alias} {firings:,}" for alias, firings in sorted(total.items()))
    whole = f"{many(total.total(), 'firing')} of {many(view['jobs'], 'job')}"
    print(printable(f"{whole}: {shares}" if shares else whole), flush=True)
    if not view["complete"]:
        note("These are not all: there are too many jobs or times to look at all of them.")
