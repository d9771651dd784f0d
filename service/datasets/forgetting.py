"""Removes the files of a dataset here and on the machines that keep parts of it.

A node that is busy or down does not remove its part. So the dataset's directory is renamed to `.UID.gone`, and removal
is tried again for some minutes, when the service starts, and when another dataset is deleted, for a month.
"""

import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

from streamsvm.service.datasets.ingesting import SPREAD
from streamsvm.service.records.unrecorded import remove, unmark
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.errors import StorageError
from streamsvm.storage.machine.child import child_environment

_GONE = ".gone"
_PATIENCE_SECONDS = 30 * 24 * 3600.0
_PAUSES = 1.0, 4.0, 15.0, 60.0, 240.0  # seconds, between the attempts of a thread
_one_at_a_time = threading.Lock()
_latest: list[threading.Thread] = []  # the only thread that goes on trying; it does so for all directories


def forget(directory: Path, settings: Settings, waits: bool = False) -> None:
    """Remove a dataset's files, and its parts on other machines: these in the background, unless `waits`."""
    try:
        manifest = read_manifest(directory)
    except (StorageError, OSError):
        manifest = None
    if manifest is None or not manifest.parts:
        remove(directory)
        return
    gone = directory.rename(directory.with_name(f".{manifest.uid}{_GONE}"))
    gone.touch()  # the month counts from this time
    unmark(directory)
    if waits:
        _drop_parts(directory.parent, settings)
    else:
        forget_parts(directory.parent, settings)


def is_gone(directory: Path) -> bool:
    """Whether the directory is that of a deleted dataset of which other machines may still have parts."""
    return directory.name.endswith(_GONE)


def forget_parts(datasets: Path, settings: Settings) -> None:
    """Start a thread that has the machines remove their parts of all deleted datasets of this directory."""
    thread = threading.Thread(target=_keep_dropping, args=(datasets, settings), name="forgetting", daemon=True)
    _latest[:] = [thread]
    thread.start()


def _keep_dropping(datasets: Path, settings: Settings) -> None:
    for pause in (*_PAUSES, 0.0):
        if _drop_parts(datasets, settings) or threading.current_thread() not in _latest:
            return
        time.sleep(pause)


def _drop_parts(datasets: Path, settings: Settings) -> bool:
    """Try once to have all machines remove their parts; return whether no part is left to be removed later."""
    if settings.ray_address is None:
        return True
    with _one_at_a_time:
        for directory in filter(is_gone, list(datasets.iterdir())):
            command = [sys.executable, "-m", SPREAD, str(directory), "--drop", f"--ray={settings.ray_address}"]
            done = subprocess.run(command, env=child_environment(), check=False, start_new_session=True)
            if done.returncode == 0 or time.time() - directory.stat().st_mtime > _PATIENCE_SECONDS:
                shutil.rmtree(directory, ignore_errors=True)
        return not any(map(is_gone, datasets.iterdir()))
