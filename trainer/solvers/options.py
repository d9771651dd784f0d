"""Options that several solvers share. Options of a single solver are in a frozen dataclass in its module."""

from dataclasses import dataclass

from streamsvm.storage.options import option


@dataclass(frozen=True)
class NoOptions:
    """Options of a solver that has none."""


@dataclass(frozen=True)
class StreamOptions:
    """Options of solvers whose rows stream through the cache."""

    updates_per_row: float = option(
        2.0,
        "coordinate updates for each row read; more when the disk is slow; with `spill`, at most one in the first pass",
        gt=0,
        le=1000,
    )


@dataclass(frozen=True)
class BlockOptions:
    """Options of solvers whose rows come block by block."""

    n_blocks: int | None = option(None, "blocks of a pass; null: as few as the cache can take", ge=1, le=1_000_000)


@dataclass(frozen=True)
class OrderedBlockOptions(BlockOptions):
    """Options of solvers whose model depends on the order of the blocks."""

    permute_blocks: bool = option(True, "visit the blocks in another order in every pass", for_reader=True)
