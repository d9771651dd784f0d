"""What is durable, one operation a process, to be killed or failed at any of its system calls.

    python -m tests.faults.operations OPERATION DIRECTORY

Prints a line when the operation is acknowledged.
"""

import sys
from pathlib import Path

import numpy as np

from streamsvm.reader.ingest.append import append_rows
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.service.records.store import Store
from streamsvm.storage.models.model_file import Model, write_model
from streamsvm.storage.run.checkpoint import SLOTS, write_checkpoint
from tests.contracts.problems import libsvm_text, random_problem

OPTIONS = InputOptions(format="libsvm", index_base=1)


def text() -> list[bytes]:
    """A small input."""
    return [libsvm_text(*random_problem(40, 30))]


def upload(directory: Path) -> None:
    ingest(text(), directory / "dataset", OPTIONS, threads=1)


def append(directory: Path) -> None:
    append_rows(text(), directory / "dataset", OPTIONS, InputLimits(), threads=1)


def submit(directory: Path) -> None:
    Store(directory / "store").add_job("ds_1", {"number": 2})


def checkpoint(directory: Path) -> None:
    write_checkpoint(directory / SLOTS[0], {"number": 2}, {"alpha": np.full(50, 2.0)})


def publish(directory: Path) -> None:
    write_model(directory / "model", Model(np.arange(5.0), (1.0, -1.0), 1))


OPERATIONS = {operation.__name__: operation for operation in (upload, append, submit, checkpoint, publish)}

if __name__ == "__main__":
    OPERATIONS[sys.argv[1]](Path(sys.argv[2]))
    print("acknowledged", flush=True)
