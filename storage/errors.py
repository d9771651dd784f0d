"""What can go wrong with stored bytes. Every error carries a stable code and a hint for the person who meets it."""


class StorageError(Exception):
    """Base of the package's errors: `code` is stable, `hint` says what to do."""

    code = "storage_error"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class CorruptData(StorageError):
    """A file's bytes are not the ones that were written."""

    code = "corrupt_data"


class UnknownVersion(StorageError):
    """A file was written by a version of the format this program does not know."""

    code = "unknown_version"


class CacheTooSmall(StorageError):
    """`cache_bytes` does not hold the fewest segments a job can run with."""

    code = "cache_too_small"


class DatasetLost(StorageError):
    """A dataset that was being read in will not be there."""

    code = "dataset_lost"
    exit_code = 4  # of a process that ends with it


class RowTooLong(StorageError):
    """A row does not fit into a segment of the cache: it is being read in, and its length was not known before."""

    code = "row_too_long"
    exit_code = 3  # of a process that ends with it


class CheckpointUnsound(StorageError):
    """The weights of a checkpoint are not those its dual variables make."""

    code = "checkpoint_unsound"
    exit_code = 8  # of a process that ends with it


class CacheFull(StorageError):
    """The cache file reached `cache_bytes`: the plan of what it may hold was wrong."""

    code = "cache_full"
