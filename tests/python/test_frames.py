"""Columns of data frames are chosen as those of files are."""

import warnings

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest

import streamsvm
from streamsvm import InvalidInput, StreamSVC


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
    with pytest.raises(InvalidInput) as caught:
        StreamSVC(input_options={"drop_columns": "c"}).fit(frame, [0, 1])
    assert caught.value.code == "drop_columns_missing"


def test_labels_may_stand_beside_a_table_of_pyarrow():
    model = StreamSVC().fit(pa.table({"a": [0.0, 1.0]}), y=np.array([0, 1]))
    assert model.predict(pa.table({"a": [0.0, 1.0]})).tolist() == [0, 1]
    assert model.feature_names_in_.tolist() == ["a"]
    assert model.model_.about["input"]["n_columns"] == 1 and "label_column" not in model.model_.about["input"]
