"""Checks of the output file before training: a format that cannot hold the model is refused, losses are told."""

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
from streamsvm.service.models.names import check_ending, format_of, formats_for, refusal
from streamsvm.trainer.problem.objective import REGRESSION

Labels = Sequence[float | str]
_BY_ENDING = ("npz", "json", "onnx")


def check_output(output: Path, spec: JobSpec, is_here: bool) -> None:
    """Refuse a file that the job's fields rule out. OSError, ServiceError unknown_format or not_exportable.

    is_here  this program writes the file, not a service
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
    """Refuse a format that the labels or the number of features rule out. ServiceError not_exportable."""
    labels = plan.model_labels
    _check(output, plan.spec, labels, plan.width * (len(labels) if len(labels) > 2 else 1))


def check_dataset(output: Path, spec: JobSpec, dataset: Mapping[str, Any]) -> None:
    """Refuse a format that the labels of a service's dataset rule out. ServiceError not_exportable."""
    labels = list(dataset.get("label_counts") or ())
    is_number = dataset.get("label_type") == "number"
    _check(output, spec, [] if spec.loss in REGRESSION else [float(label) if is_number else label for label in labels])


def _check(output: Path, spec: JobSpec, labels: Labels, n_weights: int = 0) -> None:
    """Refuse a format that cannot hold the model of the job. Raises ServiceError not_exportable."""
    if not spec.refit:
        return
    has_kernel, maps = spec.kernel == "rbf", [name for name, _ in named_maps(spec.features)]
    why = refusal(format_of(output, has_kernel), labels, has_kernel, maps, spec.bias, n_weights)
    if why:
        others = [f"NAME.{name}" for name in formats_for(labels, has_kernel, maps, spec.bias) if name in _BY_ENDING]
        raise ServiceError("not_exportable", why, f"Choose another format: -o {', '.join(others)}.")


def left_out(output: Path, plan: JobPlan) -> Iterator[str]:
    """A sentence for each thing that the format leaves out."""
    format_ = format_of(output, plan.spec.kernel == "rbf")
    if format_ not in ("liblinear", "libsvm"):
        return
    if plan.manifest.input is None and plan.manifest.index_base == 0 and format_ == "liblinear":
        yield "features count from 0 here: add one to the indices of a file before LIBLINEAR's own predict reads it"
    if plan.spec.probability and format_ == "liblinear":
        yield "LIBLINEAR's text has no place for probabilities: .npz, .json and .onnx have"


def output_files(output: Path, values: Sequence[float]) -> list[Path]:
    """A file for the model of each C: the output itself, or with several C the output with C in its name."""
    if len(values) == 1:
        return [output]
    return [output.with_name(f"{output.stem}.C={C:g}{output.suffix}") for C in values]
