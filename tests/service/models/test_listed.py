"""Features numbered far apart, from 0 or from 1: dataset, jobs, models and files are as with them side by side."""

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from liblinear import liblinearutil
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.append import append_rows
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.plan.plan import plan_job
from streamsvm.service.local import LocalTraining
from streamsvm.service.models.evaluation.evaluation import evaluate
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.models.heaviest import input_about, with_heaviest
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.models.registry import model_file
from streamsvm.service.settings import Settings
from streamsvm.service.shares import Room
from streamsvm.storage.blocks.dataset import Dataset, faults
from streamsvm.storage.features.maps import listed_maps
from streamsvm.storage.models.model_file import Model, head_of, read_head, read_model, write_model
from tests.machines import random_machine
from tests.refusals import refused
from tests.service.models.model_files import check_onnxruntime

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(30, 5))
W = np.array([3.0, -1.0, 0.5, -2.0, 1.0])
LAST = (1 << 27) - 1
N_FEATURES, N_ROWS = 40, 300


def rows_of(n_classes=2, seed=0):
    """Rows as features (n_rows, 6), values and labels."""
    rng = np.random.default_rng(seed)
    X = np.zeros((N_ROWS, N_FEATURES))
    for row in X:
        row[rng.choice(N_FEATURES, 6, replace=False)] = rng.standard_normal(6).round(3)
    scores = X @ rng.standard_normal((N_FEATURES, n_classes))
    return X, scores.argmax(axis=1) if n_classes > 1 else scores[:, 0].round(3)


def places_of(seed=1):
    """Ascending numbers of the features, the last one LAST."""
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
    training = LocalTraining(directory, dataset, Settings(data_dir=directory), lambda *_: None, is_inline=True)
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
    """Dataset, model and text of the wide rows, then of the narrow ones."""
    fields = dict(JOBS[request.param])
    X, labels = rows_of(fields.pop("n_classes", 2))
    found = []
    for name, places in (("wide", places_of()), ("narrow", np.arange(N_FEATURES))):
        text = text_of(X, labels, places)
        ingest([text], tmp_path / name, threads=1)
        found.append((Dataset(tmp_path / name), train(tmp_path / f"{name}-run", tmp_path / name, **fields), text))
    return found


def test_a_model_is_that_of_features_side_by_side(twins, tmp_path):
    (dataset, model, text), (narrow, theirs, narrow_text) = twins
    assert (dataset.manifest.width, dataset.manifest.n_features) == (N_FEATURES, LAST)
    assert model.n_features == LAST
    assert model.w.shape[-1] <= theirs.w.shape[-1] + 1
    own, expected = (
        next(Predictor(each).predict_text([given])) for each, given in ((model, text), (theirs, narrow_text))
    )
    assert own.decision_values == pytest.approx(expected.decision_values, rel=1e-9, abs=1e-9)
    write_model(tmp_path / "model", model)
    assert read_head(tmp_path / "model") == head_of(read_model(tmp_path / "model")) == head_of(model)
    figures, known = evaluate(model, dataset), evaluate(theirs, narrow)
    assert figures["unknown_features"] == 0
    for name in ("accuracy", "auc", "r_squared", "objective"):
        assert (name in figures) == (name in known)
        assert figures.get(name, 0.0) == pytest.approx(known.get(name, 0.0), rel=1e-9)


def far_model(last: int, base: int, n_classes: int) -> Model:
    """A text with weights of some features up to `last`."""
    rng = np.random.default_rng(3)
    numbers = np.unique(np.append(rng.integers(base, last, 30), last))
    w = rng.standard_normal((n_classes, len(numbers)) if n_classes > 2 else len(numbers))
    labels, w_bias = tuple(map(float, range(n_classes))), tuple(rng.standard_normal(n_classes).tolist())
    maps = listed_maps(last + 1 - base, base, numbers.astype(np.int32))
    about = {"loss": "hinge"}
    return Model(w, labels, base, 1.0, w_bias if n_classes > 2 else w_bias[0], about, maps=maps)


@pytest.mark.parametrize(("n_classes", "base"), [(2, 0), (3, 1)])
@pytest.mark.parametrize("format_", ["liblinear", "npz", "onnx"])
def test_files_hold_the_weights_that_there_are(format_, base, n_classes):
    last = (1 << 21) + 99 if format_ == "liblinear" else LAST
    model = far_model(last, base, n_classes)
    file = io.BytesIO(b"".join(MODEL_FORMATS[format_].write(model)))
    assert format_ == "liblinear" or len(file.getvalue()) < 1 << 14
    again = MODEL_FORMATS[format_].read(file)
    assert (again.n_features, again.labels, again.w_bias) == (model.n_features, model.labels, model.w_bias)
    assert again.maps.listed.tolist() == model.maps.listed.tolist()
    assert again.w.tobytes() == model.w.tobytes()


def test_a_graph_says_what_the_model_says():
    """onnxruntime takes dense rows, which cannot have a hundred million features."""
    X = np.random.default_rng(0).standard_normal((4, 5000), np.float32)
    check_onnxruntime(far_model(5000, 1, 3), X.astype(float))


def test_rows_that_come_later(tmp_path):
    """New features get the next numbers; the dataset is the same as one of all rows at once."""
    X, labels = rows_of()
    near, far = np.arange(1, N_FEATURES + 1), places_of()
    ingest([text_of(X[:100], labels[:100], near)], tmp_path / "data", threads=1)
    for rows, places in ((slice(100, 200), far), (slice(200, 300), near)):
        append_rows([text_of(X[rows], labels[rows], places)], tmp_path / "data", InputOptions(), InputLimits(), 1)
    dataset = Dataset(tmp_path / "data")
    assert dataset.manifest.n_features == LAST and dataset.manifest.listed == N_FEATURES
    assert dataset.manifest.width < (1 << 21) + 100
    model = train(tmp_path / "run", tmp_path / "data", max_passes=4)
    assert len(model.w) <= 2 * N_FEATURES
    predicted = [
        next(Predictor(model).predict_text([text_of(X[rows], labels[rows], each)])).labels
        for rows, each in ((slice(0, 100), near), (slice(100, 200), far), (slice(200, 300), near))
    ]
    assert np.mean(np.concatenate(predicted) == labels) == evaluate(model, dataset)["accuracy"] > 0.8


def test_as_many_features_as_are_said_to_be(tmp_path):
    X, labels = rows_of()
    text = text_of(X, labels, np.arange(1, N_FEATURES + 1))
    manifest = ingest([text], tmp_path / "data", InputOptions(n_features=LAST), threads=1)
    assert (manifest.n_features, manifest.width) == (LAST, N_FEATURES + 1)
    model = train(tmp_path / "run", tmp_path / "data")
    assert (model.n_features, len(model.w)) == (LAST, N_FEATURES)


def test_a_list_that_is_damaged_is_noticed(tmp_path):
    X, labels = rows_of()
    ingest([text_of(X, labels, places_of())], tmp_path / "data", threads=1)
    assert not list(faults(tmp_path / "data"))
    file = tmp_path / "data" / "listed"
    data = file.read_bytes()
    for damaged in (data[:10], data[:-1], data[:-1] + bytes([data[-1] ^ 1]), b""):
        file.write_bytes(damaged)
        assert [fault.code for fault in faults(tmp_path / "data")] == ["dataset_corrupt"]
    file.unlink()
    assert [fault.code for fault in faults(tmp_path / "data")] == ["dataset_corrupt"]


def test_heaviest_words_of_documents_hashed_far_apart(tmp_path):
    words = [f"word{k}" for k in range(200)]
    rng = np.random.default_rng(0)
    lines = [f"{k % 2}\t{' '.join(rng.choice(words, 8))} {'good' if k % 2 else 'bad'}" for k in range(200)]
    found = {}
    for n_features in (1 << 20, 1 << 27):
        directory = tmp_path / str(n_features)
        ingest(["\n".join(lines).encode()], directory, InputOptions("text", n_features=n_features), threads=1)
        model = train(tmp_path / f"run{n_features}", directory, max_passes=4)
        about = {**model.about, **input_about(Dataset(directory).manifest)}
        (entry,) = with_heaviest(replace(model, about=about), directory).about["heaviest"]
        found[n_features] = [each["word"] for sign in ("positive", "negative") for each in entry[sign][:3]]
        assert len(model.w) == (n_features if n_features == 1 << 20 else Dataset(directory).manifest.width)
    assert found[1 << 20] == found[1 << 27]
    assert {found[1 << 27][0], found[1 << 27][3]} == {"good", "bad"}


def test_more_features_than_any_job_could_hold_are_refused(tmp_path):
    X, labels = rows_of()
    few, many = text_of(X, labels, np.arange(1, N_FEATURES + 1)), text_of(X, labels, places_of())
    with refused(InputError, "too_many_features"):
        ingest([many], tmp_path / "data", limits=InputLimits(memory_bytes=40 * N_FEATURES - 1), threads=1)
    assert not list(tmp_path.iterdir())
    before = ingest([few], tmp_path / "data", threads=1)
    with refused(InputError, "too_many_features"):
        append_rows([many], tmp_path / "data", InputOptions(), InputLimits(memory_bytes=40 * (1 << 21)), 1)
    assert Dataset(tmp_path / "data").manifest == before and not list(faults(tmp_path / "data"))


def test_a_download_is_npz_unless_a_text_is_asked_for(tmp_path):
    settings = Settings(data_dir=tmp_path)
    settings.create_directories()
    maps = listed_maps(LAST, 1, np.array([1, LAST]))
    write_model(settings.models / "m", Model(np.ones(2), (1.0, -1.0), 1, about={"loss": "hinge"}, maps=maps))
    record, room = {"id": "m", "created_at": "2026-01-01T00:00:00+00:00"}, Room(tmp_path, 1 << 20)
    format_, file = model_file(settings, record, None, room, "client")
    with file:
        assert (format_, room.in_use < 1 << 16) == ("npz", True)
        file.seek(0)
        assert MODEL_FORMATS["npz"].read(io.BytesIO(file.read())).n_features == LAST
    with pytest.raises(ServiceError) as caught:  # a line for each feature has no room
        model_file(settings, record, "liblinear", room, "client")
    assert (caught.value.code, room.in_use) == ("answer_too_large", 0)


def linear(base: int) -> Model:
    return Model(W, (1.0, -1.0), base, about={"loss": "hinge"})


def text(rows, base):
    """Text as scikit-learn writes it."""
    out = io.BytesIO()
    dump_svmlight_file(sparse.csr_matrix(rows), np.ones(len(rows)), out, zero_based=base == 0)
    return out.getvalue()


def by_way_of(name: str, model: Model) -> Predictor:
    return Predictor(MODEL_FORMATS[name].read(io.BytesIO(b"".join(MODEL_FORMATS[name].write(model)))))


def values(predictor, data, base="auto"):
    found = predictor.predict_text([data], options=InputOptions("libsvm", index_base=base))
    return np.concatenate([each.decision_values for each in found])


@pytest.mark.parametrize("name", ["liblinear", "npz", "onnx"])
@pytest.mark.parametrize("base", [0, 1])
def test_a_file_is_read_as_the_one_that_was_trained_on(name, base):
    """The numbering is found even if no row has the first feature."""
    predictor = by_way_of(name, linear(base))
    rest = ROWS * (np.arange(5) > 0)
    for rows in (ROWS, rest):
        np.testing.assert_allclose(values(predictor, text(rows, base)), rows.astype(np.float32) @ W, rtol=1e-5)


@pytest.mark.parametrize("model", [linear(0), linear(1), random_machine(5, 4, (1.0, -1.0))], ids=["0", "1", "kernel"])
@pytest.mark.parametrize("base", [0, 1])
def test_a_file_that_counts_otherwise_is_read_as_it_is_said_to_count(model, base):
    predictor = Predictor(model)
    np.testing.assert_allclose(
        values(predictor, text(ROWS, base), base), predictor.decision_values(ROWS.astype(np.float32)), rtol=1e-5
    )


@pytest.mark.parametrize(("model", "base", "code"), [(1, 0, "index_zero"), (0, 1, "index_base_mismatch")])
def test_a_file_that_counts_otherwise_is_refused_with_a_hint_that_helps(model, base, code):
    predictor = Predictor(linear(model))
    with pytest.raises(InputError) as caught:
        values(predictor, text(ROWS, base))
    assert caught.value.code == code and f"index_base={base}" in caught.value.hint
    values(predictor, text(ROWS, base), base)


@pytest.mark.parametrize("name", ["liblinear", "npz", "onnx"])
def test_a_model_of_a_matrix_reads_files_that_count_from_0_or_1(name):
    """A matrix has no numbers: a file that does not show its base is refused, in whatever piece the rows come."""
    model = replace(linear(0), about={"loss": "hinge", "numbered": False})
    predictor = by_way_of(name, model)
    for base in (0, 1):
        np.testing.assert_allclose(values(predictor, text(ROWS, base)), ROWS.astype(np.float32) @ W, rtol=1e-5)
        found = values(predictor, text(ROWS * (np.arange(5) % 4 > 0), base), base)
        np.testing.assert_allclose(found, ROWS.astype(np.float32)[:, 1:4] @ W[1:4], rtol=1e-5)
    for lines, code in ((b"1\n1 2:1\n", "index_base_mismatch"), (b"1 5:1\n" * 900_000 + b"1 0:1\n", "index_zero")):
        with pytest.raises(InputError) as caught:
            values(predictor, lines)
        assert caught.value.code == code and "index_base=0" in caught.value.hint


def test_features_beyond_the_last_are_passed_over_as_before():
    predictor = Predictor(linear(0))
    assert values(predictor, b"1 0:1 5:9\n1 5:9\n1 2147483647:1\n").tolist() == [3.0, 0.0, 0.0]
    assert values(predictor, b"1 6:9\n").tolist() == [0.0]
    assert values(Predictor(linear(1)), b"1 0:1 2147483647:1\n", 0).tolist() == [3.0]


def test_liblinear_reads_the_number_of_features_as_it_is(tmp_path):
    """C reads a number with a leading zero as the same number."""
    matrix = replace(linear(0), about={"loss": "hinge", "numbered": False})
    texts = [b"".join(MODEL_FORMATS["liblinear"].write(model)) for model in (linear(1), linear(0), matrix)]
    assert [each.split(b"\n")[3] for each in texts] == [b"nr_feature 5", b"nr_feature 05", b"nr_feature 005"]
    for each in texts:
        path = tmp_path / "a.model"
        path.write_bytes(each)
        assert liblinearutil.load_model(str(path)).nr_feature == 5
