"""Dataset raises an error that names a damaged, exchanged or missing block, or a damaged manifest."""

import errno
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from streamsvm.storage.blocks.dataset import Dataset, block_path, publish_dataset
from streamsvm.storage.blocks.manifest import MANIFEST, Manifest, WeightCounts, read_manifest, write_manifest
from streamsvm.storage.errors import CorruptData, DatasetCorrupt
from tests.storage.rows import make_rows, random_rows
from tests.storage.test_block import write_block


def publish(parent, name, uid, blocks) -> Manifest:
    staged = parent / f".{name}"
    (staged / "blocks").mkdir(parents=True)
    infos = tuple(write_block(block_path(staged, k), [rows], k, k, uid) for k, rows in enumerate(blocks))
    manifest = Manifest(
        uid=uid,
        index_base=1,
        n_features=1000,
        n_rows=sum(info.rows for info in infos),
        nnz=sum(info.nnz for info in infos),
        labels={1.0: 2, -1.0: 1, 0.1: 3, 1e300: 1},
        longest_row=8,
        input_bytes=12345,
        counters={"blank_lines": 2},
        blocks=infos,
    )
    publish_dataset(staged, parent / name, manifest)
    return manifest


def read_all(directory):
    dataset = Dataset(directory)
    for number in range(len(dataset.manifest.blocks)):
        for location in dataset.pieces(number):
            dataset.piece(location)


@pytest.fixture
def dataset(tmp_path):
    publish(tmp_path, "d", "a" * 32, [make_rows([{1: 0.5}]), make_rows([{2: 0.5}])])
    return tmp_path / "d"


def test_manifest_round_trip_is_exact(tmp_path):
    written = publish(tmp_path, "d", "a" * 32, [random_rows(9), random_rows(4)])
    assert read_manifest(tmp_path / "d") == written
    read_all(tmp_path / "d")
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_a_manifest_with_more_is_of_another_version(tmp_path):
    """Programs that do not know weights refuse a manifest with weights, and accept one without."""
    plain = publish(tmp_path, "d", "a" * 32, [random_rows(9)])
    document = json.loads((tmp_path / "d" / MANIFEST).read_bytes())
    assert document["version"] == 5
    assert not {"weights", "label_names", "has_groups"} & set(document["content"])
    weights = WeightCounts.of(np.array([0.0, 2.5, 1.0]))
    for more in ({"weights": weights}, {"label_names": ("a", "\u00e9")}, {"has_groups": True}):
        write_manifest(tmp_path / "d", replace(plain, **more))
        assert json.loads((tmp_path / "d" / MANIFEST).read_bytes())["version"] == 6
        assert read_manifest(tmp_path / "d") == replace(plain, **more)


def test_exchanged_blocks_are_noticed(dataset):
    first, second = block_path(dataset, 0), block_path(dataset, 1)
    assert first.stat().st_size == second.stat().st_size
    shutil.copy(first, second)
    with pytest.raises(CorruptData, match="block 1"):
        read_all(dataset)


def test_block_of_a_dataset_of_the_same_shape_is_noticed(dataset, tmp_path):
    publish(tmp_path, "e", "b" * 32, [make_rows([{1: 0.5}]), make_rows([{2: 0.5}])])
    shutil.copy(block_path(tmp_path / "e", 1), block_path(dataset, 1))
    with pytest.raises(CorruptData, match="block 1") as caught:
        read_all(dataset)
    assert "add it again" in caught.value.hint


@pytest.mark.parametrize("number", [errno.EIO, errno.EBADMSG, errno.EUCLEAN])
@pytest.mark.parametrize("method", ["open", "read_bytes"])
def test_a_file_that_the_disk_cannot_read_is_damaged(dataset, monkeypatch, number, method):
    real = getattr(Path, method)

    def fail(path, *arguments, **options):
        # A block is read through the file object that `open` returns.
        if path.suffix == ".blk" or method == "read_bytes":
            raise OSError(number, os.strerror(number))
        return real(path, *arguments, **options)

    monkeypatch.setattr(Path, method, fail)
    with pytest.raises(DatasetCorrupt, match="cannot read"):
        read_all(dataset)


def test_missing_block_is_noticed(dataset):
    block_path(dataset, 1).unlink()
    with pytest.raises(CorruptData, match="block 1"):
        read_all(dataset)
