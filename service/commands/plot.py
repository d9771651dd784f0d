"""Plot how a job of a service converges, and its cross-validation."""

import argparse
from pathlib import Path
from urllib.parse import quote

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.progress.plots import draw
from streamsvm.service.remote.client import Client
from streamsvm.service.terminal.remote import add_service_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `streamsvm plot` to the parser."""
    parser.add_argument("job", help="its id, job_...")
    parser.add_argument("-o", "--output", type=Path, default=Path("gap.png"), help="(default: %(default)s)")
    parser.add_argument(
        "--metric", help="the metric to plot of a cross-validation (default: the one by which C was selected)"
    )
    add_service_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Plot M+ - M- of each lane (for a single lane also the relative gap) and, with folds, a metric against C."""
    client, path = Client(options.url), f"/v1/jobs/{quote(options.job, safe='')}"
    job, passes = client.json("GET", path), client.json("GET", f"{path}/history")["passes"]
    if not passes:
        raise ServiceError("no_passes", "the job has not finished a pass yet")
    draw(job, passes, options.output, options.metric)
    print(f"wrote {options.output}")
    return 0
