"""Options and output that several commands share: the service's address, data directory, tables, a job's progress."""

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamsvm.service.jobs.progress.states import has_met_goal
from streamsvm.service.remote.client import Client, RemoteJob, failure_of
from streamsvm.service.remote.connection import DEFAULT_URL, URL_VARIABLE
from streamsvm.service.terminal.display import Display

CONVERGED, NOT_CONVERGED, INTERRUPTED = 0, 4, 130


def add_service_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options --url and --json of commands that talk to a service."""
    default = os.environ.get(URL_VARIABLE, DEFAULT_URL)
    help_ = f"address of the service (default: {URL_VARIABLE}, or {DEFAULT_URL})"
    parser.add_argument("--url", default=default, help=help_)
    parser.add_argument("--json", action="store_true", help="print the service's answer")


def add_local_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options --data-dir and --json of commands that read a data directory."""
    parser.add_argument("--data-dir", type=Path, help="data directory of the service (default: ./data)")
    parser.add_argument("--json", action="store_true", help="print a JSON object")


def add_action(actions: Any, name: str, action: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
    """Add a subcommand that talks to a service; the docstring of its function is its help."""
    parser = actions.add_parser(name, help=action.__doc__, description=action.__doc__)
    parser.set_defaults(run=action)
    add_service_arguments(parser)
    return parser


def print_table(rows: list[list[str]]) -> None:
    """Print rows in columns of equal width; the first row has the columns' names."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_list(options: argparse.Namespace, path: str, **columns: str) -> int:
    """Print a list that the service answers with; `columns`: heading -> field to show. Return the exit code 0."""
    answer = Client(options.url).json("GET", path)
    if options.json:
        print_json(answer)
    else:
        (things,) = answer.values()
        print_table([[*columns], *([thing[field] for field in columns.values()] for thing in things)])
    return 0


def print_json(answer: Any) -> None:
    """Print JSON, indented."""
    print(json.dumps(answer, indent=1))


def watch(job: RemoteJob, show: Display) -> dict[str, Any]:
    """Show a job until it ends, even if the service restarts; return it as the dict that the API returns."""
    for kind, data in job.watch():
        if kind == "pass":
            show.show_pass(data)
        elif kind == "progress":
            show.show_progress(data)
    return job.view


def exit_code(job: dict[str, Any]) -> int:
    """Return the exit code for a job that has ended. Raises a failed job's failure as ServiceError."""
    if job["failure"]:
        raise failure_of(job)
    if job["state"] == "cancelled":
        return INTERRUPTED
    return CONVERGED if has_met_goal(job["result"]) else NOT_CONVERGED
