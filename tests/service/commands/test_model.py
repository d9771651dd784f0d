"""`streamsvm model show` of a file."""

import json

import numpy as np

from streamsvm.service.cli import main
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.storage.models.model_file import Model


def stored(tmp_path, model: Model) -> str:
    path = tmp_path / "model.npz"
    path.write_bytes(b"".join(MODEL_FORMATS["npz"].write(model)))
    return str(path)


def test_the_heaviest_words_are_printed(tmp_path, capsys):
    words = [{"word": "good film", "feature": 1, "weight": 2.5}]
    entry = {"label": 1.0, "positive": words, "negative": [{"word": "dull", "feature": 0, "weight": -0.125}]}
    path = stored(
        tmp_path,
        Model(np.ones(2), (1.0, -1.0), 0, about={"heaviest": [entry], "passes": 3, "input": {"format": "text"}}),
    )
    assert main(["model", "show", path]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["labels", "1,", "-1"] and ["passes", "3"] in [line.split() for line in lines]
    assert lines[-5:] == ["words for 1", "  +2.5  good film", "", "words against 1", "  -0.125  dull"]
    assert main(["model", "show", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["heaviest"] == [entry]


def test_what_a_model_was_made_of_is_said_in_words(tmp_path, capsys):
    (tmp_path / "rows.csv").write_text("size,color,answer\n" + "1,red,yes\n2,blue,no\n" * 20)
    (tmp_path / "texts").write_text("good\ta film as fine as it is\nbad\tit was so very dull\n" * 20)
    asked = {
        "rows.csv": (["--label-column", "answer", "--validation", "0.5"], "a table of 3 columns with names, 1 of "),
        "texts": (["--ngram-range", "1,2"], "documents, 1 to 2 words an n-gram, in lower case\n"),
    }
    for name, (options, words) in asked.items():
        assert main(["train", str(tmp_path / name), *options, "-o", str(tmp_path / "m.npz")]) == 0
        capsys.readouterr()
        assert main(["model", "show", str(tmp_path / "m.npz")]) == 0
        said = capsys.readouterr().out
        assert f"input        {words}" in said and "certificate  M+ - M- " in said and "{" not in said
        assert ("score        accuracy 1\n" in said) == (name == "rows.csv") and "converged    yes\n" in said


def test_a_file_without_names_shows_numbers_of_features(tmp_path, capsys):
    path = tmp_path / "a.model"
    path.write_bytes(b"".join(MODEL_FORMATS["liblinear"].write(Model(np.array([0.5, -2.0]), (1.0, -1.0), 1))))
    assert main(["model", "show", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-5:] == ["features for 1", "  +0.5  1", "", "features against 1", "  -2  2"]


def test_scaled_columns_have_their_own_names(tmp_path, capsys):
    lines = [f"{k % 2},{k % 2 + k % 7 / 100},{k % 5}\n" for k in range(70)]
    (tmp_path / "rows.csv").write_text("answer,much,little\n" + "".join(lines))
    options = ["--label-column", "answer", "--features", "scale", "-o", str(tmp_path / "m.npz")]
    assert main(["train", str(tmp_path / "rows.csv"), *options]) == 0
    capsys.readouterr()
    assert main(["model", "show", str(tmp_path / "m.npz"), "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["heaviest"]
    assert (entry["positive"] + entry["negative"])[0]["word"] == "much"
