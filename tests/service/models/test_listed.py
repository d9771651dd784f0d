"""Features far apart: a dataset, its jobs and models are those of the same rows with features numbered side by side."""

from pathlib import Path

import numpy as np
import pytest

from reader.ingest.run import ingest
from service.jobs.problem import plan_job
from service.jobs.spec import parse_spec
from service.local import Training
from service.models.evaluation import evaluate
from service.models.predictor import Predictor
from service.settings import Settings
from storage.dataset import Dataset
from storage.model_file import Model

LAST = (1 << 27) - 1
N_FEATURES, N_ROWS = 40, 300


def rows_of(n_classes=2, seed=0):
    """(features (n_rows, 6), values, labels)"""
    rng = np.random.default_rng(seed)
    X = np.zeros((N_ROWS, N_FEATURES))
    for row in X:
        row[rng.choice(N_FEATURES, 6, replace=False)] = rng.standard_normal(6).round(3)
    scores = X @ rng.standard_normal((N_FEATURES, n_classes))
    return X, scores.argmax(axis=1) if n_classes > 1 else scores[:, 0].round(3)


def places_of(seed=1):
    """Where the features lie, ascending, the last one LAST."""
    rng = np.random.default_rng(seed)
    return np.append(np.sort(rng.choice(LAST - 1, N_FEATURES - 1, replace=False)) + 1, LAST)


def text_of(X, labels, places) -> bytes:
    lines = (
        f"{label} " + " ".join(f"{places[j]}:{row[j]:g}" for j in np.flatnonzero(row))
        for row, label in zip(X, labels, strict=True)
    )
    return "\n".join(lines).encode() + b"\n"


def train(directory: Path, dataset: Path, **fields) -> Model:
    directory.mkdir()
    spec = parse_spec({"dataset": "d", "pace": "fixed", "threads": 1, "max_passes": 20, "tolerance": 1e-6, **fields})
    training = Training(directory, dataset, Settings(data_dir=directory), lambda *_: None, in_turns=True)
    return training.all_lanes(plan_job(spec, Dataset(dataset).manifest)).models[-1][1]


JOBS = {
    "hinge": {},
    "bias": {"bias": 1.0, "loss": "squared_hinge"},
    "classes": {"n_classes": 3},
    "crammer_singer": {"n_classes": 3, "multiclass": "crammer_singer"},
    "regression": {"n_classes": 1, "loss": "epsilon_insensitive", "solver": "dcd"},
    "logistic": {"loss": "logistic", "solver": "dcd"},
    "folds": {"C": [0.1, 1.0], "folds": 2},
    "kernel": {"kernel": "rbf", "solver": "bsgd", "gamma": 0.1},
    "scale": {"features": ["scale"]},
    "idf": {"features": ["idf"]},
    "pairs": {"features": ["pairs"]},
    "fourier": {"features": [{"fourier": {"dimension": 16}}]},
}


@pytest.fixture(params=JOBS)
def twins(request, tmp_path):
    """(the wide dataset, its model, its text), and the same of the narrow one."""
    fields = dict(JOBS[request.param])
    X, labels = rows_of(fields.pop("n_classes", 2))
    found = []
    for name, places in (("wide", places_of()), ("narrow", np.arange(N_FEATURES))):
        text = text_of(X, labels, places)
        ingest([text], tmp_path / name, threads=1)
        found.append((Dataset(tmp_path / name), train(tmp_path / f"{name}-run", tmp_path / name, **fields), text))
    return found


def test_a_model_is_that_of_features_side_by_side(twins):
    (dataset, model, text), (narrow, theirs, narrow_text) = twins
    assert (dataset.manifest.width, dataset.manifest.n_features) == (N_FEATURES, LAST)
    assert model.n_features == LAST
    assert model.w.shape[-1] <= theirs.w.shape[-1] + 1
    own, expected = (
        next(Predictor(each).predict_text([given])) for each, given in ((model, text), (theirs, narrow_text))
    )
    assert own.decision_values == pytest.approx(expected.decision_values, rel=1e-9, abs=1e-9)
    figures, known = evaluate(model, dataset), evaluate(theirs, narrow)
    assert figures["unknown_features"] == 0
    for name in ("accuracy", "auc", "r_squared", "objective"):
        assert (name in figures) == (name in known)
        assert figures.get(name, 0.0) == pytest.approx(known.get(name, 0.0), rel=1e-9)
