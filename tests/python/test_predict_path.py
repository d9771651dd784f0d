"""`predict_path`: files into a file, or batch by batch."""

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from streamsvm import StreamSVC, load
from streamsvm.errors import InvalidInput


@pytest.fixture(scope="module")
def fitted() -> tuple[StreamSVC, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.integers(-100, 100, (300, 3)) / 8
    y = np.array(["no", "yes", "well"])[(X @ [1, 2, -1] > 0).astype(int) + (X[:, 0] > 9)]
    return StreamSVC(max_passes=3).fit(pyarrow.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]}).to_pandas(), y), X


def test_files_into_a_file_and_batches(fitted, tmp_path):
    model, X = fitted
    names = dict(zip("abc", X.T, strict=True))
    for part, rows in enumerate((slice(0, 100), slice(100, 300))):
        columns = {name: column[rows] for name, column in names.items()}
        parquet.write_table(pyarrow.table({"id": np.arange(300)[rows], **columns}), tmp_path / f"part-{part}.parquet")
    expected = model.predict(pyarrow.table(names).to_pandas())
    pattern = tmp_path / "part-*.parquet"
    assert model.predict_path(pattern, tmp_path / "out.parquet", keep=["id"]) == 300
    found = parquet.read_table(tmp_path / "out.parquet")
    assert found["label"].to_pylist() == expected.tolist() and found["id"].to_pylist() == list(range(300))
    assert np.concatenate([*model.predict_path(pattern)]).tolist() == expected.tolist()
    model.save(tmp_path / "m.npz")
    again = load(tmp_path / "m.npz").predict_path([tmp_path / "part-1.parquet", tmp_path / "part-0.parquet"])
    assert np.concatenate([*again]).tolist() == [*expected[100:], *expected[:100]]
    assert {path.name for path in tmp_path.iterdir()} == {"m.npz", "out.parquet", "part-0.parquet", "part-1.parquet"}


def test_faults_are_those_of_estimators(fitted, tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InvalidInput, match="column_missing"):
        fitted[0].predict_path(tmp_path / "rows.csv", tmp_path / "out.csv")
    with pytest.raises(InvalidInput, match="column_missing"):
        list(fitted[0].predict_path(tmp_path / "rows.csv"))
    with pytest.raises(InvalidInput, match="format"):
        fitted[0].predict_path(tmp_path / "rows.csv", tmp_path / "out.xls")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]
