"""Whether the values of C of a job run side by side, or in turn, each from the solution at the last smaller one.

Side by side a pass over the data serves them all, and each begins at zero. From zero a large C takes thousands of
sweeps over the rows, and from the solution at a smaller one a part of them. Where rows are few, sweeps are what
training takes; each turn begins with processes of its own, a pass and a certificate.
"""

from streamsvm.service.jobs.fields.features import mean_Qii
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.storage.blocks.manifest import Manifest
from streamsvm.trainer.problem.losses import SVM_LOSSES
from streamsvm.trainer.solvers import SOLVERS

# Measured, see "C in turn" in tests/bench/HISTORY.md.
_FEW_BYTES = 64 << 20  # of decoded rows
_LARGE = 200.0  # C times the mean squared norm of the rows: scaling the features does not change it


def count_turns(spec: JobSpec, manifest: Manifest) -> int:
    """How many values of C run in turn, the lanes of each side by side; 1: they do not.

    Solvers without lanes side by side have one turn: each of their lanes begins where the one before it ended.
    """
    if spec.machines is not None:
        return 1
    values = set(spec.C) if isinstance(spec.C, list) else {spec.C}
    has_lanes = SOLVERS[spec.solver].has_lanes and spec.loss in SVM_LOSSES and not spec.is_joint
    pays = manifest.decoded_bytes <= _FEW_BYTES and max(values) * mean_Qii(spec, manifest) > _LARGE
    return len(values) if has_lanes and is_scaled(spec, manifest) and pays else 1


def is_scaled(spec: JobSpec, manifest: Manifest) -> bool:
    """Whether another C scales the bounds of all rows alike: what `service.jobs.lanes.warm_start` asks of lanes."""
    is_plain = spec.class_weight is None and manifest.weights is None
    return spec.loss in SVM_LOSSES and is_plain and not SOLVERS[spec.solver].has_kernel
