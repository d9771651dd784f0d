"""Predicts the rows of files in units that threads predict independently: ranges of lines, row groups, or whole files.

Units depend on the files and options only, so that a prediction that resumes after a kill has the same units.
"""

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.decompress import MAGIC_BYTES, decompressed, is_compressed
from streamsvm.reader.ingest.ranges import InputRange, first_line, offset_of
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import STORED_TABLES, TABLES, IndexBase, InputOptions
from streamsvm.reader.parsers.base import Parser
from streamsvm.reader.parsers.sniff import PEEK_BYTES
from streamsvm.reader.parsers.tables.json_lines import names_line
from streamsvm.reader.parsers.tables.matching import Beside, Column
from streamsvm.reader.sources.fetch import LinesOfRange, Stripe, read_bytes, read_range, read_stripes
from streamsvm.reader.sources.files import SourceFile, list_files
from streamsvm.service.models.predicting.predictor import MOST_FEATURES, Prediction, Predictor
from streamsvm.service.models.predicting.raw_rows import ParserMaker, opened
from streamsvm.storage.models.model_file import Label

UNIT_BYTES = 32 << 20  # of text
UNIT_ROWS = 1 << 18  # least rows of a unit of Parquet or Arrow, unless the file ends
_LINES = ("libsvm", "csv", "tsv", "jsonl", "text")
_OPENED_AT_ONCE = 8
_PIECE_BYTES = 4 << 20
_HEAD_BYTES = 4 << 20  # bytes at the start of a text that decide how ranges of its lines are read
_REMARK = re.compile(rb'#|"?sep=', re.IGNORECASE)
_LIMITS = InputLimits(max_features=MOST_FEATURES)


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


class FileSource:
    """The rows of files, which it cuts into units.

    sources     paths, URLs and patterns
    keep        columns of the input that are copied
    unit_bytes  bytes of text in a unit
    """

    def __init__(
        self,
        predictor: Predictor,
        sources: Sequence[str],
        options: InputOptions,
        keep: Sequence[str] = (),
        unit_bytes: int = UNIT_BYTES,
    ) -> None:
        self._predictor, self._sources, self._options = predictor, sources, options
        self._keep, self._unit_bytes = tuple(keep), unit_bytes

    def units(self, told: Callable[[], None] = lambda: None) -> list[FileUnit]:
        """Return the units of all files, in the order of their rows; call `told` after each file. Raises InputError."""
        units: list[FileUnit] = []
        with ThreadPoolExecutor(_OPENED_AT_ONCE) as pool:
            for of_file in pool.map(self._units_of_file, list_files(self._sources)):
                told()
                units += of_file
        return units

    def kept_types(self, units: Sequence[FileUnit]) -> list[Any] | None:
        """Return the Arrow types of the columns to copy in the first file; None: that is a text, so they are texts."""
        if not units or units[0].options.format not in STORED_TABLES:
            return None
        from streamsvm.service.predictions.table_units import types_of  # noqa: PLC0415 - pyarrow is slow to import

        return types_of(units[0].file, units[0].options.format, self._keep)

    def predictions(self, unit: FileUnit) -> Iterator[tuple[Prediction, list[Column]]]:
        """Yield the predictions of a unit's rows in order, each with the columns to copy; nothing without rows.

        Raises InputError, with the file and the position in it.
        """
        beside, has_rows = Beside(self._keep), False
        open_, with_place = _opener(unit, beside), InputRange(unit.file.url, iter(())).placed
        # Row groups: their parser opens the file.
        stripes = [] if unit.are_groups else [Stripe(unit.file, unit.start, unit.stop)]
        with closing(read_stripes(stripes, threads=1, piece_bytes=_PIECE_BYTES)) as read:  # type: ignore[type-var]
            pieces = next((pieces for _, pieces in read), ())
            if isinstance(pieces, LinesOfRange) and unit.start:
                with_place = InputRange(unit.file.url, iter(()), offset_of(pieces, len(unit.header))).placed
                pieces = chain([unit.header] if unit.header else [], pieces)
            try:
                for prediction in self._predictor.predict_text(pieces, _LIMITS, unit.options, open_):
                    has_rows = True
                    yield prediction, beside.take(len(prediction.labels))
            except InputError as error:
                if error.code == "no_rows" and not has_rows:
                    return
                raise with_place(error) from error.__cause__

    def _units_of_file(self, file: SourceFile) -> list[FileUnit]:
        try:
            return list(self._cut(file)) if file.size else []
        except InputError as error:
            error.file = error.file or file.url
            raise

    def _cut(self, file: SourceFile) -> Iterator[FileUnit]:
        options = self._predictor.settled(self._options, _head(file))
        if self._keep and options.format not in TABLES:
            raise InputError("keep_no_columns", f"{options.format} has no columns that can be kept")
        if options.format in ("parquet", "arrow"):
            from streamsvm.service.predictions.table_units import group_units  # noqa: PLC0415

            if (groups := group_units(file, options.format, UNIT_ROWS, self._keep)) is not None:
                yield from (FileUnit(file, options, *each) for each in groups)
                return
        size, settled = file.size, None
        if file.size > self._unit_bytes and options.format in _LINES:
            settled = self._lines_settled(options, file)
        if settled is not None:
            size = self._unit_bytes
        options, header = settled or (options, b"")
        for start in range(0, file.size, size):
            stop = min(start + size, file.size)
            yield FileUnit(file, options, start, stop, stop - start, header)

    def _lines_settled(self, options: InputOptions, file: SourceFile) -> tuple[InputOptions, bytes] | None:
        """Return options and the line of names for ranges of a file's lines; None: the file must be read as a whole."""
        head = _head(file, _HEAD_BYTES)
        lines = head[: head.rfind(b"\n") + 1]
        if not lines or is_compressed(read_bytes(file, 0, min(file.size, MAGIC_BYTES))):
            return None
        if options.format == "libsvm":
            base = self._settled_base(options, lines)
            return None if base is None else (replace(options, index_base=base), b"")
        if options.format == "text":
            return options, b""
        if options.format == "jsonl":
            return options, names_line(lines)
        return self._settled_table(options, lines)

    def _settled_base(self, options: InputOptions, lines: bytes) -> IndexBase | None:
        """Return the first feature's number in LIBSVM text that begins with these lines; None if they leave it open."""
        numbering = self._predictor.numbering(options.index_base)
        for rows in opened(replace(options, index_base=numbering.base), _LIMITS, ()).parse_chunks([lines]):
            numbering.as_model(rows)
        return numbering.settled

    def _settled_table(self, options: InputOptions, lines: bytes) -> tuple[InputOptions, bytes] | None:
        """Do for a table what `_lines_settled` does. Remarks before the names, and quoted line breaks, forbid that."""
        parsers: list[Parser] = []

        def make(options: InputOptions, limits: InputLimits, classes: Sequence[Label]) -> Parser:
            parsers.append(opened(options, limits, classes, beside=Beside(self._keep)))
            return parsers[-1]

        next(self._predictor.predict_text([lines], options=options, open_=make), None)
        (parser,) = parsers
        first = first_line(iter([lines]), len(lines))
        if parser.delimiter is None or _REMARK.match(first):
            return None
        delimiter = options.delimiter if options.format == "tsv" else parser.delimiter
        settled = replace(options, header="yes" if parser.has_names else "no", delimiter=delimiter)
        return settled, first if parser.has_names else b""


def predictions_of_files(predictor: Predictor, sources: Sequence[str], options: InputOptions) -> Iterator[Prediction]:
    """Yield the predictions of the rows of files in order, in this thread. Raises InputError."""
    source = FileSource(predictor, sources, options)
    for unit in source.units():
        for prediction, _ in source.predictions(unit):
            yield prediction


def _head(file: SourceFile, most: int = PEEK_BYTES) -> bytes:
    """Return the first `most` bytes of a file, decompressed; a fault in them is reported when the file is read."""
    head = b""
    pieces = read_range(file, 0, min(file.size, most), threads=1, piece_bytes=most)
    with closing(pieces), suppress(InputError):
        for piece in decompressed(pieces, _LIMITS):
            head += piece
            if len(head) >= most:
                break
    return head


def _opener(unit: FileUnit, beside: Beside) -> ParserMaker:
    if unit.are_groups:
        from streamsvm.service.predictions.table_units import read_groups  # noqa: PLC0415

        read = partial(read_groups, unit.file, unit.options.format, unit.start, unit.stop, beside)
        return partial(opened, beside=beside, read=read, first_row=unit.first_row)
    if unit.options.format in STORED_TABLES:
        from streamsvm.reader.parsers.tables.stored import reads  # noqa: PLC0415
        from streamsvm.service.predictions.table_units import keeping  # noqa: PLC0415

        stored = reads(unit.options.format, Path(tempfile.gettempdir()), _LIMITS)
        return partial(opened, beside=beside, read=partial(keeping, stored, beside))
    return partial(opened, beside=beside)
