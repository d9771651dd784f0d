"""Cuts files of Arrow's IPC formats into units of batches, which threads read on their own."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.decompress import MAGIC_BYTES, is_compressed
from streamsvm.reader.limits import Limits
from streamsvm.reader.parsers.beside import Beside
from streamsvm.reader.parsers.tables.arrow_file import arrow_part
from streamsvm.reader.parsers.tables.arrow_messages import BATCH, DICTIONARY, END, Message, messages
from streamsvm.reader.parsers.tables.arrow_table import Table
from streamsvm.reader.sources.files import SourceFile
from streamsvm.reader.sources.pieces import check_unchanged, read_bytes
from streamsvm.reader.sources.seekable import open_seekable
from streamsvm.service.predictions.table_units import Groups, joined, with_kept

# Each thread holds a batch, and the dictionaries of all batches before.
_MOST_BATCH_BYTES, _MOST_DICTIONARY_BYTES = 32 << 20, 16 << 20


def batch_units(file: SourceFile, least_rows: int) -> list[Groups] | None:
    """The batches of a file, joined until they have `least_rows`; None if the file has to be read as a whole.

    That is one that is compressed, has several streams, or batches too large for every thread to hold one. A file that
    is damaged is read as a whole, too, which tells where.
    """
    if is_compressed(read_bytes(file, 0, min(file.size, MAGIC_BYTES))):
        return None
    try:
        found = _messages(file)
    except InputError:
        return None
    batches = [each for each in found if each.kind == BATCH]
    dictionaries = sum(each.decoded for each in found if each.kind == DICTIONARY)
    streams = sum(each.kind == END for each in found)
    largest = max((each.decoded for each in batches), default=0)
    if streams != 1 or largest > _MOST_BATCH_BYTES or dictionaries > _MOST_DICTIONARY_BYTES:
        return None
    return joined(((each.rows, each.stop - each.start) for each in batches), least_rows)


def read_batches(
    file: SourceFile, start: int, stop: int, beside: Beside, chunks: Iterable[bytes] = ()
) -> Iterator[Table]:
    """Yield batches [start, stop) as a table, whose batches put the columns to keep into `beside`."""
    with open_seekable(file) as raw:
        yield with_kept(arrow_part(raw, [*_ranges(_messages(file), start, stop)]), beside)
    check_unchanged(file)


def _ranges(found: Sequence[Message], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the bytes of batches [start, stop), and before them those of the schema and the dictionaries before."""
    number = 0
    for each in found:
        if each.kind == END or number == stop:
            return
        if each.kind != BATCH or start <= number:
            yield each.start, each.stop
        number += each.kind == BATCH


@lru_cache(maxsize=8)
def _messages(file: SourceFile) -> tuple[Message, ...]:
    with open_seekable(file) as raw:
        return tuple(messages(raw, file.size, Limits()))
