"""What the commands that talk to a service share: where it is, watching a job, and what came of it."""

import argparse
import json
import os
from collections.abc import Callable
from typing import Any

from streamsvm.service.commands.display import Display
from streamsvm.service.errors import ServiceError
from streamsvm.service.remote.client import DEFAULT_URL, URL_VARIABLE
from streamsvm.service.remote.objects import RemoteJob

CONVERGED, NOT_CONVERGED, INTERRUPTED = 0, 4, 130


def add_service_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the service is, and whether a machine reads the answer."""
    default = os.environ.get(URL_VARIABLE, DEFAULT_URL)
    parser.add_argument("--url", default=default, help=f"of the service (default: {URL_VARIABLE}, or {DEFAULT_URL})")
    parser.add_argument("--json", action="store_true", help="print what the service answers")


def add_action(
    actions: Any, name: str, action: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:  # fmt: skip
    """A subcommand that talks to a service, described by the docstring of what it does."""
    parser = actions.add_parser(name, help=action.__doc__, description=action.__doc__)
    parser.set_defaults(action=action)
    add_service_arguments(parser)
    return parser


def print_table(rows: list[list[str]]) -> None:
    """Columns, the first row being their names."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_list(found: dict[str, Any], is_json: bool, **columns: str) -> None:
    """The one list in an answer: of each thing the fields `columns` under their names."""
    if is_json:
        print_json(found)
    else:
        (things,) = found.values()
        print_table([[*columns], *([thing[field] for field in columns.values()] for thing in things)])


def print_json(answer: Any) -> None:
    """For machines."""
    print(json.dumps(answer, indent=1))


def watch(job: RemoteJob, show: Display) -> dict[str, Any]:
    """Show a job until it ends, also over a restart of the service; returns it."""
    for kind, data in job.watch():
        if kind == "pass":
            show.show_pass(data)
        elif kind == "progress":
            show.show_progress(data)
    return job.view


def exit_code(job: dict[str, Any]) -> int:
    """Of a job that has ended; raises what it failed of."""
    if job["failure"]:
        failure = job["failure"]
        at = {"log_tail": failure.get("log_tail", "")}
        raise ServiceError(failure["code"], failure["message"], failure["hint"], at)
    if job["state"] == "cancelled":
        return INTERRUPTED
    return CONVERGED if job["result"]["converged"] else NOT_CONVERGED
