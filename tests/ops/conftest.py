"""The fixtures of tests of operations."""

from __future__ import annotations

from operation_fixtures import call, messages, operations, scheduler, source

__all__ = ["call", "messages", "operations", "scheduler", "source"]
