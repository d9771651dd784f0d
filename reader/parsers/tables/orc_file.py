"""Reads ORC."""

from collections.abc import Iterator
from typing import IO, Any

import pyarrow
from pyarrow import dataset, orc

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits
from streamsvm.reader.parsers.tables.arrow_file import of_size
from streamsvm.reader.parsers.tables.arrow_table import Table


def orc_tables(file: IO[bytes], _size: int, limits: Limits) -> Iterator[Table]:
    """Yield the one table of an ORC file. InputError bad_orc, decompressed_too_large."""
    source = pyarrow.PythonFile(file, "r")
    try:
        n_rows = orc.ORCFile(source).nrows
        fragment = dataset.OrcFileFormat().make_fragment(source)
        schema = fragment.physical_schema
    except (pyarrow.ArrowException, OSError) as error:
        raise _bad("this is no whole ORC file", error) from error
    if n_rows * len(schema) * 8 > limits.max_bytes:
        raise InputError("decompressed_too_large", f"the table has more than {limits.max_bytes} bytes")

    def batches(names: list[str], most: int) -> Iterator[Any]:
        reads = {"batch_size": most, "batch_readahead": 1, "fragment_readahead": 1, "use_threads": False}
        try:
            yield from of_size(fragment.to_batches(columns=names, **reads), most)
        except (pyarrow.ArrowException, OSError) as error:
            raise _bad("the file is damaged", error) from error

    yield Table(schema, batches)


def _bad(what: str, error: Exception) -> InputError:
    first = str(error).partition("\n")[0][:200]
    return InputError("bad_orc", f"{what}: {first}")
