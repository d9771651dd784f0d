"""Models of a service: get, ls."""

import argparse
from pathlib import Path
from urllib.parse import quote

import shtab

from service.commands.remote import add_action, print_json, print_list
from service.remote.client import Client
from service.remote.objects import RemoteModel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `streamsvm model`."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    getting = add_action(actions, "get", get)
    getting.add_argument("model", help="its id, mdl_...")
    output = getting.add_argument("-o", "--output", type=Path, help="LIBLINEAR or LIBSVM text, or .npz, .json or .onnx")
    output.complete = shtab.FILE  # type: ignore[attr-defined]
    add_action(actions, "ls", ls)


def run(options: argparse.Namespace) -> int:
    """Do what was asked."""
    return options.action(options)


def get(options: argparse.Namespace) -> int:
    """Download one; with --json only what it is."""
    model = RemoteModel(Client(options.url), options.model)
    if options.json:
        print_json(model.refresh().view)
        return 0
    output = options.output or Path(f"{quote(model.id, safe='')}.model")
    model.download(output)
    print(f"wrote {output}")
    return 0


def ls(options: argparse.Namespace) -> int:
    """List them, the newest first."""
    print_list(
        Client(options.url).json("GET", "/v1/models"), options.json, MODEL="id", JOB="job_id", CREATED="created_at"
    )
    return 0
