"""``goscheduler telemetry``: files for the programs that read metrics."""

from __future__ import annotations

import sys
from importlib.resources import files

import typer

app = typer.Typer(help="Print a dashboard for Grafana, or alerting rules for Prometheus.", no_args_is_help=True)


@app.command("dashboard")
def print_dashboard() -> None:
    """Print a dashboard for Grafana, as JSON: import it there."""
    _print("grafana.json")


@app.command("rules")
def print_rules() -> None:
    """Print alerting rules for Prometheus, as YAML: name the file under rule_files."""
    _print("prometheus-rules.yaml")


def _print(name: str) -> None:
    sys.stdout.write((files("goscheduler.telemetry") / "files" / name).read_text(encoding="utf-8"))
