"""Estimators are judged on files and frames that have the labels; a first batch may have one class."""

import copy

import numpy as np
import pytest

import streamsvm
from streamsvm import InvalidInput, StreamSVC, StreamSVR
from tests.refusals import refused

pandas = pytest.importorskip("pandas")

rng = np.random.default_rng(0)
FRAME = pandas.DataFrame(
    {"size": rng.normal(size=40).round(3), "color": rng.choice(["red", "blue"], 40), "flag": rng.random(40) < 0.5}
)
FRAME["answer"] = np.where((FRAME["size"] > 0) & (FRAME["color"] == "red"), "yes", "no")
WORDS = {"categorical": "all"}


@pytest.fixture(scope="module")
def fitted():
    return StreamSVC(input_options=WORDS).fit(FRAME, "answer")


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet"])
def test_labels_of_the_table_judge(fitted, tmp_path, kind):
    path = tmp_path / f"t.{kind}"
    if kind == "csv":
        FRAME.to_csv(path, index=False)
    elif kind == "parquet":
        FRAME.to_parquet(path)
    X = FRAME if kind == "frame" else path
    expected = float((fitted.predict(FRAME) == FRAME["answer"]).mean())
    assert fitted.score(X) == fitted.score(X, "answer") == fitted.score(X, FRAME["answer"]) == pytest.approx(expected)
    found = fitted.evaluate(X)
    assert found["accuracy"] == pytest.approx(expected) and found["rows"] == 40
    assert found == fitted.evaluate(X, "answer")
    curves = fitted.evaluate(X, curves=True)["curves"]
    cut = copy.deepcopy(fitted).set_threshold(fitted.evaluate(X, threshold="costs=1:1000")["threshold"])
    lowest = fitted.decision_function(FRAME)[(FRAME["answer"] == fitted.classes_[1]).to_numpy()].min()
    assert (cut.predict(FRAME)[fitted.decision_function(FRAME) >= lowest] == fitted.classes_[1]).all()
    assert np.trapezoid(curves["true_positive_rate"], curves["false_positive_rate"]) == pytest.approx(found["auc"])
    assert [type(each["label"]) for each in found["classes"]] == [str, str]


def test_rows_without_labels_do_not_judge(fitted):
    with pytest.raises(InvalidInput, match="40 of 40 rows have no label") as caught:
        fitted.score(FRAME.drop(columns="answer"))
    assert "name the column" in caught.value.hint
    with pytest.raises(InvalidInput, match="label is missing"):
        StreamSVC(input_options=WORDS).fit(FRAME.assign(answer=FRAME["answer"].where(FRAME.index != 3)), "answer")


def test_numbers_are_judged_by_R2():
    model = StreamSVR(input_options=WORDS).fit(FRAME.drop(columns="answer").assign(target=FRAME["size"] * 2), "target")
    frame = FRAME.assign(target=FRAME["size"] * 2)[["size", "color", "flag", "target"]]
    assert model.score(frame) == pytest.approx(model.score(frame.drop(columns="target"), frame["target"]))
    assert model.evaluate(frame)["r2"] == pytest.approx(model.score(frame), rel=1e-5)


@pytest.mark.parametrize("classes", [["a", "b"], ["a", "b", "c"], [0, 1]])
def test_the_first_rows_may_be_of_one_class(classes):
    X = np.arange(8.0).reshape(4, 2)
    for one in classes:
        model = StreamSVC().partial_fit(X, [one] * 4, classes=classes)
        assert model.classes_.tolist() == classes
        assert model.predict(X).tolist() == [one] * 4
        other = classes[one == classes[0]]
        model.partial_fit(-X - 1, [other] * 4)
        assert model.predict(X).tolist() == [one] * 4 and model.predict(-X - 1).tolist() == [other] * 4
    with pytest.raises(ValueError, match="one class"):
        StreamSVC().partial_fit(X, [classes[0]] * 4)


def test_what_is_missing_says_why(fitted):
    with pytest.raises(AttributeError, match='train with probability="sigmoid"'):
        fitted.predict_proba(FRAME)
    assert streamsvm.__version__


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("tol", "relative_gap"),
        ("max_iter", "max_passes"),
        ("random_state", "seed"),
        ("max_pases", "did you mean 'max_passes'"),
        ("warm_start", "partial_fit goes on from the rows before"),
    ],
)
def test_parameters_of_scikit_learn_have_counterparts(name, instead):
    with pytest.raises(TypeError, match=instead):
        StreamSVC(**{name: 1})


def test_a_folder_says_how_its_files_are_named(tmp_path):
    with pytest.raises(InvalidInput, match="is a folder") as caught:
        StreamSVC().fit(tmp_path)
    assert "folder/*" in caught.value.hint


@pytest.mark.parametrize("kind", ["frame", "file"])
@pytest.mark.parametrize(
    ("options", "code", "hint"),
    [
        ({"categorial": "all"}, "unknown_option", "did you mean 'categorical'?"),
        ({"quite_another": 1}, "unknown_option", "README"),
        ({"missing": "indikator", "columns": ["size"]}, "option_range", "did you mean 'indicator'?"),
    ],
)
def test_mistyped_input_options_are_refused(tmp_path, kind, options, code, hint):
    path = tmp_path / "t.csv"
    FRAME.to_csv(path, index=False)
    with refused(InvalidInput, code) as caught:
        StreamSVC(input_options=options).fit(FRAME if kind == "frame" else path, "answer")
    assert hint in caught.value.hint


def test_documents_of_a_frame_are_refused_and_those_of_a_file_evaluated(tmp_path):
    frame = pandas.DataFrame({"label": ["a", "b"] * 10, "text": ["good film", "bad film"] * 10})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    model = StreamSVC(input_options={"text_column": "text"})
    with pytest.raises(InvalidInput, match="no option of a data frame"):
        model.fit(frame, "label")
    model.fit(tmp_path / "t.csv", "label")
    for path in (tmp_path / "t.csv", tmp_path / "t.parquet"):
        assert model.score(path) == model.score(path, "label") == model.evaluate(path)["accuracy"] == 1
