"""Answers one call: finds out who makes it, waits for its turn, asks the operations, and tells of errors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from urllib.parse import quote
from uuid import uuid4

import grpc  # type: ignore[import-untyped, unused-ignore]
from google.protobuf.message import Message

from goscheduler._urls import masked_text
from goscheduler.logs import guarded_logger
from goscheduler.ops.errors import INTERNAL, Changed, TooMany, kind_of, message_of

if TYPE_CHECKING:
    from goscheduler.ops.service import Operations
    from goscheduler.rpc.access import Access

#: So many calls ask the stores at once; each needs a connection.
CALLS_AT_ONCE = 8
#: Requests and answers may have so many bytes.
MOST_BYTES = 4 * 1024 * 1024
#: What is told of an error may have so many bytes on the wire: clients refuse trailers of 8 KB.
LONGEST_MESSAGE = 4000

#: Asks an operation by its name, with arguments, for whoever makes the call.
Ask = Callable[..., Any]
M = TypeVar("M", bound=Message)

_logger = guarded_logger("goscheduler.rpc")


class Calls:
    """Answers calls about one source."""

    def __init__(self, operations: Operations, access: Access, at_once: int = CALLS_AT_ONCE) -> None:
        self._operations = operations
        self._access = access
        self._turns = threading.BoundedSemaphore(at_once)

    def answer(self, context: Any, work: Callable[[Ask], M]) -> M:
        """Return what ``work`` makes of the answers of operations; an error ends the call with its status."""
        try:
            return self.look(context, work)
        except Exception as error:
            return end(context, error)

    def look(self, context: Any, work: Callable[[Ask], M]) -> M:
        """Do the same, and raise errors: the call goes on."""
        with self._turn(context):
            caller = self._access.caller(context)
            return _checked(work(partial(self._operations.call, principal=caller, via="grpc")))

    @contextmanager
    def _turn(self, context: Any) -> Iterator[None]:
        """Wait until the stores may be asked, and raise if nobody waits for the answer any more."""
        left = context.time_remaining()
        if not self._turns.acquire(timeout=threading.TIMEOUT_MAX if left is None else max(0.0, min(left, 1e6))):
            raise CallGone
        try:
            if not context.is_active():
                raise CallGone
            yield
        finally:
            self._turns.release()


class CallGone(Exception):
    """The client waits no more: its deadline is over, or it has cancelled the call."""


def _checked(answer: M) -> M:
    size = answer.ByteSize()
    if size > MOST_BYTES:
        raise TooMany(f"the answer has {size} bytes, more than {MOST_BYTES}: ask for fewer with limit")
    return answer


def end(context: Any, error: Exception) -> NoReturn:
    """End a call with the status of an error. What an internal error says stays in the log."""
    if isinstance(error, CallGone):
        left = context.time_remaining()
        is_late = left is not None and left <= 0
        code = grpc.StatusCode.DEADLINE_EXCEEDED if is_late else grpc.StatusCode.CANCELLED
        context.abort(code, "the call is over: nothing was done")
    kind, text = kind_of(error), message_of(error)
    told = [("goscheduler-error", kind.name)]
    if kind is INTERNAL:
        error_id = uuid4().hex[:12]
        _logger.error("A gRPC call failed with the internal error %s", error_id, exc_info=error)
        told.append(("goscheduler-error-id", error_id))
        text = f"{text}, as {error_id}"
    if getattr(error, "field", None):
        told.append(("goscheduler-field", _plain_ascii(error.field)))  # type: ignore[attr-defined]
    if isinstance(error, Changed) and error.etag:
        told.append(("goscheduler-etag", error.etag))
    context.set_trailing_metadata(tuple(told))
    context.abort(grpc.StatusCode[kind.grpc], _cut(masked_text(text)))
    raise AssertionError("a call that was ended goes on")  # abort always raises


def _plain_ascii(text: object) -> str:
    return str(text).encode("ascii", "backslashreplace").decode("ascii")[:200]


def _cut(text: str) -> str:
    """Return a text that is short enough on the wire, where each byte beyond ASCII takes three."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    while len(quote(text, safe=" ")) > LONGEST_MESSAGE:
        text = f"{text[: len(text) // 2]}…"
    return text
