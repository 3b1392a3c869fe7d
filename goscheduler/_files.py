"""Files that hold jobs: readable by their owner only, written whole or not at all, never through a foreign link."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

#: What others may do with what is written here: nothing.
PRIVATE = 0o600


def write_private(path: str | os.PathLike[str], text: str) -> None:
    """Write a file, or replace what is there, at once; if that fails nothing has changed.

    :raises OSError: if the path is a symbolic link or no regular file, too
    """
    place = Path(path)
    mode = PRIVATE & _mode_of(place)
    descriptor, temporary = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name[:100]}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.chmod(temporary, mode)
            os.fsync(file.fileno())
        os.replace(temporary, place)
    except BaseException:
        os.unlink(temporary)
        raise
    _sync_folder(place.parent)


def _mode_of(place: Path) -> int:
    """Return the mode of a file, which gives everything if there is none yet."""
    try:
        found = place.lstat().st_mode
    except FileNotFoundError:
        return 0o777
    if stat.S_ISLNK(found):
        raise OSError(f"{place} is a symbolic link; give the path that it leads to")
    if not stat.S_ISREG(found):
        raise OSError(f"{place} is no regular file; to write elsewhere, give an open text file")
    return found


def _sync_folder(folder: Path) -> None:
    """Make sure that the new name survives a crash, where a folder can be opened."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def create_private(path: str | os.PathLike[str]) -> None:
    """Make an empty file, unless there is one; the mode of that stays as it is.

    A folder that is missing or not ours is left to whoever opens the file, who has the right words for it.

    :raises OSError: if the path is a symbolic link to a file that does not exist
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE))
    except OSError:
        if os.path.islink(path) and not os.path.exists(path):
            raise OSError(f"{path} is a symbolic link to a file that does not exist; nothing is made there") from None
