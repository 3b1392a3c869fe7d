"""Messages that are delivered later: once at a moment, or again and again, by a transport of your choice.

:class:`MessageScheduler` is a front on the same engine that runs jobs. A message is a job of a task of its own; to
deliver it is a run. So a message fires once among all processes that share a store, is retried by a policy, becomes a
dead letter in the end, and survives a kill.
"""

from __future__ import annotations

from goscheduler.errors import (
    MessageNotFound,
    MessageNotPending,
    MessageRejected,
    MessageTooLarge,
    TransportUnavailable,
)
from goscheduler.messages.dead import DeadLetterQueue, DeadLetterStore
from goscheduler.messages.message import Message, Recurrence
from goscheduler.messages.scheduler import MessageScheduler
from goscheduler.messages.views import MessageFilter, MessageList, MessageState, ScheduledMessage
from goscheduler.runs.health import Health, HealthStatus
from goscheduler.transports.base import BaseTransport, Delivery, Transport

__all__ = [
    "BaseTransport",
    "DeadLetterQueue",
    "DeadLetterStore",
    "Delivery",
    "Health",
    "HealthStatus",
    "Message",
    "MessageFilter",
    "MessageList",
    "MessageNotFound",
    "MessageNotPending",
    "MessageRejected",
    "MessageScheduler",
    "MessageState",
    "MessageTooLarge",
    "Recurrence",
    "ScheduledMessage",
    "Transport",
    "TransportUnavailable",
]
