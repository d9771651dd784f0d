"""Settings of the service, read from the environment in this one place."""

import ipaddress
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Settings:
    """
    data_dir           everything durable is below it
    cache_dir          where caches of running jobs are made; if they do not fit there, below data_dir
    import_dir         files below it can be imported by name; None: none can
    ray_address        of the Ray cluster for jobs on several machines: HOST:PORT, or auto; None: there is none
    import_sources     prefixes of object stores, such as s3://bucket/; what is below can be imported; none: nothing can
    host               address to listen on; one beyond loopback needs a token
    allowed_hosts      names under which the service is called, besides loopback ones and `host`
    trusted_proxies    addresses and networks of proxies that say who asked and whether by https
    max_upload_bytes   of a dataset's body as sent, and of its text once decompressed
    max_predict_bytes  of a body of rows to be predicted, as sent, and of its text once decompressed
    max_infer_bytes    of a body of tensors, and of the numbers in the answer to it
    max_answer_bytes   of disk for answers that are being made or sent, all together
    max_json_bytes     of a body of JSON
    max_features       feature numbers of a dataset are below it
    max_queued_jobs    jobs that wait at a time
    max_uploads        at a time; each is read in by a process of its own
    max_connections    open at a time; beyond, those that have sent no request yet are closed first
    header_seconds     in which a client must have sent the head of a request
    idle_seconds       that a connection stays open between two requests
    body_seconds       that a client may keep a body or an answer waiting
    least_bytes_per_second  of a body or an answer, beyond these seconds
    shutdown_seconds   that running requests get when the service ends
    max_crashes        so many without a newer checkpoint, or ten times as many in a pass, and a job counts as failed
    stall_seconds      a reader or trainer silent for longer is killed
    """

    data_dir: Path
    cache_dir: Path = Path("/dev/shm")
    import_dir: Path | None = None
    ray_address: str | None = None
    import_sources: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    allowed_hosts: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ("127.0.0.1", "::1")
    max_upload_bytes: int = 1 << 40
    max_predict_bytes: int = 1 << 36
    max_infer_bytes: int = 1 << 24
    max_answer_bytes: int = 1 << 34
    max_json_bytes: int = 1 << 20
    max_features: int = 1 << 27
    max_queued_jobs: int = 1000
    max_uploads: int = 4
    max_connections: int = 4096
    header_seconds: float = 10.0
    idle_seconds: int = 75
    body_seconds: float = 60.0
    least_bytes_per_second: float = 500.0
    shutdown_seconds: int = 5
    max_crashes: int = 5
    stall_seconds: float = 120.0

    @classmethod
    def from_environment(cls, data_dir: Path | None = None, host: str | None = None) -> "Settings":
        """STREAMSVM_DATA_DIR, STREAMSVM_CACHE_DIR, STREAMSVM_MAX_UPLOAD_BYTES ...: the names above in upper case."""
        given: dict[str, Any] = {"data_dir": Path("data")}
        for field in fields(cls):
            text = os.environ.get(f"STREAMSVM_{field.name.upper()}")
            if text is not None:
                given[field.name] = _READERS[field.type](text)
        given |= {name: value for name, value in (("data_dir", data_dir), ("host", host)) if value is not None}
        given["data_dir"] = given["data_dir"].absolute()
        return cls(**given)

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
        """Make what is missing below data_dir; what is made is for the user of this process alone."""
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        for directory in (self.datasets, self.jobs, self.models):
            directory.mkdir(parents=True, exist_ok=True)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


# How the text of a variable becomes a value of the field's type.
_READERS: dict[Any, Callable[[str], Any]] = {
    Path: Path, Path | None: Path, str: str, str | None: str, tuple[str, ...]: _names, int: int, float: float
}  # fmt: skip
