"""Datasets of a service: add, ls, rm, verify."""

import argparse
import sys
from typing import Any

from streamsvm.reader.options import InputOptions, add_input_options, input_options
from streamsvm.reader.sources.files import is_url
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.from_text import number_or_all
from streamsvm.service.remote.client import Client, RemoteDataset
from streamsvm.service.settings import Settings
from streamsvm.service.terminal.display import counted
from streamsvm.service.terminal.inputs import Source, column_notes, file_or_url
from streamsvm.service.terminal.remote import add_action, add_local_arguments, print_json, print_list
from streamsvm.service.terminal.spelling import in_dashes

_COUNTS = {"rows": "row", "features": "feature", "non_zeros": "non-zero"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `streamsvm data`, and their options, to the parser."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    adding = add_action(actions, "add", add)
    adding.add_argument("name", help="up to 64 of a-z, 0-9, _ and -")
    source = adding.add_mutually_exclusive_group(required=True)
    what = "a file, plain or compressed; - for standard input; or a URL, which the service reads"
    source.add_argument("file", nargs="?", type=file_or_url, help=what)
    help_ = "in place of the file: a file of the service's import directory, or a URL"
    source.add_argument("--import", dest="import_", metavar="FILE", help=help_)
    help_ = "how many machines each read and keep a range of a URL's files: a number, or all"
    adding.add_argument("--machines", type=number_or_all, help=help_)
    add_input_options(adding)
    add_action(actions, "ls", ls)
    add_action(actions, "rm", rm).add_argument("name")
    verifying = actions.add_parser("verify", help=verify.__doc__, description=verify.__doc__)
    verifying.add_argument("name")
    add_local_arguments(verifying)
    verifying.set_defaults(run=verify)


def upload(
    client: Client, name: str, file: Source, options: InputOptions, on_machines: int | str | None = None
) -> RemoteDataset:
    """Upload a file, or standard input for -; for a URL, have the service import it in the background."""
    if isinstance(file, str) and is_url(file):
        return client.import_dataset(name, file, on_machines, **_explicit(options))
    return client.add_dataset(name, sys.stdin.buffer if str(file) == "-" else file, **_explicit(options))


def add(options: argparse.Namespace) -> int:
    """Upload a file, or have the service import a file or URL in the background."""
    client, read_options = Client(options.url), input_options(options)
    if options.machines is not None and not is_url(options.import_ or str(options.file)):
        raise ServiceError(
            "machines_range", "other machines cannot read a file of this one", "Name a URL: s3://bucket/part-*."
        )
    if options.import_ is None:
        view = upload(client, options.name, options.file, read_options, options.machines).view
    else:
        view = client.import_dataset(options.name, options.import_, options.machines, **_explicit(read_options)).view
    if options.json:
        print_json(view)
    elif "rows" not in view:
        print(f"{view['name']}: {view['state']}")
    else:
        counts = [counted(view[name], one) for name, one in _COUNTS.items()]
        print(f"{view['name']}: {', '.join(counts)}")
        for line in column_notes(view):
            print(in_dashes(line), file=sys.stderr)
    return 0


def ls(options: argparse.Namespace) -> int:
    """List datasets."""
    return print_list(options, "/v1/datasets", NAME="name", STATE="state", CREATED="created_at")


def rm(options: argparse.Namespace) -> int:
    """Delete a dataset that no job uses."""
    RemoteDataset(Client(options.url), options.name).delete()
    return 0


def _explicit(options: InputOptions) -> dict[str, Any]:
    return {option: getattr(options, option) for option in options.given}


def verify(options: argparse.Namespace) -> int:
    """Read every byte of a dataset in a data directory on this machine, and name what is damaged."""
    # Imported here because they are slow, and only this action needs them.
    from streamsvm.service.commands.doctor import report  # noqa: PLC0415
    from streamsvm.service.records.doctor import examine_dataset  # noqa: PLC0415

    return report(examine_dataset(Settings.from_environment(options.data_dir), options.name), options.json)
