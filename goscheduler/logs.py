"""Logging that cannot do harm, and that is heard where APScheduler's was.

What a program has set up for the logger ``apscheduler``, handlers and level, holds for ``goscheduler`` too, because
that is made its child.
"""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter

logging.getLogger("goscheduler").parent = logging.getLogger("apscheduler")


class GuardedLogger(_Adapter):
    """Writes to a logger. A filter or handler that raises costs a line on standard error, and nothing else.

    The scheduler's threads log between the steps of a firing; an exception there must not lose a run or end a thread.
    """

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__(logger, {})

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        try:
            super().log(level, msg, *args, **kwargs)
        except Exception:
            traceback.print_exc()
