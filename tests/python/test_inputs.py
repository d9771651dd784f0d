"""Everything that `fit` reads rows from makes the model that the rows in memory make."""

import os
import signal
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file
from sklearn.exceptions import ConvergenceWarning

from streamsvm import InputWarning, InvalidInput, StreamSVC, StreamSVR
from streamsvm import workspace as workspace_module
from tests.refusals import refused


@pytest.fixture(scope="module")
def problem():
    """Values that text and float32 both hold exactly."""
    rng = np.random.default_rng(7)
    X = rng.integers(-8, 9, (240, 6)) / 8.0
    return X, np.where(X @ rng.normal(size=6) + 0.3 * rng.normal(size=240) > 0, 1, -1)


@pytest.fixture(scope="module")
def in_memory(problem):
    return StreamSVC(tolerance=1e-8).fit(*problem)


def fit(*given, **named):
    return StreamSVC(tolerance=1e-8).fit(*given, **named)


def is_same(model, other):
    return np.allclose(model.coef_, other.coef_, atol=1e-6) and np.allclose(
        model.intercept_, other.intercept_, atol=1e-6
    )


@pytest.fixture(params=["small", "large"])
def size(request, monkeypatch):
    """What is large is read in and trained on by other processes; here everything is."""
    if request.param == "large":
        monkeypatch.setattr(workspace_module, "SMALL_BYTES", 0)
    return request.param


def test_a_file(problem, in_memory, tmp_path, size):
    dump_svmlight_file(*problem, str(tmp_path / "rows.svm"), zero_based=False)
    found = fit(tmp_path / "rows.svm")
    assert is_same(found, in_memory) and found.n_features_in_ == 6
    assert found.classes_.tolist() == [-1, 1]
    assert np.array_equal(found.predict(problem[0]), in_memory.predict(problem[0]))


def test_columns_of_csv_by_name(problem, tmp_path):
    X, y = problem
    lines = ["good,a,b,c,d,e,f,weight"]
    names = np.where(y > 0, "yes", "no")
    lines += [",".join([name, *map(str, row), str(k % 3)]) for k, (name, row) in enumerate(zip(names, X, strict=True))]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    found = fit(tmp_path / "rows.csv", "good", sample_weight="weight")
    expected = fit(X, names, sample_weight=np.arange(len(y)) % 3)
    assert found.classes_.tolist() == ["no", "yes"] and is_same(found, expected)


def test_chunks(problem, in_memory, size):
    X, y = problem
    parts = [slice(begin, begin + 50) for begin in range(0, len(y), 50)]
    assert is_same(fit((X[part], y[part]) for part in parts), in_memory)
    weighted = fit((sparse.csr_matrix(X[part]), y[part], np.full(len(y[part]), 2.0)) for part in parts)
    assert is_same(weighted, StreamSVC(2.0, tolerance=1e-8).fit(X, y))


def test_chunks_of_texts_as_labels_in_any_order(problem, in_memory):
    X, y = problem
    order = np.argsort(-y, kind="stable")
    names = np.where(y > 0, "yes", "no")[order]
    found = fit((X[order][k : k + 60], names[k : k + 60]) for k in range(0, len(y), 60))
    assert found.classes_.tolist() == ["no", "yes"] and is_same(found, in_memory)


def test_a_chunk_that_is_wrong_is_told(problem, size):
    X, y = problem
    with pytest.raises(ValueError, match="a chunk"):
        fit(iter([(X, y[:-1])]))
    with pytest.raises(ZeroDivisionError):
        fit((X / (1 // k), y) for k in (1, 0))
    with refused(InvalidInput, "bad_batch", match="columns"):
        fit(iter([(X, y), (X[:, :-1], y)]))


def test_a_pyarrow_dataset(problem, in_memory, tmp_path):
    X, y = problem
    table = pa.table({**{f"f{k}": X[:, k] for k in range(6)}, "label": y})
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    dataset = pyarrow.dataset.dataset(tmp_path / "rows.parquet")
    for given in (dataset, table):
        assert is_same(fit(given), in_memory) and is_same(fit(given, "label"), in_memory)
    with pytest.raises(ValueError, match="no column"):
        fit(dataset, "nothing")


def test_rows_added_bit_by_bit(problem, in_memory, size):
    X, y = problem
    model = StreamSVC(tolerance=1e-8)
    for begin in range(0, len(y), 80):
        model.partial_fit(X[begin : begin + 80], y[begin : begin + 80])
    assert is_same(model, in_memory)


def test_rows_added_are_begun_with_what_was_found(problem, monkeypatch):
    """Training on the same rows and a few more has next to nothing left to do."""
    X, y = problem
    updates, answers, can_grow = [], [], workspace_module.can_grow
    monkeypatch.setattr(workspace_module, "can_grow", lambda *of: answers.append(can_grow(*of)) or answers[-1])
    model = StreamSVC(tolerance=1e-6, solver="dcd", max_passes=10_000)
    for rows in (slice(0, 238), slice(238, 240)):
        model.partial_fit(X[rows], y[rows])
        updates.append(model.n_iter_)
    cold = StreamSVC(tolerance=1e-6, solver="dcd", max_passes=10_000).fit(X, y)
    assert answers == [True]
    assert is_same(model, cold) and updates[1] < cold.n_iter_


def test_classes_that_come_later():
    rng = np.random.default_rng(1)
    places = np.repeat(np.arange(3), 30)
    X = rng.normal(size=(90, 3)) + 4 * np.eye(3)[places]
    y = np.array(["a", "b", "c"])[places]
    model = StreamSVC().partial_fit(X[:60], y[:60], classes=["a", "b", "c"])
    assert model.classes_.tolist() == ["a", "b", "c"] and model.score(X[:60], y[:60]) > 0.95
    assert "c" not in model.predict(X[:60])
    assert model.partial_fit(X[60:], y[60:]).score(X, y) > 0.95


def test_nothing_is_left_behind(problem, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("STREAMSVM_CACHE_DIR", str(tmp_path))
    model = StreamSVC().partial_fit(*problem)
    assert list(tmp_path.iterdir())
    model.fit(*problem)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError):
        model.fit(iter([(problem[0], problem[1][:-1])]))
    assert not list(tmp_path.iterdir())


def test_an_interrupt_keeps_what_there_is(problem, size):
    before = signal.getsignal(signal.SIGINT)

    def press():
        while signal.getsignal(signal.SIGINT) is before:  # until it trains: reading in takes its time
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    endless = StreamSVC(relative_gap=None, solver="dcd", max_passes=1_000_000)
    thread = threading.Thread(target=press)
    thread.start()
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        endless.fit(*problem)
    thread.join()
    assert 0 < endless.n_iter_ < 1_000_000 and endless.score(*problem) > 0.8
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("kind", [StreamSVC, StreamSVR])
def test_fit_begins_anew_after_rows_were_added(problem, kind):
    """Also with other columns."""
    X, y = problem
    X, y, settings = X[:60], y[:60], {"C": 0.1, "tolerance": 1e-6}
    model = kind(**settings).partial_fit(X, y)
    assert is_same(model.fit(X[:, :3], y), kind(**settings).fit(X[:, :3], y))
    assert model.n_features_in_ == 3


@pytest.mark.parametrize("weights", ["balanced", {1234567.0: 2.0}])
def test_labels_of_a_file_have_all_their_digits(problem, tmp_path, weights):
    X, y = problem
    labels = np.where(y > 0, 1234567.0, 7654321.0)
    dump_svmlight_file(X, labels, str(tmp_path / "rows"), zero_based=False)
    model = StreamSVC(class_weight=weights, tolerance=1e-8).fit(tmp_path / "rows")
    assert model.classes_.tolist() == [1234567.0, 7654321.0]
    assert is_same(model, StreamSVC(class_weight=weights, tolerance=1e-8).fit(X, labels))


def named(problem) -> pa.Table:
    """The table of the problem, with an index of pandas and ids."""
    X, y = problem
    columns = {"__index_level_0__": np.arange(len(y)), "y": y, "id": np.arange(len(y)) * 3}
    return pa.table({**columns, **{f"f{k}": X[:, k] for k in range(6)}})


@pytest.mark.filterwarnings("ignore:.*rows_contrary")
@pytest.mark.parametrize("how", ["table", "files"])
def test_columns_are_chosen_and_an_index_is_none(problem, in_memory, tmp_path, how):
    table = named(problem)
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    pa.csv.write_csv(table.slice(0, 100), files[0])
    pa.csv.write_csv(table.slice(100).select(table.column_names[::-1]), files[1])
    X = table if how == "table" else files
    with pytest.warns(InputWarning, match="index_left_out"):
        model = StreamSVC(tolerance=1e-8, input_options={"drop_columns": ["id"]}).fit(X, y="y")
    assert is_same(model, in_memory) and model.feature_names_in_.tolist() == [f"f{k}" for k in range(6)]
    chosen = StreamSVC(input_options={"columns": ["f0", "f3"]}).fit(X, y="y")
    assert chosen.coef_.shape == (1, 2)
