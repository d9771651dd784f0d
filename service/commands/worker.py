"""Run the worker alone: the process that trains queued jobs."""

import argparse
from pathlib import Path

from streamsvm.service.obsolete_names import tell_gone_settings
from streamsvm.service.processes import worker
from streamsvm.service.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `streamsvm worker` to the parser."""
    parser.add_argument("--data-dir", type=Path, help="everything durable is below it (default: ./data)")


def run(options: argparse.Namespace) -> int:
    """Train queued jobs until SIGTERM or Ctrl-C; return the exit code."""
    tell_gone_settings()
    return worker.main(Settings.from_environment(options.data_dir).data_dir)
