"""Settings of the service, read from the environment in this one place."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """
    data_dir           everything durable is below it
    cache_dir          where caches of running jobs are made; if they do not fit there, below data_dir
    max_upload_bytes   of a dataset's body as sent, and of its text once decompressed
    max_predict_bytes  of a body of rows to be predicted, as sent, and of its text once decompressed
    max_features       largest feature number a dataset may have
    max_attempts       how often a job is started before it counts as failed
    stall_seconds      a reader or trainer silent for longer is killed
    """

    data_dir: Path
    cache_dir: Path = Path("/dev/shm")
    max_upload_bytes: int = 1 << 40
    max_predict_bytes: int = 1 << 36
    max_features: int = 1 << 27
    max_attempts: int = 3
    stall_seconds: float = 120.0

    @classmethod
    def from_environment(cls, data_dir: Path | None = None) -> "Settings":
        """STREAMSVM_DATA_DIR, STREAMSVM_CACHE_DIR, STREAMSVM_MAX_UPLOAD_BYTES ...: the names above in upper case."""
        given: dict = {}
        for name, kind in _KINDS.items():
            text = os.environ.get(f"STREAMSVM_{name.upper()}")
            if text is not None:
                given[name] = kind(text)
        if data_dir is not None:
            given["data_dir"] = data_dir
        given.setdefault("data_dir", Path("data"))
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

    def create_directories(self) -> None:
        """Make what is missing below data_dir."""
        for directory in (self.datasets, self.jobs, self.models):
            directory.mkdir(parents=True, exist_ok=True)


_KINDS = {
    "data_dir": Path,
    "cache_dir": Path,
    "max_upload_bytes": int,
    "max_predict_bytes": int,
    "max_features": int,
    "max_attempts": int,
    "stall_seconds": float,
}
