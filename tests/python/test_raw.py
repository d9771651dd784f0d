"""Estimators of files with categories in them: they predict tables as they are."""

import numpy as np
import pytest

from streamsvm import InvalidInput, StreamSVC, load

ROWS = [{"color": "red", "size": 1.0}, {"color": "blue", "size": 1.0}, {"color": "never seen", "size": None}]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "colors.csv"
    lines = [f"{color},{size},{answer}\n" for color, answer in (("red", "yes"), ("blue", "no")) for size in (1, 2, "")]
    path.write_text("color,size,label\n" + "".join(lines) * 5)
    return StreamSVC(input_options={"categorical": "all", "missing": "zero"}).fit(path, "label")


def test_lists_of_dictionaries(fitted):
    assert fitted.predict(ROWS[:2]).tolist() == ["yes", "no"]
    assert fitted.decision_function(ROWS)[2] == pytest.approx(fitted.intercept_[0])


@pytest.mark.parametrize("suffix", ["npz", "json"])
def test_a_saved_model(fitted, tmp_path, suffix):
    fitted.save(tmp_path / f"model.{suffix}")
    found = load(tmp_path / f"model.{suffix}")
    assert np.array_equal(found.decision_function(ROWS), fitted.decision_function(ROWS))


def test_data_frames(fitted):
    frame = pytest.importorskip("pandas").DataFrame(ROWS)
    assert np.array_equal(fitted.decision_function(frame), fitted.decision_function(ROWS))
    assert np.array_equal(fitted.decision_function(frame[["size", "color"]]), fitted.decision_function(ROWS))


def test_numbers_are_still_taken(fitted):
    assert fitted.predict(np.eye(3)).shape == (3,)
    with pytest.raises(InvalidInput, match="size is not a number"):
        fitted.predict([{"color": "red", "size": "large"}])
