"""Kernel machines for rows and matrices of any kind, against numpy."""

import numpy as np
import pytest
from scipy import sparse

from streamsvm.reader.errors import InputError
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.storage.models.decision import predicted_classes
from tests.machines import numpys_values, random_machine, random_matrix, rows_of

TEXTS = ("ham", "späm", 'a,"b')
LABELS = pytest.mark.parametrize("labels", [(3.0, -2.0), TEXTS[:2], (3.0, 1.0, 2.0), TEXTS, ()], ids=str)


def close(found, expected) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@LABELS
@pytest.mark.parametrize("base", [0, 1])
def test_rows_and_matrices_of_any_kind(base, labels):
    w_bias = 0.25 if len(labels) < 3 else (0.5, 1.0, -2.0)
    model, X = random_machine(labels=labels, base=base, bias=2.0, w_bias=w_bias), random_matrix(5000, 12)
    predictor, expected = Predictor(model), numpys_values(model, X)
    prediction = predictor.predict(rows_of(X, base))
    close(prediction.decision_values, expected)
    if labels:
        assert prediction.labels.tolist() == [labels[place] for place in predicted_classes(expected)]
    for given in (X, X.tocsc(), X.astype(float), X.toarray(), X.toarray().astype(float), sparse.csr_array(X)):
        close(predictor.decision_values(given), expected)


def test_unknown_features_are_counted_and_part_of_the_distance():
    model, X = random_machine(), random_matrix(200, 20)
    prediction = Predictor(model).predict(rows_of(X))
    close(prediction.decision_values, numpys_values(model, X))
    assert prediction.unknown_features == X[:, 12:].nnz > 0


def test_strict_refuses_unknown_features():
    predictor = Predictor(random_machine(), strict=True)
    assert predictor.predict(rows_of(random_matrix(5, 12))).unknown_features == 0
    with pytest.raises(InputError, match="feature 13: its features are 1 to 12"):
        predictor.predict(rows_of(sparse.csr_matrix(np.ones((1, 13), np.float32))))
