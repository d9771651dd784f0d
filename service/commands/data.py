"""Datasets of a service: add, ls, rm, verify."""

import argparse
import sys
from typing import Any

import shtab

from streamsvm.reader.options import InputOptions, add_input_options, input_options
from streamsvm.reader.sources.locations import is_url
from streamsvm.service.commands.inputs import Given, file_or_url
from streamsvm.service.commands.local import add_local_arguments
from streamsvm.service.commands.remote import add_action, print_json, print_list
from streamsvm.service.commands.spelling import in_dashes
from streamsvm.service.datasets.told import told_of_columns
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.from_text import number_or_all
from streamsvm.service.remote.client import Client
from streamsvm.service.remote.objects import RemoteDataset
from streamsvm.service.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `streamsvm data`."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    adding = add_action(actions, "add", add)
    adding.add_argument("name", help="of up to 64 of a-z, 0-9, _ and -")
    source = adding.add_mutually_exclusive_group(required=True)
    what = "plain or compressed; - for standard input; or a URL, which the service reads"
    file = source.add_argument("file", nargs="?", type=file_or_url, help=what)
    file.complete = shtab.FILE  # type: ignore[attr-defined]
    source.add_argument("--import", dest="import_", metavar="FILE", help="instead: one that the service has, or a URL")
    told = "how many machines read a URL, each a part, and keep it: a number, or all"
    adding.add_argument("--machines", type=number_or_all, help=told)
    add_input_options(adding)
    add_action(actions, "ls", ls)
    add_action(actions, "rm", rm).add_argument("name")
    verifying = actions.add_parser("verify", help=verify.__doc__, description=verify.__doc__)
    verifying.add_argument("name")
    add_local_arguments(verifying)
    verifying.set_defaults(action=verify)


def run(options: argparse.Namespace) -> int:
    """Do what was asked."""
    return options.action(options)


def upload(
    client: Client, name: str, file: Given, options: InputOptions, on_machines: int | str | None = None
) -> RemoteDataset:
    """Read a file, - for standard input, into the service; what a URL names it reads itself, in the background."""
    if isinstance(file, str) and is_url(file):
        return client.import_dataset(name, file, on_machines, **_given(options))
    return client.add_dataset(name, sys.stdin.buffer if str(file) == "-" else file, **_given(options))


def add(options: argparse.Namespace) -> int:
    """Upload a file, or have the service read one of its own in the background."""
    client, given = Client(options.url), input_options(options)
    if options.machines is not None and not is_url(options.import_ or str(options.file)):
        raise ServiceError(
            "machines_range", "machines cannot read a file of this one", "Name a URL: s3://bucket/part-*."
        )
    if options.import_ is None:
        found = upload(client, options.name, options.file, given, options.machines).view
    else:
        found = client.import_dataset(options.name, options.import_, options.machines, **_given(given)).view
    if options.json:
        print_json(found)
    elif "rows" not in found:
        print(f"{found['name']}: {found['state']}")
    else:
        print(f"{found['name']}: {found['rows']} rows, {found['features']} features, {found['non_zeros']} non-zeros")
        for line in told_of_columns(found):
            print(in_dashes(line), file=sys.stderr)
    return 0


def ls(options: argparse.Namespace) -> int:
    """List them."""
    print_list(
        Client(options.url).json("GET", "/v1/datasets"), options.json, NAME="name", STATE="state", CREATED="created_at"
    )
    return 0


def rm(options: argparse.Namespace) -> int:
    """Remove one that no job needs."""
    RemoteDataset(Client(options.url), options.name).delete()
    return 0


def _given(options: InputOptions) -> dict[str, Any]:
    return {option: getattr(options, option) for option in options.given}


def verify(options: argparse.Namespace) -> int:
    """Read every byte of one, in the data directory of a service on this machine, and say what is damaged."""
    # Slow to import, and not needed by the others.
    from streamsvm.service.commands.doctor import report  # noqa: PLC0415
    from streamsvm.service.records.doctor import examine_dataset  # noqa: PLC0415

    return report(examine_dataset(Settings.from_environment(options.data_dir), options.name), options.json)
