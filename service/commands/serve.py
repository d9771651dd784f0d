"""Run the service: the REST interface and its worker."""

import argparse
import os
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `streamsvm serve` to the parser."""
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (default: %(default)s)")
    parser.add_argument("--host", help="address to listen on; one beyond loopback needs a token (default: 127.0.0.1)")
    parser.add_argument("--data-dir", type=Path, help="everything durable is below it (default: ./data)")
    parser.add_argument("--no-worker", action="store_true", help="start no worker: streamsvm worker runs elsewhere")


def run(options: argparse.Namespace) -> int:
    """Replace this process by the API process, which starts the worker unless --no-worker is given."""
    arguments = ["--port", str(options.port)]
    if options.host is not None:
        arguments += ["--host", options.host]
    if options.data_dir is not None:
        arguments += ["--data-dir", str(options.data_dir)]
    if options.no_worker:
        arguments.append("--no-worker")
    os.execv(sys.executable, [sys.executable, "-m", "streamsvm.api", *arguments])
