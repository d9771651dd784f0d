"""Predicts a file of any format, which its first bytes tell."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from streamsvm.reader.ingest.decompress import decompressed
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.sniff import with_head
from streamsvm.service.models.predicting.predictor import MOST_FEATURES, Prediction, Predictor
from streamsvm.service.models.predicting.rows_read import format_of_head


def predict_file(predictor: Predictor, chunks: Iterable[bytes], options: InputOptions) -> Iterator[Prediction]:
    """Predict a file, as `Predictor.predict_text`, also of Parquet or npz; options.format "auto": by its content."""
    format_, text = options.format, chunks
    if format_ == "auto":
        head, text = with_head(decompressed(chunks, Limits(max_features=MOST_FEATURES)))
        format_ = format_of_head(head, predictor.text_format)
    # The first column of a matrix is the first feature.
    base = 0 if format_ == "npz" else options.index_base
    return predictor.predict_text(text, options=replace(options, format=format_, index_base=base))
