"""A service whose processes are killed and stopped at random, and what must hold of it whatever happens."""

import os
import signal
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

import httpx
import numpy as np

from storage.model_file import Model, read_model
from tests.end_to_end.service import ENDED, Service, wait_for

KINDS = ("reader.process", "trainer.process", "service.worker", "-m api", "")  # the last: all at once
SHARES = (0.3, 0.3, 0.25, 0.08, 0.07)
PATIENCE_SECONDS = 120


class Ordeal:
    """Jobs on a service that is never left alone; `promises` at any time says what was broken.

    acknowledged   what the service has said it has: datasets and jobs by name or id, and the models' bytes
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

    def strike(self) -> str:
        """Kill one kind of process, or all, or stop the reader or the trainer; returns what was done."""
        self.faults += 1
        what = str(self._rng.choice(KINDS, p=SHARES))
        number = signal.SIGSTOP if what in KINDS[:2] and self._rng.random() < 0.2 else signal.SIGKILL
        for pid in self.service.processes.alive(what):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        if what in KINDS[3:]:
            # As a process manager would; what it started goes with it.
            self.service.wait(10)
            self.service.start()
        return f"{number.name} {what or 'all'}"

    def pause(self) -> None:
        """A random while: mostly too short to recover in, at times long enough to get on."""
        longest = 3.0 if self._rng.random() < 0.25 else 0.3
        time.sleep(float(self._rng.uniform(0, longest)))

    def look(self) -> None:
        """Note what is acknowledged by now, and compare it with what was before."""
        service = self.service
        assert {name: service.get(f"/v1/datasets/{name}")["uid"] for name in self.datasets} == self.datasets
        for job_id, before in self.jobs.items():
            shown = service.job(job_id)
            if before["state"] in ENDED:
                assert shown["state"] == before["state"], f"{job_id} was {before['state']}, is {shown['state']}"
                assert shown["model_id"] == before["model_id"]
            self.jobs[job_id] = shown
            if shown["state"] == "succeeded":
                self._look_at_model(shown["model_id"])
        for kind in KINDS[:2]:
            assert len(set(self.runs(kind))) <= 1, f"{kind} runs twice"

    def runs(self, kind: str) -> list[str]:
        """Run directories of the processes of a kind that can run: not those a killed parent takes with it."""
        return [run for pid in self.service.processes.alive(kind) if (run := _run_of(pid))]

    def finish(self) -> None:
        """Let all jobs come to their end, and look for what is left over."""
        wait_for(lambda: all(self.service.job(job)["state"] in ENDED for job in self.jobs), PATIENCE_SECONDS)
        self.look()
        wait_for(lambda: self.service.run_directories() == [], 10)
        check_store(self.service.data_dir)
        assert self.service.processes.run("doctor", "--data-dir", self.service.data_dir).returncode == 0

    def model(self, job_id: str) -> Model:
        """That of a job."""
        return read_model(self.service.data_dir / "models" / self.jobs[job_id]["model_id"])

    def _look_at_model(self, model_id: str) -> None:
        response = httpx.get(f"{self.service.url}/v1/models/{model_id}/file?format=npz", timeout=60)
        assert response.status_code == 200, response.text
        assert self.models.setdefault(model_id, response.content) == response.content


def _run_of(pid: int) -> str | None:
    with suppress(FileNotFoundError, ProcessLookupError):
        parent = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]
        if parent != "1":
            return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[-2].decode()
    return None


def check_store(data_dir: Path) -> None:
    """Every job has gone from state to state as it may, into one that is its last; every model is of one job."""
    with closing(sqlite3.connect(data_dir / "streamsvm.sqlite")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        succeeded = connection.execute("SELECT model_id FROM jobs WHERE state = 'succeeded' ORDER BY 1").fetchall()
        assert connection.execute("SELECT id FROM models ORDER BY 1").fetchall() == succeeded
