"""Each class of real data against the rest: the objective is LIBLINEAR's to a millionth."""

import numpy as np
import pytest

from tests.contracts.problems import make_dataset
from tests.reference import data, liblinear
from tests.reference.dcd import primal_objective
from tests.training import train

N_ROWS, C, MOST_CLASSES = 400, 0.5, 4


def some_rows(name):
    """(X, y) of a few rows of the classes that come first, no row longer than 1."""
    data.require(name)
    X, y = data.load(name)
    labels = np.unique(y)[:MOST_CLASSES]
    picked = np.random.default_rng(0).permutation(np.flatnonzero(np.isin(y, labels)))[:N_ROWS]
    X = X[picked].astype(np.float32)
    X.data /= np.sqrt(X.multiply(X).sum(axis=1).max())
    return X, y[picked], labels


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("name", ["dna", "letter", "mnist.train", "news20"])
def test_every_class_has_liblinears_objective(tmp_path, name, loss):
    X, y, labels = some_rows(name)
    dataset = make_dataset(tmp_path / "data", X, y)
    for label in labels:
        ends = {"tolerance": None, "relative_gap": 1e-7, "max_passes": 100_000}
        found = train(tmp_path / f"{label:g}", dataset, 64 << 20, positive=label, loss=loss, C=C, **ends)
        sign = data.one_vs_rest(y, label)
        theirs = liblinear.train(X.astype(float), sign, C, eps=1e-8, loss=loss).primal
        w = found.w[1 : X.shape[1] + 1]
        own = primal_objective(X.astype(float)[:, : len(w)], sign, w, C, loss)
        assert own == pytest.approx(theirs, rel=1e-6)
        assert found.result["certificate"]["primal_objective"] == pytest.approx(own, rel=1e-6)
