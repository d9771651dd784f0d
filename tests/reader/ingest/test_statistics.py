"""Statistics of features: counted during ingest, updated when rows are added, counted anew when rows are removed."""

import numpy as np
import pytest

from streamsvm.reader.ingest.append import append_rows, remove_block
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.service.datasets.views import columns_view, dataset_view
from streamsvm.service.jobs.fields.features import asked_maps
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.blocks.manifest import read_profile
from streamsvm.storage.features.rows import read_statistics

FIRST = b"1 1:2 3:-4\n-1 1:1\n1 2:0.5 3:1\n"
SECOND = b"-1 4:8\n1 1:-6\n"


def idf_of(directory) -> np.ndarray:
    maps = asked_maps(parse_spec({"dataset": "d", "features": ["idf"]}), Dataset(directory))
    return maps.maps[0].arrays["weights"]


def expected(n: int, df: list[int]) -> np.ndarray:
    return np.log((1 + n) / (1 + np.array([0, *df]))) + 1


def test_what_was_read_in_is_counted(tmp_path):
    ingest([FIRST], tmp_path / "d")
    found = read_statistics(tmp_path / "d")
    assert (found.n_rows, found.rows.tolist()) == (3, [0, 2, 1, 2])
    assert found.sums.tolist() == [0, 3, 0.5, -3]
    assert found.squares.tolist() == [0, 5, 0.25, 17]
    assert found.largest.tolist() == [0, 2, 0.5, 4]
    np.testing.assert_allclose(idf_of(tmp_path / "d"), expected(3, [2, 1, 2]))


def test_rows_that_come_are_counted_and_those_that_go_are_not(tmp_path):
    ingest([FIRST], tmp_path / "d")
    append_rows([SECOND], tmp_path / "d", InputOptions(), InputLimits(), 1)
    assert read_statistics(tmp_path / "d").n_rows == 5
    np.testing.assert_allclose(idf_of(tmp_path / "d"), expected(5, [3, 1, 2, 1]))
    remove_block(tmp_path / "d", 1)
    assert read_statistics(tmp_path / "d") is None
    np.testing.assert_allclose(idf_of(tmp_path / "d"), expected(3, [2, 1, 2, 0]))
    assert read_statistics(tmp_path / "d").n_rows == 3  # counted once, and kept


def test_datasets_without_them_are_counted_when_they_are_needed(tmp_path):
    ingest([FIRST], tmp_path / "d")
    (tmp_path / "d" / "statistics").unlink()
    np.testing.assert_allclose(idf_of(tmp_path / "d"), expected(3, [2, 1, 2]))


@pytest.mark.parametrize(("factor", "are_far"), [(1.0, False), (1e5, True)])
def test_features_on_scales_far_apart_are_named(tmp_path, factor, are_far):
    manifest = ingest([f"1 1:1 2:{factor * 0.5}\n-1 1:2 2:{factor}\n".encode()], tmp_path / "d")
    record = {"name": "d", "state": "ready", "created_at": 0, "failure": None, "source": None}
    shown = dataset_view(record, manifest, profile=read_profile(tmp_path / "d"))
    # Whether it matters depends on the job.
    assert shown["warnings"] == columns_view(manifest, tmp_path / "d")["warnings"] == []
    sizes = [(each["feature"], round(each["size"], 2)) for each in shown["profile"]["far_scales"]]
    assert sizes == ([(2, 79056.94), (1, 1.58)] if are_far else [])
