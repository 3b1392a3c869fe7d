"""``goscheduler alerts``: evaluates alerts as a program of its own; lists, acknowledges and silences them."""

from __future__ import annotations

import signal
import threading
from typing import Annotated, Any

import typer

from goscheduler._text import printable
from goscheduler.cli._command_error import FAILED, CommandError, errors_told
from goscheduler.cli._options import AsJson, Debug, Reason, Where, grouped
from goscheduler.cli._print import print_json, print_rows
from goscheduler.cli._session import opened

app = typer.Typer(help="Evaluate alerts; list, acknowledge and silence them; try their channels.")

COLUMNS = ("state", "alert", "rule", "target", "since", "message", "who", "id")
TEST_COLUMNS = ("channel", "result")
#: How long a signal may go unheard at most.
LOOK_SECONDS = 0.25

Config = Annotated[str | None, typer.Option("--config", "-c", metavar="FILE", help="The alerts, in TOML.")]
AlertId = Annotated[str, typer.Argument(metavar="ID", help="The id of what fires, as alerts list shows it.")]
Name = Annotated[str, typer.Argument(metavar="ALERT|ID", help="The name of an alert, or the id of what fires.")]
Length = Annotated[
    str | None, typer.Option("--for", metavar="TIME", help="For how long, such as 2h, or until when.")
]


@app.callback(invoke_without_command=True)
@grouped
def run_alerts(
    context: typer.Context,
    where: Where,
    config: Config = None,
    log_level: Annotated[str, typer.Option(help="The lowest level that is logged.")] = "INFO",
) -> None:
    """Evaluate alerts until SIGTERM or Ctrl-C, and tell the channels of the file."""
    if context.invoked_subcommand is not None:
        return
    from rich.console import Console

    from goscheduler.alerts import Alerts
    from goscheduler.cli._logging import read_level, set_up_logging

    with errors_told(where.debug):
        told = _loaded(config)
        set_up_logging(read_level(log_level), Console(stderr=True, markup=False, highlight=False, emoji=False))
    with opened(where) as session:
        alerts = Alerts(session.scheduler, told.alerts, told.channels, **told.settings)
        _work(alerts)


def _work(alerts: Any) -> None:
    stopping = threading.Event()
    previous = {number: signal.signal(number, lambda *_: stopping.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with alerts:
            print("Alerts are evaluated; SIGTERM or Ctrl-C ends it", flush=True)
            while not stopping.wait(LOOK_SECONDS):
                pass
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@app.command("test")
def try_channels(config: Config = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """Send a test notice through every channel. Exit code 1 if one did not take it."""
    from goscheduler.alerts import send_test
    from goscheduler.clock import SYSTEM_CLOCK

    with errors_told(debug):
        told = _loaded(config)
        results = send_test(told.channels, SYSTEM_CLOCK.now())
        for channel in told.channels.values():
            channel.close()
        rows = [{"channel": name, "result": problem or "taken"} for name, problem in results.items()]
        print_rows(rows, TEST_COLUMNS, as_json=as_json, nothing="The file has no channels.")
        if any(results.values()):
            raise typer.Exit(FAILED)


@app.command("list")
@grouped
def list_alerts(
    where: Where,
    state: Annotated[str | None, typer.Option(help="Only those in this state: firing, pending or ok.")] = None,
) -> None:
    """List where alerts stand: those that fire first, and those that were ok for less than a day."""
    with opened(where) as session:
        rows = session.call("alerts", state=state)
        if not where.as_json:
            rows = [{**row, "who": _who(row)} for row in rows]
        print_rows(rows, COLUMNS, as_json=where.as_json, nothing="No alert has fired within a day.")


@app.command("ack")
@grouped
def acknowledge(id: AlertId, where: Where, length: Length = None, reason: Reason = None) -> None:
    """Say that somebody knows: no reminder and no escalation follow."""
    with opened(where) as session:
        view = session.call("ack_alert", id=id, until=length, reason=reason)
        if where.as_json:
            print_json(view)
        else:
            print(printable(f"{view['alert']}, {view['target']}: acknowledged"))


@app.command("silence")
@grouped
def silence(
    name: Name, where: Where, length: Length = None, reason: Reason = None,
    end: Annotated[bool, typer.Option("--end", help="End the silence.")] = False,
) -> None:  # fmt: skip
    """Tell nothing new of an alert for a while."""
    with opened(where) as session:
        if (length is None) is not end:
            raise CommandError("give --for with a length of time, such as 2h, or --end")
        view = session.call("silence_alert", id=name, until=length, reason=reason)
        if where.as_json:
            print_json(view)
        else:
            print(printable(f"{name} is told again" if end else f"{name} is silent until {view['until']}"))


def _loaded(config: str | None) -> Any:
    from goscheduler.alerts import load_config
    from goscheduler.alerts.front import check_alerts
    from goscheduler.cli._target import import_from_here

    if config is None:
        raise CommandError("which alerts? Give the file with --config")
    import_from_here()  # the functions of channels
    try:
        told = load_config(config)
    except OSError as error:
        raise CommandError(f"--config: {config} cannot be read: {error.strerror}", FAILED) from error
    check_alerts(told.alerts, told.channels)
    return told


def _who(row: dict[str, Any]) -> str:
    """Return who has acknowledged or silenced it."""
    told = [("known to", row["acknowledged_by"]), ("silenced by", row["silenced_by"])]
    return ", ".join(f"{word} {name}" for word, name in told if name)
