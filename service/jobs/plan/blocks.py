"""How many blocks a pass of block minimization has: a pure function of job and dataset."""

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.features import extra_values
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.storage.blocks.manifest import Manifest
from streamsvm.storage.rows.cache_plan import CachePlan
from streamsvm.storage.rows.segment import OPTIONAL_COLUMN, PLAIN_ROW, packed_bytes
from streamsvm.trainer.problem.losses import REGRESSION
from streamsvm.trainer.solvers import SOLVERS


def uses_blocks(spec: JobSpec) -> bool:
    """Whether the solver has its rows block by block."""
    return SOLVERS[spec.solver].feed == "blocks"


def spills(spec: JobSpec) -> bool:
    """Whether decoded rows may be kept on the disk of the data: pace "fixed" leaves no time to visit them there."""
    return getattr(spec.options, "spill", False) and spec.pace == "adaptive"


def rows_bytes(spec: JobSpec, manifest: Manifest) -> int:
    """Bytes of all rows as the job's cache or its own disk holds them."""
    per_row = PLAIN_ROW + OPTIONAL_COLUMN * _optional_columns(spec, manifest)
    return packed_bytes(manifest.n_rows, manifest.nnz + extra_values(spec) * manifest.n_rows, per_row)


def longest_trained_row(spec: JobSpec, manifest: Manifest) -> int:
    """Values of the longest row as it is trained on; optional columns take no more room than one value."""
    return manifest.longest_row + extra_values(spec) + bool(_optional_columns(spec, manifest))


def _optional_columns(spec: JobSpec, manifest: Manifest) -> int:
    """Columns of a segment beyond the plain ones: numbers to predict, and weights of rows."""
    return (spec.loss in REGRESSION) + (manifest.weights is not None)


def holds_all(spec: JobSpec, manifest: Manifest, cache: CachePlan) -> bool:
    """Whether the cache has room for all rows, whatever lengths they have."""
    return rows_bytes(spec, manifest) <= cache.sure_bytes(longest_trained_row(spec, manifest))


def count_blocks(spec: JobSpec, manifest: Manifest, cache: CachePlan) -> int:
    """Blocks that fit into the cache one at a time: as many as asked for, else as few as can be.

    Raises ServiceError: n_blocks_range, data_too_large.
    """
    asked = getattr(spec.options, "n_blocks", None)
    longest = longest_trained_row(spec, manifest)
    size = rows_bytes(spec, manifest)
    room = cache.sure_bytes(longest)
    if size <= room and asked is None:
        return 1
    room_for_block = room - _share(spec, room)
    # A row that crosses the border of a block belongs to it.
    fewest = 1 if size <= room else -(-size // max(1, room_for_block - packed_bytes(1, longest)))
    if fewest > 1 and not SOLVERS[spec.solver].has_blocks:
        raise ServiceError(
            "data_too_large",
            f"{spec.solver} holds all rows at once: they take {size} bytes, and a cache of {spec.cache_bytes} bytes "
            f"has room for {room} bytes of rows of up to {longest} non-zeros",
            "Ask for a larger cache, or for a solver that reads in what does not fit: streamsvm.",
        )
    count = asked or fewest
    if not fewest <= count <= manifest.n_rows:
        raise ServiceError(
            "n_blocks_range",
            f"n_blocks is {count}: {manifest.n_rows} rows of {size} bytes in all, and a cache of {spec.cache_bytes} "
            f"bytes with room for {room_for_block} of them, ask for {fewest} or more",
            "Ask for more blocks, at most one for each row, or for a larger cache.",
        )
    return count


def kept_bytes(spec: JobSpec, cache: CachePlan, longest_row: int) -> int:
    """Room for the rows of earlier blocks, 0 if none stay."""
    share = _share(spec, cache.sure_bytes(longest_row + extra_values(spec)))
    # Rows that stay and rows that come end each in a segment that is not full.
    return max(0, share - 2 * cache.row_bytes // cache.most_live)


def _share(spec: JobSpec, room: int) -> int:
    return int(getattr(spec.options, "cache_share", 0.0) * room)
