"""Does what is durable over and over; a line for each that is acknowledged.

    python -m tests.faults.endless DIRECTORY [--unsynced]

With --unsynced nothing is synced, which only a test of the tests wants: not even by SQLite, which is left out.
"""

import itertools
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import numpy as np

from reader.ingest.run import ingest
from service.records.store import Store
from storage.checkpoint import SLOTS, write_checkpoint
from storage.model_file import Model, write_model
from tests.faults.operations import OPTIONS, text

KEPT = 20  # datasets: the disk is small


def acknowledge(line: str) -> None:
    """In one piece: whoever listens hears all of it, or nothing."""
    os.write(sys.stdout.fileno(), line.encode())


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
