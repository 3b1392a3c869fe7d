"""The values of alerts: a breach of a rule, the state of one alert about one target, and what is told of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, NamedTuple

STATE_VERSION = 1
LONGEST_MESSAGE = 500


class Phase(str, Enum):
    """Where an alert stands about one target."""

    OK = "ok"
    PENDING = "pending"
    """The rule is broken, but not for long enough yet."""
    FIRING = "firing"


class NoticeKind(str, Enum):
    """Why a notice is sent."""

    FIRING = "firing"
    REMINDER = "reminder"
    ESCALATION = "escalation"
    RECOVERY = "recovery"
    TEST = "test"


class Breach(NamedTuple):
    """A rule that is broken for one target."""

    target: str
    message: str
    cause: str = ""
    """Breaches of a rule that have the same cause are told together."""


class Acknowledgement(NamedTuple):
    """Somebody knows: no reminder is sent, and nothing is escalated."""

    by: str
    reason: str = ""
    until: int | None = None
    """A moment in microseconds; None for as long as the alert fires."""


class Owed(NamedTuple):
    """A notice that has to be sent. It stands in the state that it is about: so none is lost between two writes."""

    kind: NoticeKind
    at: int
    """When it became due, in microseconds, as all moments here."""
    episode: int
    left: tuple[str, ...]
    """The channels that do not have it yet."""
    message: str
    since: int = 0
    """When the alert began to fire."""
    group: str = ""
    """Names the notice that it is a part of; set by who claims it first."""
    claim: str = ""
    """Names who sends it."""
    not_before: int = 0
    """Nobody else sends it before."""
    tries: int = 0


class State(NamedTuple):
    """The state of one alert about one target. Every change is one compare-and-set on its note."""

    alert: str
    rule: str
    target: str
    phase: Phase = Phase.OK
    since: int = 0
    episode: int = 0
    """When it began to fire last: what names an episode."""
    message: str = ""
    cause: str = ""
    told_at: int | None = None
    """When a notice became due last; None if nobody was told of this episode."""
    escalated: bool = False
    calm_since: int | None = None
    """While it is held at firing because it flaps: since when the rule is not broken."""
    turns: tuple[int, ...] = ()
    """When it last began and ceased to be broken."""
    acknowledged: Acknowledgement | None = None
    group: str = ""
    """Names the notice that told of this episode."""
    owed: tuple[Owed, ...] = ()

    @property
    def id(self) -> str:
        """Names the alert and its target."""
        return state_id(self.alert, self.rule, self.target)

    @property
    def text(self) -> str:
        """The state as a note keeps it."""
        return json.dumps({"v": STATE_VERSION, **self._asdict()}, separators=(",", ":"))


def state_id(alert: str, rule: str, target: str) -> str:
    """Return what names an alert and its target, as one short word."""
    return _digest(alert, rule, target)[:20]


def dedup_key(state: State, episode: int) -> str:
    """Return what receivers tell repeated notices of an episode by."""
    return _digest(state.alert, state.rule, state.target, str(episode))[:32]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def read_state(text: str) -> State | None:
    """Return the state in a note; None for anything else. What a newer version adds is left out."""
    try:
        told = json.loads(text)
        known = {name: told[name] for name in State._fields if name in told}
        known["phase"] = Phase(known["phase"])
        known["turns"] = tuple(known["turns"])
        acknowledged = known["acknowledged"]
        known["acknowledged"] = None if acknowledged is None else Acknowledgement(*acknowledged[:3])
        known["owed"] = tuple(_read_owed(each) for each in known["owed"])
        return State(**known)
    except (ValueError, TypeError, KeyError):
        return None


def _read_owed(told: Sequence[Any]) -> Owed:
    kind, at, episode, left, *rest = told[: len(Owed._fields)]
    return Owed(NoticeKind(kind), at, episode, tuple(left), *rest)


@dataclass(frozen=True)
class Notice:
    """What a channel is to tell."""

    kind: NoticeKind
    alert: str
    rule: str
    targets: Sequence[str]
    """Some of them, where there are many."""
    count: int
    """How many there are."""
    message: str
    since: datetime
    """When the alert began to fire."""
    at: datetime
    dedup_key: str
    """The same for every notice about one episode, and for every repetition of one."""

    @property
    def id(self) -> str:
        """The same for every repetition of this notice, and for no other notice."""
        return f"{self.dedup_key}-{self.kind.value}" + (
            f"-{self.at:%Y%m%d%H%M%S}" if self.kind is NoticeKind.REMINDER else ""
        )

    @property
    def title(self) -> str:
        """One line."""
        about = self.targets[0] if self.count == 1 else f"{self.count} targets"
        return f"[{self.kind.value}] {self.alert}: {self.rule}, {about}"

    @property
    def text(self) -> str:
        """A few lines."""
        lines = [self.title, self.message]
        if self.count > 1:
            more = self.count - len(self.targets)
            lines.append(", ".join(self.targets) + (f" and {more} more" if more else ""))
        if self.kind is NoticeKind.RECOVERY:
            lines.append(f"It had been firing for {_length((self.at - self.since).total_seconds())}.")
        elif self.kind is not NoticeKind.TEST:
            lines.append(f"It has been firing since {self.since:%Y-%m-%d %H:%M:%S} UTC.")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Return it in plain values."""
        return {
            "kind": self.kind.value, "alert": self.alert, "rule": self.rule, "targets": list(self.targets),
            "count": self.count, "message": self.message, "since": self.since.isoformat(), "at": self.at.isoformat(),
            "dedup_key": self.dedup_key, "title": self.title,
        }  # fmt: skip


def _length(seconds: float) -> str:
    whole = int(seconds)
    if whole < 120:
        return f"{whole} seconds"
    return f"{whole // 60} minutes" if whole < 7200 else f"{whole // 3600} hours {whole % 3600 // 60} minutes"
