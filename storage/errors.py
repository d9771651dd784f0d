"""Errors of stored bytes and of jobs that read them. Each has a stable code, and a hint that says what to do."""

import errno
from typing import Any


class StorageError(Exception):
    """Base of the package's errors: `code` is stable, `hint` says what to do.

    exit_code   exit code of a job's process that this error ends; None: the error has no exit code of its own
    """

    code = "storage_error"
    exit_code: int | None = None

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickling would call the class with `args`, and subclasses take other arguments.
        return _rebuild, (type(self), self.message, self.hint)


def _rebuild(kind: type[StorageError], message: str, hint: str) -> StorageError:
    error = kind.__new__(kind, message)
    StorageError.__init__(error, message, hint)
    return error


class CorruptData(StorageError):
    """A file's bytes are not those that were written."""

    code = "corrupt_data"


class DatasetCorrupt(CorruptData):
    """A file of a dataset is missing, or its bytes are not those that were written.

    block   number of the block whose file it is; None: the file belongs to no block
    """

    code = "dataset_corrupt"
    exit_code = 9

    def __init__(self, message: str, block: int | None = None) -> None:
        where = "" if block is None else f"block {block}: "
        super().__init__(f"{where}{message}", "The dataset was damaged on disk: add it again.")
        self.block = block


# errno values of a disk, or a file system with checksums, that cannot return the bytes that were written to it.
UNREADABLE = (errno.EIO, errno.EBADMSG, errno.EUCLEAN)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
ROOM_HINT = "Make room below the data directory, or in the directory of the caches."


class OutOfSpace(StorageError):
    """There is no room for a file of a running job or prediction."""

    code = "out_of_space"
    exit_code = 10

    def __init__(self, message: str) -> None:
        super().__init__(message, ROOM_HINT)


class UnknownVersion(StorageError):
    """A file has a format version that this program does not know."""

    code = "unknown_version"


class CacheTooSmall(StorageError):
    """`cache_bytes` does not hold the fewest segments a job can run with."""

    code = "cache_too_small"


class DatasetLost(StorageError):
    """The import of a dataset was given up while a job was reading the dataset."""

    code = "dataset_lost"
    exit_code = 4


class RowsMissing(StorageError):
    """A pass that should see each row once has seen fewer rows, or more, than the dataset has."""

    code = "rows_missing"
    exit_code = 11


class RowTooLong(StorageError):
    """A row is longer than a segment of the cache. Only a job on a dataset that is still being read in can meet one."""

    code = "row_too_long"
    exit_code = 3


class ValuesOverflow(StorageError):
    """A number computed from the rows is infinite or not a number. `what`: which numbers, a plural."""

    code = "values_overflow"
    exit_code = 12

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} overflow: some are infinite or not a number",
            "Values of features are too large or too small: scale them first, or ask for another gamma.",
        )


class CheckpointUnsound(StorageError):
    """The dual variables of a checkpoint are out of bounds, or its weights are not the sum they define."""

    code = "checkpoint_unsound"
    exit_code = 8


class CacheFull(StorageError):
    """The cache file would outgrow `cache_bytes`: its plan let it hold too much."""

    code = "cache_full"


class FeaturesMissing(StorageError):
    """The rows are strings, and the job has no feature map that makes features of them."""

    code = "features_missing"
