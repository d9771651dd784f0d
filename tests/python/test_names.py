"""Names of columns: models of data frames know them, and find the columns of others by them."""

import warnings

import numpy as np
import pyarrow
import pytest

from streamsvm import InvalidInput, StreamSVC
from tests.refusals import refused

NAMES = ["income", "debt", "noise"]
X = np.random.default_rng(0).standard_normal((60, 3)).round(3)
y = np.where(X @ [3.0, -2.0, 0.1] > 0, "good", "bad")


def frame(kind: str, names=NAMES, rows=slice(None), **more):
    """A table of pandas, polars or pyarrow with these columns."""
    columns = {name: X[rows, NAMES.index(name)] for name in names} | more
    if kind == "pyarrow":
        return pyarrow.table(columns)
    return pytest.importorskip(kind).DataFrame(columns)


KINDS = pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])


@pytest.fixture(scope="module")
def fitted():
    return StreamSVC().fit(frame("pandas"), y)


def values(model, asked):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return model.decision_function(asked)


def test_matrices_are_taken_by_place(fitted):
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert fitted.decision_function(X) == pytest.approx(values(fitted, frame("pandas")), rel=1e-5)
    with pytest.warns(UserWarning, match="feature names"), pytest.raises(ValueError, match="2 features"):
        fitted.predict(X[:, :2])


@KINDS
def test_chunks_and_tables_that_are_read(fitted, kind):
    """Chunks may have their columns in any order."""
    orders = [(NAMES, slice(0, 25)), (NAMES[::-1], slice(25, 60))]
    chunks = [(frame(kind, names, rows), y[rows]) for names, rows in orders]
    found = StreamSVC().fit(iter(chunks))
    assert found.feature_names_in_.tolist() == NAMES
    assert values(found, frame("pandas")) == pytest.approx(values(fitted, frame("pandas")), rel=1e-3)
    if kind == "pyarrow":
        found = StreamSVC().fit(frame(kind, NAMES[::-1], label=y))
        assert found.feature_names_in_.tolist() == NAMES[::-1]
        assert values(found, frame("pandas")) == pytest.approx(values(fitted, frame("pandas")), rel=1e-3)


def test_chunks_that_do_not_fit():
    first = (frame("pandas"), y)
    with pytest.raises(ValueError, match="those of others have none"):
        StreamSVC().fit(iter([first, (X, y)]))
    with pytest.raises(InvalidInput, match="there is no column 'noise'"):
        StreamSVC().fit(iter([first, (frame("pandas", NAMES[:2]), y)]))
    with pytest.raises(InvalidInput, match="have no column 'id'"):
        StreamSVC().fit(iter([first, (frame("pandas", id=X[:, 0]), y)]))


def test_rows_that_are_added(fitted):
    found = StreamSVC().partial_fit(frame("pandas", rows=slice(0, 30)), y[:30])
    found.partial_fit(frame("pandas", NAMES[::-1], slice(30, 60)), y[30:])
    assert values(found, frame("pandas")) == pytest.approx(values(fitted, frame("pandas")), rel=1e-2, abs=1e-2)
    with pytest.raises(ValueError, match="Feature names"):
        found.partial_fit(frame("pandas", NAMES[:2], slice(30, 60)), y[30:])


def test_without_names(fitted, tmp_path):
    """A matrix has no column names, and neither has a file without a line of names."""
    found = StreamSVC().fit(X, y)
    assert not hasattr(found, "feature_names_in_")
    assert found.get_feature_names_out().tolist() == ["x0", "x1", "x2"]
    assert found.get_feature_names_out(NAMES).tolist() == NAMES
    with pytest.warns(UserWarning, match="fitted without feature names"):
        found.predict(frame("pandas"))
    path = tmp_path / "rows.csv"
    path.write_text("".join(f"{label},{','.join(map(str, row))}\n" for label, row in zip(y, X.tolist(), strict=True)))
    found = StreamSVC().fit(path)
    assert not hasattr(found, "feature_names_in_")
    assert values(found, X) == pytest.approx(values(fitted, frame("pandas")), rel=1e-3)
    with refused(InvalidInput, "header_differs", match="without names"):
        found.predict(frame("pandas"))


def test_names_that_are_not_those_of_the_model(fitted):
    for names in (NAMES[::-1], NAMES[:2]):
        with pytest.raises(ValueError, match="feature_names_in_"):
            fitted.get_feature_names_out(names)
    with pytest.raises(InvalidInput) as caught:
        fitted.predict(frame("pandas").set_axis(["income", "debt", "debt"], axis=1))
    assert caught.value.code == "duplicate_column" and "y=-1 if its last column has the label" in caught.value.hint


def test_names_of_what_maps_make(fitted):
    scaled = StreamSVC(features=["scale"]).fit(frame("pandas"), y)
    assert scaled.get_feature_names_out().tolist() == NAMES
    paired = StreamSVC(features=["pairs"]).fit(frame("pandas"), y)
    assert len(paired.get_feature_names_out()) == paired.coef_.shape[1] > 3


def test_categories(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("size,color,label\n" + "1,red,1\n2,blue,-1\n" * 5)
    found = StreamSVC(input_options={"categorical": "all"}).fit(path)
    assert (found.n_features_in_, found.feature_names_in_.tolist()) == (2, ["size", "color"])
    assert found.get_feature_names_out().tolist() == ["size", "color=red", "color=blue"]
