"""Predicts a file of any format, which its first bytes tell."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from streamsvm.reader.ingest.decompress import decompressed
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.sniff import with_head
from streamsvm.service.models.predicting.predictor import MOST_FEATURES, Prediction, Predictor
from streamsvm.service.models.predicting.rows_read import FORMATS, OF_PROGRAMS, ParserMaker, format_of_head


def predict_file(
    predictor: Predictor,
    chunks: Iterable[bytes],
    options: InputOptions,
    limits: Limits | None = None,
    parsers: Mapping[str, ParserMaker] = FORMATS | OF_PROGRAMS,
) -> Iterator[Prediction]:
    """Predict a file, as `Predictor.predict_text`, also of Parquet or npz; options.format "auto": by its content.

    parsers  makes the parser of each format; content of any other is read, and refused, as text of the model's own
    """
    format_, text, limits = options.format, chunks, limits or Limits(max_features=MOST_FEATURES)
    if format_ == "auto":
        head, text = with_head(decompressed(chunks, limits))
        # Documents that are in a column are in a table.
        usual = predictor.text_format if options.text_column is None else "csv"
        format_ = format_of_head(head, usual)
        format_ = format_ if format_ in parsers else usual
    # The first column of a matrix is the first feature.
    base = 0 if format_ == "npz" and options.index_base == "auto" else options.index_base
    yield from predictor.predict_text(text, limits, replace(options, format=format_, index_base=base), parsers)
