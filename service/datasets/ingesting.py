"""The process that reads a dataset in."""

import json
import os
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
from streamsvm.service.processes.fork_server import Forked, fork
from streamsvm.service.settings import Settings
from streamsvm.storage.machine.child import child_environment

SPREAD = "streamsvm.service.cluster.dataset.spread"


def ingest_command(directory: Path, settings: Settings, options: InputOptions) -> list[str]:
    """Reads standard input, makes the dataset `directory`, and prints what `failure` understands."""
    return [sys.executable, "-m", "streamsvm.reader.ingest.run", *_arguments(directory, settings, options)]


def _arguments(directory: Path, settings: Settings, options: InputOptions, urls: Sequence[str] = ()) -> list[str]:
    limits = "--max-features", str(settings.max_features), "--max-bytes", str(settings.max_upload_bytes)
    return [str(directory), *options.arguments(), *limits, *(f"--source={url}" for url in urls)]


def failure(code: int, output: bytes) -> InputError | ServiceError:
    """Why the process ended with this exit code, not 0, and this output."""
    if code == 1 and output.startswith(b'{"problem"'):
        return InputError.of(json.loads(output)["problem"])
    return ingest_failed()


def ingest_failed() -> ServiceError:
    """It was not the input."""
    return ServiceError("ingest_failed", "reading in the data failed", "The service's log says more.")


def _opened(source: IO[bytes] | Sequence[str]) -> AbstractContextManager[IO[bytes]]:
    """Its standard input, which stays open if it was."""
    return Path(os.devnull).open("rb") if isinstance(source, Sequence) else nullcontext(source)


class Ingesting:
    """Reads a file in; leaving the context ends it. Errors are an InputError for a bad input, or a ServiceError.

    source   an open file, or URLs and patterns of files, see reader.sources
    forks    by the fork server of this thread
    appends  the rows to the dataset that is there
    machines that read URLs, each a part, and keep it, see `service.cluster.dataset.spread`; None: this one alone
    """

    def __init__(
        self,
        source: IO[bytes] | Sequence[str],
        directory: Path,
        settings: Settings,
        options: InputOptions,
        forks: bool = False,
        appends: bool = False,
        machines: int | str | None = None,
    ) -> None:
        urls = source if isinstance(source, Sequence) else ()
        command = ["streamsvm.reader.ingest.run", *_arguments(directory, settings, options, urls)]
        if machines is not None:
            check_ray(settings.ray_address)
            command[0] = SPREAD
            command += [f"--machines={machines}", f"--ray={settings.ray_address}"]
        if appends:
            command.append("--append")
        reading, writing = os.pipe()
        self._output = os.fdopen(reading, "rb")
        with os.fdopen(writing, "wb") as output, _opened(source) as file:
            if forks and machines is None:
                files = file.fileno(), output.fileno(), sys.stderr.fileno()
                self._child: Forked | subprocess.Popen = fork(command, files)
            else:
                self._child = subprocess.Popen(
                    [sys.executable, "-m", *command],
                    stdin=file,
                    stdout=output,
                    env=child_environment(),
                    # A Ctrl-C is for this process, which then ends its child itself.
                    start_new_session=True,
                )

    def is_done(self) -> bool:
        """Whether the dataset is complete; raises what went wrong."""
        code = self._child.poll()
        if code:
            raise failure(code, self._output.read())
        return code == 0

    def wait(self) -> None:
        """Until the dataset is complete; raises what went wrong."""
        self._child.wait()
        self.is_done()

    def __enter__(self) -> "Ingesting":
        return self

    def __exit__(self, *_: object) -> None:
        with self._output, self._child:
            self._child.kill()
