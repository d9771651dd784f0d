"""Prints the OpenAPI document: python -m streamsvm.api.document > api/openapi.json (make openapi)."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from streamsvm.api.app import create_app
from streamsvm.service.settings import Settings

DOCUMENT = Path(__file__).with_name("openapi.json")


def document() -> dict[str, Any]:
    """Return the OpenAPI document, which /openapi.json also sends."""
    with tempfile.TemporaryDirectory() as directory:
        return create_app(Settings(Path(directory))).openapi()


if __name__ == "__main__":
    json.dump(document(), sys.stdout, indent=1)
    print()
