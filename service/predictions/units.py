"""Cuts files into units that threads predict independently: ranges of lines, row groups, or whole files.

Units depend on the files and options only, so that a prediction that resumes after a kill has the same units.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.decompress import MAGIC_BYTES, decompressed, is_compressed
from streamsvm.reader.ingest.ranges import first_line
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import STORED_TABLES, TABLES, IndexBase, InputOptions
from streamsvm.reader.parsers.base import Parser
from streamsvm.reader.parsers.sniff import PEEK_BYTES
from streamsvm.reader.parsers.tables.json_lines import names_line
from streamsvm.reader.parsers.tables.matching import Beside
from streamsvm.reader.sources.fetch import read_bytes, read_range
from streamsvm.reader.sources.files import SourceFile
from streamsvm.service.models.predicting.predictor import MOST_FEATURES, Predictor
from streamsvm.service.models.predicting.rows_read import opened
from streamsvm.storage.models.model_file import Label

UNIT_BYTES = 32 << 20  # of text
UNIT_ROWS = 1 << 18  # least rows of a unit of Parquet or Arrow, unless the file ends
_LINES = ("libsvm", "csv", "tsv", "jsonl", "text")
_OPENED_AT_ONCE = 8
_HEAD_BYTES = 4 << 20  # bytes at the start of a text that decide how ranges of its lines are read
_REMARK = re.compile(rb'#|"?sep=', re.IGNORECASE)


@dataclass(frozen=True)
class FileUnit:
    """A part of a file.

    options      how the part is read; the format is not "auto"
    start, stop  range of bytes of a text in which the unit's lines begin; or range of row groups or batches
    size         bytes of the part, for the progress
    header       line of names of a table in text, which is parsed before the unit's lines unless start is 0
    first_row    number of the unit's first row in a file of groups, from 1
    are_groups   whether it has row groups of Parquet, or batches of Arrow
    """

    file: SourceFile
    options: InputOptions
    start: int
    stop: int
    size: int
    header: bytes = b""
    first_row: int = 1
    are_groups: bool = False

    def described(self) -> list[Any]:
        """Return a value for JSON that identifies the unit and the version of its file."""
        return [self.file.url, self.file.size, self.file.version, self.options.format, self.start, self.stop]


def units_of(
    predictor: Predictor,
    files: Sequence[SourceFile],
    options: InputOptions,
    keep: Sequence[str],
    unit_bytes: int,
    told: Callable[[], None] = lambda: None,
) -> list[FileUnit]:
    """Return the units of all files, in the order of their rows. Raises InputError, with the name of the file.

    told  is called after each file
    """
    units: list[FileUnit] = []
    with ThreadPoolExecutor(_OPENED_AT_ONCE) as pool:
        for of_file in pool.map(partial(_units_of_file, predictor, options, tuple(keep), unit_bytes), files):
            told()
            units += of_file
    return units


def kept_types(files: Sequence[FileUnit], keep: Sequence[str]) -> list[Any] | None:
    """Return the Arrow types of the columns `keep` in the first file; None: that is a text, so they are texts."""
    if not files or files[0].options.format not in STORED_TABLES:
        return None
    from streamsvm.service.predictions.table_units import types_of  # noqa: PLC0415 - pyarrow is slow to import

    return types_of(files[0].file, files[0].options.format, keep)


def _units_of_file(
    predictor: Predictor, options: InputOptions, keep: tuple[str, ...], unit_bytes: int, file: SourceFile
) -> list[FileUnit]:
    try:
        return list(_cut(predictor, options, keep, unit_bytes, file)) if file.size else []
    except InputError as error:
        error.file = error.file or file.url
        raise


def _cut(
    predictor: Predictor, options: InputOptions, keep: tuple[str, ...], unit_bytes: int, file: SourceFile
) -> Iterator[FileUnit]:
    options = predictor.settled(options, _head(file))
    if keep and options.format not in TABLES:
        raise InputError("keep_no_columns", f"{options.format} has no columns that can be kept")
    if options.format in ("parquet", "arrow"):
        from streamsvm.service.predictions.table_units import group_units  # noqa: PLC0415

        if (groups := group_units(file, options.format, UNIT_ROWS, keep)) is not None:
            yield from (FileUnit(file, options, *each) for each in groups)
            return
    settled = options, b""
    if file.size > unit_bytes and options.format in _LINES:
        cut = _lines_settled(predictor, options, keep, file)
        settled, unit_bytes = (settled, file.size) if cut is None else (cut, unit_bytes)
    else:
        unit_bytes = file.size
    for start in range(0, file.size, unit_bytes):
        stop = min(start + unit_bytes, file.size)
        yield FileUnit(file, settled[0], start, stop, stop - start, settled[1])


def _head(file: SourceFile, most: int = PEEK_BYTES) -> bytes:
    """Return the first `most` bytes of a file, decompressed; a fault in them is reported when the file is read."""
    head = b""
    pieces = read_range(file, 0, min(file.size, most), threads=1, piece_bytes=most)
    with closing(pieces), suppress(InputError):
        for piece in decompressed(pieces, InputLimits(max_features=MOST_FEATURES)):
            head += piece
            if len(head) >= most:
                break
    return head


def _lines_settled(
    predictor: Predictor, options: InputOptions, keep: tuple[str, ...], file: SourceFile
) -> tuple[InputOptions, bytes] | None:
    """Return options and the line of names for ranges of a file's lines; None: the file must be read as a whole."""
    head = _head(file, _HEAD_BYTES)
    lines = head[: head.rfind(b"\n") + 1]
    if not lines or is_compressed(read_bytes(file, 0, min(file.size, MAGIC_BYTES))):
        return None
    if options.format == "libsvm":
        base = _settled_base(predictor, options, lines)
        return None if base is None else (replace(options, index_base=base), b"")
    if options.format == "text":
        return options, b""
    if options.format == "jsonl":
        return options, names_line(lines)
    return _settled_table(predictor, options, keep, lines)


def _settled_base(predictor: Predictor, options: InputOptions, lines: bytes) -> IndexBase | None:
    """Return the first feature's number in LIBSVM text that begins with these lines; None if they leave it open."""
    numbering = predictor.numbering(options.index_base)
    options = replace(options, index_base=numbering.base)
    for rows in opened(options, InputLimits(max_features=MOST_FEATURES), ()).parse_chunks([lines]):
        numbering.as_model(rows)
    return numbering.settled


def _settled_table(
    predictor: Predictor, options: InputOptions, keep: tuple[str, ...], lines: bytes
) -> tuple[InputOptions, bytes] | None:
    """Do for a table what `_lines_settled` does. Remarks before the names, and quoted line breaks, forbid ranges."""
    parsers: list[Parser] = []

    def make(options: InputOptions, limits: InputLimits, classes: Sequence[Label]) -> Parser:
        parsers.append(opened(options, limits, classes, beside=Beside(keep)))
        return parsers[-1]

    next(predictor.predict_text([lines], options=options, open_=make), None)
    (parser,) = parsers
    first = first_line(iter([lines]), len(lines))
    if parser.delimiter is None or _REMARK.match(first):
        return None
    delimiter = options.delimiter if options.format == "tsv" else parser.delimiter
    settled = replace(options, header="yes" if parser.has_names else "no", delimiter=delimiter)
    return settled, first if parser.has_names else b""
