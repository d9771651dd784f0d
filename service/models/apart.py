"""Child processes in which the service evaluates a model, or predicts the rows of a request's body.

python -m streamsvm.service.models.apart ASKED < BODY > RESULTS    predicts; ASKED has arguments of `_predicted` in JSON

A body may decompress to much more than its size, or crash its parser: that ends the child process, not the service.
"""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from functools import partial
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from streamsvm.reader.errors import InputError, too_large_to_read
from streamsvm.reader.ingest.decompress import HEAD_BYTES, is_compressed
from streamsvm.reader.ingest.run import read_chunks
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.service.datasets.ingesting import failure
from streamsvm.service.errors import ServiceError
from streamsvm.service.forks.awaited import fork_awaited
from streamsvm.service.forks.fork_server import fork
from streamsvm.service.models.loaded import samples
from streamsvm.service.models.predicting.answers import MOST_CHARACTERS, BinaryFile, Predicted, written
from streamsvm.service.models.predicting.predictor import MOST_FEATURES, Predictor
from streamsvm.service.models.predicting.raw_rows import opened
from streamsvm.service.settings import Settings
from streamsvm.service.shares import Room, RoomFile
from streamsvm.storage.errors import StorageError
from streamsvm.storage.machine.child import WorkLimit, die_with_parent, leave
from streamsvm.storage.machine.thread_work import check_wanted
from streamsvm.storage.models.model_file import read_model

_STDERR = 2
_MOST_SENT = 1 << 24  # bytes of a result
_LOOK_SECONDS = 0.1


async def evaluate_apart(model: Path, dataset: Path, curves: bool = False, threshold: str = "") -> dict[str, Any]:
    """Evaluate the model on the dataset, both given as directories, in a child process; cancelling kills it.

    Returns what `evaluate` returns. Raises ServiceError as `evaluate` does, and evaluation_failed if the process died.
    """
    command = [
        "streamsvm.service.models.evaluation.evaluation",
        str(model),
        str(dataset),
        "curves" if curves else "",
        threshold,
    ]
    with Path(os.devnull).open("rb") as nothing:
        child = await fork_awaited(command, nothing.fileno())
    try:
        code, output = await child.wait()
    finally:
        await child.end()
    if code == 0:
        return json.loads(output)
    if code == 1 and output.startswith(b'{"problem"'):
        raise ServiceError.of(json.loads(output)["problem"])
    raise ServiceError("evaluation_failed", "the evaluation's process died", "The service's log says more.")


def predict_apart(
    settings: Settings,
    predictor: Predictor,
    model_id: str,
    options: InputOptions,
    body: RoomFile,
    values: BinaryFile,
) -> Predicted:
    """Predict the rows of a body in a process that is forked, as `Predictor.predict_text` does in this one.

    values  an empty file that takes the decision values
    Raises ServiceError, and Unwanted if the client has left. In each case the child process has ended.
    """
    asked = {
        "model": str(settings.models / model_id),
        "strict": predictor.strict,
        "explain": predictor.explainer.most if predictor.explainer else 0,
        "most": settings.max_predict_bytes,
        "options": {name: getattr(options, name) for name in options.given},
        "scratch": str(settings.data_dir),
        "room": settings.max_answer_bytes,
    }
    body.seek(0)
    reading, writing = os.pipe()
    with Connection(reading, writable=False) as results:
        try:
            child = fork([__name__, json.dumps(asked)], (body.fileno(), writing, _STDERR))
        finally:
            os.close(writing)
        with child:
            try:
                while part := _next(results):
                    values.write(part)
                told = json.loads(_next(results))
            except EOFError:
                raise ServiceError.of(failure(child.wait(), b"").problem()) from None
            finally:
                child.kill()
    if "problem" in told:
        raise ServiceError.of(told["problem"])
    return Predicted(predictor, values, **told)


def _next(results: Connection) -> bytes:
    """Return the child's next message. Raises EOFError if the child has ended, Unwanted if the client has left."""
    check_wanted()
    while not results.poll(_LOOK_SECONDS):
        check_wanted()
    return results.recv_bytes(_MOST_SENT)


def load() -> None:
    """Load the code of predictions into the fork server, so that the processes it forks have loaded it already."""
    with suppress(ModuleNotFoundError):
        import_module("streamsvm.reader.parsers.tables.stored")
        import_module("pyarrow").array([])  # loads pandas, where it is installed
    for predictor, format_, row in samples():
        if format_ != "json":
            list(predictor.predict_text([row], None, InputOptions(format_)))


def main(text: str) -> int:
    """Body of the process that `predict_apart` forks; `text` has the arguments of `_predicted` as JSON."""
    die_with_parent()
    with Connection(os.dup(sys.stdout.fileno()), readable=False) as results:
        told = _predicted(results, **json.loads(text))
        results.send_bytes(b"")
        results.send_bytes(json.dumps(told).encode())
    return 0


def _predicted(
    results: Connection,
    model: str,
    strict: bool,
    explain: int,
    most: int,
    options: dict[str, Any],
    scratch: str,
    room: int,
) -> Mapping[str, Any]:
    """Predict the body on standard input: send decision values, return the other fields of `Predicted`, or a problem.

    model    directory of the model
    most     limit of the decompressed body's bytes
    scratch  directory for a compressed body whose parser has to seek; it may take `room` bytes
    """
    try:
        predictor = Predictor(read_model(Path(model)), strict=strict)
        predictor = predictor.explaining(explain) if explain else predictor
        memory = WorkLimit()
        try:
            # sys.stdin cannot be used: it is that of the fork server.
            with open(sys.stdin.fileno(), "rb", closefd=False) as body:
                memory.count(os.fstat(body.fileno()).st_size)
                is_packed = is_compressed(os.pread(body.fileno(), HEAD_BYTES, 0))
                spooled = partial(Room(Path(scratch), room).spooled, "") if is_packed else lambda _: nullcontext(body)
                limits, open_ = InputLimits(most, max_features=MOST_FEATURES), partial(opened, scratch=spooled)
                predictions = predictor.predict_text(read_chunks(body), limits, InputOptions(**options), open_)
                rows, unknown, columns, judged, why = written(predictor, predictions, results.send_bytes)
        except MemoryError:
            raise too_large_to_read(memory.most) from None
    except (InputError, ServiceError) as error:
        return {"problem": error.problem()}
    except StorageError as error:
        return {"problem": ServiceError(error.code, error.message, error.hint).problem()}
    names = [name[:MOST_CHARACTERS] for name in columns]
    told = {"rows": rows, "unknown_features": unknown, "unknown_columns": names, "judged": judged}
    return told if why is None else {**told, "explained": why}


if __name__ == "__main__":
    leave(main(*sys.argv[1:]))
