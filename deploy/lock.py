"""Write the exact versions the image is made of, with their hashes, below `locked`: make lock.

base.txt is of the package alone; each extra's file has what that needs besides; build.txt makes the package's wheel.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKED = ROOT / "deploy" / "locked"
EXTRAS = ("parquet", "onnx", "s3", "gcs", "azure", "ray")
_COMPILE = ("pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes")
_PLAIN = ("--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links")


def compiled(source: str, *options: str) -> list[str]:
    """The requirements that these come to, each with its hashes."""
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv), *_COMPILE, *_PLAIN, source, *options]
    text = subprocess.run(command, cwd=ROOT, input="setuptools\n", capture_output=True, text=True, check=True).stdout
    return re.findall(r"^[^\s#].*\n(?:[ \t]+.*\n)*", text, re.MULTILINE)


def main() -> None:
    """All files; the versions of all extras together are those of each."""
    project = "pyproject.toml"
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as together:
        together.writelines(compiled(project, *(f"--extra={extra}" for extra in EXTRAS)))
        together.flush()
        same = f"--constraint={together.name}"
        base = compiled(project, same)
        files = {extra: compiled(project, same, f"--extra={extra}") for extra in EXTRAS}
    own = {extra: [each for each in found if each not in base] for extra, found in files.items()}
    LOCKED.mkdir(exist_ok=True)
    for name, requirements in {"base": base, **own, "build": compiled("-")}.items():
        (LOCKED / f"{name}.txt").write_text("".join(requirements))


if __name__ == "__main__":
    main()
