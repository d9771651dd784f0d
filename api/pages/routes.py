"""The pages /, /jobs/{id}, /models/{id}, /registered-models/{name} and /datasets/{name}."""

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from streamsvm.api.context import AppContext, Context
from streamsvm.api.pages.forms import example_of, input_fields, job_form
from streamsvm.api.pages.render import missing_page, page
from streamsvm.reader.parsers import READERS
from streamsvm.reader.parsers.tables.mixed import feature_names
from streamsvm.service.datasets.views import block_view, dataset_view
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.features import named_maps
from streamsvm.service.jobs.fields.from_text import SEARCHES
from streamsvm.service.jobs.fields.spec import KERNEL_SOLVERS, read_spec
from streamsvm.service.jobs.lanes.continuing import may_go_on
from streamsvm.service.jobs.plan.lanes import labels_of, lanes_of, with_ladder
from streamsvm.service.jobs.progress.progress import job_view
from streamsvm.service.jobs.progress.states import TRANSITIONS, score_of
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.models.formats import formats_for
from streamsvm.service.models.predicting.applied import few_columns
from streamsvm.service.models.registry import model_view
from streamsvm.service.processes.run import log_tail
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.errors import StorageError
from streamsvm.storage.features import FEATURE_MAPS
from streamsvm.storage.models.model_file import read_head

_log = logging.getLogger("streamsvm.api")
router = APIRouter(include_in_schema=False)

_MOST_SHOWN = 50
_MOST_LABELS = 30  # of a model
_MOST_WORDS = 10  # for a class, and against it
_MOST_LABELS_OF_ROWS = 20
_HAS_BLOCKS = ("ready", "changing")
_NAME = ("class", "fold", "C")


@router.get("/", operation_id="showHome")
def show_home(
    context: Context, request: Request, before: Annotated[str | None, Query(pattern="^job_[0-9A-Z]{26}$")] = None
) -> HTMLResponse:
    """Show datasets, jobs (those submitted before the id `before`) and models, and forms that make more of them."""
    records, has_more = context.store.page_of_jobs(None, before, _MOST_SHOWN)
    jobs = [job_view(context.settings, record) for record in records]
    return page(
        request,
        "home.html",
        datasets=[_dataset(context, record) for record in context.store.datasets()],
        jobs=jobs,
        older=jobs[-1]["id"] if jobs and has_more else None,
        before=before,
        registered=context.store.registered_models(),
        models=[_named(context, _model(context, record)) for record in context.store.models()[:_MOST_SHOWN]],
        form=job_form(),
        kernel_solvers=KERNEL_SOLVERS,
        readers=READERS,
        input_fields=input_fields(),
        maps=list(FEATURE_MAPS),
    )


@router.get("/jobs/{job_id}", operation_id="showJob")
def show_job(context: Context, request: Request, job_id: str) -> HTMLResponse:
    """Show a job, with curves that grow while it runs."""
    try:
        record = context.store.job(job_id)
    except ServiceError as error:
        return missing_page(request, error)
    shown = job_view(context.settings, record)
    lanes = lanes_of_job(context, record)
    return page(
        request,
        "job.html",
        job=shown,
        lanes=lanes,
        names=[dict(zip(_NAME, _name(lane), strict=True)) for lane in lanes],  # by which the page's scripts name lanes
        ended=not TRANSITIONS[record["state"]],
        may_go_on=not TRANSITIONS[record["state"]] and may_go_on(context.settings.jobs / job_id),
        log=log_tail(context.settings.jobs / job_id / "log"),
        formats=_formats((lane["class"] for lane in lanes), record["spec"], _is_listed(context, record["model_id"])),
    )


@router.get("/models/{model_id}", operation_id="showModel")
def show_model(context: Context, request: Request, model_id: str) -> HTMLResponse:
    """Show a model: its certificate, its files, its evaluation on a dataset, and how to use it."""
    try:
        record = context.store.model(model_id)
        head = read_head(context.settings.models / record["id"])
        model = model_view(record, head)
    except (ServiceError, StorageError) as error:
        return missing_page(request, error)
    job = _model(context, record)["job"]
    return page(
        request,
        "model.html",
        model=model,
        names=context.store.names_of_model(model["id"]),
        all_names=[each["name"] for each in context.store.registered_models()],
        dataset=job["spec"]["dataset"] if job else "a dataset",
        job=job,
        datasets=[record["name"] for record in context.store.datasets() if record["state"] == "ready"],
        most_labels=_MOST_LABELS,
        most_words=_MOST_WORDS,
        base=str(request.base_url),
        example=example_of(model, head.about.get("input")),
        columns=few_columns(head),
        about=head.about,
        formats={name: MODEL_FORMATS[name] for name in model["formats"]},
    )


def _formats(classes: Iterable[Any], spec: Mapping[str, Any], is_listed: bool) -> dict[str, Any]:
    """Return the formats that can hold a job's model, the usual one first.

    `classes` are those of the lanes; None, of regression or of all classes in one problem, is ignored.
    """
    maps = [name for name, _ in named_maps(spec.get("features", ()))]
    labels = [label for label in classes if label is not None]
    names = formats_for(labels, spec.get("kernel") == "rbf", maps, spec.get("bias"), is_listed)
    return {name: MODEL_FORMATS[name] for name in names}


def _is_listed(context: AppContext, model_id: str | None) -> bool:
    """Whether a model has weights of listed features only; False for `model_id` None, or an unreadable model."""
    with suppress(StorageError, OSError):
        return model_id is not None and read_head(context.settings.models / model_id).is_listed
    return False


def _dataset(context: AppContext, record: dict[str, Any]) -> dict[str, Any]:
    try:
        return context.datasets.view(record["name"])
    except (StorageError, ServiceError) as error:
        # A damaged or deleted dataset does not hide the other datasets.
        return {**dataset_view(record, None), "fault": error.message}


def _named(context: AppContext, model: dict[str, Any]) -> dict[str, Any]:
    """Return a model with `names`: the names and versions that it has, such as churn:3."""
    names = context.store.names_of_model(model["id"])
    return {**model, "names": [f"{each['name']}:{each['version']}" for each in names]}


def _model(context: AppContext, record: dict[str, Any]) -> dict[str, Any]:
    """Return a model with its job (None: deleted), the model's C, and the formats that can hold it."""
    try:
        job = context.store.job(record["job_id"])
    except ServiceError:
        return {**record, "job": None, "C": None, "formats": MODEL_FORMATS}
    try:
        result = job["result"] or {}
        own = next((each["C"] for each in result.get("models", ()) if each["model_id"] == record["id"]), None)
        labels = [lane["class"] for lane in result.get("lanes", ())]
        formats = _formats(labels, job["spec"], _is_listed(context, record["id"]))
        C = job["spec"].get("C") if own is None else own
        is_cut = own is None and bool(result.get("models"))  # a model made of another, at a threshold
        score = None if is_cut else score_of(result, job["spec"], own)
        return {**record, "job": job, "C": C, "score": score, "formats": formats}
    except Exception:
        # A model with an unforeseen record does not hide the others.
        _log.exception("model %s cannot be shown as a whole", record["id"])
        return {**record, "job": None, "C": None, "formats": MODEL_FORMATS}


def lanes_of_job(context: AppContext, record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a dict for each lane, in the order of their numbers: class, fold and C, and the result of a done lane.

    If the dataset is deleted or has changed since, the list has only lanes that are done.
    """
    done = (record["result"] or {}).get("lanes", [])
    results = {_name(lane): lane for lane in done}
    planned = _planned(context, record)
    has_searched = bool(done) and record["spec"].get("C") in SEARCHES
    if has_searched or len(done) == len(planned) or not results.keys() <= set(map(_name, planned)):
        return done
    return [{**lane, **results.get(_name(lane), {})} for lane in planned]


def _planned(context: AppContext, record: dict[str, Any]) -> list[dict[str, Any]]:
    try:
        spec = read_spec(record["spec"])
        manifest = read_manifest(context.settings.datasets / record["dataset_id"])
        return [lane.view for lane in lanes_of(with_ladder(spec, manifest), labels_of(spec, manifest), manifest)]
    except (ServiceError, StorageError):
        return []


def _name(lane: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(lane.get(name) for name in _NAME)


@router.get("/registered-models/{name}", operation_id="showRegisteredModel")
def show_registered_model(context: Context, request: Request, name: str) -> HTMLResponse:
    """Show the versions of a name with their certificates, and a form that moves the name's aliases."""
    try:
        registered = context.store.registered_model(name)
    except ServiceError as error:
        return missing_page(request, error)
    shown = registered["versions"][:_MOST_SHOWN]
    versions = [_version(context, registered, each) for each in shown]
    return page(request, "registered.html", registered=registered, versions=versions, base=str(request.base_url))


def _version(context: AppContext, registered: dict[str, Any], version: dict[str, Any]) -> dict[str, Any]:
    """Return a version with its aliases and its model (see `model_view`), {} if the model cannot be read."""
    aliases = [each["alias"] for each in registered["aliases"] if each["version"] == version["version"]]
    try:
        head = read_head(context.settings.models / version["model_id"])
        model = model_view(context.store.model(version["model_id"]), head)
    except (ServiceError, StorageError):
        model = {}
    return {**version, "aliases": aliases, "model": model}


@router.get("/datasets/{name}", operation_id="showDataset")
def show_dataset(context: Context, request: Request, name: str) -> HTMLResponse:
    """Show labels, blocks, lengths of rows, frequent features, and the lines that were rejected."""
    try:
        dataset, record = context.datasets.view(name), context.store.dataset(name)
        has_blocks = record["state"] in _HAS_BLOCKS
        manifest = read_manifest(context.datasets.directory(record["id"])) if has_blocks else None
    except (ServiceError, StorageError) as error:
        return missing_page(request, error)
    # Names of those of the most frequent features that have any.
    frequent = {each["feature"] for each in (dataset.get("profile") or {}).get("frequent_features", ())}
    names = feature_names(manifest.input, frequent, manifest.index_base) if manifest and manifest.input else {}
    labels = sorted(dataset.get("label_counts", {}).items(), key=lambda label: -label[1])
    return page(
        request,
        "dataset.html",
        dataset=dataset,
        labels=labels[:_MOST_LABELS_OF_ROWS],
        more_labels=labels[_MOST_LABELS_OF_ROWS:],
        blocks=[block_view(block) for block in manifest.blocks] if manifest else [],
        names=names,
        sample=_sample_rows(context, name, dataset),
    )


def _sample_rows(context: AppContext, name: str, dataset: dict[str, Any]) -> list[dict[str, Any]]:
    """Return some rows; [] while the dataset changes or if it cannot be read, so that the page shows the rest."""
    try:
        return context.datasets.sample(name) if dataset["state"] == "ready" else []
    except (ServiceError, StorageError):
        return []
