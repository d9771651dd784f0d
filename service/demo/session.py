"""The demo's session with the service, as any client could have it; prints what it does."""

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from streamsvm.service.commands.display import Picture
from streamsvm.service.demo import liblinear
from streamsvm.service.demo.data import DemoData, first_row
from streamsvm.service.demo.peak_memory import PeakMemory
from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.from_text import format_size
from streamsvm.service.jobs.progress.states import TRANSITIONS
from streamsvm.service.remote.client import Client

C = 1.0
CACHE_SHARE = 10
TOLERANCE = 1e-3
_POLL_SECONDS = 0.05  # a sweep takes about as long
_MIB = 1 << 20


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)


class Session:
    """Uploads, trains, certifies, downloads, predicts. `seconds`: phase -> how long it took."""

    def __init__(self, client: Client, data: DemoData, show: Picture) -> None:
        self._client = client
        self._data = data
        self._show = show
        self.seconds: dict[str, float] = {}
        self.dataset: dict[str, Any] = {}
        self.job: dict[str, Any] = {}

    def run(self) -> None:
        """Do all phases, one after the other."""
        self.dataset = self._timed("upload", self._upload)
        job_id = self._submit()
        self.job = self._timed("train and certify", lambda: self._watch(job_id))
        self._show_certificate()
        self._timed("predict", self._use_model)

    def _upload(self) -> dict[str, Any]:
        size = self._data.train.stat().st_size
        say(f"\nPUT /v1/datasets/demo: {format_size(size)}, parsed, shuffled and compressed while they arrive")
        with self._data.train.open("rb") as file:
            dataset: dict[str, Any] = self._client.upload("/v1/datasets/demo", file)
        counts = ", ".join(f"{count:,} of label {label}" for label, count in list(dataset["label_counts"].items())[:2])
        say(f"  {dataset['rows']:,} rows ({counts}), {dataset['features']:,} features,")
        say(f"  {dataset['non_zeros']:,} non-zeros: {format_size(dataset['decoded_bytes'])} ready for training,")
        say(f"  {format_size(dataset['stored_bytes'])} in {dataset['blocks']} compressed blocks on disk")
        return dataset

    def _submit(self) -> str:
        decoded = self.dataset["decoded_bytes"]
        job = {"dataset": "demo", "C": C, "tolerance": TOLERANCE, "cache_bytes": decoded // CACHE_SHARE}
        try:
            submitted = self._client.json("POST", "/v1/jobs", job)
        except ServiceError as error:
            if error.code != "cache_too_small":
                raise
            # If rows are long and few, a tenth of the data is less than the smallest cache.
            job["cache_bytes"] = int(re.findall(r"\d+", error.hint)[-1])
            submitted = self._client.json("POST", "/v1/jobs", job)
        share = job["cache_bytes"] / decoded
        say(f"\nPOST /v1/jobs: linear SVM, hinge loss, C = {C:g}, with a cache of {format_size(job['cache_bytes'])}")
        say(f"  ({share:.0%} of the data), until M+ - M- <= {TOLERANCE:g}: the spread of the projected gradients,")
        say("  0 at the optimum, as in LIBLINEAR's -e\n")
        job_id: str = submitted["id"]
        return job_id

    def _watch(self, job_id: str) -> dict[str, Any]:
        shown = 0
        while True:
            # The job is asked for before its passes: if it has ended, the passes are complete.
            job: dict[str, Any] = self._client.json("GET", f"/v1/jobs/{job_id}")
            passes = self._client.json("GET", f"/v1/jobs/{job_id}/history")["passes"]
            for record in passes[shown:]:
                self._show.show_pass(record)
            shown = len(passes)
            if job["progress"]:
                self._show.show_progress(job["progress"])
            if not TRANSITIONS[job["state"]]:
                break
            time.sleep(_POLL_SECONDS)
        if job["failure"]:
            raise ServiceError.of({**job["failure"], "detail": job["failure"]["message"]})
        if job["state"] != "succeeded":
            raise ServiceError("demo_failed", f"the job is {job['state']}")
        self._show.finish(job["result"], None)
        return job

    def _show_certificate(self) -> None:
        certificate = self.job["result"]["certificate"]
        say("\nThe certificate, computed over all rows at the final weights:")
        say(f"  primal objective {certificate['primal_objective']:.6f}, dual {certificate['dual_objective']:.6f}:")
        gap = certificate["relative_duality_gap"]
        say(f"  no model's objective is lower than this one's by more than {gap:.1e} of it")

    def _use_model(self) -> None:
        model = f"/v1/models/{quote(self.job['model_id'], safe='')}"
        target = self._data.test.with_name("demo.model")
        with target.open("wb") as file:
            self._client.download(f"{model}/file?format=liblinear", file)
        say(f"\nGET {model}/file?format=liblinear: {format_size(target.stat().st_size)}")
        row = first_row(self._data.test)
        (prediction,) = self._client.json("POST", f"{model}/predict", {"rows": [row]})["predictions"]
        say(f"POST {model}/predict {_short(row)}: label {prediction['label']:g}")
        with self._data.test.open("rb") as file:
            self._client.upload("/v1/datasets/test", file)
        figures = self._client.json("POST", f"{model}/evaluate", {"dataset": "test"})
        say(f"POST {model}/evaluate: {figures['accuracy']:.2%} of {figures['rows']:,} {self._data.description} right")
        say(f"  ({self._data.remark})")

    def _timed(self, phase: str, do: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        result = do()
        self.seconds[phase] = time.perf_counter() - began
        return result


def compare(session: Session, memory: PeakMemory, data: DemoData) -> None:
    """Print time, memory and objective of StreamSVM, and of LIBLINEAR on the same file if it is installed."""
    result = session.job["result"]
    seconds = session.seconds["upload"] + session.seconds["train and certify"]
    peak = max(memory.peaks["reader"] + memory.peaks["trainer"], memory.peaks["ingest"])
    say("\n              seconds   memory   dual objective")
    say(_line("StreamSVM", seconds, peak, result["certificate"]["dual_objective"]))
    starts = liblinear.command()
    if starts is None:
        say("  LIBLINEAR   is not installed: apt install liblinear-tools shows its time here, too")
        return
    measured = liblinear.measure(starts, data.train, C, TOLERANCE, data.test.with_name("liblinear.model"))
    if isinstance(measured, str):
        say(f"  LIBLINEAR   {measured}")
        return
    say(_line("LIBLINEAR", measured.seconds, measured.peak_bytes, measured.objective))
    say("  Both read the same text and stop at the same M+ - M-. StreamSVM's memory is its reader's and its trainer's")
    say("  (about 100 MiB of each are Python and its libraries); it does not grow with the rows. LIBLINEAR's does.")


def show_seconds(seconds: Mapping[str, float]) -> None:
    """Print how long each phase took."""
    say("\n  seconds     " + ", ".join(f"{phase} {took:.1f}" for phase, took in seconds.items()))


def _line(name: str, seconds: float, peak: float, objective: float) -> str:
    return f"  {name:<10}  {seconds:7.1f}  {peak / _MIB:3.0f} MiB  {objective:.6f}"


def _short(row: Mapping[str, float]) -> str:
    return '{"rows": [{' + ", ".join(f'"{index}": {value:g}' for index, value in row.items()) + "}]}"


def what_next(program: Path) -> None:
    """Print the commands to try next."""
    say("\nWhat to do next:")
    say(f"  {program} train FILE -o my.model    your own LIBSVM text, CSV, Parquet, Arrow or npz, without a server")
    say(f"  {program} serve                     the service, with its pages on http://localhost:8000")
    say("  make demo DATA=FILE, README.md")
