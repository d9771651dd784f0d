"""The blocks of block minimization: every row in one of them, the same in every pass, none with more than its share."""

from itertools import pairwise

import numpy as np
import pytest

from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.options import InputOptions
from streamsvm.reader.stream.piece_sources import Partitioned, partition
from streamsvm.storage.blocks.block import LOCATION
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.rows.segment import packed_bytes, row_bytes
from tests.contracts.problems import libsvm_text, make_dataset, random_problem, stored_rows
from tests.features import constant


@pytest.mark.parametrize("n_blocks", [1, 2, 3, 7, 40])
def test_parts_cover_every_byte_once_in_equal_shares(n_blocks):
    rng = np.random.default_rng(n_blocks)
    sizes = rng.integers(1, 1000, 25)
    pieces = np.zeros(25, LOCATION)
    pieces["first_row"] = np.arange(25)
    blocks = partition(pieces, sizes, n_blocks)
    covered = [[] for _ in sizes]
    for parts in blocks:
        assert abs(int(np.sum(parts["end"] - parts["begin"])) - sizes.sum() / n_blocks) <= 1
        for part in parts:
            covered[int(part["first_row"])].append((int(part["begin"]), int(part["end"])))
    for spans, size in zip(covered, sizes.tolist(), strict=True):
        borders = [0, *(end for _, end in spans)]
        assert spans == list(pairwise(borders))
        assert borders[-1] == size


def rows_by_block(source, seed, pass_):
    found = {}
    for begun, part in source.order(seed, pass_):
        piece = source.decode(part, source.fetch(part))
        found.setdefault(begun, []).extend(range(piece.first_row, piece.first_row + len(piece)))
    return [frozenset(rows) for rows in found.values()]


@pytest.mark.parametrize("n_blocks", [1, 4, 13])
@pytest.mark.parametrize("extra", [0, 1])
def test_passes_have_the_same_blocks_in_another_order(tmp_path, n_blocks, extra):
    dataset = make_dataset(tmp_path / "data", *random_problem(400))
    source = Partitioned(Dataset(dataset), n_blocks, permutes=True, maps=constant(1, 1.0 if extra else None), seed=0)
    first, second = rows_by_block(source, 5, 1), rows_by_block(source, 5, 2)
    assert sorted(row for block in first for row in block) == list(range(400))
    assert set(first) == set(second)
    assert n_blocks == 1 or first != second
    fixed = Partitioned(Dataset(dataset), n_blocks, permutes=False, maps=constant(1, 1.0 if extra else None), seed=0)
    assert rows_by_block(fixed, 5, 1) == rows_by_block(fixed, 5, 2)
    rows, _ = stored_rows(dataset)
    sizes = row_bytes(np.diff(rows.indptr) + extra)
    share = packed_bytes(400, rows.nnz + 400 * extra) / n_blocks
    assert max(sizes[list(block)].sum() for block in first) <= share + sizes.max()


def test_pieces_of_a_part_are_the_dataset_s_rows(tmp_path):
    dataset = make_dataset(tmp_path / "data", *random_problem(300))
    rows, _ = stored_rows(dataset)
    source = Partitioned(Dataset(dataset), 7, permutes=True, maps=constant(1, None), seed=0)
    for _, part in source.order(0, 1):
        piece = source.decode(part, source.fetch(part))
        for k in range(len(piece)):
            i = piece.first_row + k
            own = slice(piece.rows.indptr[k], piece.rows.indptr[k + 1])
            theirs = slice(rows.indptr[i], rows.indptr[i + 1])
            assert np.array_equal(piece.rows.indices[own], rows.indices[theirs])
            assert np.array_equal(piece.rows.values[own], rows.values[theirs])
            assert piece.rows.label[k] == rows.label[i]
            assert piece.Qii[k] == pytest.approx(np.sum(rows.values[theirs].astype(float) ** 2))


def label_sorted(n_rows=4000):
    X, y = random_problem(n_rows)
    order = np.argsort(y, kind="stable")
    return X[order], y[order]


@pytest.mark.parametrize(("shuffle", "mixed"), [("yes", True), ("no", False)])
def test_blocks_of_sorted_rows_are_mixed_only_where_rows_were_shuffled(tmp_path, shuffle, mixed):
    X, y = label_sorted()
    ingest([libsvm_text(X, y)], tmp_path / "data", InputOptions(shuffle=shuffle))
    dataset = Dataset(tmp_path / "data")
    rows, ids = stored_rows(tmp_path / "data")
    assert ids == list(range(len(y)))
    assert np.array_equal(rows.label, y) != mixed
    source = Partitioned(dataset, 8, permutes=False, maps=constant(1, None), seed=0)
    shares = [np.mean(rows.label[list(block)] > 0) for block in rows_by_block(source, 0, 1)]
    assert (max(abs(share - np.mean(y > 0)) for share in shares) < 0.1) == mixed
