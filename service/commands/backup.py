"""Copy a data directory, while a service runs on it."""

import argparse
from dataclasses import asdict
from pathlib import Path

import shtab

from streamsvm.service.commands.doctor import DAMAGED, SOUND
from streamsvm.service.commands.local import add_local_arguments
from streamsvm.service.commands.remote import print_json
from streamsvm.service.records.backup import back_up
from streamsvm.service.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `streamsvm backup`."""
    target = parser.add_argument("target", type=Path, help="directory that is to be made")
    target.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    add_local_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Copy, and say what has been copied, and what could not be."""
    found = back_up(Settings.from_environment(options.data_dir), options.target)
    if options.json:
        print_json(asdict(found))
    else:
        for path in found.missing:
            print(f"{path}: on record, but its files are not there")
        print(", ".join(f"{number} {kind}" for kind, number in found.counts.items()), f"in {options.target}")
    return DAMAGED if found.missing else SOUND
