"""Runs benches by name, all of them without one, and prints their tables.

python -m tests.bench [NAME ...] [--write]

The environment variable SIZE (1GB) is how much text is generated at most, TMPDIR where it lies while a bench runs.

`--write` also puts them into RESULTS.md, each in the place of its own last results.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.bench import acceptance, comparison, disk, exploration, growth, ingest, kernel, reader_speed

# name -> what yields its lines of Markdown. Each has a section of its name in RESULTS.md.
BENCHES: dict[str, Callable[[], Iterator[str]]] = {
    "acceptance": acceptance.run,
    "ingest": ingest.run,
    "comparison": comparison.run,
    "kernel": kernel.run,
    "reader": reader_speed.run,
    "exploration": exploration.run,
    "disk": disk.run,
    "growth": growth.run,
}

RESULTS = Path(__file__).with_name("RESULTS.md")
_LIBRARIES = ("numpy", "numba", "lmdb", "zstandard", "liblinear-official", "scikit-learn", "vowpalwabbit")


def circumstances(name: str) -> list[str]:
    """When, where and with what a bench ran."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    libraries = ", ".join(f"{library} {_version(library)}" for library in _LIBRARIES)
    size = f"SIZE={os.environ['SIZE']} " if "SIZE" in os.environ else ""
    return [
        f"{datetime.now(UTC):%Y-%m-%d}; {os.cpu_count()} cores ({_processor()}), {memory:.0f} GiB of memory;",
        f"Python {platform.python_version()}, {libraries};",
        f"{_commit()}; `{size}python -m tests.bench {name}`.",
        "",
    ]


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()


def _commit() -> str:
    """What was measured; `-dirty` if it was more than the commit has."""
    command = ["git", "describe", "--always", "--dirty"]
    found = subprocess.run(command, cwd=RESULTS.parent, capture_output=True, text=True, check=False)
    return f"commit {found.stdout.strip()}" if found.returncode == 0 else "of no commit"


def run(name: str) -> list[str]:
    """Run a bench, printing as it goes; returns what it printed."""
    lines = [f"## {name}", "", *circumstances(name)]
    print("\n".join(lines), flush=True)
    for line in BENCHES[name]():
        print(line, flush=True)
        lines.append(line)
    return lines


def write(lines: list[str]) -> None:
    """Replace the section of RESULTS.md with the same heading, or add one."""
    head, *sections = re.split(r"(?m)^(?=## )", RESULTS.read_text())
    mine = "\n".join(lines) + "\n\n"
    kept = [section for section in sections if not section.startswith(lines[0] + "\n")]
    position = next((place for place, section in enumerate(sections) if section not in kept), len(kept))
    kept.insert(position, mine)
    RESULTS.write_text((head.rstrip("\n") + "\n\n" + "".join(kept)).rstrip("\n") + "\n")


def main() -> int:
    """Body of the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHES)} (default: all)")
    parser.add_argument("--write", action="store_true", help=f"put the results into {RESULTS.name}")
    options = parser.parse_args()
    unknown = set(options.names) - set(BENCHES)
    if unknown:
        parser.error(f"no such bench: {', '.join(sorted(unknown))}")
    # Unwind as Ctrl-C does, so that no process and no file stays.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for name in options.names or BENCHES:
        lines = run(name)
        if options.write:
            write(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
