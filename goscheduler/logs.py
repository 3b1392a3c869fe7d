"""Logging that cannot do harm, and that is heard where APScheduler's was.

What a program has set up for the logger ``apscheduler``, handlers and level, holds for ``goscheduler`` too, because
that is made its child.

What is logged names jobs, runs and errors, whose texts may come out of a store that others can write to. Whatever of
them does not print is escaped, line ends among it, so that no text can pass for a line of the log.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from goscheduler._text import indented, printable
from goscheduler.errors import survivable

if TYPE_CHECKING:
    from typing import TypeAlias

    _Adapter = logging.LoggerAdapter[logging.Logger]
    _ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None]
else:
    _Adapter = logging.LoggerAdapter

logging.getLogger("goscheduler").parent = logging.getLogger("apscheduler")

#: How many of our own functions, as the logging package counts, lie between it and the one that logs.
_DEPTH = 3
_DEPTH_OF_TRACEBACK = 4 if sys.version_info >= (3, 11) else 2
#: How many errors of a chain are looked at.
_MOST_LINKS = 100


class Block(str):
    """Text of several lines, such as a traceback. In a log each of them is indented."""

    __slots__ = ()


class GuardedLogger(_Adapter):
    """Writes to a logger, with whatever does not print in the arguments as an escape.

    A filter or handler that raises costs a line on standard error, and nothing else: the scheduler's threads log
    between the steps of a firing, and an exception there must not lose a run or end a thread.

    A traceback is written as ever, unless the text of an error in it has several lines or something that does not
    print: then it is escaped line by line, and indented as a whole.
    """

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__(logger, {})
        if isinstance(logger, logging.Logger):  # and not something else that a user logs with
            self.isEnabledFor = logger.isEnabledFor  # type: ignore[method-assign]  # asked twice for every run

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        try:
            if self.isEnabledFor(level):
                self._write(level, msg, args, kwargs)
        except BaseException as error:  # what is logged may be the error of a user, whose text does anything
            if not survivable(error):
                raise
            traceback.print_exc()

    def _write(self, level: int, msg: object, args: tuple[object, ...], kwargs: dict[str, Any]) -> None:
        if len(args) == 1 and isinstance(args[0], Mapping):
            args = ({name: _escaped(value) for name, value in args[0].items()},)
        elif args:
            args = tuple(map(_escaped, args))
        else:  # what is put together already may contain anything
            msg = _escaped(msg)
        raised = _raised(kwargs.pop("exc_info", None))
        if raised is None or _prints(raised[1]):
            self.logger.log(level, msg, *args, exc_info=raised, **{"stacklevel": _DEPTH, **kwargs})
        else:
            self._write_traceback(level, msg, args, raised, kwargs.get("extra"))

    def _write_traceback(
        self, level: int, msg: object, args: tuple[object, ...], raised: _ExcInfo, extra: Mapping[str, object] | None
    ) -> None:
        logger = self.logger
        text = indented("".join(traceback.format_exception(*raised)))
        if not isinstance(logger, logging.Logger):
            logger.log(level, "%s\n%s", str(msg) % args if args else msg, text)
            return
        path, line, function, _ = logger.findCaller(False, _DEPTH_OF_TRACEBACK)
        record = logger.makeRecord(logger.name, level, path, line, msg, args, raised, function, extra)
        # Where formatters look first; the error itself stays, for handlers that send it somewhere.
        record.exc_text = text
        logger.handle(record)


def guarded_logger(name: str) -> logging.Logger:
    """Return a guarded logger by its name, typed as the logger that it stands for."""
    return cast(logging.Logger, GuardedLogger(logging.getLogger(name)))


class _Escaped:
    """Stands for an argument. Its text is made when it is written, which may be never."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __str__(self) -> str:
        return printable(str(self.value))

    def __repr__(self) -> str:
        return printable(repr(self.value))


def _escaped(value: object) -> object:
    if isinstance(value, Block):
        return indented(value)
    if isinstance(value, str):
        return value if value.isprintable() else printable(value)
    return value if value is None or isinstance(value, (int, float, datetime)) else _Escaped(value)


def _raised(exc_info: object) -> _ExcInfo | None:
    if isinstance(exc_info, BaseException):
        return type(exc_info), exc_info, exc_info.__traceback__
    found: Any = exc_info if isinstance(exc_info, tuple) else sys.exc_info() if exc_info else None
    return None if found is None or found[1] is None else found


def _prints(error: BaseException) -> bool:
    """Tell whether all texts of an error, and of those that led to it, are single lines that print."""
    waiting, seen = [error], 0
    while waiting:
        link = waiting.pop()
        seen += 1
        if seen > _MOST_LINKS or isinstance(link, SyntaxError) or not _texts_print(link):
            return False
        waiting += [other for other in (link.__cause__, link.__context__) if other is not None]
        waiting += getattr(link, "exceptions", ())
    return True


def _texts_print(error: BaseException) -> bool:
    try:
        texts = [str(error), type(error).__qualname__, *getattr(error, "__notes__", ())]
        return all(text.isprintable() for text in texts)
    except BaseException as problem:  # the error of a user may do anything when it is looked at
        if not survivable(problem):
            raise
        return False
