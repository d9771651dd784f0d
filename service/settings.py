"""Settings of the service, read from the environment in this one place."""

import ipaddress
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Settings:
    """Settings of the service. A comment beside or above a field says what it means; service/README.md says more."""

    data_dir: Path  # everything durable is below it
    cache_dir: Path = Path("/dev/shm")  # for caches of running jobs; a cache that does not fit there is below data_dir
    import_dir: Path | None = None  # files below it can be imported by name; None: no file can
    ray_address: str | None = None  # HOST:PORT, or auto, of the Ray cluster for jobs on several machines; None: none
    export_dir: Path | None = None  # predictions of files can be written below it; None: nowhere on this machine
    export_destinations: tuple[str, ...] = ()  # prefixes of URLs that predictions can be written to
    import_sources: tuple[str, ...] = ()  # prefixes of URLs that can be imported, such as s3://bucket/
    host: str = "127.0.0.1"  # address to listen on; one beyond loopback needs a token
    allowed_hosts: tuple[str, ...] = ()  # names that clients may use for the service, besides loopback names and `host`
    trusted_proxies: tuple[str, ...] = ()  # addresses and networks whose headers about the client are believed
    max_upload_bytes: int = 1 << 40  # limit of a dataset's body as sent, and of its text after decompression
    max_predict_bytes: int = 1 << 36  # limit of rows to predict as sent, and of their text after decompression
    max_answer_bytes: int = 1 << 34  # disk for rows to predict, and answers being made or sent, all together
    max_json_bytes: int = 1 << 20  # limit of a body of JSON
    # Memory that the API's process may take in addition to what it has when it starts. 0: half of the memory of the
    # machine or its control group, at least 1 GiB; a smaller value than 256 MiB counts as 256 MiB.
    max_api_bytes: int = 0
    max_features: int = 1 << 27  # feature numbers of a dataset are below this
    jobs_at_once: int = 2  # jobs that run at a time, if memory has room for them
    max_queued_jobs: int = 1000  # jobs that may be queued at a time; one client may have three quarters of them
    max_uploads: int = 4  # uploads at a time; a child process reads each of them in
    upload_wait: float = 600.0  # seconds for which an interrupted resumable upload waits for its client
    max_connections: int = 4096  # open connections; beyond it, those that have sent no request yet are closed first
    least_bytes_per_second: float = 500.0  # least rate of a body or an answer, after the first minute
    shutdown_seconds: int = 5  # seconds that running requests may still take when the service ends
    # A job fails after this many crashes without a newer checkpoint, or after ten times as many in one pass.
    max_crashes: int = 5
    # A reader, trainer or prediction without a heartbeat for longer is killed, unless it has announced the silence.
    stall_seconds: float = 120.0

    @classmethod
    def from_environment(cls, data_dir: Path | None = None, host: str | None = None) -> "Settings":
        """Read each field from the variable STREAMSVM_ and its name in upper case; the arguments take precedence."""
        values: dict[str, Any] = {"data_dir": Path("data")}
        for known in fields(cls):
            text = os.environ.get(f"STREAMSVM_{known.name.upper()}")
            if text is not None:
                values[known.name] = _READERS[known.type](text)
        values |= {name: value for name, value in (("data_dir", data_dir), ("host", host)) if value is not None}
        values["data_dir"] = values["data_dir"].absolute()
        return cls(**values)

    @property
    def datasets(self) -> Path:
        return self.data_dir / "datasets"

    @property
    def jobs(self) -> Path:
        return self.data_dir / "jobs"

    @property
    def models(self) -> Path:
        return self.data_dir / "models"

    @property
    def predictions(self) -> Path:
        return self.data_dir / "predictions"

    @property
    def database(self) -> Path:
        return self.data_dir / "streamsvm.sqlite"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def create_directories(self) -> None:
        """Make data_dir, which only this process's user may enter, and the directories below it."""
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        for directory in (self.datasets, self.jobs, self.models):
            directory.mkdir(parents=True, exist_ok=True)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


# type of a field -> a function that makes a value of it from the text of a variable.
_READERS: dict[Any, Callable[[str], Any]] = {
    Path: Path, Path | None: Path, str: str, str | None: str, tuple[str, ...]: _names,
    int: int, float: float,
}  # fmt: skip
