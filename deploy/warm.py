"""Run everything that the service can do on a few rows, so that an image has all kernels compiled.

python warm.py [SOLVER ...]

numba writes the kernels to NUMBA_CACHE_DIR. The exit code is not 0 if anything fails.
"""

import io
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streamsvm.service.errors import ServiceError
from streamsvm.service.remote.client import Client
from streamsvm.trainer.solvers import SOLVERS

_ROWS, _FEATURES, _ROW_LENGTH = 2000, 300, 30
_PATIENCE_SECONDS = 900
# The cache holds a part of the rows, so that some are evicted.
_JOB = {"cache_bytes": 1 << 17, "max_passes": 3, "tolerance": 1e-9}
_VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {
    "streamsvm": (
        {"threads": 1}, {"pace": "fixed"}, {"solver_options": {"screening": None}},
        {"features": ["scale", "pairs"]}, {"features": [{"fourier": {"dimension": 16}}, "unit"]},
        {"dataset": "strings", "features": ["weighted_degree"]}, {"dataset": "documents", "features": ["idf"]},
        {"bias": None}, {"dataset": "ones"}, {"dataset": "dense"}, {"cache_bytes": 1 << 24},
    ),
    "streamsvm_paper": ({"solver_options": {"epsilon_decay": "sweep"}}, {"dataset": "ones"}),
    "bm": ({"solver_options": {"inner_rounds": None}}, {"dataset": "ones"}),
    "sbm": tuple({"solver_options": {"select": way}} for way in ("distance", "violation")),
    "pegasos": ({"solver_options": {"update": "block"}},),
    "cpa": ({"threads": 2},),
    "ocas": ({"threads": 2},),
}  # fmt: skip


def jobs(solvers: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the fields of jobs: each solver with each of its losses and other options."""
    for name in solvers:
        # Solvers such as dcd hold all rows in the cache.
        room = {} if SOLVERS[name].feed == "steps" or SOLVERS[name].has_blocks else {"cache_bytes": 1 << 24}
        for loss in SOLVERS[name].losses:
            yield {**_JOB, **room, "dataset": "rows", "solver": name, "loss": loss}
        for variant in _VARIANTS.get(name, ()):
            yield {**_JOB, **room, "dataset": "rows", "solver": name, **variant}


def rows(values: bool) -> bytes:
    """Make LIBSVM text; all values are 1 unless `values` is set."""
    random.seed(0)
    lines = []
    for row in range(_ROWS):
        features = sorted(random.sample(range(1, _FEATURES + 1), _ROW_LENGTH))
        pairs = (f"{feature}:{random.gauss(0, 1) if values else 1:.4g}" for feature in features)
        lines.append(f"{(-1) ** row} {' '.join(pairs)}\n")
    return "".join(lines).encode()


def table() -> bytes:
    """Make CSV with a header."""
    lines = [f"{(-1) ** row},{random.random():.4f},{random.random():.4f}\n" for row in range(_ROWS)]
    return ("label,a,b\n" + "".join(lines)).encode()


def strings() -> bytes:
    """Make FASTA."""
    texts = ("".join(random.choices("ACGT", k=40)) for _ in range(_ROWS))
    return "".join(f"> label={(-1) ** row}\n{text}\n" for row, text in enumerate(texts)).encode()


def documents() -> bytes:
    """Make text with a document a line."""
    texts = (
        " ".join(random.choices(["the", "a", "of", "to", "and", "in", "is", "it", "for", "on"], k=20))
        for _ in range(_ROWS)
    )
    return "".join(f"{(-1) ** row}\t{text}\n" for row, text in enumerate(texts)).encode()


_RAW = {"strings": {"strings": ["ACGT" * 10]}, "documents": {"documents": ["in the end"]}}


def use(client: Client, solvers: list[str]) -> None:
    """Upload, train, predict, evaluate, delete."""
    for name, text in (("rows", rows(True)), ("ones", rows(False)), ("dense", table())):
        client.upload(f"/v1/datasets/{name}", io.BytesIO(text))
    client.upload("/v1/datasets/strings?format=fasta", io.BytesIO(strings()))
    client.upload("/v1/datasets/documents?format=text&n_features=1000", io.BytesIO(documents()))
    ids = [client.json("POST", "/v1/jobs", job)["id"] for job in jobs(solvers)]
    for job_id in ids:
        job = wait(client, job_id)
        model = f"/v1/models/{job['model_id']}"
        client.json("POST", f"{model}/predict", _RAW.get(job["spec"]["dataset"], {"rows": [{"3": 1.5}]}))
        client.json("POST", f"{model}/evaluate", {"dataset": job["spec"]["dataset"]})
        print(job["spec"]["solver"], job["spec"]["loss"], job["result"]["stop_reason"], flush=True)


def wait(client: Client, job_id: str) -> dict[str, Any]:
    """Wait until a job has succeeded, and return it."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while (job := client.json("GET", f"/v1/jobs/{job_id}"))["state"] in ("queued", "running"):
        if time.monotonic() > end:
            sys.exit(f"{job_id} takes too long")
        time.sleep(0.1)
    if job["state"] != "succeeded":
        sys.exit(f"{job['spec']} {job['state']}: {job['failure']}")
    return job


def main() -> None:
    """Start a service and use it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as directory:
        command = ["serve", "--host", "127.0.0.1", "--port", str(port), "--data-dir", str(Path(directory) / "data")]
        service = subprocess.Popen([Path(sys.executable).with_name("streamsvm"), *command], env=os.environ)
        client = Client(f"http://127.0.0.1:{port}")
        try:
            await_answer(client, service)
            use(client, sys.argv[1:] or list(SOLVERS))
        finally:
            service.terminate()
            service.wait()


def await_answer(client: Client, service: subprocess.Popen) -> None:
    """Wait until the service answers."""
    while service.poll() is None:
        try:
            client.json("GET", "/v2/health/ready")
            return
        except ServiceError:
            time.sleep(0.2)
    sys.exit("the service does not start")


if __name__ == "__main__":
    main()
