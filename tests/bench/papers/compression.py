"""Whether compressed blocks save time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from streamsvm.storage.blocks.dataset import Dataset
from tests.bench.papers.data import Data
from tests.bench.report import header, prose, row


def compression(all_data: Sequence[Data]) -> Iterator[str]:
    """What decoding costs and what it saves, as lines of Markdown."""
    yield "### Compression"
    yield ""
    yield from prose(
        "There is no way to store a dataset uncompressed, so that training from one is not testable here. What can be "
        "said: *decoding*, processor time of reading a pass over the blocks and decoding it on one core; compression "
        "saves time if the disk gives fewer MB/s than *pays below*, the bytes it saves over that time."
    )
    yield from header("data", "decoded, MB", "stored, MB", "ratio", "decoding, s", "pays below, MB/s")
    for data in all_data:
        decoded, stored = data.manifest.decoded_bytes, sum(block.bytes for block in data.manifest.blocks)
        seconds = _decoding_seconds(data)
        numbers = f"{decoded / 1e6:.0f}", f"{stored / 1e6:.0f}", f"{decoded / stored:.2f}", f"{seconds:.2f}"
        yield row(data.name, *numbers, f"{(decoded - stored) / seconds / 1e6:.0f}")
    yield ""


def _decoding_seconds(data: Data) -> float:
    dataset, began = Dataset(data.dataset), time.process_time()
    for number in range(len(dataset.manifest.blocks)):
        with dataset.open_block(number) as block:
            for piece in range(len(block)):
                block.piece(piece)
    return time.process_time() - began
