"""What an image is built from without a registry: Debian with Python, by debootstrap, and pip as it is set up here."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

SUITE, PYTHON = "bookworm", "3.11"
NAME = f"docker.io/library/python:{PYTHON}-slim"
_PACKAGES = "python3,python3-venv,python3-pip"
_FILES, _FOLDERS, _INDEXES = ("cert", "client-cert", "constraint"), ("find-links",), ("index-url", "extra-index-url")


def make_base(archive: Path) -> None:
    """Write the file system of such a machine to a tar archive; two minutes, and 300 MB."""
    root = archive.with_suffix(".root")
    subprocess.run(["rm", "-rf", "--one-file-system", root], check=True)
    command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", SUITE, str(root), *mirror()]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    (root / "usr/bin/python").symlink_to("python3")
    whole = archive.with_suffix(".new")
    subprocess.run(["tar", "-C", root, "-cf", whole, "."], check=True)
    whole.rename(archive)
    subprocess.run(["rm", "-rf", "--one-file-system", root], check=True)


def mirror() -> list[str]:
    """Where this machine's apt gets the suite from; nothing if it does not: debootstrap knows a place."""
    listed = ["apt-get", "indextargets", "--format", "$(ORIGIN) $(CODENAME) $(COMPONENT) $(REPO_URI)"]
    try:
        lines = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return []
    fitting = [line.split()[3] for line in lines if line.split()[:3] == ["Debian", SUITE, "main"]]
    return fitting[:1]


def pip_mounts(directory: Path) -> list[str]:
    """Options of a build that lend it this machine's pip: its configuration, certificates and local packages.

    They are mounted while it runs, so nothing of them stays in the image.
    """
    settings = pip_settings()
    config = directory / "pip.conf"
    config.write_text(
        "[global]\n" + "".join(f"{name} = {' '.join(value.split())}\n" for name, value in settings.items())
    )
    paths = {str(path) for name, value in settings.items() for path in lent(name, value)}
    return [f"--volume={config}:/etc/pip.conf:ro", *(f"--volume={path}:{path}:ro" for path in sorted(paths))]


def pip_settings() -> dict[str, str]:
    """Of its files and variables, by name; a variable wins."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^(global|install|:env:)\.([\w-]+)=(.*)$", listed, re.MULTILINE)
    found.sort(key=lambda setting: setting[0] == ":env:")
    return {name: ast.literal_eval(value) for _, name, value in found}


def lent(name: str, value: str) -> list[Path]:
    """The files and folders here that a setting is about: the links of an index lead to what lies beside it."""
    if name not in _FILES + _FOLDERS + _INDEXES:
        return []
    paths = [Path(urlsplit(word).path) for word in value.split() if urlsplit(word).scheme in ("", "file")]
    return [path.parent if name in _INDEXES else path for path in paths if path.is_absolute() and path.exists()]
