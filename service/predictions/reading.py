"""Predicts the rows of a unit, batch by batch, each batch with the columns of the input that are to be copied."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.ranges import InputRange
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import STORED_TABLES, InputOptions
from streamsvm.reader.parsers.base import Parser
from streamsvm.reader.parsers.tables.matching import Beside, Column
from streamsvm.reader.sources.fetch import LinesOfRange, Stripe, read_stripes
from streamsvm.reader.sources.files import list_files
from streamsvm.service.models.predicting.predictor import MOST_FEATURES, Prediction, Predictor
from streamsvm.service.models.predicting.rows_read import ParserMaker, opened
from streamsvm.service.predictions.units import UNIT_BYTES, FileUnit, units_of
from streamsvm.storage.models.model_file import Label

_PIECE_BYTES = 4 << 20
_LIMITS = InputLimits(max_features=MOST_FEATURES)


def predictions_of(
    predictor: Predictor, unit: FileUnit, keep: Sequence[str]
) -> Iterator[tuple[Prediction, list[Column]]]:
    """Yield the predictions of a unit's rows in order, each with the columns `keep` of the input; nothing without rows.

    Raises InputError, with the file and the position in it.
    """
    beside, has_rows = Beside(keep), False
    open_, with_place = _opener(unit, beside), InputRange(unit.file.url, iter(())).placed
    with closing(read_stripes(_stripes(unit), threads=1, piece_bytes=_PIECE_BYTES)) as stripes:  # type: ignore[type-var]
        pieces = next((pieces for _, pieces in stripes), ())
        if isinstance(pieces, LinesOfRange) and unit.start:
            with_place = InputRange(unit.file.url, iter(()), partial(_offset, pieces, len(unit.header))).placed
            pieces = chain([unit.header] if unit.header else [], pieces)
        try:
            for prediction in predictor.predict_text(pieces, _LIMITS, unit.options, open_):
                has_rows = True
                yield prediction, beside.take(len(prediction.labels))
        except InputError as error:
            if error.code == "no_rows" and not has_rows:
                return
            raise with_place(error) from error.__cause__


def predictions_of_files(predictor: Predictor, sources: Sequence[str], options: InputOptions) -> Iterator[Prediction]:
    """Yield the predictions of the rows of files in order, in this thread. Raises InputError."""
    for unit in units_of(predictor, list_files(sources), options, (), UNIT_BYTES):
        for prediction, _ in predictions_of(predictor, unit, ()):
            yield prediction


def _offset(lines: LinesOfRange, header: int) -> int:
    return lines.first - header


def _stripes(unit: FileUnit) -> list[Stripe]:
    """Return the range of bytes to read, in a list; [] for row groups, since their parser opens the file."""
    return [] if unit.are_groups else [Stripe(unit.file, unit.start, unit.stop)]


def _opener(unit: FileUnit, beside: Beside) -> ParserMaker:
    if unit.are_groups:
        from streamsvm.service.predictions.table_units import read_groups  # noqa: PLC0415

        read = partial(read_groups, unit.file, unit.options.format, unit.start, unit.stop, beside)
        return partial(opened, beside=beside, read=read, first_row=unit.first_row)
    if unit.options.format in STORED_TABLES:
        return partial(_stored_table, beside)
    return partial(opened, beside=beside)


def _stored_table(beside: Beside, options: InputOptions, limits: InputLimits, classes: Sequence[Label]) -> Parser:
    from streamsvm.reader.parsers.tables.stored import reads  # noqa: PLC0415
    from streamsvm.service.predictions.table_units import keeping  # noqa: PLC0415

    read = partial(keeping, reads(options.format, Path(tempfile.gettempdir()), limits), beside)
    return opened(options, limits, classes, beside=beside, read=read)
