"""Write the exact versions the image is made of, with their hashes, below `locked`: make lock.

base.txt has the package's requirements, an extra's file those that it adds, build.txt those of making the wheel.
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
    """Resolve a file of requirements; return exact versions, each with its hashes."""
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv), *_COMPILE, *_PLAIN, source, *options]
    text = subprocess.run(command, cwd=ROOT, input="setuptools\n", capture_output=True, text=True, check=True).stdout
    return re.findall(r"^[^\s#].*\n(?:[ \t]+.*\n)*", text, re.MULTILINE)


def main() -> None:
    """Write all files; a package has the same version in each of them."""
    project = "pyproject.toml"
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as together:
        together.writelines(compiled(project, *(f"--extra={extra}" for extra in EXTRAS)))
        together.flush()
        same = f"--constraint={together.name}"
        base = compiled(project, same)
        files = {extra: compiled(project, same, f"--extra={extra}") for extra in EXTRAS}
    added = {extra: [each for each in needed if each not in base] for extra, needed in files.items()}
    LOCKED.mkdir(exist_ok=True)
    for name, requirements in {"base": base, **added, "build": compiled("-")}.items():
        (LOCKED / f"{name}.txt").write_text("".join(requirements))


if __name__ == "__main__":
    main()
