"""Carries out one recorded prediction, in a process that the worker forks.

    python -m streamsvm.service.predictions.process DATA_DIRECTORY PREDICTION_ID

Exit code 0: `result.json` has the result; 1, or that of OutOfSpace: `failure.json` has an error that another attempt
would also meet; others: a crash. The process has a lower priority than training.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from streamsvm.reader.errors import InputError
from streamsvm.service.errors import ModelFormatError, ServiceError, needing_space
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.models.registry import model_bytes
from streamsvm.service.predictions.engine import LEAST_BYTES_PER_SECOND, Engine, PredictionProgress, SignsOfLife
from streamsvm.service.predictions.request import PredictionRequest, format_of_destination, outputs_of
from streamsvm.service.predictions.spec import PROGRESS, PredictionSpec, check_free, destination_of, sources_of
from streamsvm.service.settings import Settings
from streamsvm.storage.errors import OutOfSpace, StorageError
from streamsvm.storage.machine.child import die_with_parent, leave
from streamsvm.storage.models.model_file import read_model
from streamsvm.storage.run.failure import leave_word

ASKED, RESULT, PIECES, SIGNS = "asked.json", "result.json", "pieces", "signs"
FAILED = 1
_NICE = 5
_MASK = 0o022  # umask: other users may read the destination; they cannot enter the data directory


def predict(settings: Settings, directory: Path) -> dict[str, Any]:
    """Carry out the prediction that `asked.json` describes. Raises InputError, ServiceError, StorageError, OSError."""
    asked = json.loads((directory / ASKED).read_text())
    spec, model_id = PredictionSpec.model_validate(asked["spec"]), asked["model_id"]
    signs = SignsOfLife(directory / SIGNS)
    signs.give(model_bytes(settings, model_id) / LEAST_BYTES_PER_SECOND)
    predictor = Predictor(read_model(settings.models / model_id))
    destination = destination_of(settings, spec.destination)
    if asked["attempt"] == 1:  # a later one may find the file of an attempt that was killed at its end
        check_free(spec, destination)
    dataset_id = asked.get("dataset_id")
    request = PredictionRequest(
        [] if spec.source is None else sources_of(settings, spec.source),
        format_of_destination(spec.destination, spec.format),
        spec.input_options(),
        tuple(spec.keep),
        outputs_of(predictor, spec.outputs),
        None if dataset_id is None else settings.datasets / dataset_id,
        spec.explain,
    )
    last: list[PredictionProgress] = []

    def progress(seen: PredictionProgress) -> None:
        last[:] = [seen]
        staged = directory / f".{PROGRESS}"
        staged.write_text(json.dumps(seen._asdict()))
        staged.replace(directory / PROGRESS)

    engine = Engine(predictor, request, directory / PIECES, progress=progress, name=directory.name, sign=signs.give)
    figures = engine.run(destination)
    judged = figures.summary(predictor)
    return {**last[0]._asdict(), "unknown_features": figures.unknown_features, **({"judged": judged} if judged else {})}


def main(data_dir: str, prediction_id: str) -> int:
    """Run the process; return its exit code."""
    die_with_parent()
    os.umask(_MASK)
    os.nice(_NICE)
    settings = Settings.from_environment(Path(data_dir))
    directory = settings.predictions / prediction_id
    try:
        with needing_space():
            result = predict(settings, directory)
            (directory / RESULT).write_text(json.dumps(result))
    except InputError as error:
        problem = error.problem()
        place = f" (in {problem['at']})" if problem["at"] else ""
        leave_word(directory, error.code, f"{problem['detail']}{place}", problem["hint"])
    except (ServiceError, StorageError, ModelFormatError) as error:
        leave_word(directory, error.code, error.message, error.hint)
        if error.code == OutOfSpace.code:
            return OutOfSpace.exit_code  # on a full disk, `leave_word` may have failed, too
    else:
        return 0
    return FAILED


if __name__ == "__main__":
    leave(main(*sys.argv[1:]))
