"""Checks, before training, that the output file's format can hold the model, and says what it will leave out."""

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.features import named_maps
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.service.models.exports.onnx_graph import onnx_package
from streamsvm.service.models.formats import check_ending, format_of, formats_for, refusal
from streamsvm.trainer.problem.losses import REGRESSION

Labels = Sequence[float | str]
_BY_ENDING = ("npz", "onnx")


def check_output(output: Path, spec: JobSpec, is_here: bool) -> None:
    """Refuse an output file that cannot be written, or whose format cannot hold a model of a job with these fields.

    is_here  this program writes the model's format, not a service
    Raises OSError, or ServiceError unknown_format, not_exportable.
    """
    if not output.absolute().parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such directory", str(output.parent))
    if output.is_dir():
        raise IsADirectoryError(errno.EISDIR, "this is a directory", str(output))
    if not os.access(output if output.exists() else output.absolute().parent, os.W_OK, effective_ids=True):
        raise PermissionError(errno.EACCES, "the file cannot be written", str(output))
    check_ending(output)
    if format_of(output) == "onnx" and is_here:
        onnx_package()
    _check(output, spec, ())


def check_plan(output: Path, plan: JobPlan) -> None:
    """Refuse a format that cannot hold the labels or weights of the planned job. ServiceError not_exportable."""
    labels = plan.model_labels
    _check(output, plan.spec, labels, plan.width * (len(labels) if len(labels) > 2 else 1))


def check_dataset(output: Path, spec: JobSpec, dataset: Mapping[str, Any]) -> None:
    """Refuse a format that cannot hold the labels of a service's dataset. ServiceError not_exportable."""
    labels = list(dataset.get("label_counts") or ())
    is_number = dataset.get("label_type") == "number"
    _check(output, spec, [] if spec.loss in REGRESSION else [float(label) if is_number else label for label in labels])


def _check(output: Path, spec: JobSpec, labels: Labels, n_weights: int = 0) -> None:
    """Raise ServiceError not_exportable if the format cannot hold the job's model."""
    if not spec.refit:
        return
    has_kernel, maps = spec.kernel == "rbf", [name for name, _ in named_maps(spec.features)]
    why = refusal(format_of(output, has_kernel), labels, has_kernel, maps, spec.bias, n_weights)
    if why:
        others = [f"NAME.{name}" for name in formats_for(labels, has_kernel, maps, spec.bias) if name in _BY_ENDING]
        raise ServiceError("not_exportable", why, f"Choose another format: -o {', '.join(others)}.")


def left_out(output: Path, plan: JobPlan) -> Iterator[str]:
    """Yield sentences about what the file leaves out."""
    format_ = format_of(output, plan.spec.kernel == "rbf")
    if format_ not in ("liblinear", "libsvm"):
        return
    if plan.manifest.input is None and plan.manifest.index_base == 0 and format_ == "liblinear":
        yield "features are numbered from 0: add one to the indices of a file before LIBLINEAR's own predict reads it"
    if plan.spec.probability and format_ == "liblinear":
        yield "LIBLINEAR's text has no place for probabilities: .npz and .onnx have"


def output_files(output: Path, values: Sequence[float]) -> list[Path]:
    """The output file of each value of C: `output` itself if there is one value, else NAME.C=VALUE.ENDING."""
    if len(values) == 1:
        return [output]
    return [output.with_name(f"{output.stem}.C={C:g}{output.suffix}") for C in values]
