"""The operations: everything that people and programs can ask of goscheduler or do to it from outside.

There is one table of them, :data:`~goscheduler.ops.registry.OPERATIONS`. The command line, HTTP, gRPC and pages call
them through :class:`Operations`, which checks rights and arguments, writes the audit and hides what the caller may not
see. No operation can name a function.
"""

from goscheduler.ops.access import Principal, Role
from goscheduler.ops.service import Operations
from goscheduler.ops.source import Source

__all__ = ["Operations", "Principal", "Role", "Source"]
