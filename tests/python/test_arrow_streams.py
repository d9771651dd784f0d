"""Objects that give streams of Arrow train and predict a batch at a time, and never become one table."""

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from streamsvm import StreamSVC
from streamsvm.frames import column_names, is_frame, is_stream
from streamsvm.tables import table_stream

SCHEMA = pa.schema({"a": pa.float64(), "b": pa.float64(), "target": pa.int64()})
N, BATCHES = 100, 20


class Stream:
    """A table of BATCHES batches of N rows with the one method of the PyCapsule interface; counts batches made."""

    def __init__(self, rows: int = N) -> None:
        self.made, self._rows = 0, rows

    def batches(self):
        random = np.random.default_rng(0)
        for _ in range(BATCHES):
            self.made += 1
            a, b = random.normal(size=(2, self._rows))
            yield pa.record_batch([a, b, (a - b > 0).astype(np.int64)], schema=SCHEMA)

    def __arrow_c_stream__(self, requested_schema=None):
        return pa.RecordBatchReader.from_batches(SCHEMA, self.batches()).__arrow_c_stream__(requested_schema)


class StreamOfKnownSchema(Stream):
    """Gives one stream, as its schema says nothing of rows."""

    schema = SCHEMA

    def __arrow_c_stream__(self, requested_schema=None):
        assert self.made == 0, "the stream was opened twice"
        return super().__arrow_c_stream__(requested_schema)


def whole() -> pa.Table:
    return pa.Table.from_batches(Stream().batches())


@pytest.mark.parametrize("made", [Stream, StreamOfKnownSchema])
def test_names_are_found_without_reading_rows(made):
    stream = made()
    assert is_frame(stream) and column_names(stream) == ["a", "b", "target"] and stream.made == 0


def test_columns_are_no_tables():
    for column in (whole()["a"], pa.chunked_array([[1]])):
        assert not is_stream(column) and not is_frame(column)


def test_a_batch_is_made_when_it_is_read():
    stream = Stream()
    chunks = table_stream(stream, "target", None, None, None).chunks
    for k in range(1, BATCHES + 1):
        assert next(chunks) and stream.made <= k + 1


def test_large_batches_are_cut():
    written = table_stream(Stream(200_000), "target", None, None, None).chunks
    assert len(next(written)) < 65536 * 3 * 8 + 10_000


@pytest.mark.parametrize("made", [Stream, StreamOfKnownSchema, lambda: duckdb.from_arrow(whole())])
def test_fit_and_predict_as_with_the_table(made):
    expected = StreamSVC(pace="fixed").fit(whole(), "target")
    svm = StreamSVC(pace="fixed").fit(made(), "target")
    assert np.array_equal(svm.coef_, expected.coef_) and list(svm.feature_names_in_) == ["a", "b"]
    assert np.array_equal(svm.predict(made()), expected.predict(whole()))
