"""Callbacks of scikit-learn follow training, end it, and score the fitted estimator."""

import importlib.util
import sys

import numpy as np
import pytest
import sklearn
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from streamsvm import InvalidInput, StreamSVC, StreamSVR

callback = pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(200, 3))
Y = np.where(X[:, 0] + RANDOM.normal(size=200) > 0, "yes", "no")


class Noting:
    """Notes all that it is told; asks for an end after `most` passes."""

    def __init__(self, most: int | None = None) -> None:
        self.told, self.passes, self.most = [], [], most

    def setup(self, estimator, context):
        self.told.append("setup")

    def teardown(self, estimator, context):
        self.told.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.told.append(f"{context.task_name} begins")

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.told.append(f"{context.task_name} ends")
        if context.task_name == "pass":
            self.passes.append(metadata)
            assert fitted_estimator is None
        else:
            self.last = X, y, fitted_estimator
        return self.most is not None and len(self.passes) >= self.most


@pytest.mark.parametrize("kind", [StreamSVC, StreamSVR])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_each_pass_is_told_once(kind, method):
    noting = Noting()
    y = Y if kind is StreamSVC else X[:, 1]
    svm = kind(pace="fixed").set_callbacks(noting)
    getattr(svm, method)(X, y)
    passes = ["pass begins", "pass ends"] * len(svm.history_)
    assert noting.told == ["setup", f"{method} begins", *passes, f"{method} ends", "teardown"]
    assert noting.passes == svm.history_ and len(svm.history_) > 1
    given_X, given_y, fitted = noting.last
    assert given_X is X and given_y is y and fitted is not svm
    assert np.array_equal(fitted.predict(X), svm.predict(X))


def test_passes_of_several_runs_are_told_once():
    noting = Noting()
    svm = StreamSVC(C=[0.1, 1.0], cv=2, pace="fixed").set_callbacks(noting).fit(X, Y)
    assert noting.passes == svm.history_


def test_a_callback_ends_training():
    endless = StreamSVC(pace="fixed", tolerance=1e-300, relative_gap=None, max_passes=1_000_000)
    svm = endless.set_callbacks(Noting(most=2))
    with pytest.warns(ConvergenceWarning, match="training was interrupted"):
        svm.fit(X, Y)
    assert 2 <= svm.n_iter_ < 1_000_000 and svm.score(X, Y) > 0.5


def test_callbacks_are_torn_down_after_a_fault_and_forgotten_when_none_are_set():
    noting = Noting()
    svm = StreamSVC().set_callbacks(noting)
    with pytest.raises(ValueError, match="inconsistent"):
        svm.fit(X, Y[:-1])
    assert noting.told == ["setup", "fit begins", "teardown"] and not hasattr(svm, "_callback_fit_ctx")
    svm.set_callbacks().fit(X, Y)
    assert len(noting.told) == 3


def test_files_are_not_passed_on(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,label\n1,yes\n-1,no\n")
    noting = Noting()
    StreamSVC().set_callbacks(noting).fit(path)
    assert noting.last[:2] == (None, None) and noting.last[2].predict(path).tolist() == ["yes", "no"]


def test_a_fault_of_a_callback_ends_fit():
    class Failing(Noting):
        def on_fit_task_begin(self, estimator, context):
            if context.task_name == "pass":
                raise OSError("disk")

    failing = Failing()
    with pytest.raises(OSError, match="disk"):
        StreamSVC().set_callbacks(failing).fit(X, Y)
    assert failing.told[-1] == "teardown"


@pytest.mark.parametrize("depth", [0, 1])
def test_progress_bars_of_scikit_learn(depth, capsys):
    pytest.importorskip("rich")
    bar = callback.ProgressBar(max_propagation_depth=depth)
    make_pipeline(StandardScaler(), StreamSVC()).set_callbacks(bar).fit(X, Y)
    shown = capsys.readouterr().out
    assert "Pipeline - fit" in shown and ("StreamSVC - fit" in shown) == (depth == 1)
    StreamSVC().set_callbacks(callback.ProgressBar()).fit(X, Y)
    shown = capsys.readouterr().out
    assert "StreamSVC - fit" in shown and "100%" in shown


def test_scores_are_monitored():
    monitor = callback.ScoringMonitor(scoring="accuracy")
    svm = StreamSVC().set_callbacks(monitor).fit(X, Y)
    (entry,) = monitor.get_logs(select="most_recent").data
    assert entry["accuracy"] == pytest.approx(svm.score(X, Y))


def test_older_versions_refuse_them(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    monkeypatch.setattr(sklearn, "__version__", "1.8.0")
    spec = importlib.util.find_spec("streamsvm.results")
    older = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(older)
    with pytest.raises(InvalidInput, match=r"need scikit-learn 1\.9 or newer, this is 1\.8\.0") as raised:
        older.Callbacks().set_callbacks(Noting())
    assert raised.value.code == "not_installed" and "verbose" in raised.value.hint
    assert older.telling_callbacks(StreamSVC.fit) is StreamSVC.fit
