"""Copy a data directory, while a service runs on it."""

import argparse
from dataclasses import asdict
from pathlib import Path

from streamsvm.service.commands.doctor import DAMAGED, SOUND
from streamsvm.service.records.doctor import back_up
from streamsvm.service.settings import Settings
from streamsvm.service.terminal.remote import add_local_arguments, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `streamsvm backup` to the parser."""
    parser.add_argument("target", type=Path, help="the new directory")
    add_local_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Copy the data directory; print how much was copied, and the paths of records without files; return exit code."""
    copied = back_up(Settings.from_environment(options.data_dir), options.target)
    if options.json:
        print_json(asdict(copied))
    else:
        for path in copied.missing:
            print(f"{path}: recorded, but its files are missing")
        print(", ".join(f"{number} {kind}" for kind, number in copied.counts.items()), f"in {options.target}")
    return DAMAGED if copied.missing else SOUND
