"""Train a model on a file."""

import argparse
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from streamsvm.reader.options import add_input_options, input_options
from streamsvm.service.cluster.nodes.connecting import check_ray
from streamsvm.service.commands.data import upload
from streamsvm.service.commands.display import Display, display
from streamsvm.service.commands.inputs import column_notes, dataset_name, file_or_url, plain_name
from streamsvm.service.commands.job_fields import add_fields, given_fields
from streamsvm.service.commands.model_output import check_dataset, check_output, check_plan, left_out, output_files
from streamsvm.service.commands.remote import CONVERGED, NOT_CONVERGED, exit_code, watch
from streamsvm.service.commands.spelling import in_dashes
from streamsvm.service.datasets.views import columns_view
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.features import scaling_note
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.outcome.limits import is_done, limits_met
from streamsvm.service.jobs.plan.lanes import order_note
from streamsvm.service.jobs.plan.newton import takes_newton
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.service.local import train_file
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.models.formats import format_of
from streamsvm.service.processes.kernels import are_compiled, compile_kernels, show_bar
from streamsvm.service.remote.client import Client
from streamsvm.service.settings import Settings
from streamsvm.storage.files.durable import whole_file

_STOPPING = "stopping after this pass, with the model so far; interrupt again to end at once, without one"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `streamsvm train`: files, places, every field of a job, how the input is read."""
    parser.usage = "%(prog)s [options] file"  # a mistyped option is told without sixty others
    parser.add_argument("file", type=file_or_url, help="LIBSVM text, CSV ..., or a URL; - for standard input")
    parser.add_argument("-o", "--output", type=Path, help="LIBLINEAR text, or .npz or .onnx (default: FILE.model)")
    parser.add_argument("--url", help="train on this service: FILE is uploaded, or names one of its datasets")
    parser.add_argument("--ray", metavar="ADDRESS", help="Ray cluster of --machines: HOST:PORT, or auto")
    parser.add_argument("--json", action="store_true", help="print each pass and the result as a line of JSON")
    add_fields(parser)
    add_input_options(parser)


def run(options: argparse.Namespace) -> int:
    """Train, write the model, print the result."""
    output = options.output or Path("stdin.model" if options.file == Path("-") else f"{plain_name(options.file)}.model")
    fields = {"dataset": str(options.file), **given_fields(options)}
    spec = parse_spec(fields)
    check_output(output, spec, options.url is None)
    show = display(options.json, spec.tolerance, spec.relative_gap)
    if note := order_note(spec.C):
        show.say(note)
    if options.url is not None:
        return _train_there(options, fields, output, show)
    return _train_here(options, fields, output, show)


def _train_here(options: argparse.Namespace, fields: dict[str, Any], output: Path, show: Display) -> int:
    if options.model_name is not None:
        raise ServiceError("unknown_model_name", "models have names in a service", "Name the service: --url.")
    if options.warm_start is not None:
        raise ServiceError("unknown_job", "there are no jobs here to start from", "Name their service: --url.")
    if sys.stderr.isatty() and not options.json and not are_compiled():
        if isinstance(options.file, Path) and str(options.file) != "-":
            options.file.open("rb").close()  # one that is missing is better said before
        compile_kernels(show_bar(sys.stderr))
    show.say(f"reading {options.file}")
    spec, settings, plans = parse_spec(fields), Settings.from_environment(), list[JobPlan]()
    if options.ray is not None:
        settings = replace(settings, ray_address=options.ray)
    if spec.machines is not None:
        check_ray(settings.ray_address)

    def check(plan: JobPlan, dataset: Path) -> None:
        check_plan(output, plan)
        if not plans:
            for line in column_notes(columns_view(plan.manifest, dataset)):
                show.say(in_dashes(line))
            list(map(show.say, left_out(output, plan)))
        plans.append(plan)

    stopping = partial(show.say, _STOPPING)
    models, folds = train_file(options.file, spec, settings, input_options(options), show, check, stopping)
    show.show_folds(folds)
    for (_, model), path in zip(models, output_files(output, [C for C, _ in models]), strict=True):
        pieces = MODEL_FORMATS[format_of(output, model.vectors is not None)].write(model)
        with whole_file(path) as file:
            file.writelines(pieces)
        show.finish(model.about, str(path))
    if all(is_done(model.about) for _, model in models):
        return CONVERGED
    if limits := {name: None for _, model in models for name in limits_met(model.about)}:
        show.say(in_dashes(f"it ends nearer to the optimum with a larger {' and a larger '.join(limits)}"))
    if spec.kernel == "linear" and not takes_newton(spec) and (note := scaling_note(spec, plans[-1].manifest)):
        show.say(in_dashes(note))
    if (spec.pace, spec.solver, spec.kernel) == ("fixed", "streamsvm", "linear"):
        show.say("--pace fixed takes no Newton steps; --pace adaptive may end training sooner")
    return NOT_CONVERGED


def _train_there(options: argparse.Namespace, fields: dict[str, Any], output: Path, show: Display) -> int:
    """Train on a service. An interrupt ends the command; the job goes on."""
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
    check_dataset(output, parse_spec(fields), client.dataset(name).view)
    submitted = client.submit(**{**fields, "dataset": name})
    show.say(f"training as {submitted.id}")
    try:
        job = watch(submitted, show)
    except KeyboardInterrupt:
        show.say(f"it goes on: streamsvm job watch {submitted.id}")
        raise
    code = exit_code(job)
    show.show_folds(job["result"] or {})
    values = [model["C"] for model in (job["result"] or {}).get("models", ())]
    for model, path in zip(submitted.models, output_files(output, values), strict=True):
        model.download(path, format_of(output))
        show.finish(job["result"], str(path))
    return code
