"""What one run of the fault suite has left in its folder, as values.

Times called ``t`` (``t0``, ``begin``, ``end`` …) are seconds of the monotonic clock, which all processes of a machine
share. Times called ``at`` are seconds since 1970; :meth:`History.mono` turns them into the former.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

Row = dict[str, Any]


@dataclass(frozen=True)
class Setup:
    """What a run was made with, and when it was read."""

    store: str
    seed: int
    lease: float
    wall_offset: float
    epsilon: float
    recovery: float
    resume: float
    heal: float
    read: float
    faults: tuple[str, ...] = ()
    mutant: str | None = None
    not_ready: tuple[str, ...] = ()
    """Nodes that did not come up after the last heal."""
    hanging: tuple[str, ...] = ()
    """Nodes that did not end when they were told to in the end."""
    quiet: bool = True
    """Whether nothing was left to do at the final read."""
    timed: bool = True
    """Whether times beyond a bound are violations; on a machine that is busy with other things they are figures."""


@dataclass(slots=True)
class Execution:
    """One call of a job's function, from its first line to its last."""

    t: float
    job: str
    run: str
    fire: str
    at: float
    attempt: int
    fence: int
    node: str
    life: int
    kind: str = ""
    end: float | None = None
    outcome: str | None = None
    """"ok", "error", "cancelled", or None if the last line was never reached."""


@dataclass(slots=True)
class Life:
    """One process of a node, from its start to its end."""

    node: str
    life: int
    ready: float
    stopping: float | None = None
    stopped: float | None = None
    killed: float | None = None

    def over(self) -> float | None:
        """Return when the process was gone for certain, or None while it lives."""
        times = [time for time in (self.killed, self.stopped) if time is not None]
        return min(times) if times else None


@dataclass(slots=True)
class Fault:
    """A disturbance, from its begin to its heal."""

    kind: str
    node: str | None
    """None for all nodes."""
    life: int | None
    begin: float
    end: float
    detail: Any = None

    def hits(self, node: str) -> bool:
        return self.node is None or self.node == node

    def overlap(self, begin: float, end: float) -> float:
        """Return how many seconds of it lie in a window; negative if none do."""
        return min(self.end, end) - max(self.begin, begin)

    def text(self) -> str:
        where = "all nodes" if self.node is None else self.node
        return f"{self.kind} of {where}, {self.end - self.begin:.2f} s"


@dataclass(slots=True)
class Operation:
    """A call of the client."""

    t0: float
    t1: float
    op: str
    id: str | None
    result: str
    """"ok", "fail", or "unknown" if it may or may not have been carried out."""
    spec: Row = field(default_factory=dict)
    error: str | None = None


@dataclass(slots=True)
class Record:
    """What the product's own history says of one attempt."""

    job: str
    run: str
    fire: str
    at: float
    attempt: int
    fence: int
    outcome: str
    owner: str | None = None
    started_at: float | None = None
    finished_at: float | None = None
    coalesced: int | None = None
    """How many earlier fire times it stands for; None if the reader did not say."""
    fire_times: int = 1
    source: str = "schedule"
    reason: str = ""


@dataclass(slots=True)
class Waiting:
    """A run that had not ended at the final read."""

    id: str
    job: str
    at: float
    due_at: float | None = None
    attempt: int = 1
    owner: str | None = None
    state: str = ""


@dataclass(slots=True)
class Letter:
    """A dead letter."""

    job: str
    run: str
    fire: str
    attempts: int = 1


@dataclass(slots=True)
class Delivery:
    """A message that reached its destination."""

    t: float
    message: str
    node: str
    life: int
    run: str = ""
    attempt: int = 1


@dataclass(slots=True)
class Hold:
    """Something that one process had for itself: a document or a lock."""

    t: float
    name: str
    token: Any
    node: str
    life: int
    end: float | None = None
    finished: bool = False
    """Whether it was let go in good order."""


@dataclass(slots=True)
class Guarded:
    """A write to something that looks at fences."""

    t: float
    name: str
    fence: int
    accepted: bool
    node: str
    life: int


@dataclass(slots=True)
class Event:
    """What a scheduler told its listeners."""

    t: float
    code: str
    node: str
    life: int
    job: str | None = None
    run: str | None = None


@dataclass
class History:
    """All of a run."""

    setup: Setup
    executions: list[Execution] = field(default_factory=list)
    lives: list[Life] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    live: list[Waiting] = field(default_factory=list)
    pending: list[Waiting] = field(default_factory=list)
    dead: list[Letter] = field(default_factory=list)
    jobs: list[Row] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    documents: list[Hold] = field(default_factory=list)
    locks: list[Hold] = field(default_factory=list)
    guarded: list[Guarded] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    messages_left: list[str] = field(default_factory=list)
    impossible: set[str] = field(default_factory=set)
    """Faults that could not be played on this machine."""
    hangs: list[Fault] = field(default_factory=list)
    """Restarts in which the process did not end."""

    def mono(self, at: float) -> float:
        """Return a time of the wall clock in seconds of the monotonic one."""
        return at - self.setup.wall_offset

    @cached_property
    def life_of(self) -> dict[tuple[str, int], Life]:
        return {(life.node, life.life): life for life in self.lives}

    @cached_property
    def _starts(self) -> list[float]:
        return sorted([start.t for start in self.executions] + [delivery.t for delivery in self.deliveries])

    def next_start(self, after: float) -> float | None:
        """Return when any node started something next."""
        place = bisect_right(self._starts, after)
        return self._starts[place] if place < len(self._starts) else None


T = TypeVar("T")


def micros(at: float) -> int:
    """Return a time as a whole number, by which fire times are compared."""
    return round(at * 1_000_000)


def read(folder: Path | str) -> History:
    """Return the history that a folder holds."""
    folder = Path(folder)
    run = json.loads((folder / "run.json").read_text())
    setup = _made(Setup, {name: tuple(value) if isinstance(value, list) else value for name, value in run.items()})
    history = History(setup)
    _read_final(history, folder / "final.json")
    history.operations = sorted(
        (_made(Operation, {**row, "spec": row.get("spec") or {}}) for row in lines(folder / "client.jsonl")),
        key=lambda each: each.t0,
    )
    for path in sorted(folder.glob("ledger-*.jsonl")):
        _read_ledger(history, lines(path))
    _read_nemesis(history, lines(folder / "nemesis.jsonl"))
    for row in lines(folder / "machine.jsonl"):
        history.faults.append(Fault("stall", None, None, row["since"], row["t"]))
    history.faults.sort(key=lambda each: each.begin)
    for fault in history.hangs:  # the harness has killed it then
        life = history.life_of.get((fault.node or "", fault.life or 0))
        if life is not None:
            life.killed = fault.end
    for found in (history.executions, history.deliveries, history.documents, history.locks, history.guarded):
        found.sort(key=lambda each: each.t)
    return history


def lines(path: Path) -> Iterator[Row]:
    """Yield the rows of a file. Only its last line may be torn: the process may have died, or the disk been full."""
    if not path.exists():
        return
    texts = path.read_text(errors="replace").splitlines()
    for number, text in enumerate(texts, 1):
        try:
            yield json.loads(text)
        except ValueError:
            if number < len(texts):
                raise ValueError(f"{path}:{number} is no JSON: {text[:80]!r}") from None


def _made(cls: type[T], row: Row) -> T:
    names = {each.name for each in fields(cls)}  # type: ignore[arg-type]
    return cls(**{name: value for name, value in row.items() if name in names})


def _read_final(history: History, path: Path) -> None:
    final: Row = json.loads(path.read_text())
    history.records = [_made(Record, row) for row in final.get("history", ())]
    history.live = [_waiting(row) for row in final.get("live", ())]
    history.pending = [_waiting(row) for row in final.get("pending", ())]
    history.dead = [_made(Letter, row) for row in final.get("dead", ())]
    history.jobs = list(final.get("jobs", ()))
    history.messages_left = list(final.get("messages", ()))


def _waiting(row: Row) -> Waiting:
    return _made(Waiting, {"id": row.get("run"), "due_at": row.get("due"), **row})


def _read_ledger(history: History, rows: Iterable[Row]) -> None:
    open_calls: dict[tuple[str, int], list[Execution]] = {}
    open_holds: dict[tuple[str, str, str], Hold] = {}
    life: Life | None = None
    for row in rows:
        kind = row["e"]
        if kind == "start":
            call = _made(Execution, row)
            history.executions.append(call)
            open_calls.setdefault((call.run, call.fence), []).append(call)
        elif kind == "end":
            calls = open_calls.get((row["run"], row["fence"]))
            if not calls:
                raise ValueError(f"an end without a start: {row}")
            call = calls.pop(0)  # the one that was begun first, if one hand-out was started twice
            call.end, call.outcome = row["t"], row["outcome"]
        elif kind == "ready":
            life = _made(Life, {**row, "ready": row["t"]})
            history.lives.append(life)
        elif kind in ("stopping", "stopped") and life is not None:
            setattr(life, kind, row["t"])
        elif kind in ("document", "lock"):
            _read_hold(history, row, open_holds)
        elif kind == "delivered":
            history.deliveries.append(_made(Delivery, row))
        elif kind == "guarded":
            history.guarded.append(_made(Guarded, row))
        elif kind == "event":
            history.events.append(_made(Event, row))
        elif kind == "stall":
            history.faults.append(Fault("stall", row["node"], row["life"], row["since"], row["t"]))


def _read_hold(history: History, row: Row, open_holds: dict[tuple[str, str, str], Hold]) -> None:
    document = row["e"] == "document"
    name, token = str(row["id" if document else "name"]), row.get("token" if document else "fence")
    key = (row["e"], name, str(token))
    if row["phase"] in ("start", "acquired"):
        hold = Hold(row["t"], name, token, row["node"], row["life"])
        (history.documents if document else history.locks).append(hold)
        open_holds[key] = hold
    elif key in open_holds:
        hold = open_holds.pop(key)
        hold.end, hold.finished = row["t"], row["phase"] != "lost"


def _read_nemesis(history: History, rows: Iterable[Row]) -> None:
    open_faults: dict[tuple[str, str | None], list[Fault]] = {}
    for row in rows:
        kind = row["fault"].replace("_", "-")
        key = (kind, row.get("node"))  # the life is told at the begin only
        if row["phase"] == "begin":
            fault = Fault(kind, row.get("node"), row.get("life"), row["t"], history.setup.read, row.get("detail"))
            history.faults.append(fault)
            open_faults.setdefault(key, []).append(fault)
        elif row["phase"] == "end" and open_faults.get(key):
            open_faults[key].pop(0).end = row["t"]
        elif row["phase"] == "impossible":
            history.impossible.add(kind)
        elif row["phase"] == "hangs":
            history.hangs += open_faults.get(key, [])
    for fault in history.faults:
        if fault.kind == "kill":
            who = (fault.node or "", fault.life or 0)
            if who not in history.life_of:  # killed before it had said that it is there
                history.life_of[who] = Life(*who, ready=fault.begin)
                history.lives.append(history.life_of[who])
            history.life_of[who].killed = fault.begin
