"""Removes the files of a dataset, wherever they are."""

import shutil
import subprocess
import sys
import threading
from pathlib import Path

from service.datasets.ingesting import SPREAD
from service.settings import Settings
from storage.child import child_environment
from storage.errors import StorageError
from storage.manifest import read_manifest


def forget(directory: Path, settings: Settings, waits: bool = False) -> None:
    """What is here at once; what machines have of it in the background, unless one `waits`, as far as they answer."""
    gone = directory.with_name(f".{directory.name}.gone")
    try:
        is_spread = bool(read_manifest(directory).parts)
    except (StorageError, OSError):
        is_spread = False
    if not is_spread:
        shutil.rmtree(directory, ignore_errors=True)
        return
    directory.rename(gone)
    thread = threading.Thread(target=_forget_parts, args=(gone, settings), name="forgetting")
    thread.start()
    if waits:
        thread.join()


def _forget_parts(directory: Path, settings: Settings) -> None:
    command = [sys.executable, "-m", SPREAD, str(directory), "--drop", f"--ray={settings.ray_address}"]
    subprocess.run(command, env=child_environment(), check=False, start_new_session=True)
    shutil.rmtree(directory, ignore_errors=True)
