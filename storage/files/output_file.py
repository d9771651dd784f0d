"""Files that a user asked for: whole, or not there."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from streamsvm.storage.files.durable import staged_beside


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write to. It takes its name, and the place of a file that is there, when the block has ended well.

    A device or a pipe, such as /dev/stdout, is written to as it is. Raises OSError.
    """
    final = Path(path).resolve()
    if _is_written_in_place(Path(path)):
        with Path(path).open("wb") as file:
            yield file
        return
    staged = staged_beside(final)
    try:
        with staged.open("wb") as file:
            yield file
        staged.replace(final)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise


def _is_written_in_place(path: Path) -> bool:
    """Whether something else than a file has this name; a directory is an error to open."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False
