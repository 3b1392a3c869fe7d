"""An alert as a user declares it: which jobs, which rules, who is told, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from goscheduler.alerts.machine import Policy
from goscheduler.alerts.match import Match, read_match
from goscheduler.alerts.rules import Length, Rule
from goscheduler.errors import InvalidArgument, shown
from goscheduler.times import parse_duration


@dataclass(frozen=True)
class Alert:
    """Tells channels when one of its rules is broken.

    ``match`` says which jobs are meant, as in "tag:billing"; all without it. ``to`` and ``escalate_to`` are names of
    channels. A reminder follows every ``repeat``; after ``escalate_after`` others are told as well.
    """

    name: str
    rules: Sequence[Rule]
    to: Sequence[str]
    match: str = ""
    repeat: Length | None = None
    escalate_after: Length | None = None
    escalate_to: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not 0 < len(self.name) <= 100 or not self.name.isprintable():
            raise InvalidArgument(f"name must be a short printable text, got {shown(self.name)}", field="name")
        names = [rule.name for rule in self.rules]
        if not names or len(set(names)) != len(names):
            raise InvalidArgument(f"alert {shown(self.name)} needs rules, each of them once", field="rules")
        for field in ("to", "escalate_to"):
            if isinstance(getattr(self, field), str):
                raise InvalidArgument(f"alert {shown(self.name)}: {field} must be a list of channels", field=field)
        if (self.escalate_after is None) != (not self.escalate_to):
            raise InvalidArgument(
                f"alert {shown(self.name)}: escalate needs both after and to", field="escalate_after"
            )
        self.about  # noqa: B018 - refuses what makes no sense
        self.policy(self.rules[0])

    @property
    def about(self) -> Match:
        """Which jobs are meant."""
        return read_match(self.match)

    @property
    def channels(self) -> set[str]:
        """The names of all channels that it may tell."""
        return {*self.to, *self.escalate_to}

    def policy(self, rule: Rule) -> Policy:
        """Return what is done about breaches of one of its rules."""
        return Policy(
            tuple(self.to), _micros(rule.hold_off), None if self.repeat is None else _micros(self.repeat),
            None if self.escalate_after is None else _micros(self.escalate_after), tuple(self.escalate_to),
        )  # fmt: skip


def _micros(length: Length) -> int:
    return round(parse_duration(length).total_seconds() * 1e6)
