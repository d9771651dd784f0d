"""Plot how a job of a service converges."""

import argparse
from pathlib import Path
from typing import Any
from urllib.parse import quote

import shtab

from service.client import Client
from service.commands.remote import add_service_arguments
from service.errors import ServiceError

_SIZE_INCHES = (7, 4.5)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `streamsvm plot`."""
    parser.add_argument("job", help="its id, job_...")
    output = parser.add_argument("-o", "--output", type=Path, default=Path("gap.png"), help="(default: %(default)s)")
    output.complete = shtab.FILE  # type: ignore[attr-defined]
    add_service_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Draw M+ - M- and the certified relative gap over the passes."""
    client, path = Client(options.url), f"/v1/jobs/{quote(options.job, safe='')}"
    job, passes = client.json("GET", path), client.json("GET", f"{path}/history")["passes"]
    if not passes:
        raise ServiceError("no_passes", "the job has not finished a pass yet")
    draw(job, passes, options.output)
    print(f"wrote {options.output}")
    return 0


def draw(job: dict[str, Any], passes: list[dict[str, Any]], output: Path) -> None:
    """The plot as a file; its name says the format."""
    figure = _new_figure()
    axes = figure.subplots()
    numbers = [record["pass"] for record in passes]
    for name, label in (("gap", "M+ - M-"), ("relative_gap_bound", "relative gap, at most")):
        values = [record[name] if (record[name] or 0) > 0 else float("nan") for record in passes]
        axes.semilogy(numbers, values, label=label, marker=".")
    for name in ("tolerance", "relative_gap"):
        if job["spec"][name] is not None:
            axes.axhline(job["spec"][name], linestyle="--", color="grey", label=f"{name} {job['spec'][name]:g}")
    axes.set(xlabel="pass", title=f"{job['spec']['dataset']}, C = {job['spec']['C']:g}: {job['state']}")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(output, dpi=150)


def _new_figure() -> Any:
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        raise ServiceError("no_matplotlib", "matplotlib is not installed", "pip install 'streamsvm[plot]'") from None
    return Figure(_SIZE_INCHES, layout="constrained")
