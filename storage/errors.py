"""What can go wrong with stored bytes. Every error carries a stable code and a hint for the person who meets it."""

import errno
from typing import Any


class StorageError(Exception):
    """Base of the package's errors: `code` is stable, `hint` says what to do.

    exit_code   of a process of a job that ends with it, if that is one it should end with
    """

    code = "storage_error"
    exit_code: int | None = None

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        # To another process: kinds are made of other arguments than they keep.
        return _made_again, (type(self), self.message, self.hint)


def _made_again(kind: type[StorageError], message: str, hint: str) -> StorageError:
    error = kind.__new__(kind, message)
    StorageError.__init__(error, message, hint)
    return error


class CorruptData(StorageError):
    """A file's bytes are not the ones that were written."""

    code = "corrupt_data"


class DatasetCorrupt(CorruptData):
    """A file of a dataset is not as written, or missing.

    block   the number of the one it is, or None
    """

    code = "dataset_corrupt"
    exit_code = 9

    def __init__(self, message: str, block: int | None = None) -> None:
        where = "" if block is None else f"block {block}: "
        super().__init__(f"{where}{message}", "The dataset was damaged on disk: add it again.")
        self.block = block


# What a disk, or a file system that checks sums of its own, says of bytes it cannot give back.
UNREADABLE = (errno.EIO, errno.EBADMSG, errno.EUCLEAN)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
ROOM_HINT = "Make room below the data directory, or in the directory of the caches."


class OutOfSpace(StorageError):
    """There is no room for a file of a running job."""

    code = "out_of_space"
    exit_code = 10

    def __init__(self, message: str) -> None:
        super().__init__(message, ROOM_HINT)


class UnknownVersion(StorageError):
    """A file was written by a version of the format this program does not know."""

    code = "unknown_version"


class CacheTooSmall(StorageError):
    """`cache_bytes` does not hold the fewest segments a job can run with."""

    code = "cache_too_small"


class DatasetLost(StorageError):
    """A dataset that was being read in will not be there."""

    code = "dataset_lost"
    exit_code = 4


class RowsMissing(StorageError):
    """A pass that is to see each row once has seen fewer, or more."""

    code = "rows_missing"
    exit_code = 11


class RowTooLong(StorageError):
    """A row does not fit into a segment of the cache: it is being read in, and its length was not known before."""

    code = "row_too_long"
    exit_code = 3


class ValuesOverflow(StorageError):
    """Numbers that are not finite came of the rows."""

    code = "values_overflow"
    exit_code = 12

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} of the rows are beyond what numbers can be",
            "Values are too large or too small: scale them first, or ask for another gamma.",
        )


class CheckpointUnsound(StorageError):
    """The dual variables of a checkpoint are out of bounds, or its weights are not those they make."""

    code = "checkpoint_unsound"
    exit_code = 8


class CacheFull(StorageError):
    """The cache file reached `cache_bytes`: the plan of what it may hold was wrong."""

    code = "cache_full"


class FeaturesMissing(StorageError):
    """Rows are no rows of features, and no map makes some of them."""

    code = "features_missing"
