"""The predictor against LIBLINEAR's own, against itself in pieces, and its count of unknown features."""

import gzip
import io
import json
import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.libsvm import LibsvmParser
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.models.predicting.answers import ANSWERS, keep
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.rows.csr import Rows
from tests.reference.liblinear import liblinear_predict
from tests.refusals import refused

N_FEATURES = 30


def random_model(base: int = 1, bias: float | None = None, loss: str = "hinge") -> Model:
    rng = np.random.default_rng(1)
    w = rng.standard_normal(N_FEATURES) * (rng.random(N_FEATURES) < 0.8)
    return Model(w, (3.0, -2.0), base, bias, 0.4 if bias is not None else 0.0, {"loss": loss})


def random_text(base: int, n_rows: int = 300, width: int = N_FEATURES) -> bytes:
    """Rows of LIBSVM text, some of them empty; features are numbered from `base`."""
    rng = np.random.default_rng(2)
    lines = []
    for _ in range(n_rows):
        features = np.flatnonzero(rng.random(width) < 0.2) + base
        pairs = " ".join(f"{feature}:{rng.standard_normal():.4g}" for feature in features)
        lines.append(f"{rng.choice([3, -2])} {pairs}\n")
    return "".join(lines).encode()


def rows_of(text: bytes) -> Rows:
    """The only batch of a short text."""
    (rows,) = LibsvmParser(InputOptions(), InputLimits()).parse_chunks([text])
    return rows


def as_csr(rows: Rows, base: int) -> sparse.csr_matrix:
    width = int(rows.indices.max()) + 1
    return sparse.csr_matrix((rows.values.astype(float), rows.indices, rows.indptr), (len(rows), width))[:, base:]


@pytest.mark.parametrize(
    ("width", "loss"), [(N_FEATURES, "hinge"), (N_FEATURES + 9, "squared_hinge")], ids=["known", "unknown"]
)
@pytest.mark.parametrize("bias", [None, 0.0, 1.5])
@pytest.mark.parametrize("base", [0, 1])
def test_agrees_with_liblinear(tmp_path, base, bias, loss, width):
    model = random_model(base, bias, loss)
    path = tmp_path / "exported.model"
    path.write_bytes(b"".join(MODEL_FORMATS["liblinear"].write(model)))
    rows = rows_of(random_text(base, width=width))
    labels, decision = liblinear_predict(path, as_csr(rows, base), rows.label)
    found = Predictor(model).predict(rows)
    np.testing.assert_array_equal(found.labels, labels)
    np.testing.assert_allclose(found.decision_values, decision, rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(found.expected, rows.label)


def test_a_decision_value_of_zero_is_the_second_label():
    model = Model(np.array([1.0, -1.0]), (5.0, 6.0), 1)
    found = Predictor(model).predict(rows_of(b"0 1:1 2:1\n0 1:2 2:1\n0\n"))
    assert found.labels.tolist() == [6.0, 5.0, 6.0]
    assert found.decision_values.tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(("base", "unknown"), [(0, 1), (1, 2)])
def test_unknown_features_are_counted_and_add_nothing(base, unknown):
    model = Model(np.ones(3), (1.0, -1.0), base, 1.0, 0.25)
    rows = rows_of(b"1 0:8 2:1 9:100\n-1 1:-1\n")
    found = Predictor(model).predict(rows)
    assert found.unknown_features == unknown
    assert found.decision_values.tolist() == [9.25 if base == 0 else 1.25, -0.75]


def test_strict_refuses_unknown_features():
    predictor = Predictor(random_model(), strict=True)
    assert predictor.predict(rows_of(b"1 1:1 30:1\n")).unknown_features == 0
    with refused(InputError, "unknown_feature", match="feature 31"):
        predictor.predict(rows_of(b"1 1:1 31:1 40:1\n"))
    with pytest.raises(InputError, match="feature 99"):
        list(predictor.predict_text([b"1 99:1\n"]))


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_text_in_small_chunks_is_the_same_as_at_once(size, pack):
    predictor = Predictor(random_model(bias=1.0))
    text = random_text(1, width=N_FEATURES + 3)
    whole = predictor.predict(rows_of(text))
    packed = pack(text)
    batches = list(predictor.predict_text(packed[i : i + size] for i in range(0, len(packed), size)))
    for field in ("labels", "decision_values", "expected"):
        joined = np.concatenate([getattr(batch, field) for batch in batches])
        assert joined.tobytes() == getattr(whole, field).tobytes()
    assert sum(batch.unknown_features for batch in batches) == whole.unknown_features > 0


def test_a_long_text_comes_in_batches_before_it_ends():
    line = b"3 " + b" ".join(b"%d:1" % feature for feature in range(1, N_FEATURES + 1)) + b"\n"
    taken = 0

    def chunks():
        nonlocal taken
        for _ in range(200):
            taken += 1
            yield line * 1000

    predictions = Predictor(random_model()).predict_text(chunks())
    first = next(predictions)
    assert taken < 100
    assert len(first.labels) + sum(len(batch.labels) for batch in predictions) == 200_000


def test_any_feature_number_may_come():
    (found,) = Predictor(random_model()).predict_text([b"1 1:1 2147483646:1\n"])
    assert found.unknown_features == 1
    with pytest.raises(InputError):
        list(Predictor(random_model()).predict_text([b"1 1:1 200:1\n"], InputLimits(max_features=100)))


@pytest.mark.parametrize("text", [b"1 0:1\n", b"", b"x\n", b"\x1f\x8b\x08"])
def test_faults_of_the_text_are_input_errors(text):
    with pytest.raises(InputError):
        list(Predictor(random_model()).predict_text([text]))


@pytest.mark.parametrize("base", [0, 1])
def test_a_model_without_features(base):
    found = Predictor(Model(np.empty(0), (1.0, -1.0), base, 1.0, 0.5)).predict(rows_of(b"1 3:1\n-1\n"))
    assert found.decision_values.tolist() == [0.5, 0.5]
    assert found.unknown_features == 1


def test_regression_is_answered_with_values(tmp_path):
    predictor = Predictor(Model(np.array([2.0, 1e308]), (), 1))
    text = b"7 1:0.75\n-1 2:1e30\n"
    answers = {
        kind: b"".join(answer(keep(predictor, predictor.predict_text([text]), io.BytesIO())))
        for kind, answer in ANSWERS.items()
    }
    assert json.loads(answers["application/json"])["predictions"] == [{"value": 1.5}, {"value": None}]
    assert answers["application/x-ndjson"] == b'{"value":1.5}\n{"value":null}\n'
    assert answers["text/csv"] == b"value\r\n1.5\r\ninf\r\n"
    assert answers["text/plain"] == b"1.5\ninf\n"


@pytest.mark.parametrize("n_classes", [3, 400])
def test_of_many_classes_a_batch_is_predicted_in_pieces(n_classes):
    labels = tuple(map(float, range(n_classes)))
    rng = np.random.default_rng(7)
    model = Predictor(Model(rng.normal(size=(n_classes, 3)), labels, 1, None, (0.0,) * n_classes, {"loss": "hinge"}))
    text = b"1 1:1 3:2\n2\n3 2:1\n" * 500
    rows = np.tile([[1.0, 0, 2], [0, 0, 0], [0, 1, 0]], (500, 1))
    for options, body in ((None, text), (InputOptions("csv"), b"1,0,2\n0,0,0\n0,1,0\n" * 500)):
        found = list(model.predict_text([body], options=options))
        assert max(each.decision_values.size for each in found) <= 1 << 18
        assert np.allclose(np.concatenate([each.decision_values for each in found]), model.decision_values(rows))
        assert len(np.concatenate([each.expected for each in found])) == len(rows)


def test_sparse_rows_of_many_classes_copy_no_weights():
    w = np.ones((50, 40_000))
    model = Model(w, tuple(map(float, range(50))), 0, None, (0.0,) * 50, {"loss": "hinge"})
    rows = sparse.csr_matrix(([1.0, 2.0], [5, 39_999], [0, 2]), (1, 40_000))
    tracemalloc.start()
    found = Predictor(model).decision_values(rows)
    assert tracemalloc.get_traced_memory()[1] < w.nbytes / 4
    tracemalloc.stop()
    assert found.tolist() == [[3.0] * 50]
