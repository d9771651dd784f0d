"""Does what is durable over and over; a line for each that is acknowledged.

    python -m tests.faults.endless DIRECTORY [--unsynced]

With --unsynced nothing is synced, which only a test of the tests wants: not even by SQLite, which is left out.
"""

import itertools
import os
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from streamsvm.reader.certificate.kept_values import HeldOut
from streamsvm.reader.ingest.run import ingest
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.lanes.lane_files import keep_outcomes
from streamsvm.service.jobs.plan.plan import plan_job
from streamsvm.service.records.store import Store
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.files.durable import make_directory
from streamsvm.storage.models.model_file import Model, write_model
from streamsvm.storage.run.checkpoint import SLOTS, write_checkpoint
from tests.faults.operations import OPTIONS, text

KEPT = 20  # datasets, and jobs with lanes: the disk is small
# Twelve lanes, two at a time, of which the first ones leave a fold out.
LANES_OF_FOLDS = 8
FOLDS = {"dataset": "d", "folds": 2, "C": [0.1, 0.5, 1.0, 2.0]}


def acknowledge(line: str) -> None:
    """In one piece: whoever listens hears all of it, or nothing."""
    os.write(sys.stdout.fileno(), line.encode())


def cross_validate(directory: Path, number: int) -> None:
    """What a worker keeps of the lanes of a job, as they come to be done."""
    plan = replace(plan_job(parse_spec(FOLDS), read_manifest(directory / "dataset1"), cores=1), at_once=2)
    job_dir, run = directory / f"job{number}", directory / "run"
    make_directory(job_dir)
    run.mkdir(exist_ok=True)
    for first in plan.firsts:
        running = replace(plan, number=first)
        if places := running.places_with_folds:
            rows = HeldOut(run, plan.n_rows, places)
            for place in places:
                rows.put(place, np.arange(first, 20 + first), *np.ones((2, 20)))
        about = {"result": {"number": number}, "job_passes": first, "elapsed_seconds": 0.0}
        keep_outcomes(
            job_dir,
            running,
            run,
            lambda _, a=about: Model(np.full(5, 1.0), (1.0, -1.0), 1, about=a),
            lambda _, a=about: a,
        )
        acknowledge(f"lanes {number} {first + len(running.running)}\n")


def main(directory: Path, submits: bool) -> None:
    """Does not return."""
    store = Store(directory / "store")
    with closing(sqlite3.connect(directory / "store")) as connection:
        connection.execute("INSERT INTO datasets (id, name, state, created_at) VALUES ('ds_1', 'd', 'ready', '')")
        connection.commit()
    data = text()
    for number in itertools.count(1):
        if number <= KEPT:
            ingest(data, directory / f"dataset{number}", OPTIONS, threads=1)
            acknowledge(f"upload {number}\n")
            cross_validate(directory, number)
        write_checkpoint(directory / SLOTS[0], {"number": number}, {"alpha": np.full(50, 2.0)})
        acknowledge(f"checkpoint {number}\n")
        write_model(directory / f"model{number}", Model(np.full(5, float(number)), (1.0, -1.0), 1))
        acknowledge(f"publish {number}\n")
        if submits:
            store.add_job("ds_1", {"number": number})
            acknowledge(f"submit {number}\n")


if __name__ == "__main__":
    is_unsynced = "--unsynced" in sys.argv
    if is_unsynced:
        os.fsync = lambda _descriptor: None
    main(Path(sys.argv[1]), submits=not is_unsynced)
