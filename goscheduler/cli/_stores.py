"""What a command says of the job stores that it looks into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from goscheduler.cli._command_error import CommandError
from goscheduler.cli._print import note
from goscheduler.errors import shown

if TYPE_CHECKING:
    from goscheduler.jobstores.base import BaseJobStore


def require_store(known: Mapping[str, BaseJobStore], alias: str | None) -> None:
    """Refuse an alias that no job store has."""
    if alias is not None and alias not in known:
        raise CommandError(f"--store: there is no job store {shown(alias)}; there are: {', '.join(sorted(known))}")


def tell_of_narrow_sight(stores: Mapping[str, BaseJobStore]) -> None:
    """Say of which job stores not everything can be seen from here."""
    for alias, store in stores.items():
        if store.keeps_objects:
            note(
                f'Note: job store "{alias}" lives in memory: only the jobs of this process can be seen, and what is '
                "changed ends with this command."
            )
        elif not store.shared:
            note(f'Note: job store "{alias}" serves one process: runs of other processes cannot be seen.')
