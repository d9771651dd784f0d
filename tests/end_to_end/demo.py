"""The whole service at work, for a newcomer: upload, ingest, train out of core, certify, download, predict.

python -m tests.end_to_end.demo [--data FILE] [--size 400MB] [--port 0]

Everything it starts and writes is gone when it ends, however it ends.
"""

import argparse
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import httpx

from reader.errors import InputError
from reader.ingest import read_chunks
from service.sizes import format_size
from tests.bench.generate import parse_size
from tests.end_to_end.demo_data import DemoData, generated, given, labels, largest_share
from tests.end_to_end.demo_memory import PeakMemory
from tests.end_to_end.demo_service import DemoFailed, checked, running_service
from tests.end_to_end.service import ENDED

C = 1.0
CACHE_SHARE = 10
TOLERANCE = RELATIVE_GAP = 1e-3
FAILED, INTERRUPTED = 1, 130
_POLL_SECONDS = 0.2
_MIB = 1 << 20


class Demo:
    """One session with the service, as any client would have it, told line by line."""

    def __init__(self, client: httpx.Client, data: DemoData, memory: PeakMemory) -> None:
        self._client = client
        self._data = data
        self._memory = memory
        self.seconds: dict[str, float] = {}

    def run(self) -> None:
        """The session."""
        dataset = self._timed("upload + ingest", self._upload)
        job_id = self._submit(dataset)
        job = self._timed("train + certify", lambda: self._watch(job_id))
        self._show_certificate(job)
        self._download(job["model_id"])
        accuracy = self._timed("predict", lambda: self._predict(job["model_id"]))
        self._show_summary(dataset, job, accuracy)

    def _upload(self) -> dict[str, Any]:
        size = self._data.train.stat().st_size
        say(f"\nPUT /v1/datasets/demo: {format_size(size)}, parsed, shuffled and compressed while they arrive")
        with self._data.train.open("rb") as file:
            dataset = self._ask("PUT", "/v1/datasets/demo", content=read_chunks(file))
        counts = ", ".join(f"{count:,} of label {label}" for label, count in list(dataset["label_counts"].items())[:2])
        say(f"  {dataset['rows']:,} rows ({counts}), {dataset['features']:,} features,")
        say(f"  {dataset['non_zeros']:,} non-zeros: {format_size(dataset['decoded_bytes'])} ready for training,")
        say(f"  {format_size(dataset['stored_bytes'])} in {dataset['blocks']} compressed blocks on disk")
        return dataset

    def _submit(self, dataset: dict[str, Any]) -> str:
        job = {
            "dataset": "demo", "C": C, "tolerance": TOLERANCE, "relative_gap": RELATIVE_GAP,
            "cache_bytes": dataset["decoded_bytes"] // CACHE_SHARE,
        }  # fmt: skip
        answer = self._client.post("/v1/jobs", json=job)
        if answer.status_code == 422 and answer.json()["code"] == "cache_too_small":
            # Long rows in little data: a tenth does not hold enough of them.
            job["cache_bytes"] = int(re.findall(r"\d+", answer.json()["hint"])[-1])
            answer = self._client.post("/v1/jobs", json=job)
        submitted = checked(answer)
        share = job["cache_bytes"] / dataset["decoded_bytes"]
        say(f"\nPOST /v1/jobs: linear SVM, hinge loss, C = {C:g},")
        say(f"  with a cache of {format_size(job['cache_bytes'])}, {share:.0%} of the data,")
        say(f"  until M+ - M- <= {TOLERANCE:g} or the certified relative gap <= {RELATIVE_GAP:g}")
        return submitted["id"]

    def _watch(self, job_id: str) -> dict[str, Any]:
        say("\n  pass    M+ - M-  relative gap   resident   updates/s  seconds")
        shown: list[dict[str, Any]] = []
        while True:
            # In this order: the passes of a job that has ended are all there.
            job = self._ask("GET", f"/v1/jobs/{job_id}")
            passes = self._ask("GET", f"/v1/jobs/{job_id}/history")["passes"]
            for record in passes[len(shown) :]:
                show_pass(record, shown[-1] if shown else None)
                shown.append(record)
            if job["state"] in ENDED:
                break
            time.sleep(_POLL_SECONDS)
        if job["state"] != "succeeded":
            failure = job["failure"] or {}
            raise DemoFailed(f"the job {job['state']}: {failure.get('message')}\n{failure.get('log_tail', '')}")
        return job

    def _show_certificate(self, job: dict[str, Any]) -> None:
        result = job["result"]
        certificate = result["certificate"]
        outcome = "converged" if result["converged"] else "not converged"
        say(f"\n  {outcome} ({result['stop_reason']}); certificate, over all rows at the final weights:")
        say(f"    primal objective {certificate['primal_objective']:.6f}, dual {certificate['dual_objective']:.6f}")
        say(f"    relative duality gap {certificate['relative_duality_gap']:.2e}, M+ - M- {certificate['gap']:.3g}")

    def _download(self, model_id: str) -> None:
        size = 0
        with self._client.stream("GET", f"/v1/models/{model_id}/file", params={"format": "liblinear"}) as answer:
            target = self._data.test.with_name("demo.model")
            with target.open("wb") as file:
                for chunk in answer.iter_bytes():
                    size += file.write(chunk)
        if answer.status_code != httpx.codes.OK or not size:
            raise DemoFailed("the model could not be downloaded")
        say(f"\nGET /v1/models/{model_id}/file?format=liblinear: {format_size(size)}")

    def _predict(self, model_id: str) -> float:
        say(f"POST /v1/models/{model_id}/predict")
        with self._data.test.open("rb") as file:
            headers = {"Content-Type": "text/libsvm"}
            answer = self._ask("POST", f"/v1/models/{model_id}/predict", content=read_chunks(file), headers=headers)
        expected = labels(self._data.test)
        predicted = [prediction["label"] for prediction in answer["predictions"]]
        if len(predicted) != len(expected):
            raise DemoFailed(f"{len(predicted)} predictions for {len(expected)} rows")
        accuracy = sum(map(float.__eq__, predicted, expected)) / len(expected)
        say(f"  {accuracy:.2%} of {len(expected):,} {self._data.description} right")
        say(f"  ({largest_share(expected):.2%} have the more frequent label{self._data.remark})")
        return accuracy

    def _show_summary(self, dataset: dict[str, Any], job: dict[str, Any], accuracy: float) -> None:
        cache_bytes, decoded_bytes = job["spec"]["cache_bytes"], dataset["decoded_bytes"]
        say("\nsummary")
        say(f"  accuracy        {accuracy:.2%}")
        say(f"  certified gap   {job['result']['certificate']['relative_duality_gap']:.2e}")
        say("  seconds         " + ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in self.seconds.items()))
        peaks = ", ".join(f"{role} {peak / _MIB:.0f}" for role, peak in self._memory.peaks.items())
        say(f"  peak MiB        {peaks}")
        say("                  (in each about 100 of interpreter and libraries, which the processes share)")
        ratio = f"1 to {decoded_bytes / cache_bytes:.1f}"
        say(f"  cache and data  {format_size(cache_bytes)} and {format_size(decoded_bytes)}: {ratio}")

    def _ask(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        return checked(self._client.request(method, path, **options))

    def _timed(self, phase: str, do: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        result = do()
        self.seconds[phase] = time.perf_counter() - began
        return result


def show_pass(record: dict[str, Any], before: dict[str, Any] | None) -> None:
    """A line of the table."""
    resident = format_size(record["resident_bytes"])
    updates = record["updates"] - (before["updates"] if before else 0)
    seconds = record["elapsed_seconds"] - (before["elapsed_seconds"] if before else 0.0)
    say(
        f"  {record['pass']:4d}  {record['gap']:9.4f}  {record['relative_gap_bound']:12.2e}"
        f"  {resident:>9}  {updates / max(seconds, 1e-9):10,.0f}  {record['elapsed_seconds']:7.1f}"
    )


def demonstrate(options: argparse.Namespace, directory: Path) -> None:
    """All of it, with what is temporary in `directory`."""
    began = time.perf_counter()
    if options.data:
        say(f"StreamSVM demo: trains on {options.data} with a tenth of it in memory")
        data = given(directory, options.data)
    else:
        say(f"StreamSVM demo: trains on {options.size / 1e6:,.0f} MB of text-like data with a tenth of it in memory")
        data = generated(directory, options.size)
    generating = time.perf_counter() - began
    with running_service(directory, options.port) as (client, memory):
        demo = Demo(client, data, memory)
        if not options.data:
            demo.seconds["generate"] = generating
        demo.run()


def say(line: str) -> None:
    """Print, at once."""
    print(line, flush=True)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    # Once only: what follows is the cleaning up.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def main() -> int:
    """Body of the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.end_to_end.demo", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, help="LIBSVM text, plain or compressed (default: generate it)")
    parser.add_argument("--size", type=parse_size, default="400MB", help="of the generated text (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="of the service (default: a free one)")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        with tempfile.TemporaryDirectory(prefix="streamsvm-demo-") as directory:
            demonstrate(options, Path(directory))
        return 0
    except KeyboardInterrupt:
        print("\ninterrupted; everything is cleaned up", file=sys.stderr)
        return INTERRUPTED
    except (DemoFailed, httpx.TransportError, InputError, OSError) as error:
        print(f"\nthe demo failed: {error}", file=sys.stderr)
        return FAILED


if __name__ == "__main__":
    sys.exit(main())
