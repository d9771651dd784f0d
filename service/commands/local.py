"""What the commands that look at a data directory share."""

import argparse
from pathlib import Path


def add_local_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the data directory is, and whether a machine reads what is said."""
    parser.add_argument("--data-dir", type=Path, help="of the service (default: ./data)")
    parser.add_argument("--json", action="store_true", help="print a JSON object")
