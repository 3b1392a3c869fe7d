"""The dashboard and the rules that are shipped, and the table of names: what they name exists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from goscheduler.cli.app import app
from goscheduler.telemetry.catalog import METRICS, Kind, Metric

ROOT = Path(__file__).resolve().parent.parent.parent
REFERENCE = ROOT / "docs" / "reference" / "metrics.md"

#: Words of PromQL that are no metrics and no labels.
WORDS = {
    "sum", "max", "min", "by", "rate", "increase", "delta", "time", "histogram_quantile", "topk", "and", "le",
    "instance", "job",
}  # fmt: skip
BY_NAME = {metric.name: metric for metric in METRICS}


def _series(metric: Metric) -> set[str]:
    if metric.kind is Kind.HISTOGRAM:
        return {f"{metric.name}_{end}" for end in ("bucket", "sum", "count")}
    return {metric.name}


def _shown(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["telemetry", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def _wrong_in(expression: str) -> list[str]:
    """Return the words of an expression that are neither a series, nor one of its labels, nor of the language."""
    text = re.sub(r'"[^"]*"', "", expression).replace("$__rate_interval", "5m")
    words = re.findall(r"[a-z_][a-z_0-9]*", re.sub(r"\b\d+[smh]\b", "", text))
    metrics = [metric for metric in METRICS if _series(metric) & set(words)]
    known = WORDS.union(*(_series(metric) for metric in metrics), *(metric.labels for metric in metrics))
    return ["no metric of ours"] if not metrics else [word for word in words if word not in known]


def _expressions_of_the_dashboard() -> Iterator[tuple[str, str]]:
    for panel in json.loads(_shown("dashboard"))["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def _rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(_shown("rules"))["groups"] for rule in group["rules"]]


def test_every_metric_of_the_dashboard_exists_with_its_labels() -> None:
    assert {title: _wrong_in(text) for title, text in _expressions_of_the_dashboard() if _wrong_in(text)} == {}


def test_every_metric_of_the_rules_exists_with_its_labels() -> None:
    assert {rule["alert"]: _wrong_in(rule["expr"]) for rule in _rules() if _wrong_in(rule["expr"])} == {}


def test_the_check_of_expressions_sees_a_name_that_does_not_exist() -> None:
    assert _wrong_in("rate(scheduler_runs[5m])")
    assert _wrong_in("sum by (store) (rate(scheduler_runs_total[5m]))") == ["store"]
    assert _wrong_in("rate(scheduler_run_duration_seconds[5m])")
    assert not _wrong_in('sum by (status) (rate(scheduler_runs_total{schedule_id=~"a"}[5m]))')


def test_the_dashboard_has_twelve_panels_that_do_not_overlap() -> None:
    panels = json.loads(_shown("dashboard"))["panels"]
    assert len(panels) == 12
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == 12
    assert len({panel["id"] for panel in panels}) == 12


def test_every_rule_has_a_severity_a_summary_and_a_name_of_its_own() -> None:
    rules = _rules()
    assert len({rule["alert"] for rule in rules}) == len(rules)
    assert {rule["labels"]["severity"] for rule in rules} == {"warning", "critical"}
    assert all(rule["annotations"]["summary"] for rule in rules)


def test_what_a_summary_names_is_a_label_that_the_rule_keeps() -> None:
    for rule in _rules():
        kept = {label.strip() for labels in re.findall(r"by \(([^)]*)\)", rule["expr"]) for label in labels.split(",")}
        assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= kept, rule["alert"]


@pytest.mark.parametrize(("command", "name"), [("dashboard", "grafana.json"), ("rules", "prometheus-rules.yaml")])
def test_the_command_prints_the_file_of_the_package(command: str, name: str) -> None:
    assert _shown(command) == (files("goscheduler.telemetry") / "files" / name).read_text(encoding="utf-8")


def test_the_reference_lists_every_metric_with_kind_labels_and_instrument() -> None:
    rows = {}
    for line in REFERENCE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            rows[cells[0].strip("`")] = (cells[1], tuple(re.findall(r"`(\w+)`", cells[2])), cells[3].strip("`"))
    assert rows == {
        metric.name: (metric.kind.value, metric.labels, metric.instrument) for metric in METRICS
    }  # fmt: skip
