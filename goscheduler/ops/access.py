"""Who may do what: roles, and the part of the jobs that a principal may see."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import IntEnum

from goscheduler.errors import GoSchedulerError
from goscheduler.job import Job


class Role(IntEnum):
    """What a principal may do; each role may do what the lower ones may."""

    VIEWER = 1
    """Look."""
    OPERATOR = 2
    """Pause, resume, run, cancel, redrive."""
    ADMIN = 3
    """Change, add and remove jobs."""

    @classmethod
    def of(cls, name: str) -> Role:
        """Return the role by its name in small letters."""
        return cls[name.upper()]

    @property
    def title(self) -> str:
        """The name in small letters."""
        return self.name.lower()


class Forbidden(GoSchedulerError):
    """The principal may not do this."""


class Unauthenticated(GoSchedulerError):
    """It is not known who asks."""


@dataclass(frozen=True)
class Principal:
    """Who asks, and how far their rights go."""

    name: str
    role: Role = Role.VIEWER
    stores: frozenset[str] | None = None
    """Aliases of the job stores that they may see; None for all."""
    tags: frozenset[str] | None = None
    """Only jobs that have one of these tags; None for all."""
    see_arguments: bool = False
    """Whether they see arguments, results, payloads and metadata."""
    address: str = field(default="", compare=False)
    """Where the request comes from, as the audit keeps it; empty if that is not known. Rights do not depend on it."""

    def require(self, role: Role) -> None:
        """Raise if the role is too low.

        :raises Forbidden: with both roles
        """
        if self.role < role:
            raise Forbidden(f"this needs the role {role.title}, and {self.name} has the role {self.role.title}")

    def sees_store(self, alias: str | None) -> bool:
        """Tell whether a job store is in scope."""
        return self.stores is None or alias in self.stores

    def sees_tags(self, tags: Collection[str]) -> bool:
        """Tell whether something with these tags is in scope."""
        return self.tags is None or not self.tags.isdisjoint(tags)

    def sees(self, job: Job) -> bool:
        """Tell whether a job is in scope."""
        return self.sees_store(job.jobstore) and self.sees_tags(job.tags)

    @property
    def sees_all(self) -> bool:
        """Whether nothing is out of scope."""
        return self.stores is None and self.tags is None

    def require_all(self) -> None:
        """Raise if only a part of the jobs is in scope: what is asked for cannot be cut to that part.

        :raises Forbidden: saying so
        """
        if not self.sees_all:
            raise Forbidden(f"this is about all jobs, and {self.name} may see a part of them")
