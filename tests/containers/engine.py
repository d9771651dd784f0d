"""podman with everything it keeps in one folder, and away when the tests are: this machine's own is not touched."""

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from tests.containers.base_image import NAME, PYTHON, make_base, pip_mounts

IMAGE = "streamsvm:0.3.0"
_TOOLS = ("podman", "podman-compose", "runc", "debootstrap", "curl", "git")
_INIT = (Path("/usr/libexec/podman/catatonit"), Path("/usr/bin/catatonit"))
# Without it containers do not find each other by name: Ray's nodes would look for their head until the test gives up.
_NAMES = [Path(folder, name) for folder, name in (
    ("/usr/lib/podman", "aardvark-dns"), ("/usr/libexec/podman", "aardvark-dns"),
    ("/usr/lib/cni", "dnsname"), ("/usr/libexec/cni", "dnsname"), ("/opt/cni/bin", "dnsname"),
)]  # fmt: skip
_PATIENCE_SECONDS = 3600
# No daemon raises limits for containers here, and more than this process may is refused.
_CONTAINERS_CONF = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[network]
network_config_dir = "{folder}/networks"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "{folder}/tmp"
volume_path = "{folder}/volumes"
"""
_STORAGE_CONF = """
[storage]
driver = "{driver}"
graphroot = "{folder}/storage"
runroot = "{folder}/run"
"""


def reason_unusable() -> str | None:
    """Why there can be no containers here, or None."""
    if os.geteuid() != 0:
        return "only root may mount what they need"
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    missing += [] if any(path.exists() for path in _INIT) else ["catatonit"]
    missing += [] if any(path.exists() for path in _NAMES) else ["aardvark-dns"]
    return f"not installed: {', '.join(missing)}" if missing else None


class Engine:
    """podman and podman-compose, all of them in `folder`."""

    base = NAME

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
            "TMPDIR": str(folder / "tmp"),
        }

    def create(self) -> None:
        """Have folders and settings."""
        for name in ("networks", "tmp", "volumes", "storage", "run"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "containers.conf").write_text(_CONTAINERS_CONF.format(folder=self.folder))
        driver = "overlay" if self._has_overlay() else "vfs"
        (self.folder / "storage.conf").write_text(_STORAGE_CONF.format(folder=self.folder, driver=driver))

    def podman(self, *arguments: object, **options: object) -> str:
        """What it prints; an error of it is one here."""
        return self.run("podman", *arguments, **options)

    def run(self, *command: object, **options: object) -> str:
        """The same of another command."""
        options = {"env": self.environment, "timeout": _PATIENCE_SECONDS, **options}
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
        assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    def import_base(self, archive: Path) -> None:
        """Have the image that ours is built from."""
        if not archive.exists():
            make_base(archive)
        self.podman("import", archive, NAME)

    def build(self, tree: Path, name: str = IMAGE, **arguments: str) -> str:
        """Build a tree's image; its id."""
        arguments = {"PYTHON": PYTHON, **arguments}
        options = [f"--build-arg={key}={value}" for key, value in arguments.items()]
        options += ["--pull=never", *pip_mounts(self.folder)]
        self.podman("build", *options, "--file", "Dockerfile", "--tag", name, "..", cwd=tree / "deploy")
        return self.podman("image", "inspect", "--format", "{{.Id}}", name).strip()

    def remove(self) -> None:
        """Leave nothing: containers, networks, mounts, images."""
        if not self.folder.exists():
            return
        for pid in processes_in(self.folder):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for command in (["pod", "rm", "--all", "--force"], ["rm", "--all", "--force", "--time", "0"]):
            self.podman(*command)
        self.podman("network", "prune", "--force")
        self.podman("volume", "rm", "--all", "--force")
        self.podman("rmi", "--all", "--force")
        for mount in reversed(mounts_below(self.folder)):
            subprocess.run(["umount", "--lazy", mount], check=True)
        subprocess.run(["rm", "-rf", "--one-file-system", self.folder], check=True)

    def _has_overlay(self) -> bool:
        """Whether layers can lie over one another here; else each of them is a copy of all below."""
        layers = [self.folder / "tmp" / name for name in ("lower", "upper", "work", "merged")]
        for layer in layers:
            layer.mkdir()
        lower, upper, work, merged = layers
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        command = ["mount", "-t", "overlay", "-o", options, "overlay", str(merged)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return False
        subprocess.run(["umount", str(merged)], check=True)
        return True


def processes_in(folder: Path) -> list[int]:
    """Processes whose root lies in a folder: of a build that was interrupted, no command knows them any more."""
    return [
        int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal() and _root_is_in(folder, entry)
    ]


def _root_is_in(folder: Path, process: Path) -> bool:
    try:
        mounts = [line for line in (process / "mountinfo").read_text().splitlines() if line.split()[4] == "/"]
    except OSError:  # it has ended
        return False
    return any(str(folder) in mount for mount in mounts)


def mounts_below(folder: Path) -> list[str]:
    """Mount points in a folder, in the order they were mounted."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in points if Path(point).is_relative_to(folder)]
