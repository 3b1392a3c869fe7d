"""Any collection or table of your own documents as a crontab: :class:`DocumentScheduler`.

A document says with one of its fields when it is to be processed next. Where documents are kept is behind a small port,
:class:`DocumentStore`; the stores are in :mod:`goscheduler.documents.mongodb`, ``.sqlalchemy``, ``.redis`` and
``.memory``.
"""

from __future__ import annotations

from goscheduler.documents.base import DocumentStore, Malformed, Upcoming
from goscheduler.documents.model import Document, Fields
from goscheduler.documents.scheduler import DocumentScheduler

__all__ = ["Document", "DocumentScheduler", "DocumentStore", "Fields", "Malformed", "Upcoming"]
