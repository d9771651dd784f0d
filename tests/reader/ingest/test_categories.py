"""Datasets of tables with categories: rows are added, categories hashed, in bounded memory."""

import resource

import numpy as np
import pytest

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.append import append_rows
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables.csv import CsvParser
from streamsvm.storage.blocks.manifest import read_manifest
from tests.contracts.problems import stored_rows
from tests.reader.parsers.test_csv_mixed import as_dicts, feature_names
from tests.refusals import refused

FIRST = b"label,proto,size\n1,tcp,1\n-1,udp,2\n"


def stored(directory) -> list[tuple[float, dict[str, float]]]:
    """Labels and named features of all rows."""
    (rows, _), manifest = stored_rows(directory), read_manifest(directory)
    features = as_dicts(rows, feature_names(manifest.input), manifest.index_base)
    return sorted(zip(rows.label.tolist(), features, strict=True), key=repr)


def append(directory, text: bytes, **options):
    return append_rows([text], directory, InputOptions(**options), InputLimits(), threads=1)


def test_what_is_added_has_the_same_features(tmp_path):
    before = ingest([FIRST], tmp_path / "data", InputOptions(categorical="proto"))
    after = append(tmp_path / "data", b"size,proto,label\n3,icmp,1\n4,tcp,-1\n")
    assert (before.n_features, after.n_features) == (3, 4)
    assert stored(tmp_path / "data") == [
        (-1.0, {"size": 2.0, "proto=udp": 1.0}), (-1.0, {"size": 4.0, "proto=tcp": 1.0}),
        (1.0, {"size": 1.0, "proto=tcp": 1.0}), (1.0, {"size": 3.0, "proto=icmp": 1.0}),
    ]  # fmt: skip
    third = append(tmp_path / "data", b"label,proto,size\n1,icmp,9\n1,new,9\n")
    assert third.input is not None and third.input["dictionary"]["proto"] == {"tcp": 0, "udp": 1, "icmp": 2, "new": 3}


def test_hashed_categories_are_added(tmp_path):
    options = {"categorical": "proto", "categories": "hashed", "n_features": 64}
    before = ingest([FIRST], tmp_path / "data", InputOptions(**options))
    after = append(tmp_path / "data", FIRST)
    assert before.n_features == after.n_features == 65
    assert (after.n_rows, after.input) == (4, before.input)


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        (b"1 1:1\n", {}, "input_mismatch"),
        (b">label=1\nACGT\n", {}, "input_mismatch"),
        (FIRST, {"missing": "zero"}, "option_unused"),
    ],
)
def test_what_cannot_be_added(tmp_path, text, options, code):
    before = ingest([FIRST], tmp_path / "data", InputOptions(categorical="proto"))
    with refused(InputError, code):
        append(tmp_path / "data", text, **options)
    assert read_manifest(tmp_path / "data") == before


def test_categories_are_not_added_to_numbers(tmp_path):
    ingest([b"label,a\n1,2\n-1,3\n"], tmp_path / "data")
    with refused(InputError, "input_mismatch"):
        append(tmp_path / "data", b"label,a\n1,x\n", categorical="a")


def test_millions_of_categories_in_bounded_memory():
    def chunks():
        yield b"label,id\n"
        for first in range(0, 3_000_000, 50_000):
            yield b"".join(b"1,user%d\n" % number for number in range(first, first + 50_000))

    options = InputOptions("csv", categorical="id", categories="hashed")
    list(CsvParser(options, InputLimits()).parse_chunks([b"label,id\n1,a\n"]))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    parser = CsvParser(options, InputLimits())
    seen = np.zeros((1 << 20) + 1, bool)
    for rows in parser.parse_chunks(chunks()):
        seen[rows.indices] = True
    assert parser.rows == parser.nnz == 3_000_000
    assert seen.mean() > 0.9
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # KiB
