"""Train a model on a file."""

# The fields of a job are options, made of their descriptions; LIBLINEAR's are -s 3 -c 1 -e 0.1 -p 0.1 -B 1 -w1 10 -v 5.

import argparse
import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from streamsvm.reader.options import FORMATS, add_input_options, input_options
from streamsvm.service.cluster.nodes.connecting import check_ray
from streamsvm.service.commands.data import upload
from streamsvm.service.datasets.views import columns_view
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.descriptions import FIELDS
from streamsvm.service.jobs.fields.features import named_maps, scaling_note
from streamsvm.service.jobs.fields.from_text import format_size, parse_size
from streamsvm.service.jobs.fields.spec import JobSpec, parse_spec
from streamsvm.service.jobs.fields.texts import default, values
from streamsvm.service.jobs.plan.forecast import planned_on
from streamsvm.service.jobs.plan.lanes import order_note
from streamsvm.service.jobs.plan.memory import ruled_out_by
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.service.jobs.progress.states import END_HINTS, STALLED, has_met_goal, limits_met, score_of
from streamsvm.service.local import train_file
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.models.exports.onnx_graph import onnx_package
from streamsvm.service.models.formats import check_ending, format_of, formats_for, refusal
from streamsvm.service.processes.kernels import compile_first
from streamsvm.service.remote.client import Client
from streamsvm.service.settings import Settings
from streamsvm.service.terminal.display import Display, display
from streamsvm.service.terminal.inputs import column_notes, dataset_name, file_or_url, plain_name
from streamsvm.service.terminal.remote import CONVERGED, NOT_CONVERGED, exit_code, watch
from streamsvm.service.terminal.spelling import in_dashes
from streamsvm.storage.files.durable import whole_file
from streamsvm.storage.options import Option, plain
from streamsvm.storage.run.slowdowns import bits_of, told

_Labels = Sequence[float | str]
_BY_ENDING = ("npz", "onnx")
_STOPPING = "stopping after this pass, with the model so far; interrupt again to end at once, without one"
_NONE = "none"
# -s: the losses of LIBLINEAR's L2-regularised linear models of classes and of regression, whatever the algorithm.
LIBLINEAR_LOSSES = {
    "0": "logistic",
    "1": "squared_hinge",
    "2": "squared_hinge",
    "3": "hinge",
    "4": "hinge",
    "7": "logistic",
    "11": "squared_epsilon_insensitive",
    "12": "squared_epsilon_insensitive",
    "13": "epsilon_insensitive",
}
_JOINT = "4"  # all classes in one problem, Crammer and Singer's


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `streamsvm train`: files, a service's address, the fields of a job, how the input is read."""
    parser.usage = "%(prog)s [options] file"  # the message about a mistyped option does not list sixty others
    parser.add_argument("file", type=file_or_url, help="LIBSVM text, CSV ..., or a URL; - for standard input")
    parser.add_argument("-o", "--output", type=Path, help="LIBLINEAR text, or .npz or .onnx (default: FILE.model)")
    parser.add_argument("--url", help="train on this service: FILE is uploaded, or names one of its datasets")
    parser.add_argument("--ray", metavar="ADDRESS", help="Ray cluster of --machines: HOST:PORT, or auto")
    parser.add_argument("--json", action="store_true", help="print each pass and the result as a line of JSON")
    add_fields(parser)
    add_input_options(parser)


def run(options: argparse.Namespace) -> int:
    """Train here or on a service, write the model, print the result; return the exit code."""
    output = options.output or Path("stdin.model" if options.file == Path("-") else f"{plain_name(options.file)}.model")
    fields = {"dataset": str(options.file), **given_fields(options)}
    spec = parse_spec(fields)
    _check_output(output, options.url is None)
    show = display(options.json, spec.tolerance, spec.relative_gap)
    output = _output_of(output, spec, (), show, options.output is not None)
    if note := order_note(spec.C):
        show.say(note)
    return (_train_here if options.url is None else _train_there)(options, fields, output, show)


def _train_here(options: argparse.Namespace, fields: dict[str, Any], output: Path, show: Display) -> int:
    if options.model_name is not None:
        raise ServiceError("unknown_model_name", "models have names in a service", "Name the service: --url.")
    if options.warm_start is not None:
        raise ServiceError("unknown_job", "there are no jobs here to start from", "Name their service: --url.")
    if isinstance(options.file, Path) and str(options.file) != "-":
        options.file.stat()  # raises FileNotFoundError before kernels are compiled
    ending = plain_name(options.file).rpartition(".")[2]
    guessed = ending if ending in FORMATS else "libsvm"
    compile_first("one", guessed if options.format == "auto" else options.format)
    show.say(f"reading {options.file}")
    spec, settings, plans = parse_spec(fields), Settings.from_environment(), list[JobPlan]()
    if options.ray is not None:
        settings = replace(settings, ray_address=options.ray)
    if spec.machines is not None:
        check_ray(settings.ray_address)

    def check(plan: JobPlan, dataset: Path) -> None:
        nonlocal output
        labels = plan.model_labels
        n_weights = plan.width * (len(labels) if len(labels) > 2 else 1)
        output = _output_of(output, plan.spec, labels, show, options.output is not None, n_weights)
        if not plans:
            for line in column_notes(columns_view(plan.manifest, dataset)):
                show.say(in_dashes(line))
            list(map(show.say, _left_out(output, plan)))
            show.show_slowdowns({"slowdowns": told(bits_of(planned_on(plan, dataset)))})
        plans.append(plan)

    stopping = partial(show.say, _STOPPING)
    models, folds = train_file(options.file, spec, settings, input_options(options), show, check, stopping)
    show.most_frequent = _most_frequent(plans[-1].manifest.labels, plans[-1].manifest.weights)
    show.show_folds(folds, spec.scoring)
    for (_, model), path in zip(models, _output_files(output, [C for C, _ in models]), strict=True):
        pieces = MODEL_FORMATS[format_of(output, model.vectors is not None)].write(model)
        with whole_file(path) as file:
            file.writelines(pieces)
        show.finish(model.about, str(path))
    if all(has_met_goal(model.about) for _, model in models):
        return CONVERGED
    if limits := {name: None for _, model in models for name in limits_met(model.about)}:
        show.say(in_dashes(f"it ends nearer to the optimum with a larger {' and a larger '.join(limits)}"))
    for reason in {model.about["stop_reason"] for _, model in models} & {STALLED}:
        show.say(END_HINTS[reason])
    last = plans[-1]
    if spec.kernel == "linear" and ruled_out_by(spec) and (note := scaling_note(last.spec, last.manifest)):
        show.say(in_dashes(note))
    if (spec.pace, spec.solver, spec.kernel) == ("fixed", "streamsvm", "linear"):
        show.say("--pace fixed takes no Newton steps; --pace adaptive may end training sooner")
    return NOT_CONVERGED


def _train_there(options: argparse.Namespace, fields: dict[str, Any], output: Path, show: Display) -> int:
    """Train on a service; return the exit code. An interrupt ends this command, but not the job."""
    client = Client(options.url)
    name = str(options.file)
    if not isinstance(options.file, Path) or options.file.exists() or name == "-":
        name = dataset_name(options.file)
        show.say(f"{'uploading' if isinstance(options.file, Path) else 'importing'} {options.file} as {name}")
        added = upload(client, name, options.file, input_options(options), options.machines)
        if not isinstance(options.file, Path):
            added.wait()
        for line in column_notes(added.view):
            show.say(in_dashes(line))
    dataset, spec = client.dataset(name).view, parse_spec(fields)
    output = _output_of(output, spec, _labels(spec, dataset), show, options.output is not None)
    show.most_frequent = _most_frequent(dataset["label_counts"] or {}, dataset["weights"])
    submitted = client.submit(**{**fields, "dataset": name})
    show.say(f"training as {submitted.id}")
    try:
        job = watch(submitted, show)
    except KeyboardInterrupt:
        show.say(f"it goes on: streamsvm job watch {submitted.id}")
        raise
    code = exit_code(job)
    show.show_folds(job["result"] or {}, spec.scoring)
    values = [model["C"] for model in (job["result"] or {}).get("models", ())]
    for C, model, path in zip(values, submitted.models, _output_files(output, values), strict=True):
        model.download(path, format_of(output))
        show.finish({**job["result"], "score": score_of(job["result"], job["spec"], C)}, str(path))
    return code


def _most_frequent(rows: Mapping[Any, int], weights: Any) -> float | None:
    """Return the share of the most frequent label, by the number of rows of each; None if rows have weights."""
    return max(rows.values()) / sum(rows.values()) if rows and weights is None else None


def _check_output(output: Path, is_here: bool) -> None:
    """Raise OSError, or ServiceError unknown_format, if the output file cannot be written.

    is_here  this program writes the model's format, not a service
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


def _labels(spec: JobSpec, dataset: Mapping[str, Any]) -> _Labels:
    """Return the labels of a model of a service's dataset; none in regression."""
    labels = () if spec.loss_kind.is_regression else dataset.get("label_counts") or ()
    return [float(label) if dataset["label_type"] == "number" else label for label in labels]


def _output_of(output: Path, spec: JobSpec, labels: _Labels, show: Display, is_given: bool, n_weights: int = 0) -> Path:
    """Return the file that the model is written to: `output`, if its format can hold a model of this job.

    If it cannot, and the user has not named it (`is_given`), it is NAME.npz, and `show` says so. Otherwise raises
    ServiceError not_exportable, whose hint names other formats.
    """
    has_kernel, maps = spec.kernel == "rbf", [name for name, _ in named_maps(spec.features)]
    why = refusal(format_of(output, has_kernel), labels, has_kernel, maps, spec.bias, n_weights)
    if why is None or not spec.refit:
        return output
    if not is_given:
        show.say(f"{why}: the model is written as npz")
        return output.with_suffix(".npz")
    others = [f"NAME.{name}" for name in formats_for(labels, has_kernel, maps, spec.bias) if name in _BY_ENDING]
    raise ServiceError("not_exportable", why, f"Choose another format: -o {', '.join(others)}.")


def _left_out(output: Path, plan: JobPlan) -> Iterator[str]:
    """Yield sentences that say what LIBLINEAR's text leaves out of the model, or how it differs from the input."""
    format_ = format_of(output, plan.spec.kernel == "rbf")
    if format_ not in ("liblinear", "libsvm"):
        return
    if plan.manifest.input is None and plan.manifest.index_base == 0 and format_ == "liblinear":
        yield "features are numbered from 0: add one to the indices of a file before LIBLINEAR's own predict reads it"
    if plan.spec.probability and format_ == "liblinear":
        yield "LIBLINEAR's text has no place for probabilities: .npz and .onnx have"


def _output_files(output: Path, values: Sequence[float]) -> list[Path]:
    """Return the output file for each value of C: `output` if there is one value, else NAME.C=VALUE.ENDING."""
    if len(values) == 1:
        return [output]
    return [output.with_name(f"{output.stem}.C={C:g}{output.suffix}") for C in values]


def add_fields(parser: argparse.ArgumentParser) -> None:
    """Add an option for each field that has one, and the short options of LIBLINEAR."""
    for field in FIELDS.values():
        if field.flags is not None:
            _add_field(parser, field)
    parser.add_argument("--no-bias", dest="bias", action="store_const", const=_NONE, help="--bias none")
    known = ", ".join(LIBLINEAR_LOSSES)
    liblinear = parser.add_argument_group("other options of LIBLINEAR")
    liblinear.add_argument(
        "-s", dest="loss", action=_LossNumber, metavar="NUMBER", help=f"--loss by its number: {known}"
    )
    liblinear.add_argument("-v", dest="folds", action=_Folds, type=int, metavar="N", help="--folds N --no-refit")
    liblinear.add_argument("-B", dest="bias", action=_BiasValue, type=float, help="--bias; none if it is negative")


def given_fields(options: argparse.Namespace) -> dict[str, Any]:
    """Return the fields that the command line gave, by name; the word none becomes None."""
    given = {name: getattr(options, name, None) for name in FIELDS}
    return {name: None if value == _NONE else value for name, value in given.items() if value is not None}


def _add_field(parser: Any, field: Option) -> None:
    flags = field.flags or (_flag(field.name),)
    more: dict[str, Any] = {"action": argparse.BooleanOptionalAction, "default": None}
    if field.kind is not bool:
        choices = (*field.choices, _NONE) if field.is_nullable and field.choices else field.choices
        more = {"type": _reader(field), "choices": choices or None, "metavar": field.word or None}
    if field.name in ("class_weight", "solver_options"):
        more["action"] = _Merge
    parser.add_argument(*flags, dest=field.name, help=_help(field), **more)


def _reader(field: Option) -> Callable[[str], Any]:
    """Return a function that reads the field's value from a text, and accepts `none` if the field may be null."""
    read_value = field.read or field.kind

    def read(text: str) -> Any:
        if field.is_nullable and text == _NONE:
            return _NONE
        try:
            return read_value(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text}: it may be {_in_dashes(values(field))}") from None

    return read


def _help(field: Option) -> str:
    needed = "; ".join(" ".join([_flag(name), ", ".join(values)]).strip() for name, values in field.needs.items())
    usual = default(field)
    if field.read is parse_size and field.default is not None:
        usual = format_size(field.default)
    said = _in_dashes(f"{field.meaning} (default: {usual})")
    return (f"with {needed}: {said}" if needed else said).replace("%", "%%")


def _in_dashes(text: str) -> str:
    """Rewrite a text about fields for the command line: names of fields become options, words lose their quotes."""

    def as_option(word: re.Match[str]) -> str:
        flag = _flag(word[1]) if word[1] in FIELDS else ""
        return flag if flag.startswith("--") else word[1]

    return plain(re.sub(r"`(\w+)`", as_option, re.sub(r'`"(\w+)"`', r"\1", text)), _NONE)


def _flag(name: str) -> str:
    return (FIELDS[name].flags or (f"--{name.replace('_', '-')}",))[-1]


class _Merge(argparse.Action):
    """Merges the objects that several mentions of an option give; a word replaces the value."""

    def __call__(self, _parser: argparse.ArgumentParser, options: Any, value: Any, _: Any = None) -> None:
        before = getattr(options, self.dest)
        setattr(options, self.dest, before | value if isinstance(before, dict) and isinstance(value, dict) else value)


class _Folds(argparse.Action):
    """Sets the number of folds, and asks for cross-validation without a final model, as LIBLINEAR's -v."""

    def __call__(self, _parser: argparse.ArgumentParser, options: Any, value: Any, _: Any = None) -> None:
        options.folds, options.refit = value, False


class _LossNumber(argparse.Action):
    """Sets the loss that a number of LIBLINEAR's -s stands for, and Crammer and Singer's problem for 4."""

    def __call__(self, parser: argparse.ArgumentParser, options: Any, value: Any, _: Any = None) -> None:
        if value not in LIBLINEAR_LOSSES:
            parser.error(f"-s {value} is not trained here; {', '.join(LIBLINEAR_LOSSES)} are")
        options.loss = LIBLINEAR_LOSSES[value]
        options.multiclass = "crammer_singer" if value == _JOINT else options.multiclass


class _BiasValue(argparse.Action):
    """Sets the value of the constant feature; a negative value means no such feature, as in LIBLINEAR."""

    def __call__(self, _parser: argparse.ArgumentParser, options: Any, value: Any, _: Any = None) -> None:
        options.bias = value if value >= 0 else _NONE
