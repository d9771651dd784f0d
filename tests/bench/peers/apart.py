"""Libraries that have the module name of another one: each is installed into a directory of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DIRECTORY = Path(sys.prefix) / "peers"


def installed(requirement: str, directory: Path = DIRECTORY) -> Path:
    """Where this library lies, put there by pip if it was not; ImportError if that fails.

    Its own requirements are those that the benches have already.
    """
    target = directory / requirement
    if not target.is_dir():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        done = subprocess.run(
            [*pip, "--target", str(target), requirement], stderr=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            raise ImportError(f"{requirement} cannot be installed: {(done.stderr.splitlines() or ['?'])[-1]}")
    return target
