"""Columns of data frames are chosen as those of files are; streams of Arrow never become one table."""

import warnings

import duckdb
import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest

import streamsvm
from streamsvm import InvalidInput, StreamSVC
from streamsvm.service.remote.frames import column_names, is_frame, is_stream
from streamsvm.tables import table_stream
from tests.refusals import refused

SCHEMA = pa.schema({"a": pa.float64(), "b": pa.float64(), "target": pa.int64()})
N, BATCHES = 100, 20


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize("options", [{"drop_columns": ["id", "when"]}, {"columns": "b,a"}, {"columns": ["a", "b"]}])
def test_columns_of_a_frame_are_chosen_as_those_of_a_file(tmp_path, kind, options):
    rng = np.random.default_rng(0)
    columns = {"id": np.arange(60.0), "a": rng.normal(size=60), "when": np.arange(60.0)[::-1], "b": rng.normal(size=60)}
    frame = pandas.DataFrame(columns) if kind == "pandas" else polars.DataFrame(columns)
    y = np.where(columns["a"] > columns["b"], 1, -1)
    model = StreamSVC(input_options=options, tolerance=1e-6).fit(frame, y)
    assert list(model.feature_names_in_) == ["a", "b"] and model.n_features_in_ == 2
    X = np.column_stack([columns["a"], columns["b"]])
    np.testing.assert_array_equal(model.coef_, StreamSVC(tolerance=1e-6).fit(X, y).coef_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what was left out in training is no surprise
        np.testing.assert_array_equal(model.predict(frame), model.predict(frame[["b", "a"]]))
    model.save(tmp_path / "m.npz")
    np.testing.assert_array_equal(streamsvm.load(tmp_path / "m.npz").predict(frame), model.predict(frame))
    further = StreamSVC(input_options=options).partial_fit(frame[:40], y[:40]).partial_fit(frame[40:], y[40:])
    assert further.n_features_in_ == 2 and further.score(frame, y) > 0.9


def test_columns_of_a_frame_that_are_not_there():
    frame = pandas.DataFrame({"a": [0.0, 1.0], "b": [1.0, 0.0]})
    with refused(InvalidInput, "drop_columns_missing"):
        StreamSVC(input_options={"drop_columns": "c"}).fit(frame, [0, 1])


def test_labels_may_stand_beside_a_table_of_pyarrow():
    model = StreamSVC().fit(pa.table({"a": [0.0, 1.0]}), y=np.array([0, 1]))
    assert model.predict(pa.table({"a": [0.0, 1.0]})).tolist() == [0, 1]
    assert model.feature_names_in_.tolist() == ["a"]
    assert model.model_.about["input"]["n_columns"] == 1 and "label_column" not in model.model_.about["input"]


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
    chunks = table_stream(stream, "target", None, None, None)[0]
    for k in range(1, BATCHES + 1):
        assert next(chunks) and stream.made <= k + 1


def test_large_batches_are_cut():
    written = table_stream(Stream(200_000), "target", None, None, None)[0]
    assert len(next(written)) < 65536 * 3 * 8 + 10_000


@pytest.mark.parametrize("made", [Stream, StreamOfKnownSchema, lambda: duckdb.from_arrow(whole())])
def test_fit_and_predict_as_with_the_table(made):
    expected = StreamSVC(pace="fixed").fit(whole(), "target")
    svm = StreamSVC(pace="fixed").fit(made(), "target")
    assert np.array_equal(svm.coef_, expected.coef_) and list(svm.feature_names_in_) == ["a", "b"]
    assert np.array_equal(svm.predict(made()), expected.predict(whole()))
