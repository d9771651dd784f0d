"""Feature maps on a command line: names with commas between, or JSON."""

import argparse
import json
from typing import Any

from streamsvm.storage.features import FEATURE_MAPS


def add_feature_option(parser: argparse.ArgumentParser) -> None:
    """The option of `streamsvm train`."""
    parser.add_argument(
        "--features",
        type=_features,
        metavar="MAPS",
        help="what rows go through before they are trained on, in order with commas between: "
        f"{', '.join(FEATURE_MAPS)}; or as JSON, "
        '["scale", {"pairs": {"bits": 18}}] (default: none); the model carries them: -o NAME.npz or NAME.json',
    )


def _features(text: str) -> Any:
    try:
        return json.loads(text) if text.startswith("[") else text.split(",")
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no JSON") from None
