"""What is said when the package is missing that an adapter is for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs(package: str, extra: str) -> Iterator[None]:
    """Have an import of ``package`` that fails say how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != package:
            raise
        raise ImportError(f'{package} is not installed: pip install "goscheduler[{extra}]"') from error
