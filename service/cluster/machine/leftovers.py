"""Removes a directory when this process ends, however that comes about."""

import os
import shutil
import subprocess
from pathlib import Path

# The shell leaves a grandchild behind: Ray ends the children of an actor with the actor.
_WAIT = 'exec 3<&0; (cat <&3; rm -rf -- "$0") > /dev/null 2>&1 &'


class Leftovers:
    """A process that removes a directory when this process has ended. `remove` removes it at once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        reading, self._writing = os.pipe()
        subprocess.run(["sh", "-c", _WAIT, str(directory)], stdin=reading, start_new_session=True, check=True)
        os.close(reading)

    def remove(self) -> None:
        """The directory is gone when it returns."""
        shutil.rmtree(self._directory, ignore_errors=True)
        os.close(self._writing)
