"""A prediction by the service: its fields, the files that these name, how it is submitted and shown."""

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from streamsvm.reader.errors import InputError
from streamsvm.reader.options import OPTIONS, InputOptions
from streamsvm.reader.sources.files import LocalStore, check_installed, is_below, is_pattern, is_url, located
from streamsvm.service.datasets.importing import check_source, open_import, setting_hint
from streamsvm.service.datasets.registry import Datasets
from streamsvm.service.errors import ServiceError, meant, refusing, shown
from streamsvm.service.jobs.progress.progress import read_json
from streamsvm.service.models.loaded import load_predictor
from streamsvm.service.models.predicting.applied import MOST_EXPLAINED
from streamsvm.service.models.predicting.input_match import match_dataset
from streamsvm.service.predictions.dataset_rows import check_kept
from streamsvm.service.predictions.request import FORMATS, OUTPUTS, USUAL_EXPLAINED, format_of_destination, outputs_of
from streamsvm.service.records.store import Store
from streamsvm.service.records.table import RequestKey
from streamsvm.service.settings import Settings

_LONGEST_NAME = 200  # bytes of a destination: while it is written, its name is longer
PROGRESS = "progress.json"
_PROGRESS = ("rows", "bytes", "total_bytes")
# Options of an input that say how rows to predict are written.
READING = ("index_base", "label_column", "text_column", "header", "delimiter", "decimal", "encoding")


class PredictionSpec(BaseModel):
    """A prediction of files, or of a dataset, into a file. It has either `import` or `dataset`."""

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)

    model: str = Field(description="id, name, `NAME:VERSION` or `NAME@ALIAS` of a model", examples=["churn@champion"])
    source: str | None = Field(
        None,
        alias="import",
        description="file or pattern below the import directory, or URL or pattern of a store; null: a dataset is read",
        examples=["day=*/part-*.parquet"],
    )
    dataset: str | None = Field(
        None, description="name of a dataset, whose rows are predicted in the order in which they were added"
    )
    destination: str = Field(
        description="file below the export directory, or URL of a store; .csv, .ndjson or .parquet",
        examples=["predicted.parquet"],
    )
    format: Literal[FORMATS] | None = Field(  # type: ignore[valid-type]
        None, description="format of the predictions; null: by the ending of the destination"
    )
    keep: list[str] = Field(
        [], max_length=1000, description="columns of the input that are written first; of a dataset row, label, weight"
    )
    outputs: list[Literal[OUTPUTS]] | None = Field(  # type: ignore[valid-type]
        None, description="what is predicted; null: all that the model has, without contributions"
    )
    explain: int = Field(
        USUAL_EXPLAINED,
        ge=1,
        le=MOST_EXPLAINED,
        description="the most contributions of a row, if they are among outputs",
    )
    overwrite: bool = Field(False, description="whether a file of the export directory may be replaced")
    options: dict[str, str | int] = Field(
        {}, description="how the input is read: format, label_column, delimiter and so on, as of a dataset"
    )

    def input_options(self) -> InputOptions:
        """Return `options` as the reader takes them."""
        return InputOptions(**self.options)  # type: ignore[arg-type]


def parse_prediction(given: Any) -> PredictionSpec:
    """Check the JSON of a request and make a PredictionSpec of it. Raises ServiceError bad_request, unknown_format."""
    try:
        spec = PredictionSpec.model_validate(given)
    except ValidationError as error:
        raise _explain(error.errors(include_url=False, include_input=False, include_context=False)) from None
    for name, value in spec.options.items():
        known = OPTIONS.get(name)
        if known is None or name not in (*READING, "format"):
            raise ServiceError(
                "bad_request",
                f"options: there is no option {shown(name)}",
                f"{meant(name, READING)}Options: {', '.join(READING)}.",
            )
        if known.choices and value not in known.choices:
            raise ServiceError(
                "bad_request",
                f"options: {name} is none of its values",
                f"Its values are {', '.join(map(str, known.choices))}.",
            )
    format_of_destination(spec.destination, spec.format)
    _check_source(spec)
    return spec


def _explain(faults: list[Any]) -> ServiceError:
    """Make the error for one fault: an unknown field, since it may be a mistyped one, else the first fault."""
    fields = {field.alias or name: field.description for name, field in PredictionSpec.model_fields.items()}
    first = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
    field = str(first["loc"][0]) if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        hint = meant(field, fields).strip() or f"Known fields: {', '.join(fields)}."
        return ServiceError("bad_request", f"there is no field {shown(field)} in a prediction", hint)
    hint = f"{field}: {fields[field]}." if field in fields else "See /reference."
    if first["type"] == "list_type":
        hint = f'Send a list, "{field}": [...]. {hint}'
    if first["type"] == "missing":
        return ServiceError("bad_request", f"{field} is missing", hint)
    return ServiceError("bad_request", f"{'.'.join(map(str, first['loc']))}: {first['msg']}", hint)


def _check_source(spec: PredictionSpec) -> None:
    if (spec.source is None) == (spec.dataset is None):
        raise ServiceError("bad_request", "a prediction reads either files or a dataset", "Give import, or dataset.")
    if spec.dataset is None:
        return
    if spec.options:
        raise ServiceError("bad_request", "options: a dataset has been read in already", "Leave options out.")
    with refusing(InputError):
        check_kept(spec.keep)


def sources_of(settings: Settings, source: str) -> list[str]:
    """Return the paths of the files that a source names now; for a URL, the URL itself.

    Raises ServiceError import_disabled, import_invalid, import_forbidden, unknown_file, and what `check_source` raises.
    """
    if is_url(source):
        check_source(settings.import_sources, source)
        return [source]
    directory = settings.import_dir
    if directory is None or not is_pattern(source) or os.path.isfile(directory / source):  # noqa: PTH113
        open_import(directory, source).close()
        assert directory is not None
        return [str(directory / source)]
    if {"", ".", ".."} & set(source.split("/")) or not source.isprintable():
        raise ServiceError("import_invalid", "this names no files of the import directory")
    names = sorted(path for path, _, _ in LocalStore().find(str(directory / source)))
    if not names:
        raise ServiceError("unknown_file", f"no file matches {source}")
    for name in names:
        open_import(directory, os.path.relpath(name, directory)).close()
    return names


def destination_of(settings: Settings, destination: str) -> str:
    """Return the path or URL of a destination that a request names.

    Raises ServiceError export_disabled, export_invalid, export_forbidden, not_installed.
    """
    if is_url(destination):
        return _checked_url(settings, destination)
    directory = settings.export_dir
    if directory is None:
        raise ServiceError("export_disabled", "the service has no export directory", "Set STREAMSVM_EXPORT_DIR.")
    *folders, last = destination.split("/")
    if {"", ".", ".."} & {*folders, last} or last.startswith(".") or not destination.isprintable():
        raise _invalid()
    path = directory
    for name in folders:
        path = path / name
        if os.path.islink(path) or not os.path.isdir(path):  # noqa: PTH112, PTH114 - they raise nothing for long names
            raise _invalid()
    path = path / last
    if len(last.encode()) > _LONGEST_NAME or path.is_symlink() or (path.exists() and not path.is_file()):
        raise _invalid()
    return str(path)


def check_free(spec: PredictionSpec, destination: str) -> None:
    """Raise ServiceError destination_exists if the prediction would replace a file without `overwrite`.

    destination  path or URL, see `destination_of`
    """
    if not spec.overwrite and not is_url(destination) and Path(destination).exists():
        hint = 'Choose another, or "overwrite": true.'
        raise ServiceError("destination_exists", "there is such a file already", hint)


def _checked_url(settings: Settings, url: str) -> str:
    with refusing(InputError):
        location, prefixes = located(url), settings.export_destinations
        if is_pattern(location.path) or not any(is_below(url, prefix) for prefix in prefixes):
            hint = setting_hint("STREAMSVM_EXPORT_DESTINATIONS", prefixes)
            raise ServiceError("export_forbidden", "the service does not write there", hint)
        check_installed(location)
    return url


def _invalid() -> ServiceError:
    hint = f"Give a path below it, in a folder that is there, without links; a name has at most {_LONGEST_NAME} bytes."
    return ServiceError("export_invalid", "this names no file of the export directory", hint)


def submit(store: Store, settings: Settings, datasets: Datasets, spec: PredictionSpec, key: RequestKey | None) -> str:
    """Queue a prediction with the model that `spec.model` means now; return the prediction's id.

    Raises ServiceError for a model, source, destination or output that does not exist, is not allowed or does not fit,
    and destination_exists, queue_full.
    """
    model_id = store.model(spec.model)["id"]
    predictor = load_predictor(settings, model_id)
    outputs_of(predictor, spec.outputs)
    dataset_id = None
    if spec.dataset is not None:
        record, manifest = datasets.with_rows(spec.dataset)
        match_dataset(predictor.model, manifest)
        dataset_id = record["id"]
    if spec.source is not None:
        with refusing(InputError):
            sources_of(settings, spec.source)
    check_free(spec, destination_of(settings, spec.destination))
    fields = spec.model_dump(by_alias=True)
    return store.add_prediction(model_id, fields, settings.max_queued_jobs, key, dataset_id)


def prediction_view(settings: Settings, record: dict[str, Any]) -> dict[str, Any]:
    """Return a prediction as the API shows it; `progress` is that of the current attempt, or the final one."""
    names = ("id", "model_id", "state", "attempt", "created_at", "started_at", "finished_at", "requested")
    shown = {name: record[name] for name in names}
    result = _figures(record["result"])
    if result and "judged" in record["result"]:
        result["judged"] = record["result"]["judged"]
    return {
        **shown,
        "spec": record["spec"],
        "progress": _figures(result or read_object(settings.predictions / record["id"] / PROGRESS, OSError), _PROGRESS),
        "result": result,
        "failure": record["failure"],
    }


def _figures(found: Any, names: tuple[str, ...] = (*_PROGRESS, "unknown_features")) -> dict[str, Any] | None:
    """Return the figures of these names in `found`; None if one is missing, as in a damaged record."""
    is_whole = isinstance(found, dict) and all(isinstance(found.get(name), int) for name in names)
    return {name: found[name] for name in names} if is_whole else None


def read_object(path: Path, unless: type[OSError] = FileNotFoundError) -> dict[str, Any] | None:
    """Read the object in a JSON file; return None without file or object, and for errors `unless`. Raises OSError."""
    try:
        found = read_json(path.read_text())
    except (unless, NotADirectoryError, ValueError):
        return None
    return found if isinstance(found, dict) else None
