"""Models of a service: get, ls, show, threshold, register, alias."""

import argparse
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from streamsvm.service.errors import ServiceError
from streamsvm.service.models.formats import SUFFIXES
from streamsvm.service.remote.client import Client, RegisteredModel, RemoteModel
from streamsvm.service.terminal.display import reached, scored
from streamsvm.service.terminal.remote import add_action, print_json, print_list, print_table

_REFERENCE = "its id, mdl_..., or a name, NAME:VERSION or NAME@ALIAS"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `streamsvm model`, and their options, to the parser."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    getting = add_action(actions, "get", get)
    getting.add_argument("model", help=_REFERENCE)
    getting.add_argument("-o", "--output", type=Path, help="LIBLINEAR or LIBSVM text, or .npz or .onnx")
    add_action(actions, "ls", ls)
    showing = add_action(actions, "show", show)
    showing.add_argument("model", help=f"{_REFERENCE}, or a file")
    cutting = add_action(actions, "threshold", threshold)
    cutting.add_argument("model", help=_REFERENCE)
    cutting.add_argument("threshold", type=float, help="decision value above which the first class is predicted")
    registering = add_action(actions, "register", register)
    registering.add_argument("model", help=_REFERENCE)
    registering.add_argument("name", help="a name: the model becomes its next version")
    add_action(actions, "names", names)
    moving = add_action(actions, "alias", alias)
    moving.add_argument("name", help="of a registered model")
    moving.add_argument("alias", help="such as champion")
    moving.add_argument("version", type=int, nargs="?", help="the version that it is to point at")
    moving.add_argument("--delete", action="store_true", help="delete the alias")


def get(options: argparse.Namespace) -> int:
    """Download a model; with --json, print its description instead."""
    model = RemoteModel(Client(options.url), options.model).refresh()
    if options.json:
        print_json(model.view)
        return 0
    output = options.output or Path(f"{quote(model.id, safe='')}{SUFFIXES[model.view['formats'][0]]}")
    model.download(output)
    print(f"wrote {output}")
    return 0


def ls(options: argparse.Namespace) -> int:
    """List models, the newest first."""
    return print_list(options, "/v1/models", MODEL="id", JOB="job_id", CREATED="created_at")


def show(options: argparse.Namespace) -> int:
    """Describe a model: its labels, its score, its certificate and what weighs most."""
    view = _view(options)
    if options.json:
        print_json(view)
        return 0
    rows = [
        [name.replace("_", " "), _text(name, view[name])] for name in _SHOWN if view.get(name) not in (None, [], ())
    ]
    print_table([["labels", ", ".join(map(_label, view["labels"]))], *rows])
    kind = "words" if (view["input"] or {}).get("format") == "text" else "features"
    for each in view.get("heaviest") or ():
        for sign in ("positive", "negative"):
            _print_words(each, sign, kind)
    return 0


def threshold(options: argparse.Namespace) -> int:
    """Make a model that cuts the decision values of another, of two classes, at a threshold."""
    made = RemoteModel(Client(options.url), options.model).cut(options.threshold)
    print_json(made.refresh().view) if options.json else print(made.id)
    return 0


def register(options: argparse.Namespace) -> int:
    """Make a model the next version of a name."""
    version = RemoteModel(Client(options.url), options.model).register(options.name)
    if options.json:
        print_json({"name": options.name, "version": version})
    else:
        print(f"{options.name}:{version}")
    return 0


def names(options: argparse.Namespace) -> int:
    """List registered models: the latest version of each, and its aliases."""
    registered = [each.view for each in Client(options.url).registered_models()]
    if options.json:
        print_json({"registered_models": registered})
        return 0
    rows = [["NAME", "LATEST", "ALIASES", "REGISTERED"]]
    for each in registered:
        aliases = ", ".join(f"{alias['alias']} -> {alias['version']}" for alias in each["aliases"])
        rows.append([each["name"], str(each["latest_version"] or ""), aliases, each["created_at"]])
    print_table(rows)
    return 0


def alias(options: argparse.Namespace) -> int:
    """Point an alias of a registered model at a version, or delete it."""
    if (options.version is None) != options.delete:
        raise ServiceError("missing_field", "give the version that the alias is to point at, or --delete")
    registered = RegisteredModel(Client(options.url), options.name)
    if options.delete:
        registered.remove(options.alias)
    else:
        registered.move(options.alias, options.version)
    if options.json:
        print_json(registered.view)
    return 0


_SHOWN = (
    "features",
    "bias",
    "kernel",
    "converged",
    "stop_reason",
    "passes",
    "input",
    "score",
    "threshold",
    "certificate",
)


_WRITERS: dict[str, Callable[[Any], str]] = {"score": scored, "certificate": reached}


def _view(options: argparse.Namespace) -> dict[str, Any]:
    path = Path(options.model)
    if not path.is_file():
        if path.name != options.model or path.suffix in SUFFIXES.values():
            raise FileNotFoundError(errno.ENOENT, "no such file", options.model)
        return RemoteModel(Client(options.url), options.model).refresh().view
    # Imported here because they are slow, and only this action needs them.
    from streamsvm.service.models.exports import MODEL_FORMATS  # noqa: PLC0415
    from streamsvm.service.models.formats import stored_format  # noqa: PLC0415
    from streamsvm.service.models.heaviest import with_heaviest  # noqa: PLC0415
    from streamsvm.service.models.registry import model_view  # noqa: PLC0415
    from streamsvm.storage.models.model_file import head_of  # noqa: PLC0415

    with path.open("rb") as file:
        model = MODEL_FORMATS[stored_format(path)].read(file)
    return model_view({}, head_of(model if "heaviest" in model.about else with_heaviest(model)))


def _text(name: str, value: Any) -> str:
    """Write a value of a model's view in words."""
    if name == "input":
        from streamsvm.service.datasets.views import input_words  # noqa: PLC0415 - slow to import

        return input_words(value)
    if name in _WRITERS:
        return _WRITERS[name](value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _print_words(heaviest: dict[str, Any], sign: str, kind: str) -> None:
    words = heaviest.get(sign)
    if words:
        label = "larger values" if heaviest["label"] is None else _label(heaviest["label"])
        print(f"\n{kind} {'for' if sign == 'positive' else 'against'} {label}")
        for each in words:
            print(f"  {each['weight']:+.4g}  {each['word']}")


def _label(label: Any) -> str:
    return str(label).removesuffix(".0") if isinstance(label, float) else str(label)
