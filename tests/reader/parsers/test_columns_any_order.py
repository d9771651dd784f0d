"""Random tables in several files, with columns reordered, dropped or added: matched by name, or refused."""

import csv
import io
from dataclasses import replace

import numpy as np
import pyarrow
import pytest

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.append import append_rows
from streamsvm.reader.ingest.ranges import SourceInput
from streamsvm.reader.ingest.reading import Reading
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.sources.files import list_files
from streamsvm.storage.blocks.dataset import Dataset
from tests.contracts.problems import joined, stored_rows
from tests.reader.parsers.test_arrow import as_parquet
from tests.refusals import refused

NAMES = ["age", "a,b", "7", "income", "x y", "Größe"]
REFUSED = {
    "missing": "column_missing", "added": "columns_differ", "both": "columns_differ", "header": "header_differs",
    "count": "column_count",
}  # fmt: skip


class Case:
    """A table X (n, d) with labels, its files, and the reason to refuse one of them, a key of REFUSED."""

    def __init__(self, rng: np.random.Generator, format_: str) -> None:
        self.format = format_
        self.named = format_ == "parquet" or rng.random() < 0.7
        self.names = rng.permutation(NAMES)[: rng.integers(2, 6)].tolist()
        n_rows = int(rng.integers(3, 9))
        self.X = rng.permutation(n_rows * len(self.names)).reshape(n_rows, -1) + 0.5
        self.y = rng.integers(0, 2, n_rows)
        self.fault: str | None = None
        ends = np.unique(rng.integers(1, n_rows, rng.integers(0, 3)))
        self.files: list[bytes] = []
        for number, rows in enumerate(np.split(np.arange(n_rows), ends)):
            kind = rng.choice(["missing", "added", "both", "header", "count"]) if rng.random() < 0.25 else None
            if number and len(rows) and kind and self.fault is None and self._can(kind):
                self.fault = str(kind)
                self.files.append(self._file(rng, rows, self.fault))
            else:
                self.files.append(self._file(rng, rows, None))
        if self.fault is None:
            self.expected = sorted((float(y), *map(float, x)) for y, x in zip(self.y, self.X, strict=True))

    def _can(self, kind: str) -> bool:
        return self.format != "parquet" and (kind == "header" or self.named == (kind != "count"))

    def _file(self, rng: np.random.Generator, rows: np.ndarray, fault: str | None) -> bytes:
        columns = {"label": self.y[rows], **{name: self.X[rows, k] for k, name in enumerate(self.names)}}
        if fault in ("missing", "both", "count"):
            del columns[self.names[int(rng.integers(len(self.names)))]]
        if fault in ("added", "both"):
            columns["more"] = self.X[rows, 0]
        named = self.named != (fault == "header")
        if self.named:
            columns = {name: columns[name] for name in rng.permutation(list(columns))}
        return self._written(columns, named)

    def _written(self, columns: dict, named: bool) -> bytes:
        if self.format == "parquet":
            return as_parquet(pyarrow.table(columns))
        text = io.StringIO()
        writer = csv.writer(text, delimiter="\t" if self.format == "tsv" else ",", lineterminator="\n")
        writer.writerows([list(columns)] * named)
        writer.writerows(zip(*(values.tolist() for values in columns.values()), strict=True))
        return text.getvalue().encode()


def in_rows(rows, input_: dict, names: list[str]) -> list[tuple[float, ...]]:
    """Label and values of each row, in the order of the names."""
    dense = np.zeros((len(rows), len(names)))
    dense[np.repeat(np.arange(len(rows)), np.diff(rows.indptr)), rows.indices - 1] = rows.values
    order = [input_["columns"].index(name) for name in names] if input_["has_names"] else range(len(names))
    return sorted((y, *x) for y, x in zip(rows.label.tolist(), dense[:, order].tolist(), strict=True))


def several(case: Case, tmp_path):
    for number, file in enumerate(case.files):
        (tmp_path / f"{number}").write_bytes(file)
    files = SourceInput(list_files([f"{tmp_path}/*"]), InputLimits())
    reading = Reading(files, InputOptions(case.format), InputLimits(), 1, tmp_path)
    return joined(list(reading.rows())), reading.parser.input


def appended(case: Case, tmp_path):
    first, *more = [file for file in case.files if file]
    ingest([first], tmp_path / "data", InputOptions(case.format), threads=1)
    for file in more:
        append_rows([file], tmp_path / "data", InputOptions(case.format), InputLimits(), threads=1)
    dataset = Dataset(tmp_path / "data")
    rows = stored_rows(tmp_path / "data")[0]
    return replace(rows, indices=dataset.numbers[rows.indices]), dataset.manifest.input


@pytest.mark.parametrize("format_", ["csv", "tsv", "parquet"])
@pytest.mark.parametrize(("way", "examples"), [(several, 80), (appended, 5)])
def test_right_by_name_or_refused(tmp_path, format_, way, examples):
    rng = np.random.default_rng(examples)
    seen = set()
    for number in range(examples):
        case = Case(rng, format_)
        (scratch := tmp_path / str(number)).mkdir()
        seen.add(case.fault)
        if case.fault is None:
            rows, input_ = way(case, scratch)
            assert in_rows(rows, input_, case.names) == case.expected
        else:
            with refused(InputError, REFUSED[case.fault]):
                way(case, scratch)
    assert examples < 50 or format_ == "parquet" or len(seen) == 6
