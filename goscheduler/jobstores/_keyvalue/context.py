"""What the parts of one store on etcd or ZooKeeper share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from logging import Logger
from typing import TYPE_CHECKING, NamedTuple

from goscheduler.codec import CodecError
from goscheduler.jobstores._keyvalue.rows import JobRow, RowCodec, RunRow
from goscheduler.jobstores._keyvalue.server import KeyValue
from goscheduler.jobstores._shared.decisions import log_unreadable_run

if TYPE_CHECKING:
    from goscheduler.runs.model import Run

ROWS_PER_READ = 100


class StoreContext(NamedTuple):
    """One store's server, codec and logger, and what several parts do with them."""

    server: KeyValue
    codec: RowCodec
    logger: Logger
    instance_id: str
    """The name of this store in its notifications."""
    need_queue: Callable[[JobRow | RunRow], None]
    """Makes sure that every process knows the queue of a job or run."""

    def run_rows(self, names: Sequence[str]) -> list[RunRow]:
        """Return the readable rows of runs, given by escaped ids."""
        rows: list[RunRow] = []
        for start in range(0, len(names), ROWS_PER_READ):
            found = self.server.read([("runs", name) for name in names[start : start + ROWS_PER_READ]])
            rows += [row for each in found if (row := self.codec.readable_run_row(each)) is not None]
        return rows

    def read_run(self, row: RunRow) -> Run | None:
        """Return the run of a row; None, with a line in the log, if it cannot be read."""
        try:
            return self.codec.run(row)
        except CodecError as error:
            log_unreadable_run(self.logger, row.id, error)
            return None
