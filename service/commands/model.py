"""Models of a service: get, ls, show."""

import argparse
from pathlib import Path
from typing import Any
from urllib.parse import quote

import shtab

from streamsvm.service.commands.remote import add_action, print_json, print_list, print_table
from streamsvm.service.models.formats import SUFFIXES
from streamsvm.service.remote.client import Client
from streamsvm.service.remote.objects import RemoteModel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `streamsvm model`."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    getting = add_action(actions, "get", get)
    getting.add_argument("model", help="its id, mdl_...")
    output = getting.add_argument("-o", "--output", type=Path, help="LIBLINEAR or LIBSVM text, or .npz, .json or .onnx")
    output.complete = shtab.FILE  # type: ignore[attr-defined]
    add_action(actions, "ls", ls)
    showing = add_action(actions, "show", show)
    showing.add_argument("model", help="its id, mdl_..., or a file")


def run(options: argparse.Namespace) -> int:
    """Run the action."""
    return options.action(options)


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
    """Describe a model: its labels, its certificate and, for documents, its heaviest words."""
    view = _view(options)
    if options.json:
        print_json(view)
        return 0
    rows = [[name, _text(view[name])] for name in _SHOWN if view.get(name) not in (None, [], ())]
    print_table([["labels", ", ".join(map(_label, view["labels"]))], *rows])
    for each in view.get("heaviest") or ():
        for sign in ("positive", "negative"):
            _print_words(each, sign)
    return 0


_SHOWN = ("features", "bias", "kernel", "converged", "stop_reason", "passes", "input", "certificate")


def _view(options: argparse.Namespace) -> dict[str, Any]:
    path = Path(options.model)
    if not path.is_file():
        return RemoteModel(Client(options.url), options.model).refresh().view
    # Imported here because they are slow, and only this action needs them.
    from streamsvm.service.models.exports import MODEL_FORMATS  # noqa: PLC0415
    from streamsvm.service.models.formats import stored_format  # noqa: PLC0415
    from streamsvm.service.models.registry import model_view  # noqa: PLC0415
    from streamsvm.storage.models.model_head import head_of  # noqa: PLC0415

    with path.open("rb") as file:
        return model_view({}, head_of(MODEL_FORMATS[stored_format(path)].read(file)))


def _text(value: Any) -> str:
    return ", ".join(f"{name} {each}" for name, each in value.items()) if isinstance(value, dict) else str(value)


def _print_words(heaviest: dict[str, Any], sign: str) -> None:
    words = heaviest.get(sign)
    if words:
        label = "larger values" if heaviest["label"] is None else _label(heaviest["label"])
        print(f"\nwords {'for' if sign == 'positive' else 'against'} {label}")
        for each in words:
            print(f"  {each['weight']:+.4g}  {each['word']}")


def _label(label: Any) -> str:
    return str(label).removesuffix(".0") if isinstance(label, float) else str(label)
