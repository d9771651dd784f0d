"""Any table asked by any route, of the command, HTTP and Python: the right values, or a refusal.

TABLES=3000 makes as many, in place of those that fit into continuous integration.
"""

import argparse
import contextlib
import csv
import io
import os
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas
import pytest

from streamsvm import InvalidInput
from streamsvm.prediction import FittedModel
from streamsvm.reader.errors import InputError
from streamsvm.service.commands.predict import add_arguments, run
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.storage.models.model_file import Model
from tests.api.app import Service

TABLES = int(os.environ.get("TABLES", "15"))
POOL = ["a", "b", "income", "x 1", "é", "1", "7", 'q,"r', "y"]
WORDS = {"red": 0, "blue": 1}
REFUSED = {"column_missing", "column_count", "header_differs", "header_unclear", "duplicate_column"}


@dataclass
class Asked:
    """A table to be predicted: names or None, rows, and the values that the model predicts, None if it refuses."""

    names: list[str] | None
    rows: list[list[Any]]
    values: list[float] | None
    unknown: set[str]
    header: str = "auto"


def some_model(rng: np.random.Generator) -> Model:
    """Make a model of columns with or without names, or of numbered features; the last column may hold words."""
    names = rng.permutation(POOL)[: rng.integers(1, 5)].tolist()
    kind = rng.choice(["named", "named", "unnamed", "nameless"])
    words = [names[-1]] if kind == "named" and rng.random() < 0.3 else []
    n_numbers, n_words = len(names) - len(words), len(WORDS) * len(words)
    input_ = {
        "format": "csv", "columns": names, "categorical": words, "missing": "error", "categories": "dictionary",
        "dictionary": dict.fromkeys(words, WORDS), "has_names": True, "n_columns": len(names) + 1,
        "places": list(range(1, len(names) + 1)), "label_column": "answer",
    }  # fmt: skip
    if kind == "unnamed":
        input_ |= {"has_names": False, "columns": [str(k + 2) for k in range(len(names))], "label_column": "1"}
    w = 2.0 ** np.arange(n_numbers + n_words)
    about = {"loss": "hinge"} if kind == "nameless" else {"loss": "hinge", "input": input_}
    return Model(w, (1.0, -1.0), int(rng.integers(2)), None, 0.0, about)


def some_table(rng: np.random.Generator, model: Model) -> Asked:
    input_ = model.about.get("input") or {"columns": POOL[: model.n_features], "categorical": []}
    names, words, n_rows = input_["columns"], input_["categorical"], rng.integers(1, 4)
    numbers = [name for name in names if name not in words]
    cells = {name: rng.integers(0, 9, n_rows).tolist() for name in numbers}
    cells |= {name: rng.choice([*WORDS, "new"], n_rows).tolist() for name in words}
    values = sum((np.array(cells[name]) * w for name, w in zip(numbers, model.w, strict=False)), np.zeros(n_rows))
    of_words = {word: model.w[len(numbers) + number] for word, number in WORDS.items()} if words else {}
    values = values + sum((np.array([of_words.get(word, 0.0) for word in cells[name]]) for name in words), 0.0)
    has_names = bool(rng.random() < 0.6)
    left_out = {rng.choice(names)} if rng.random() < 0.25 else set[str]()
    extra = {"id", "zz", "class"} - set(rng.permutation(["id", "zz", "class", "answer"])[:3].tolist())
    label = {"answer"} if rng.random() < 0.3 else set()
    # By places nobody can tell one column in place of another, nor their order.
    is_mixed = has_names and "input" in model.about
    others = sorted(extra | label) if is_mixed or not left_out else []
    order = [name for name in names if name not in left_out]
    order = rng.permutation([*order, *others]).tolist() if is_mixed else [*others, *order]
    cells |= {name: rng.choice([1, -1], n_rows).tolist() for name in others}
    rows = [[cells[name][row] for name in order] for row in range(n_rows)]
    if not order:
        return some_table(rng, model)
    return Asked(order if has_names else None, rows, *answer(model, has_names, left_out, others, values.tolist()))


def answer(
    model: Model, has_names: bool, left_out: set[str], others: list[str], values: list[float]
) -> tuple[list[float] | None, set[str]]:
    """Return the predicted values, None if refused, and the columns that are left out."""
    input_ = model.about.get("input")
    if input_ is not None and has_names != input_["has_names"]:
        return None, set()
    if input_ is not None and has_names:
        # A model that knows its label column takes no other for it.
        usual = "class" if "class" in others and "answer" not in others else ""
        return (None if left_out else values), set(others) - {"answer", usual}
    taken = {"class"} if has_names and input_ is None else set()
    return (None if left_out or set(others) - taken else values), set()


def as_text(asked: Asked) -> str:
    text = io.StringIO()
    csv.writer(text).writerows([*([asked.names] if asked.names is not None else []), *asked.rows])
    return text.getvalue()


def by_command(path, model: Model, asked: Asked) -> tuple[list[float] | str, set[str] | None]:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    (path / "m.npz").write_bytes(b"".join(MODEL_FORMATS["npz"].write(model)))
    (path / "rows.csv").write_text(as_text(asked))
    out, said = io.StringIO(), io.StringIO()
    given = [str(path / "m.npz"), str(path / "rows.csv"), "--decision-values", f"--header={asked.header}"]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
            run(parser.parse_args(given))
    except InputError as error:
        return error.code, None
    told = said.getvalue().partition("left out: ")[2].partition("(")[2].partition(")")[0]
    return [float(line.split()[1]) for line in out.getvalue().splitlines()], set(told.split(", ")) - {""}


def by_http(service: Service, name: str, asked: Asked) -> tuple[list[float] | str, set[str] | None]:
    url, kind = f"/v1/models/{name}/predict?header={asked.header}", {"Content-Type": "text/csv"}
    return _answered(service.request("POST", url, content=as_text(asked).encode(), headers=kind))


def by_json(service: Service, name: str, asked: Asked) -> tuple[list[float] | str, set[str] | None]:
    assert asked.names is not None
    rows = [dict(zip(asked.names, row, strict=True)) for row in asked.rows]
    return _answered(service.request("POST", f"/v1/models/{name}/predict", json={"rows": rows}))


def _answered(response: Any) -> tuple[list[float] | str, set[str] | None]:
    body = response.json()
    if response.status_code != 200:
        return body["code"], None
    return [each["decision_value"] for each in body["predictions"]], set(
        body.get("unknown_columns", {}).get("names", ())
    )


def by_python(model: Model, X: Any) -> tuple[list[float] | str, set[str] | None]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            values = FittedModel(model).decision_function(X).tolist()
        except InvalidInput as error:
            return error.code, None
        except ValueError:
            return "column_count", None
    told = "".join(str(each.message) for each in said).partition("left out: ")[2].partition("(")[2].partition(")")[0]
    return values, set(told.split(", ")) - {""}


@pytest.mark.parametrize("seed", range(TABLES))
def test_every_route_says_the_same(service, tmp_path, seed):
    rng = np.random.default_rng(seed)
    model = some_model(rng)
    name = service.add_model(service.dataset_id, model)
    for _ in range(6):
        asked = some_table(rng, model)
        # Names that are numbers may be values: the user says which.
        if asked.names is not None and all(
            name.isdecimal() for name in model.about.get("input", {}).get("columns", ())
        ):
            asked.header = "yes"
        found = {"command": by_command(tmp_path, model, asked), "http": by_http(service, name, asked)}
        is_named = bool((model.about.get("input") or {}).get("has_names"))
        if asked.names is not None:
            frame = pandas.DataFrame(asked.rows, columns=asked.names)
            if "input" in model.about:
                found["frame"] = by_python(model, frame)
            if is_named:
                rows = [dict(zip(asked.names, row, strict=True)) for row in asked.rows]
                found |= {"dictionaries": by_python(model, rows), "json": by_json(service, name, asked)}
        elif not is_named:
            found["matrix"] = by_python(model, np.array(asked.rows, float))
        # A table of text that has as many columns as that of training, and no names, has its labels, too.
        is_unnamed = asked.names is None and "input" in model.about and not is_named
        is_whole = is_unnamed and len(asked.rows[0]) == len(model.w) + 1
        for route, (said, unknown) in found.items():
            if is_whole and route in ("command", "http"):
                assert said == [float(np.dot(row[1:], model.w)) for row in asked.rows], (route, asked)
            elif asked.values is None:
                assert isinstance(said, str) and said in REFUSED, (route, asked, said)
            else:
                assert (said, unknown) == (asked.values, asked.unknown), (route, asked)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("service"))
    service.dataset_id = service.add_dataset("data")
    return service
