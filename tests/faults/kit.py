"""A service whose processes are killed and stopped at random, and what must hold of it whatever happens."""

import os
import signal
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

import httpx
import numpy as np

from streamsvm.storage.models.model_file import Model, read_model
from tests.end_to_end.service import ENDED, PLAIN, Service, wait_for

KINDS = (
    "streamsvm.reader.stream.process",
    "streamsvm.trainer.process",
    "streamsvm.service.processes.worker",
    "-m streamsvm.api",
    "",
)  # the last: all at once
API, ALL = KINDS[3:]
SHARES = (0.3, 0.3, 0.25, 0.08, 0.07)
STOPPED = 0.2  # of the faults stop a process, the others kill it
PATIENCE_SECONDS = 120


class Ordeal:
    """Jobs on a service that is never left alone; `look` at any time fails when a promise was broken.

    What the service has said it has is kept: datasets and jobs by name or id, and the models' bytes.
    """

    def __init__(self, service: Service, rng: np.random.Generator) -> None:
        self.service = service
        self._rng = rng
        self.datasets: dict[str, str] = {}
        self.jobs: dict[str, dict] = {}
        self.models: dict[str, bytes] = {}
        self.faults = 0

    def upload(self, name: str, text: bytes) -> None:
        """A dataset; it is acknowledged."""
        self.service.upload(name, text)
        self.datasets[name] = self.service.get(f"/v1/datasets/{name}")["uid"]

    def submit(self, **spec: object) -> str:
        """A job; it is acknowledged."""
        job = self.service.submit(**spec)
        self.jobs[job] = {"state": "queued"}
        return job

    def strike(self) -> None:
        """Kill or stop one kind of process, or kill all."""
        self.faults += 1
        what = str(self._rng.choice(KINDS, p=SHARES))
        is_stopped = what != ALL and self._rng.random() < STOPPED
        self._send(what, signal.SIGSTOP if is_stopped else signal.SIGKILL)
        if what == API and is_stopped:
            # Nobody but who started it can tell that it is silent; its children are looked after by no one meanwhile.
            time.sleep(float(self._rng.uniform(0, 2)))
            self._send(what, signal.SIGCONT)
        elif what in (API, ALL):
            # As a process manager would; what it started goes with it.
            self.service.wait(10)
            self.service.start()

    def _send(self, what: str, number: signal.Signals) -> None:
        for pid in self.service.processes.alive(what):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def pause(self) -> None:
        """A random while: mostly too short to recover in, at times long enough to get on."""
        longest = 3.0 if self._rng.random() < 0.25 else 0.3
        time.sleep(float(self._rng.uniform(0, longest)))

    def look(self) -> None:
        """Note what is acknowledged by now, and compare it with what was before."""
        service = self.service
        assert {name: service.get(f"/v1/datasets/{name}")["uid"] for name in self.datasets} == self.datasets
        shown = {job["id"]: job for job in self._listed()}
        assert shown.keys() == self.jobs.keys()
        for job_id, before in self.jobs.items():
            if before["state"] in ENDED:
                assert all(shown[job_id][key] == before[key] for key in ("state", "model_id", "transitions"))
            elif shown[job_id]["state"] == "succeeded":
                self._look_at_model(shown[job_id]["model_id"])
        self.jobs = {job_id: shown[job_id] for job_id in self.jobs}
        if self.models:
            self._look_at_model(str(self._rng.choice(list(self.models))))
        for kind in KINDS[:2]:
            assert len(set(self.runs(kind))) <= 1, f"{kind} runs twice"

    def runs(self, kind: str) -> list[str]:
        """Run directories of the processes of a kind that can run: not those a killed parent takes with it."""
        return [run for pid in self.service.processes.alive(kind) if (run := _run_of(pid))]

    def wait(self, job_id: str) -> None:
        """Let a job come to its end in peace."""
        wait_for(lambda: self.service.job(job_id)["state"] in ENDED, PATIENCE_SECONDS)
        self.look()

    def finish(self) -> None:
        """Let all jobs come to their end, and look for what is left over."""
        for job_id in self.jobs:
            self.wait(job_id)
        for model_id in self.models:
            self._look_at_model(model_id)
        wait_for(lambda: self.service.run_directories() == [], 10)
        check_store(self.service.data_dir)
        assert self.service.processes.run("doctor", "--data-dir", self.service.data_dir).returncode == 0

    def model(self, job_id: str) -> Model:
        """That of a job."""
        return read_model(self.service.data_dir / "models" / self.jobs[job_id]["model_id"])

    def _listed(self) -> list[dict]:
        page = {"next_page_token": ""}
        jobs = []
        while (token := page["next_page_token"]) is not None:
            page = self.service.get("/v1/jobs?page_size=200" + (token and f"&page_token={token}"))
            jobs += page["jobs"]
        return jobs

    def _look_at_model(self, model_id: str) -> None:
        response = httpx.get(f"{self.service.url}/v1/models/{model_id}/file?format=npz", **PLAIN)
        assert response.status_code == 200, response.text
        assert self.models.setdefault(model_id, response.content) == response.content


def _run_of(pid: int) -> str | None:
    with suppress(FileNotFoundError, ProcessLookupError):
        parent = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]
        if parent != "1":
            return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split()[-1].decode()
    return None


def check_store(data_dir: Path) -> None:
    """Every job has gone from state to state as it may, into one that is its last; every model is of one job."""
    with closing(sqlite3.connect(data_dir / "streamsvm.sqlite")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        succeeded = connection.execute("SELECT model_id FROM jobs WHERE state = 'succeeded' ORDER BY 1").fetchall()
        assert connection.execute("SELECT id FROM models ORDER BY 1").fetchall() == succeeded
