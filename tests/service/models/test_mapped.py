"""Models with feature maps: predictions, files, maps folded into the weights, and refusals."""

import io

import numpy as np
import pytest
import scipy.sparse as sp

from streamsvm.reader.errors import InputError
from streamsvm.service.models.exports import MODEL_FORMATS, ModelFormatError
from streamsvm.service.models.formats import formats_for
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.storage.errors import CorruptData
from streamsvm.storage.features.maps import FeatureMaps
from streamsvm.storage.features.rows import Features, FeatureStatistics, Shape
from streamsvm.storage.models.model_file import Model, read_model, write_model
from streamsvm.storage.rows.csr import Rows
from tests.features import planned
from tests.refusals import refused

CHAINS = {
    "scale": ["scale"],
    "scale and bias": ["scale", ("bias", {"value": 0.5})],
    "idf": ["idf"],
    "unit": ["unit"],
    "pairs": ["scale", "pairs"],
    "hashed": ["unit", ("pairs", {"bits": 3})],
    "fourier": [("fourier", {"dimension": 9, "gamma": 0.4})],
}


def rows_of(X: np.ndarray, base: int = 0) -> Rows:
    found = sp.csr_matrix(X)
    return Rows(
        np.zeros(len(X)), found.indptr.astype(np.int64), (found.indices + base).astype(np.int32),
        found.data.astype(np.float32),
    )  # fmt: skip


def fitted(X: np.ndarray, base: int, names) -> FeatureMaps:
    statistics = FeatureStatistics.none()
    rows = rows_of(X, base)
    statistics.add(rows.indptr, rows.indices, rows.values)
    return planned(Shape(X.shape[1] + base, base), *names).fitted(statistics)


def some(n_rows: int = 30, n_features: int = 6, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) < 0.6)
    return X.astype(np.float32).astype(float)


def make(name: str, base: int, n_values: int = 1, bias: float | None = 2.0) -> tuple[Model, np.ndarray]:
    X = some()
    maps, rng = fitted(X, base, CHAINS[name]), np.random.default_rng(1)
    w = rng.normal(size=maps.width) if n_values == 1 else rng.normal(size=(n_values, maps.width))
    labels = (1.0, -1.0) if n_values == 1 else tuple(map(float, range(n_values)))
    w_bias = 0.0 if bias is None else 0.25 if n_values == 1 else tuple(rng.normal(size=n_values).tolist())
    return Model(w, labels, base, bias, w_bias, {"loss": "hinge"}, maps=maps), X


def expected(model: Model, X: np.ndarray) -> np.ndarray:
    rows = rows_of(X, model.index_base)
    made = model.maps.apply(Features(rows.indptr, rows.indices, rows.values))
    dense = sp.csr_matrix((made.values.astype(float), made.indices, made.indptr), (len(X), model.maps.width)).toarray()
    return dense @ model.w.T + model.intercept


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize(("base", "n_values"), [(0, 1), (1, 3)])
def test_rows_come_as_they_were_uploaded(name, base, n_values):
    model, X = make(name, base, n_values)
    predictor = Predictor(model)
    assert predictor.model.n_features == X.shape[1]
    found = predictor.predict(rows_of(X, base)).decision_values
    np.testing.assert_allclose(found, expected(model, X), atol=1e-9)
    np.testing.assert_allclose(predictor.decision_values(X), found, atol=1e-9)
    np.testing.assert_allclose(predictor.decision_values(sp.csr_matrix(X)), found, atol=1e-9)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("base", [0, 1])
def test_unknown_features_are_passed_over_and_counted(name, base):
    model, X = make(name, base)
    wide = np.hstack([X, np.ones((len(X), 2))])
    found = Predictor(model).predict(rows_of(wide, base))
    np.testing.assert_allclose(found.decision_values, expected(model, X), atol=1e-9)
    assert found.unknown_features == 2 * len(X)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("n_values", [1, 3])
def test_npz_holds_the_maps(name, n_values):
    model, X = make(name, 1, n_values)
    data = b"".join(MODEL_FORMATS["npz"].write(model))
    again = MODEL_FORMATS["npz"].read(io.BytesIO(data))
    assert again.maps.document == model.maps.document
    assert again.w.tobytes() == model.w.tobytes()
    np.testing.assert_array_equal(Predictor(again).decision_values(X), Predictor(model).decision_values(X))
    assert b"".join(MODEL_FORMATS["npz"].write(again)) == data


@pytest.mark.parametrize("name", CHAINS)
def test_a_recorded_model_has_its_maps(tmp_path, name):
    model, X = make(name, 0)
    write_model(tmp_path / "m", model)
    again = read_model(tmp_path / "m")
    np.testing.assert_array_equal(Predictor(again).decision_values(X), Predictor(model).decision_values(X))
    (tmp_path / "m" / "maps.npz").write_bytes(b"damaged")
    with pytest.raises(CorruptData):
        read_model(tmp_path / "m")


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("format_", ["liblinear", "onnx"])
@pytest.mark.parametrize(("bias", "n_values"), [(None, 1), (2.0, 1), (2.0, 3)])
def test_other_formats_have_maps_folded_or_are_refused(name, format_, bias, n_values):
    model, X = make(name, 1, n_values, bias)
    maps = [each.name for each in model.maps.maps]
    foldable = name in ("scale", "scale and bias")
    assert (format_ in formats_for(model.labels, False, maps)) == foldable
    if not foldable:
        with pytest.raises(ModelFormatError, match="no feature map") as refused:
            MODEL_FORMATS[format_].write(model)
        assert "npz" in refused.value.hint
        return
    again = MODEL_FORMATS[format_].read(io.BytesIO(b"".join(MODEL_FORMATS[format_].write(model))))
    assert again.maps is None
    np.testing.assert_allclose(Predictor(again).decision_values(X), Predictor(model).decision_values(X), atol=1e-6)


def test_files_with_other_maps_are_refused():
    model, _ = make("scale", 1)
    arrays = dict(np.load(io.BytesIO(b"".join(MODEL_FORMATS["npz"].write(model)))))
    maps = str(arrays["maps"])
    factors = arrays.pop("map_0_factors")
    for text, name in (
        (maps.replace('"scale"', '"skale"'), "map_0_factors"),
        (maps.replace('"width": 7', '"width": 6'), "map_0_factors"),
        (maps, "map_0_factor"),
    ):
        stored = io.BytesIO()
        np.savez(stored, **{**arrays, "maps": np.array(text), name: factors})
        assert (text, name) != (maps, "map_0_factors")
        with pytest.raises(ModelFormatError):
            MODEL_FORMATS["npz"].read(io.BytesIO(stored.getvalue()))


def test_rows_with_too_many_pairs_are_refused():
    model, _ = make("hashed", 0)
    long = Rows(
        np.zeros(1), np.array([0, 9000]), np.tile(np.arange(6, dtype=np.int32), 1500), np.ones(9000, np.float32)
    )
    with refused(InputError, "features_range"):
        Predictor(model).predict(long)
