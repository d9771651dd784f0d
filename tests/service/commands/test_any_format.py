"""`streamsvm predict` and `evaluate` read what `train` reads, whatever the file is called."""

import argparse
import io
import json

import numpy as np
import pytest
from pydantic import TypeAdapter
from scipy import sparse

from streamsvm.api.requests.body import parameter_of
from streamsvm.reader.options import OPTIONS, InputOptions, add_input_options, input_options
from streamsvm.service.cli import main

SIZES = [0.5 + k / 7 if k > 9 else k / 7 - 3 for k in range(20)]
LINES = (f"{size},{'red' if k % 3 else 'blue'},{'yes' if k > 9 else 'no'}\n" for k, size in enumerate(SIZES))
ROWS = "size,color,answer\n" + "".join(LINES)


@pytest.fixture
def model(tmp_path):
    (tmp_path / "t.csv").write_text(ROWS)
    options = ["--label-column", "answer", "--categorical", "all"]
    assert main(["train", str(tmp_path / "t.csv"), *options, "-o", str(tmp_path / "m.npz")]) == 0
    return tmp_path / "m.npz"


@pytest.mark.parametrize("kind", ["parquet", "feather", "orc"])
def test_files_are_known_by_their_content(model, tmp_path, capsys, kind):
    path = tmp_path / "rows.csv"
    reader, writer = pytest.importorskip("pyarrow.csv"), pytest.importorskip(f"pyarrow.{kind}")
    write = writer.write_feather if kind == "feather" else writer.write_table
    write(reader.read_csv(io.BytesIO(ROWS.encode())), path)
    assert main(["predict", str(model), str(path)]) == 0
    told = capsys.readouterr()
    assert told.out.split() == ["no"] * 10 + ["yes"] * 10
    assert "accuracy 100.0000% (20/20)" in told.err
    assert main(["evaluate", str(model), str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == 1.0
    assert main(["evaluate", str(model), str(path)]) == 0
    assert "accuracy  1\n" in capsys.readouterr().out
    assert main(["evaluate", str(model), str(path), "--threshold", "f1"]) == 0
    assert "threshold  " in capsys.readouterr().out
    assert main(["evaluate", str(model), str(path), "--curves"]) == 0
    curves = json.loads(capsys.readouterr().out)["curves"]
    assert (curves["false_positive_rate"][0], curves["true_positive_rate"][-1]) == (0.0, 1.0)


def test_matrices_in_npz_are_predicted_with_labels_and_without(tmp_path, capsys):
    X, y = sparse.csr_matrix(np.array(SIZES)[:, np.newaxis]), np.repeat([-1, 1], 10)
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    np.savez(tmp_path / "train.npz", **parts, y=y)
    np.savez(tmp_path / "rows.npz", **parts)
    assert main(["train", str(tmp_path / "train.npz"), "-o", str(tmp_path / "m.model")]) == 0
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "m.model"), str(tmp_path / "train.npz")]) == 0
    with_labels = capsys.readouterr()
    assert main(["predict", str(tmp_path / "m.model"), str(tmp_path / "rows.npz")]) == 0
    assert capsys.readouterr().out == with_labels.out and "accuracy" in with_labels.err


def test_a_mistyped_command_is_told_what_it_may_mean(capsys):
    assert main(["trian", "x"]) == 2
    assert "Did you mean train?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "means"),
    [
        (["train", "x.csv", "--lable-column", "-1"], "--label-column"),
        (["job", "ls", "--jsno"], "--json"),
        (["data", "add", "x", "y.csv", "--catgorical=all"], "--categorical"),
    ],
)
def test_a_mistyped_option_is_told_what_it_may_mean(words, means, capsys):
    with pytest.raises(SystemExit):
        main(words)
    assert f"Did you mean {means}?" in capsys.readouterr().err


def test_the_list_of_tokens_makes_no_data_directory(tmp_path, capsys):
    for action in (["ls"], ["revoke", "ann"]):
        assert main(["token", *action, "--data-dir", str(tmp_path / "data")]) != 0
        assert "is no data directory" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_a_first_token_says_which_data_directory_it_made(tmp_path, capsys):
    for number in (1, 2):
        assert main(["token", "new", f"ann{number}", "--data-dir", str(tmp_path / "data")]) == 0
        said = capsys.readouterr()
        assert said.out.startswith("ssvm_") and ("--data-dir" in said.err) == (number == 1)


@pytest.mark.parametrize(("said", "means"), [("yes", "yes"), ("TRUE", "yes"), ("1", "yes"), ("false", "no")])
def test_yes_and_no_may_be_said_in_other_words(said, means):
    parser = argparse.ArgumentParser()
    add_input_options(parser)
    given = input_options(parser.parse_args([f"--header={said}", f"--shuffle={said}", f"--lowercase={said}"]))
    assert (given.header, given.shuffle, given.lowercase) == (means,) * 3
    assert InputOptions(header=means == "yes").header == means
    assert TypeAdapter(parameter_of(OPTIONS["header"]).annotation).validate_python(said) == means


def test_rows_that_are_left_out_are_counted(tmp_path, capsys):
    (tmp_path / "rows.csv").write_text("label,a\n" + "1,2\n-1,3\n" * 9 + "1,x\n")
    options = ["--on-bad-row", "skip", "-o", str(tmp_path / "m.npz")]
    assert main(["train", str(tmp_path / "rows.csv"), *options]) == 0
    assert "rows that could not be read, and were left out: 1\n" in capsys.readouterr().err
