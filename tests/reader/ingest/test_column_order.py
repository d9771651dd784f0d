"""Blocks of a table whose columns have names are the same however columns stand; features are numbered as these do."""

import itertools

import numpy as np
import pytest

from streamsvm.reader.ingest.append import append_rows
from streamsvm.reader.ingest.renumber import Renumbering
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.matrices import BatchesParser
from streamsvm.reader.parsers.tables.csv import CsvParser
from streamsvm.reader.parsers.tables.mixed import feature_names
from streamsvm.reader.parsers.values import LabelNames
from streamsvm.sources import batches, name_array
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.rows.csr import LARGE_W

WORDS = ["red", "blue", "green"]
NAMES = ["z", "label", "kind", "a", "more", "B"]


def table(names: list[str], n_rows: int = 300, seed: int = 0) -> bytes:
    """CSV of numbers with gaps in z, a and B, and of words in kind and more."""
    rng = np.random.default_rng(seed)
    columns = {name: [f"{x:.3g}" if x > -1 else "" for x in rng.normal(size=n_rows)] for name in ("z", "a", "B")}
    columns |= {name: rng.choice(WORDS, n_rows).tolist() for name in ("kind", "more")}
    columns["label"] = rng.choice(["1", "-1"], n_rows).tolist()
    lines = [names, *zip(*(columns[name] for name in names), strict=True)]
    return "".join(",".join(line) + "\n" for line in lines).encode()


def stored(dataset: Dataset) -> list[tuple]:
    """All arrays of all pieces, as bytes."""
    pieces = [dataset.piece(place).rows for k in range(len(dataset.manifest.blocks)) for place in dataset.pieces(k)]
    return [
        tuple(getattr(rows, name).tobytes() for name in ("label", "indptr", "indices", "values")) for rows in pieces
    ]


def named(dataset: Dataset) -> list[str]:
    """Names of the blocks' features, in their order."""
    manifest = dataset.manifest
    numbers = dataset.numbers[manifest.index_base :].tolist()
    names = feature_names(manifest.input, set(numbers), manifest.index_base)
    return [names[number] for number in numbers]


@pytest.mark.parametrize(
    "options", [{"drop_columns": "kind,more"}, {"categorical": "all"}, {"categorical": "all", "normalize": "row_l2"}]
)
@pytest.mark.parametrize("missing", ["zero", "indicator"])
def test_blocks_do_not_depend_on_the_order_of_columns(tmp_path, options, missing):
    datasets = []
    for number, names in enumerate([NAMES, sorted(NAMES), NAMES[::-1]]):
        ingest([table(names)], tmp_path / str(number), InputOptions(missing=missing, **options))
        append_rows([table(names[::-1], 50, seed=1)], tmp_path / str(number), InputOptions(), InputLimits(), 1)
        datasets.append(Dataset(tmp_path / str(number)))
        numbers = [name for name in names if name in ("z", "a", "B")]
        columns = datasets[-1].manifest.input["columns"]
        assert [name for name in columns if name in numbers] == numbers  # features are numbered as columns stand
    assert stored(datasets[0]) == stored(datasets[1]) == stored(datasets[2])
    assert named(datasets[0]) == named(datasets[1]) == named(datasets[2])
    assert named(datasets[0])[:3] == ["B", "a", "z"]


def test_columns_of_earlier_datasets_stay_as_they_stand():
    text = table(["z", "label", "a", "B"])
    options = InputOptions("csv", missing="zero")
    parser = CsvParser(options, InputLimits(), LabelNames("number"))
    now = next(iter(parser.parse_chunks([text])))
    before = {name: value for name, value in parser.input.items() if name != "order"}
    earlier = CsvParser(InputOptions("csv", like=before), InputLimits(), LabelNames("number"))
    rows = next(iter(earlier.parse_chunks([text])))
    assert earlier.feature_places is None and parser.feature_places is not None
    ends = itertools.pairwise(rows.indptr.tolist())
    assert all((np.diff(rows.indices[begin:end]) > 0).all() for begin, end in ends)
    for begin, end in itertools.pairwise(rows.indptr.tolist()):
        order = np.argsort(now.indices[begin:end])
        np.testing.assert_array_equal(now.indices[begin:end][order], rows.indices[begin:end])
        np.testing.assert_array_equal(now.values[begin:end][order], rows.values[begin:end])


def test_columns_of_batches_with_names():
    X = np.arange(1.0, 13).reshape(4, 3)
    rows = []
    for order in ([0, 1, 2], [2, 0, 1]):
        names = np.array(["b", "c", "a"])[order]
        parser = BatchesParser(InputOptions("batches", index_base=0), InputLimits())
        made = next(iter(parser.parse_chunks([name_array(names), *batches(X[:, order], np.ones(4), None)])))
        places = np.arange(3) if parser.feature_places is None else parser.feature_places
        rows.append((places[made.indices].tolist(), made.values.tolist()))
        assert parser.input["columns"] == names.tolist()
    assert rows[0] == rows[1]


def test_places_in_rows_decide_between_features_of_one_frequency():
    in_rows = np.random.default_rng(0).permutation(LARGE_W + 10).astype(np.int32)
    renumbering = Renumbering()
    renumbering.in_rows = in_rows
    features = np.array([3, 5, 11], np.int32)
    renumbering.observe(np.append(features, 11).astype(np.int32), 1)
    renumbering.settle()
    places = renumbering.numbering.places
    first, second = sorted([3, 5], key=in_rows.__getitem__)
    assert (places[11], places[first], places[second]) == (0, 1, 2)
    others = np.setdiff1d(np.arange(LARGE_W + 10), features)
    assert (np.argsort(places[others]) == np.argsort(in_rows[others])).all()
    assert not renumbering.increasing
