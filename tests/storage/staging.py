"""Stages a dataset piece by piece, for tests."""

import shutil
from collections import Counter
from pathlib import Path

import numpy as np

from streamsvm.storage.blocks.block import BlockInfo, BlockWriter
from streamsvm.storage.blocks.dataset import Journal, block_path, publish_dataset, staged_path
from streamsvm.storage.blocks.manifest import Manifest
from streamsvm.storage.rows.csr import Rows

UID = "0123456789abcdef" * 2


class Staging:
    """`write` pieces into either of two blocks, then `publish` or `give_up`."""

    def __init__(self, final: Path) -> None:
        self.final = final
        self.staged = staged_path(final)
        (self.staged / "blocks").mkdir(parents=True)
        self.journal = Journal(self.staged)
        self.writers = [BlockWriter(block_path(self.staged, k), UID, k) for k in range(2)]
        self.rows, self.features, self.longest_row = 0, 0, 0
        self.labels: Counter[float] = Counter()

    def write(self, block: int, rows: Rows) -> None:
        self.journal.announce(block, self.writers[block].append(rows, self.rows))
        self.rows += len(rows)
        self.features = max(self.features, int(rows.indices.max(initial=-1)) + 1)
        self.longest_row = max(self.longest_row, int(np.diff(rows.indptr).max()))
        self.labels.update(rows.label.tolist())

    def publish(self) -> tuple[BlockInfo, ...]:
        self.journal.remove()
        blocks = tuple(writer.finish() for writer in self.writers)
        nnz = sum(block.nnz for block in blocks)
        counts = dict(self.labels)
        manifest = Manifest(UID, 0, self.features, self.rows, nnz, counts, self.longest_row, 1, {}, blocks)
        publish_dataset(self.staged, self.final, manifest)
        return blocks

    def give_up(self) -> None:
        shutil.rmtree(self.staged)
