"""What a person is told of a job that did not converge: whether its features are on too large a scale."""

from streamsvm.service.jobs.fields.features import mean_Qii
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.storage.blocks.manifest import Manifest

# C times the mean squared norm of the rows; a coordinate step has the length 1 / Qii, and alpha ranges over C.
_LARGE = 1e4


def scaling_note(spec: JobSpec, manifest: Manifest) -> str | None:
    """None where the scale is an ordinary one."""
    mean = mean_Qii(spec, manifest)
    largest_C = max(spec.C) if isinstance(spec.C, list) else spec.C
    if largest_C * mean <= _LARGE:
        return None
    return (
        f'rows have squared norms of {mean:.2g} on average, which makes training slow: scale the features ("features": '
        '["scale"]), or choose a smaller C'
    )
