"""Model files as fitted estimators, with scikit-learn and without."""

import subprocess
import sys

import numpy as np
import pytest

import streamsvm
from streamsvm import InvalidInput, StreamSVC, StreamSVR, load
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.storage.models.model_file import Model
from tests.refusals import refused

_WITHOUT = "import sys; sys.modules['sklearn'] = None; "


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(4).normal(size=(90, 5))


@pytest.fixture(scope="module")
def fitted(rows):
    """One of each kind, by name."""
    y = rows[:, 0] + rows[:, 1] > 0
    three = np.digitize(rows[:, 0], [-0.5, 0.5])
    return {
        "two": StreamSVC(C=2.0).fit(rows, np.where(y, 1, -1)),
        "texts": StreamSVC(bias=None, probability="sigmoid").fit(rows, np.where(y, "yes", "no")),
        "three": StreamSVC(multiclass="crammer_singer").fit(rows, three),
        "numbers": StreamSVR(C=5.0).fit(rows, rows[:, 0] * 2 + 1),
    }


@pytest.mark.parametrize("name", ["two", "texts", "three", "numbers"])
@pytest.mark.parametrize("suffix", ["npz", "model"])
def test_what_is_saved_comes_back(fitted, rows, name, suffix, tmp_path):
    model, path = fitted[name], tmp_path / f"model.{suffix}"
    if (name, suffix) == ("texts", "model"):
        with pytest.raises(InvalidInput, match="label"):
            model.save(path)
        return
    model.save(path)
    back = load(path)
    assert type(back) is type(model)
    assert np.array_equal(back.coef_, model.coef_) and np.array_equal(back.predict(rows), model.predict(rows))
    if name == "texts":
        assert np.array_equal(back.predict_proba(rows), model.predict_proba(rows))
    if suffix != "model":
        assert back.certificate_ == model.certificate_ and back.C == model.C


@pytest.mark.parametrize("name", ["model.json", "model"])
def test_json_of_an_earlier_version_is_told_what_to_do(fitted, name, tmp_path):
    (tmp_path / name).write_text('{"format": "streamsvm-linear", "version": 1, "w": [1.0]}')
    with pytest.raises(InvalidInput, match="model in JSON") as caught:
        load(tmp_path / name)
    assert 'save("m.npz")' in str(caught.value.hint)
    with pytest.raises(InvalidInput, match="no format of models") as caught:
        fitted["two"].save(tmp_path / "model.json")
    assert "Take npz" in caught.value.hint


def test_weights_that_were_changed_are_saved(fitted, rows, tmp_path):
    model = load_copy(fitted["two"], tmp_path)
    model.coef_ = -model.coef_
    model.save(tmp_path / "other.npz")
    assert np.array_equal(load(tmp_path / "other.npz").coef_, -fitted["two"].coef_)


def load_copy(model, tmp_path):
    model.save(tmp_path / "copy.npz")
    return load(tmp_path / "copy.npz")


def test_what_is_no_model_is_told(tmp_path):
    (tmp_path / "none.npz").write_bytes(b"nothing")
    with refused(InvalidInput, "bad_model"):
        load(tmp_path / "none.npz")


def test_without_scikit_learn(fitted, rows, tmp_path):
    fitted["texts"].save(tmp_path / "model.npz")
    np.save(tmp_path / "rows.npy", rows)
    said = python(
        f"{_WITHOUT}import numpy, streamsvm; streamsvm.Client;"
        f"model = streamsvm.load({str(tmp_path / 'model.npz')!r}); X = numpy.load({str(tmp_path / 'rows.npy')!r});"
        "print(*model.predict(X)); assert model.predict_proba(X).shape == (90, 2)"
    )
    assert said.split() == fitted["texts"].predict(rows).tolist()
    said = python(f"{_WITHOUT}\ntry: from streamsvm import StreamSVC\nexcept ImportError as error: print(error)")
    assert said == "StreamSVC needs scikit-learn: pip install 'streamsvm[sklearn]'\n"


def test_nothing_is_loaded_before_it_is_used():
    heavy = "{'numpy', 'scipy', 'sklearn', 'numba', 'pydantic', 'http'} & set(sys.modules)"
    assert python(f"import sys, streamsvm; print({heavy})") == "set()\n"
    assert python(
        "import sys; from streamsvm import Client; print({'numba', 'sklearn', 'scipy'} & set(sys.modules))"
    ) == ("set()\n")
    assert set(dir(streamsvm)) == set(streamsvm.__all__)
    with pytest.raises(AttributeError):
        streamsvm.nothing  # noqa: B018


def python(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("labels", [("no", "yes"), ("yes", "no")])
def test_labels_are_sorted_whatever_a_file_says(rows, labels, tmp_path):
    """A positive decision value means the first of two labels."""
    w = np.arange(5.0)
    model = Model(w, labels, 0, 1.0, 0.5, {}, ((-2.0, 0.25),))
    (tmp_path / "model.npz").write_bytes(b"".join(MODEL_FORMATS["npz"].write(model)))
    found = load(tmp_path / "model.npz")
    values = rows @ w + 0.5
    assert found.classes_.tolist() == ["no", "yes"]
    assert np.array_equal(found.predict(rows), np.where(values > 0, *labels))
    share = 1 / (1 + np.exp(-2.0 * values + 0.25))
    assert np.allclose(found.predict_proba(rows)[:, sorted(labels).index(labels[0])], share)
