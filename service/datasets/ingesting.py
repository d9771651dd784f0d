"""Starts the process that reads a dataset in, and translates its errors."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO

from streamsvm.reader.errors import InputError
from streamsvm.reader.options import InputOptions
from streamsvm.service.cluster.nodes.connecting import check_ray
from streamsvm.service.errors import ServiceError
from streamsvm.service.forks.fork_server import Forked, fork
from streamsvm.service.settings import Settings
from streamsvm.storage.machine.child import child_environment

_STDERR = 2
SPREAD = "streamsvm.service.cluster.dataset.spread"


def ingest_command(directory: Path, settings: Settings, options: InputOptions, urls: Sequence[str] = ()) -> list[str]:
    """Return the module, with arguments, that reads `urls`, or standard input, into the dataset `directory`.

    `failure` makes an error from the module's output.
    """
    limits = "--max-features", str(settings.max_features), "--max-bytes", str(settings.max_upload_bytes)
    sources = (f"--source={url}" for url in urls)
    return ["streamsvm.reader.ingest.run", str(directory), *options.arguments(), *limits, *sources]


def failure(code: int, output: bytes) -> InputError | ServiceError:
    """Make the error of an ingest process that ended with this exit code, which is not 0, and this output."""
    if code == 1 and output.startswith(b'{"problem"'):
        return InputError.of(json.loads(output)["problem"])
    if code < 0:
        how = f"reading the input ended its process ({signal.Signals(-code).name})"
        return InputError("too_large_to_read", f"{how}: it takes too much memory or time, or is damaged")
    return ingest_failed()


def ingest_failed() -> ServiceError:
    """Make the error of an ingest process that failed for another reason than its input."""
    return ServiceError("ingest_failed", "reading in the data failed", "The service's log says more.")


def _opened(source: IO[bytes] | Sequence[str]) -> AbstractContextManager[IO[bytes]]:
    """Open the child's standard input: an empty one for URLs; a file that the caller opened stays open."""
    return Path(os.devnull).open("rb") if isinstance(source, Sequence) else nullcontext(source)


class Ingesting:
    """A child process that reads files into a dataset; leaving the `with` statement kills the process.

    The process is forked, but started anew if other machines take part. Raises InputError or ServiceError.

    source    an open file, or URLs and patterns of files, see reader.sources
    appends   add the rows to the existing dataset
    machines  how many machines ("all": every one) each read and keep a range of the URLs' files, see
              `service.cluster.dataset.spread`; None: this machine reads all
    """

    def __init__(
        self,
        source: IO[bytes] | Sequence[str],
        directory: Path,
        settings: Settings,
        options: InputOptions,
        appends: bool = False,
        machines: int | str | None = None,
    ) -> None:
        urls = source if isinstance(source, Sequence) else ()
        command = ingest_command(directory, settings, options, urls)
        if machines is not None:
            check_ray(settings.ray_address)
            command[0] = SPREAD
            command += [f"--machines={machines}", f"--ray={settings.ray_address}"]
        if appends:
            command.append("--append")
        reading, writing = os.pipe()
        self._output = os.fdopen(reading, "rb")
        with os.fdopen(writing, "wb") as output, _opened(source) as file:
            if machines is None:
                self._child: Forked | subprocess.Popen = fork(command, (file.fileno(), output.fileno(), _STDERR))
            else:
                self._child = subprocess.Popen(
                    [sys.executable, "-m", *command],
                    stdin=file,
                    stdout=output,
                    env=child_environment(),
                    # A Ctrl-C must reach this process only, which then ends its child.
                    start_new_session=True,
                )

    def is_done(self) -> bool:
        """Whether the dataset is complete. Raises InputError or ServiceError if the process has failed."""
        code = self._child.poll()
        if code:
            raise failure(code, self._output.read())
        return code == 0

    def wait(self) -> None:
        """Wait until the dataset is complete. Raises InputError or ServiceError if the process has failed."""
        self._child.wait()
        self.is_done()

    def __enter__(self) -> "Ingesting":
        return self

    def __exit__(self, *_: object) -> None:
        with self._output, self._child:
            self._child.kill()
