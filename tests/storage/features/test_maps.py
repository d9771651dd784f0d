"""Compares feature maps with scikit-learn, and with slow code that follows their formulas."""

import itertools
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import MaxAbsScaler, PolynomialFeatures, StandardScaler, normalize

from streamsvm.reader.parsers.fasta_kernel import words_of
from streamsvm.storage.features import FEATURE_MAPS
from streamsvm.storage.features.maps import FeatureMaps, packed, unpacked
from streamsvm.storage.features.maps_kernel import pair_hash
from streamsvm.storage.features.rows import (
    Features,
    FeaturesError,
    FeatureStatistics,
    Shape,
    read_statistics,
    write_statistics,
)
from streamsvm.storage.features.visits import Visited
from streamsvm.storage.rows.csr import BASES_A_WORD, INDEX, VALUE
from streamsvm.storage.rows.segment import Segment
from tests.features import planned


def features_of(X: sp.csr_matrix) -> Features:
    return Features(X.indptr.astype(np.int64), X.indices.astype(INDEX), X.data.astype(VALUE))


def segment_of(rows: Features) -> Segment:
    ids = np.arange(rows.n_rows, dtype=np.int32)
    return replace(Segment.unlabelled(np.zeros(rows.n_rows), *rows), row_id=ids)


def statistics_of(X: sp.csr_matrix) -> FeatureStatistics:
    actual = FeatureStatistics.none()
    rows = features_of(X)
    assert actual.add(*rows)
    return actual


def matrix_of(rows: Features, width: int) -> np.ndarray:
    made = sp.csr_matrix((rows.values.astype(float), rows.indices, rows.indptr), (rows.n_rows, width))
    pairs = np.stack((np.repeat(np.arange(rows.n_rows), np.diff(rows.indptr)), rows.indices))
    assert np.unique(pairs, axis=1).shape == pairs.shape, "a feature stands twice in a row"
    return made.toarray()


def mapped(X: sp.csr_matrix, *named) -> tuple[np.ndarray, FeatureMaps]:
    maps = planned(Shape(X.shape[1]), *named).fitted(statistics_of(X))
    return matrix_of(maps.apply(features_of(X)), maps.width), maps


def matrices(most_rows: int = 12, most_columns: int = 9):
    def made(shape_and_seed):
        rows, columns, share, seed = shape_and_seed
        rng = np.random.default_rng(seed)
        values = rng.normal(size=(rows, columns)).astype(VALUE).astype(float)
        return sp.csr_matrix(values * (rng.random((rows, columns)) < share))

    numbers = st.integers(1, most_rows), st.integers(1, most_columns), st.floats(0, 1), st.integers(0, 2**31)
    return st.tuples(*numbers).map(made)


@settings(max_examples=60, deadline=None)
@given(matrices())
def test_scaling_is_that_of_scikit_learn(X):
    by_max, _ = mapped(X, "scale")
    np.testing.assert_allclose(by_max, MaxAbsScaler().fit_transform(X).toarray(), atol=1e-6)
    by_deviation, _ = mapped(X, ("scale", {"by": "deviation"}))
    constant = np.ptp(X.toarray(), axis=0) == 0
    expected = StandardScaler(with_mean=False).fit_transform(X).toarray()
    np.testing.assert_allclose(by_deviation[:, ~constant], expected[:, ~constant], rtol=1e-5, atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(matrices())
def test_rows_of_length_1_and_idf_are_those_of_scikit_learn(X):
    np.testing.assert_allclose(mapped(X, "unit")[0], normalize(X).toarray(), atol=1e-6)
    np.testing.assert_allclose(mapped(X, "idf")[0], TfidfTransformer().fit_transform(X).toarray(), atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(matrices(most_columns=6), st.booleans())
def test_pairs_are_those_of_scikit_learn(X, squares):
    actual, maps = mapped(X, ("pairs", {"squares": squares}))
    columns = X.shape[1]
    dense = X.toarray()
    np.testing.assert_array_equal(actual[:, :columns], dense)
    expected = np.zeros((len(dense), maps.width - columns))
    for high, low in itertools.product(range(columns), repeat=2):
        if low < high or (squares and low == high):
            expected[:, high * (high + 1) // 2 + low] = dense[:, high] * dense[:, low]
    np.testing.assert_allclose(actual[:, columns:], expected, rtol=1e-6, atol=1e-12)
    others = PolynomialFeatures(2, interaction_only=not squares, include_bias=False).fit_transform(dense)
    np.testing.assert_allclose(np.sort(np.abs(actual)).sum(), np.sort(np.abs(others)).sum(), rtol=1e-5, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(matrices(most_columns=9), st.integers(1, 5))
def test_hashed_pairs_of_one_number_are_added_up(X, bits):
    columns = X.shape[1]
    actual, maps = mapped(X, ("pairs", {"bits": bits}))
    if columns * (columns + 1) // 2 <= 1 << bits:
        return
    assert maps.width == columns + (1 << bits)
    expected = np.zeros_like(actual)
    expected[:, :columns] = X.toarray()
    for high in range(columns):
        for low in range(high):
            hashed = int(pair_hash(low, high))
            sign = -1.0 if hashed >> 63 else 1.0
            expected[:, columns + hashed % (1 << bits)] += sign * X.toarray()[:, low] * X.toarray()[:, high]
    np.testing.assert_allclose(actual, expected, atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(matrices(), st.integers(1, 40), st.floats(0.01, 4.0), st.integers(0, 100))
def test_fourier_features_are_cosines_of_random_products(X, dimension, gamma, seed):
    actual, maps = mapped(X, ("fourier", {"dimension": dimension, "gamma": gamma, "seed": seed}))
    omega, b = maps.maps[0].map.random(Shape(X.shape[1]), gamma)
    expected = np.sqrt(2.0 / dimension) * np.cos(X.toarray() @ omega.astype(float) + b)
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_products_of_fourier_features_are_near_the_kernel():
    X = sp.csr_matrix(np.random.default_rng(0).normal(size=(30, 4)))
    actual, _ = mapped(X, ("fourier", {"dimension": 20_000, "gamma": 0.3}))
    distances = ((X.toarray()[:, None] - X.toarray()[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(actual @ actual.T, np.exp(-0.3 * distances), atol=0.05)


def test_fourier_finds_gamma_as_scikit_learn_does():
    X = sp.csr_matrix(np.random.default_rng(0).normal(size=(30, 4)))
    maps = planned(Shape(4), "fourier").fitted(statistics_of(X))
    assert maps.maps[0].arrays["gamma"][0] == pytest.approx(1.0 / (4 * X.toarray().var()), rel=1e-6)
    scaled = planned(Shape(4), "scale", "fourier").fitted(statistics_of(X))
    assert scaled.maps[1].arrays["gamma"][0] == pytest.approx(
        1.0 / (4 * MaxAbsScaler().fit_transform(X).toarray().var()), rel=1e-5
    )


def strings():
    return st.integers(1, 40).flatmap(
        lambda n: st.lists(st.text("ACGTN", min_size=n, max_size=n), min_size=1, max_size=5)
    )


def rows_of(texts: list[str]) -> Features:
    words, marks = [], []
    for text in texts:
        for begin in range(0, len(text), BASES_A_WORD):
            part = text[begin : begin + BASES_A_WORD]
            words.append(sum("ACGT".index(base) << 2 * k for k, base in enumerate(part) if base != "N"))
            marks.append(1 + sum(1 << k for k, base in enumerate(part) if base == "N"))
    each = words_of(len(texts[0]))
    indptr = np.arange(len(texts) + 1, dtype=np.int64) * each
    return Features(indptr, np.array(words, np.uint32).view(INDEX), np.array(marks, VALUE))


def slow_kernel(a: str, b: str, degree: int) -> float:
    total = 0.0
    for j in range(1, degree + 1):
        weight = 2.0 * (degree - j + 1) / (degree * (degree + 1))
        pairs = ((a[at : at + j], b[at : at + j]) for at in range(len(a) - j + 1))
        total += weight * sum(x == y and "N" not in x for x, y in pairs)
    return total


@settings(max_examples=80, deadline=None)
@given(strings(), st.integers(1, 8))
def test_products_of_strings_are_the_weighted_degree_kernel(texts, degree):
    length = len(texts[0])
    maps = planned(Shape(words_of(length), strings=length), ("weighted_degree", {"degree": degree})).fitted(None)
    made = maps.apply(rows_of(texts))
    assert (made.indices >= 0).all()
    assert (made.indices < maps.width).all()
    X = sp.csr_matrix((made.values.astype(float), made.indices, made.indptr), (len(texts), maps.width))
    expected = np.array([[slow_kernel(a, b, degree) for b in texts] for a in texts])
    norms = np.sqrt(expected.diagonal())
    expected /= np.maximum(norms[:, None] * norms, 1e-300)
    np.testing.assert_allclose((X @ X.T).toarray(), expected, atol=1e-6)


def test_the_width_of_strings_is_that_of_the_paper():
    assert planned(Shape(13, strings=200), "weighted_degree").width == 17_476_000
    made = planned(Shape(13, strings=200), "weighted_degree").fitted(None).apply(rows_of(["ACGT" * 50]))
    assert len(made.indices) == 1572


@settings(max_examples=40, deadline=None)
@given(
    matrices(),
    st.sampled_from([[], ["unit"], ["pairs"], ["unit", "pairs", "bias"], ["bias", "pairs", "unit"]]),
    st.data(),
)
def test_mapping_at_each_visit_equals_mapping_all_at_once(X, names, data):
    maps = planned(Shape(X.shape[1]), "scale", *names).fitted(statistics_of(X))
    early = maps.early.apply(features_of(X))
    order = np.array(data.draw(st.lists(st.integers(0, X.shape[0] - 1), max_size=30)), np.int32)
    whole = matrix_of(maps.apply(features_of(X)), maps.width)
    actual = [np.empty((0, maps.width))]
    for part, positions in Visited(maps.late).batches(segment_of(early), order):
        dense = matrix_of(Features(part.indptr.astype(np.int64), part.indices, part.values), maps.width)
        if len(maps.late):
            np.testing.assert_allclose(part.Qii, (dense**2).sum(axis=1), rtol=1e-6)
        actual.append(dense[positions])
    np.testing.assert_array_equal(np.concatenate(actual), whole[order])


def test_many_rows_come_in_batches(monkeypatch):
    monkeypatch.setattr("streamsvm.storage.features.visits._VALUES", 50)
    X = sp.random(40, 6, 0.7, "csr", random_state=0)
    maps = planned(Shape(6), "pairs").fitted(None)
    parts = list(Visited(maps).all_batches(segment_of(features_of(X))))
    assert len(parts) > 10
    assert [row for part in parts for row in part.row_id] == list(range(40))


@settings(max_examples=40, deadline=None)
@given(matrices(), st.data())
def test_maps_apply_to_renumbered_features(X, data):
    columns = X.shape[1]
    places = np.array(data.draw(st.permutations(range(columns))), INDEX)

    def place(array):
        placed = np.empty_like(array)
        placed[places] = array
        return placed

    rows = features_of(X)
    moved = rows._replace(indices=places[rows.indices])
    for names in (["scale", "unit"], ["idf"], ["scale", "pairs"]):
        maps = planned(Shape(columns), *names).fitted(statistics_of(X))
        renumbered = maps.renumbered(place)
        expected = matrix_of(maps.apply(rows), maps.width)
        actual = matrix_of(renumbered.apply(moved), maps.width)
        np.testing.assert_allclose(actual if not maps.keeps_numbers else actual[:, places], expected, atol=1e-6)


def test_maps_are_read_as_they_were_written():
    X = sp.random(20, 5, 0.5, "csr", random_state=1)
    maps = planned(Shape(5, 0), "scale", ("fourier", {"dimension": 7}), ("bias", {"value": 2.0}))
    maps = maps.fitted(statistics_of(X))
    again = unpacked(maps.document, packed(maps))
    assert again.document == maps.document
    np.testing.assert_array_equal(again.apply(features_of(X)).values, maps.apply(features_of(X)).values)
    with pytest.raises(FeaturesError):
        FeatureMaps.read(maps.document, {})


@pytest.mark.parametrize(
    ("shape", "names", "code"),
    [
        (Shape(4), ["weighted_degree"], "features_order"),
        (Shape(2, strings=20), ["unit"], "features_order"),
        (Shape(2, strings=20), [], "features_missing"),
        (Shape(1 << 30), [("fourier", {"dimension": 64})], "features_range"),
        (Shape(200, strings=3000), ["weighted_degree", "unit"], None),
        (Shape(2000, strings=30_000), [("weighted_degree", {"degree": 12})], "features_range"),
    ],
)
def test_maps_that_do_not_fit_are_refused(shape, names, code):
    if code is None:
        assert planned(shape, *names).width == 3000 * 87_380
        return
    with pytest.raises(FeaturesError) as refused:
        planned(shape, *names)
    assert refused.value.code == code


def test_maps_that_need_statistics_come_first():
    for names in (["pairs", "idf"], ["unit", "scale"], ["unit", "fourier"]):
        with pytest.raises(FeaturesError) as refused:
            planned(Shape(4), *names)
        assert refused.value.code == "no_statistics"
    with pytest.raises(FeaturesError):
        planned(Shape(4), "idf").fitted(None)
    assert planned(Shape(4), "unit", ("fourier", {"gamma": 1.0})).fitted(None)


@settings(max_examples=40, deadline=None)
@given(matrices(), matrices())
def test_statistics_add_up(a, b):
    width = max(a.shape[1], b.shape[1])
    both = sp.vstack([sp.csr_matrix((x.data, x.indices, x.indptr), (x.shape[0], width)) for x in (a, b)])
    actual = statistics_of(a).plus(statistics_of(b)).of_width(width)
    dense = both.toarray().astype(VALUE).astype(float)
    assert actual.n_rows == len(dense)
    np.testing.assert_array_equal(actual.rows, both.getnnz(axis=0))
    np.testing.assert_allclose(actual.sums, dense.sum(axis=0), atol=1e-9)
    np.testing.assert_allclose(actual.squares, (dense**2).sum(axis=0), atol=1e-9)
    np.testing.assert_allclose(actual.largest, np.abs(dense).max(axis=0), rtol=1e-6)


def test_statistics_are_stored_and_damaged_ones_count_as_absent(tmp_path):
    assert read_statistics(tmp_path) is None
    statistics = statistics_of(sp.random(20, 5, 0.5, "csr", random_state=1))
    write_statistics(tmp_path, statistics)
    np.testing.assert_array_equal(read_statistics(tmp_path).squares, statistics.squares)
    (path,) = tmp_path.iterdir()
    data = bytearray(path.read_bytes())
    for place in (1, 40, len(data) - 30):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert read_statistics(tmp_path) is None


def test_too_many_features_are_not_counted():
    actual = FeatureStatistics.none()
    assert not actual.add(np.array([0, 1]), np.array([1 << 22], INDEX), np.ones(1, VALUE))
    assert actual.width <= 1 << 22


@pytest.mark.parametrize("named", ["scale", ("fourier", {"dimension": 8})], ids=["scale", "fourier"])
def test_what_overflows_comes_without_a_warning(named):
    """Warnings are errors here: in a service they would stand in its log, which is JSON."""
    tiny, huge = (sp.csr_matrix(np.array([[value, 0.0], [0.0, -value]])) for value in (1e-30, 1e38))
    maps = planned(Shape(2), named).fitted(statistics_of(tiny))
    assert not np.isfinite(maps.apply(features_of(huge)).values).all()


@pytest.mark.parametrize("name", sorted(FEATURE_MAPS))
def test_pickles_of_earlier_versions_find_their_maps(name):
    # `unit` was in the module of `scale`.
    module = import_module(f"streamsvm.storage.features.{'scale' if name == 'unit' else name}")
    assert getattr(module, FEATURE_MAPS[name].__name__) is FEATURE_MAPS[name]
