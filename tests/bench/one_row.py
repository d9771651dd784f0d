"""Measures one row: predictions over HTTP from 1, 50 and 200 clients, beside servers of one file around a model.

The files have FastAPI, and scikit-learn or onnxruntime.
"""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
from sklearn.svm import LinearSVC

from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.storage.models.model_file import Model
from tests.bench.report import header, prose, row
from tests.end_to_end.service import PLAIN, Service, wait_for

CLIENTS = (1, 50, 200)
_FEATURES, _ROWS = 30, 2000
_WINDOW_SECONDS = float(os.environ.get("WINDOW", "5"))
_TURNS = 3


@dataclass(frozen=True)
class Server:
    """A server that predicts: where it listens, and the bytes of a request for one row."""

    port: int
    request: bytes


def run() -> Iterator[str]:
    """Each of the servers in turn, for each number of clients."""
    yield from prose(
        f"One row of {_FEATURES} numbers a request, as JSON, over connections that stay. Each server answers from one "
        "process, by a linear model. StreamSVM checks a token and logs each request; the others, FastAPI in one file "
        "under uvicorn around scikit-learn or, with the same model as a graph of ONNX, onnxruntime, do neither. "
        f"Medians of {_TURNS} windows of {_WINDOW_SECONDS:g} s in turn; the clients run on the same cores."
    )
    yield from header("clients", "server", "median ms", "99% ms", "answers/s", words=2)
    with _servers() as servers:
        for clients in CLIENTS:
            found: dict[str, list[list[float]]] = {name: [] for name in servers}
            for _ in range(_TURNS):
                for name, server in servers.items():
                    found[name].append(asyncio.run(_window(server, clients)))
            for name, windows in found.items():
                yield row(
                    clients, name, *(f"{statistics.median(figures):.4g}" for figures in zip(*windows, strict=True))
                )


async def _window(server: Server, clients: int) -> list[float]:
    """Median and 99% of the milliseconds an answer took, and answers a second."""
    seconds: list[float] = []
    end = time.monotonic() + _WINDOW_SECONDS
    await asyncio.gather(*(_client(server, end, seconds) for _ in range(clients)))
    hundredths = statistics.quantiles(seconds, n=100)
    return [1e3 * statistics.median(seconds), 1e3 * hundredths[-1], len(seconds) / _WINDOW_SECONDS]


async def _client(server: Server, end: float, seconds: list[float]) -> None:
    """Ask again and again until `end`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    while time.monotonic() < end:
        began = time.perf_counter()
        writer.write(server.request)
        await read_answer(reader)
        seconds.append(time.perf_counter() - began)
    writer.close()


async def read_answer(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    """Read one answer to its end; its head in lower case, and its body. ValueError if it is not 200."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    if not head.startswith("http/1.1 200"):
        raise ValueError(head)
    if "content-length: " in head:
        return head, await reader.readexactly(int(head.split("content-length: ")[1].split("\r\n")[0]))
    body = b""
    while length := int(await reader.readline(), 16):
        body += (await reader.readexactly(length + 2))[:-2]
    await reader.readexactly(2)
    return head, body


@contextmanager
def _servers() -> Iterator[dict[str, Server]]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(_ROWS, _FEATURES))
    y = np.where(X @ rng.normal(size=_FEATURES) > 0, 1, -1)
    with tempfile.TemporaryDirectory() as directory:
        model = _write_models(Path(directory) / "model", X, y)
        with (
            _ours(Path(directory), X, y) as ours,
            _one_file("one_file", model.with_suffix(".pickle"), X) as sklearn,
            _one_file("one_file_onnx", model.with_suffix(".onnx"), X) as onnx,
        ):
            yield {"StreamSVM": ours, "FastAPI and scikit-learn": sklearn, "FastAPI and onnxruntime": onnx}


def _write_models(path: Path, X: np.ndarray, y: np.ndarray) -> Path:
    """Write a linear model as a pickle of scikit-learn and as a graph of ONNX; returns the path without an ending."""
    fitted = LinearSVC(loss="hinge", max_iter=100_000).fit(X, y)
    path.with_suffix(".pickle").write_bytes(pickle.dumps(fitted))
    model = Model(fitted.coef_[0], (1.0, -1.0), 1, None, float(fitted.intercept_[0]), {"loss": "hinge"})
    path.with_suffix(".onnx").write_bytes(b"".join(MODEL_FORMATS["onnx"].write(model)))
    return path


@contextmanager
def _ours(directory: Path, X: np.ndarray, y: np.ndarray) -> Iterator[Server]:
    service = Service(directory / "service")
    made = service.processes.run("token", "new", "bench", "--scope", "admin", "--data-dir", service.data_dir, text=True)
    headers = {"Authorization": f"Bearer {made.stdout.split()[-1]}"}
    try:
        service.start(headers["Authorization"])
        lines = (f"{label} {' '.join(f'{k}:{v}' for k, v in enumerate(x, 1))}\n" for x, label in zip(X, y, strict=True))
        client = httpx.Client(base_url=service.url, headers=headers, **PLAIN)
        client.put("/v1/datasets/rows", content="".join(lines).encode()).raise_for_status()
        job = client.post("/v1/jobs", json={"dataset": "rows"}).raise_for_status().json()["id"]
        model = wait_for(lambda: client.get(f"/v1/jobs/{job}").json()["model_id"])
        body = json.dumps({"rows": [{str(k): v for k, v in enumerate(X[0].tolist(), 1)}]})
        yield Server(int(service.url.rsplit(":", 1)[1]), request_of(f"/v1/models/{model}/predict", body, headers))
    finally:
        service.kill()


@contextmanager
def _one_file(module: str, model: Path, X: np.ndarray) -> Iterator[Server]:
    """The server of a module of `peers`, with the model in this file."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", f"tests.bench.peers.{module}:app", "--port", str(port)]
    environment = {**os.environ, "MODEL": str(model)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: _listens(port))
        yield Server(port, request_of("/predict", json.dumps({"rows": [X[0].tolist()]}), {}))
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) == 0


def request_of(path: str, body: str, headers: dict[str, str]) -> bytes:
    stated = {"Host": "localhost", "Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in stated.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n{body}".encode()
