"""Shows what happened: the evidence of one violation as text, and a whole run as a page.

``python tests/faults/timeline.py FOLDER …`` writes ``timeline.html`` into the folders of recorded runs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from facts import Violation
from history import Execution, Fault, History, read

#: At most so many lines of text.
LONGEST = 40
#: Pixels for a second, for a lane of runs, and between nodes.
SECOND, LANE, GAP = 24, 6, 14
LEFT, TOP = 64, 46


def text(history: History, violation: Violation) -> str:
    """Return what happened to the subject of a violation, and which faults overlapped, a line for each event."""
    origin = origin_of(history)
    rows = sorted(_events(history, violation), key=lambda row: row[0])
    shown = [f"  {t - origin:+10.3f} s  {who:<8} {what}" for t, who, what in rows]
    if len(shown) > LONGEST:
        half = LONGEST // 2
        shown = [*shown[:half], f"  … {len(shown) - LONGEST} more …", *shown[-half:]]
    about = f"{violation.subject}: {violation.text}"
    return "\n".join([about, *([f"firing {violation.fire}"] if violation.fire else []), *shown])


def origin_of(history: History) -> float:
    """Return the moment that all times are told from: the first process was ready."""
    return min((life.ready for life in history.lives), default=history.setup.heal)


def _events(history: History, violation: Violation) -> Iterator[tuple[float, str, str]]:
    begin, end = violation.begin - history.setup.lease, violation.end + 1.0
    for call in history.executions:
        near = call.job == violation.subject and begin <= call.t <= end
        if call.fire == violation.fire or (violation.fire is None and near):
            who = f"{call.node}/{call.life}"
            yield call.t, who, f"start    run {call.run} attempt {call.attempt} fence {call.fence}"
            if call.end is not None:
                yield call.end, who, f"end      run {call.run} fence {call.fence}: {call.outcome}"
    for record in history.records:
        if violation.fire and record.fire == violation.fire and record.finished_at is not None:
            what = f"record   run {record.run} attempt {record.attempt} fence {record.fence}: {record.outcome}"
            yield history.mono(record.finished_at), "history", what
    for letter in history.dead:
        if violation.fire and letter.fire == violation.fire:
            yield history.setup.read, "final", f"dead letter of run {letter.run}, {letter.attempts} attempts"
    for operation in history.operations:
        ids = [operation.id, *operation.spec.get("ids", ()), *operation.spec.get("jobs", ())]
        if violation.subject in ids:
            took = operation.t1 - operation.t0
            yield operation.t1, "client", f"{operation.op} -> {operation.result} (called {took:.3f} s before)"
    yield from _other_events(history, violation, begin, end)
    yield from _surroundings(history, violation, begin, end)


def _other_events(history: History, violation: Violation, begin: float, end: float) -> Iterator[tuple[float, str, str]]:
    subject = violation.subject
    for delivery in history.deliveries:
        if delivery.message == subject:
            yield delivery.t, f"{delivery.node}/{delivery.life}", f"delivered, attempt {delivery.attempt}"
    for hold in [*history.documents, *history.locks]:
        if hold.name == subject and begin <= hold.t <= end:
            who, how = f"{hold.node}/{hold.life}", "lets it go" if hold.finished else "has lost it"
            yield hold.t, who, f"has it, token {hold.token}"
            if hold.end is not None:
                yield hold.end, who, f"{how}, token {hold.token}"
    for write in history.guarded:
        if write.name == subject and begin <= write.t <= end:
            verdict = "taken" if write.accepted else "refused"
            yield write.t, f"{write.node}/{write.life}", f"write with fence {write.fence}: {verdict}"


def _surroundings(history: History, violation: Violation, begin: float, end: float) -> Iterator[tuple[float, str, str]]:
    for life in history.lives:
        if violation.nodes and life.node not in violation.nodes:
            continue
        for name in ("ready", "stopping", "stopped", "killed"):
            t = getattr(life, name)
            if t is not None and begin <= t <= end:
                yield t, f"{life.node}/{life.life}", name
    for fault in history.faults:
        concerned = fault.node is None or not violation.nodes or fault.node in violation.nodes
        if concerned and fault.overlap(begin, end) >= 0:
            yield fault.begin, "nemesis", f"begin of {fault.text()}"
            if fault.end > fault.begin:
                yield fault.end, "nemesis", f"heal of {fault.kind}"
    runs = {call.run for call in history.executions if violation.fire and call.fire == violation.fire}
    for event in history.events:
        if begin <= event.t <= end and (event.run in runs or (event.run is None and event.node in violation.nodes)):
            yield event.t, f"{event.node}/{event.life}", event.code


def write(folder: Path | str) -> Path:
    """Write the page of a recorded run, with its verdict if there is one, and return its path."""
    folder = Path(folder)
    verdict = folder / "verdict.json"
    found = json.loads(verdict.read_text()) if verdict.exists() else {}
    path = folder / "timeline.html"
    path.write_text(page(read(folder), found))
    return path


def page(history: History, verdict: dict[str, Any]) -> str:
    """Return the page of a run."""
    setup = history.setup
    title = f"{setup.store}, seed {setup.seed}" + (f", mutant {setup.mutant}" if setup.mutant else "")
    outcome = verdict.get("outcome", "not judged")
    kinds = "".join(f"<li>{escape(kind)}: {count}</li>" for kind, count in verdict.get("kinds", {}).items())
    doubts = "".join(f"<li>{escape(doubt)}</li>" for doubt in verdict.get("doubts", ()))
    examples = "".join(
        f"<h2 id='{_anchor(kind)}'>{escape(kind)}</h2><pre>{escape(example)}</pre>"
        for kind, example in verdict.get("examples", {}).items()
    )
    rows = "".join(
        f"<tr><th>{escape(name.replace('_', ' '))}</th><td>{escape(_shown(value))}</td></tr>"
        for name, value in verdict.get("figures", {}).items()
    )
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(title)}</title><style>{STYLE}</style>"
        f"<h1>{escape(title)} <span class='verdict {outcome.lower()}'>{outcome}</span></h1>"
        f"<ul class='kinds'>{kinds}{doubts}</ul>{LEGEND}"
        f"<div class='scroll' tabindex='0'>{''.join(_drawing(history, verdict))}</div>"
        f"{examples}<h2>Figures</h2><table>{rows}</table></html>"
    )


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {count}" for key, count in value.items()) or "none"
    return "–" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


def _drawing(history: History, verdict: dict[str, Any]) -> Iterator[str]:
    origin = origin_of(history)
    lanes = _lanes(history)
    tops, y = {}, TOP
    for node in sorted({life.node for life in history.lives} | set(lanes)):
        tops[node] = y
        y += max(3, len(lanes.get(node, ()))) * LANE + GAP
    width, bottom = LEFT + (history.setup.read - origin) * SECOND + 20, y
    yield f"<svg width='{width:.0f}' height='{bottom + 24}' role='img' aria-label='Runs and faults on a time line'>"
    for second in range(0, int(history.setup.read - origin) + 1, 5):
        x = LEFT + second * SECOND
        yield f"<line class='grid' x1='{x}' x2='{x}' y1='{TOP - 8}' y2='{bottom}'/>"
        yield f"<text x='{x}' y='{bottom + 16}'>{second} s</text>"
    labelled: list[float] = []
    for fault in (each for each in history.faults if each.end >= origin):
        yield from _band(fault, history, tops, lanes, origin, bottom, labelled)
    for node, top in tops.items():
        yield f"<text class='node' x='8' y='{top + 10}'>{escape(node)}</text>"
        for number, lane in enumerate(lanes.get(node, ())):
            for call, until in lane:
                yield _bar(call, until, origin, top + number * LANE)
    for row in verdict.get("violations", ())[:500]:
        x = LEFT + (row["begin"] - origin) * SECOND
        hint = escape(f"{row['kind']}: {row['subject']}: {row['text']}")
        mark = f"<path class='violation' d='M{x:.1f} {TOP - 10}l-5 -9h10z'><title>{hint}</title></path>"
        yield f"<a href='#{_anchor(row['kind'])}'>{mark}</a>"
    yield "</svg>"


def _lanes(history: History) -> dict[str, list[list[tuple[Execution, float]]]]:
    """Return node → lanes of calls that do not overlap, each with the moment until which it is drawn."""
    over = {key: life.over() for key, life in history.life_of.items()}
    lanes: dict[str, list[list[tuple[Execution, float]]]] = {}
    for call in history.executions:
        end = call.end if call.end is not None else over.get((call.node, call.life)) or history.setup.read
        rows = lanes.setdefault(call.node, [])
        row = next((each for each in rows if each[-1][1] <= call.t), None)
        if row is None:
            row = []
            rows.append(row)
        row.append((call, max(end, call.t)))
    return lanes


def _bar(call: Execution, until: float, origin: float, y: float) -> str:
    kind = {"ok": "ok", "error": "failed", "cancelled": "failed", None: "cut"}[call.outcome]
    outcome = call.outcome or "no end"
    hint = f"{call.fire} attempt {call.attempt} fence {call.fence}: {outcome}, +{call.t - origin:.3f} s"
    return (
        f"<rect class='{kind}' x='{LEFT + (call.t - origin) * SECOND:.1f}' y='{y}' rx='1' height='{LANE - 1}' "
        f"width='{max(1.5, (until - call.t) * SECOND):.1f}'><title>{escape(hint)}</title></rect>"
    )


def _band(
    fault: Fault, history: History, tops: dict[str, int], lanes: dict[str, Any], origin: float, bottom: int,
    labelled: list[float],
) -> Iterator[str]:  # fmt: skip
    begin = max(fault.begin, origin)
    x, width = LEFT + (begin - origin) * SECOND, max(2.0, (fault.end - begin) * SECOND)
    top, height = TOP - 8, bottom - TOP + 8
    if fault.node is not None:
        if fault.node not in tops:
            return
        top, height = tops[fault.node] - 3, max(3, len(lanes.get(fault.node, ()))) * LANE + 6
    hint = escape(f"{fault.text()}, +{fault.begin - origin:.2f} s {fault.detail or ''}")
    kind = "death" if fault.kind == "kill" else "band"
    place = f"x='{x:.1f}' y='{top}' width='{width:.1f}' height='{height}'"
    yield f"<rect class='{kind}' {place}><title>{hint}</title></rect>"
    if fault.kind == "stall":
        return
    row = 0
    while row < len(labelled) and labelled[row] > x:
        row += 1
    if row < 2:  # more lines of labels have no room; the hint tells it
        labelled[row : row + 1] = [x + 7.0 * len(fault.kind) + 8]
        yield f"<text class='fault' x='{x:.1f}' y='{12 + 11 * row}'>{escape(fault.kind)}</text>"


def _anchor(kind: str) -> str:
    return kind.replace(" ", "-")


LEGEND = (
    "<p class='legend'><i class='ok'></i> done <i class='failed'></i> failed <i class='cut'></i> no end"
    " <i class='band'></i> fault <i class='death'></i> kill <b class='violation'>▼</b> violation</p>"
)

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --paper: #fbfbf9; --card: #fff; --line: #e3e5e8;
  --ok: #2f7d6b; --failed: #c77d15; --cut: #7a5ba8; --band: #d9480f2e; --death: #b3261e; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --soft: #97a3b3; --paper: #14181e; --card: #1a2028;
  --line: #2c343f; --ok: #57b39c; --failed: #e0a34a; --cut: #b195de; --band: #ff8a4c38; --death: #ff7a70;
  --bad: #ff7a70; } }
body { font: 14px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 24px; }
h1 { font-size: 20px; font-weight: 600; } h2 { font-size: 15px; font-weight: 600; margin: 24px 0 4px; }
.verdict { font-size: 12px; padding: 2px 8px; border-radius: 4px; margin-left: 8px; vertical-align: 3px;
  border: 1px solid currentColor; color: var(--soft); }
.verdict.violated { color: var(--bad); } .verdict.valid { color: var(--ok); }
.kinds { padding-left: 18px; color: var(--soft); } .legend { color: var(--soft); }
.legend i { display: inline-block; width: 14px; height: 8px; border-radius: 2px; margin: 0 2px 0 12px; }
.legend .ok { background: var(--ok); } .legend .failed { background: var(--failed); }
.legend .cut { background: var(--cut); } .legend .band { background: var(--band); }
.legend .death { background: var(--death); } b.violation { color: var(--bad); margin-left: 12px; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 6px; }
svg text { font: 11px system-ui, sans-serif; fill: var(--soft); } svg .node { font-weight: 600; fill: var(--ink); }
svg .grid { stroke: var(--line); } svg .ok { fill: var(--ok); } svg .failed { fill: var(--failed); }
svg .cut { fill: var(--cut); } svg .band { fill: var(--band); } svg .death { fill: var(--death); }
svg .violation { fill: var(--bad); } svg .fault { fill: var(--ink); }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: 12px; overflow-x: auto;
  font: 12px/1.5 ui-monospace, monospace; }
th { text-align: left; font-weight: 500; color: var(--soft); padding-right: 24px; vertical-align: top; }
td { font-variant-numeric: tabular-nums; }
"""


if __name__ == "__main__":
    for each in sys.argv[1:]:
        print(write(each))
