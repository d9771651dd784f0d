"""What deploy/compose.yaml starts, without an engine: the same commands in the same environment, by an unprivileged
user without a home, on a file system that is read-only but for the volumes and /tmp's stand-in.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.end_to_end.service import Processes

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
USER = 10001

# The interpreter may lie in root's home: the user may read everything, and write what is its own.
_DROP = (
    f"setpriv --reuid {USER} --regid {USER} --clear-groups --no-new-privs --bounding-set -all,+dac_read_search "
    "--inh-caps -all,+dac_read_search --ambient-caps -all,+dac_read_search"
)
_MOUNTS = """
for volume in $VOLUMES; do mount --bind "$volume" "$volume"; done
for volume in $READ_ONLY; do mount --bind "$volume" "$volume"; mount -o remount,bind,ro "$volume"; done
mount -t tmpfs -o mode=1777 tmpfs "$TMPDIR"
mount -o remount,bind,ro /
cd /
"""


def compose() -> dict[str, Any]:
    """Return the compose file with its variables at their defaults."""
    text = (DEPLOY / "compose.yaml").read_text()
    return yaml.safe_load(re.sub(r"\$\{\w+(?::-([^}]*))?\}", r"\1", text))


def image_environment() -> dict[str, str]:
    """Return ENV of the Dockerfile's last stage."""
    stage = (DEPLOY / "Dockerfile").read_text().rsplit("\nFROM ", 1)[1]
    (block,) = re.findall(r"^ENV ((?:.*\\\n)*.*)$", stage, re.MULTILINE)
    return dict(re.findall(r"(\w+)=(\S+)", block.replace("\\\n", " ")))


def reason_unusable() -> str | None:
    """Return why this machine cannot run such containers, or None."""
    if os.geteuid() != 0:
        return "only root can make a read-only file system and become another user"
    probe = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f"mount -o remount,bind,ro / && {_DROP} true"],
        capture_output=True,
        check=False,
    )
    return None if probe.returncode == 0 else probe.stderr.decode().strip()


class Containers:
    """The containers of one compose project: `directory` is where its volumes are."""

    def __init__(self, directory: Path, kernels: Path) -> None:
        self.data, self.cache, self._tmp = (directory / name for name in ("data", "cache", "tmp"))
        for volume in (self.data, self.cache, self._tmp):
            volume.mkdir(parents=True)
            os.chown(volume, USER, USER)
        self._log = directory / "log"
        self._services = compose()["services"]
        # Of the image, but for its kernels: those of the tests were compiled for this machine.
        self._environment = {name: value for name, value in image_environment().items() if name != "NUMBA_CPU_NAME"} | {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "STREAMSVM_KERNELS": str(kernels),
            "NUMBA_CACHE_DIR": str(self._tmp / "kernels"),
            "STREAMSVM_DATA_DIR": str(self.data),
            "STREAMSVM_CACHE_DIR": str(self.cache),
            "TMPDIR": str(self._tmp),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self._processes = Processes(self.cache)

    def start(self, service: str, *more: str) -> subprocess.Popen:
        """`docker compose up SERVICE`."""
        with self._log.open("ab") as log:
            command = [*self._services[service]["command"], *more]
            return subprocess.Popen(self._command(service, "entrypoint", command), env={}, stdout=log, stderr=log)

    def run(self, service: str, *command: str) -> subprocess.CompletedProcess:
        """`docker compose run SERVICE COMMAND`."""
        arguments = self._command(service, "entrypoint", list(command))
        return subprocess.run(arguments, env={}, capture_output=True, text=True, timeout=120, check=False)

    def is_healthy(self, service: str, *more: str) -> bool:
        """Run the health check."""
        kind, *test = self._services[service]["healthcheck"]["test"]
        assert kind == "CMD"
        return subprocess.run(self._command(service, None, [*test, *more]), env={}, check=False).returncode == 0

    def shell(self, service: str, script: str) -> subprocess.CompletedProcess:
        """`docker compose exec SERVICE sh -c SCRIPT`."""
        command = self._command(service, None, ["sh", "-c", script])
        return subprocess.run(command, env={}, capture_output=True, text=True, check=False)

    def stop(self, service: str, process: subprocess.Popen) -> int:
        """SIGTERM, and the exit code, which must be there within the service's grace period."""
        process.send_signal(signal.SIGTERM)
        return process.wait(int(self._services[service]["stop_grace_period"].removesuffix("s")))

    def kernels(self, process: subprocess.Popen) -> set[str]:
        """Compiled kernels that a running container has."""
        folder = Path(f"/proc/{process.pid}/root{self._tmp}/kernels")
        return {str(path.relative_to(folder)) for path in folder.rglob("*.nbc")}

    def log(self) -> str:
        """Return the output of all containers."""
        return self._log.read_text()

    def kill(self) -> None:
        """Kill all processes."""
        self._processes.kill_all()

    def _command(self, service: str, entrypoint: str | None, command: list[str]) -> list[str]:
        mounts = {volume.split(":")[0]: volume.endswith(":ro") for volume in self._services[service]["volumes"]}
        volumes = {True: [], False: []}
        for name, path in (("data", self.data), ("cache", self.cache)):
            volumes[mounts[name]].append(str(path))
        environment = self._environment | self._services[service].get("environment", {})
        given = {**environment, "VOLUMES": " ".join(volumes[False]), "READ_ONLY": " ".join(volumes[True])}
        program = [str(DEPLOY / entrypoint)] if entrypoint else []
        script = f'set -e{_MOUNTS}exec {_DROP} "$@"'
        unmounted = ("STREAMSVM_IMPORT_DIR", "STREAMSVM_EXPORT_DIR")
        pairs = [f"{name}={value}" for name, value in given.items() if value is not None and name not in unmounted]
        return ["/usr/bin/env", "-i", *pairs, "unshare", "--mount", "sh", "-c", script, "sh", *program, *command]
