"""What the service does with a model, in one process: predicts with it, gives it out in every format.

python -m tests.end_to_end.wide_model MODEL_DIRECTORY ROWS

prints the bytes of each format, at most of the first pieces: LIBLINEAR's text has a line for each of 2^27 features.
"""

import json
import sys
from itertools import islice
from pathlib import Path

from streamsvm.service.models.exports import MODEL_FORMATS, ModelFormatError
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.models.registry import model_view
from streamsvm.storage.models.model_file import read_head, read_model

PIECES = 64  # of a mebibyte at most


def main(directory: Path, rows: Path) -> None:
    """Body of the program."""
    assert model_view({}, read_head(directory))["features"]
    model = read_model(directory)
    predictor = Predictor(model)
    assert sum(len(found.labels) for found in predictor.predict_text([rows.read_bytes()]))
    sizes = {}
    for name, format_ in MODEL_FORMATS.items():
        try:
            sizes[name] = sum(map(len, islice(format_.write(model), PIECES)))
        except ModelFormatError:
            continue
    print(json.dumps(sizes))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
