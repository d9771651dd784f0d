"""The command of a folder of benches: runs them by name, prints their tables, writes them down if asked."""

from __future__ import annotations

import argparse
import os
import platform
import re
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.bench.commit import commit

Bench = Callable[[], Iterator[str]]
# name -> what yields its lines of Markdown, or its parts by name. A bench or part has a section in the results.
Benches = Mapping[str, Bench | Mapping[str, Bench]]

_LIBRARIES = ("numpy", "numba", "lmdb", "zstandard", "liblinear-official")
_SETTINGS = ("SIZE", "REPEATS", "BIG", "WINDOW", "ROWS", "SEEDS", "LIMIT", "SETS")


def main(module: str, description: str, benches: Benches, results: Path | None = None) -> int:
    """Body of `python -m MODULE [NAME [PART ...] ...]`, with the option --write if there is a file of results."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("words", nargs="*", metavar="NAME", help=f"of {_choice(benches)} (default: all)")
    if results:
        parser.add_argument("--write", action="store_true", help=f"put the results into {results.name}")
    options = parser.parse_args()
    try:
        wanted = chosen(options.words, benches)
    except ValueError as error:
        parser.error(str(error))
    # Unwind as Ctrl-C does, so that no process and no file stays.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for name, bench in wanted.items():
        lines = _run(name, bench, f"{module} {name}")
        if results and options.write:
            write(lines, results)
    return 0


def chosen(words: Sequence[str], benches: Benches) -> dict[str, Bench]:
    """The benches, by the headings of their sections, that these words name.

    Words after a bench of several parts name some of these; all are meant if none is. Raises ValueError.
    """
    wanted: dict[str, list[str]] = {}
    last: str | None = None
    for word in words or benches:
        if word in benches:
            last = word
            wanted.setdefault(word, [])
        elif last is not None and word in _parts(benches[last]):
            wanted[last].append(word)
        else:
            raise ValueError(f"no such bench: {word}")
    found: dict[str, Bench] = {}
    for name, some in wanted.items():
        bench = benches[name]
        if callable(bench):
            found[name] = bench
        else:
            found |= {f"{name} {part}": bench[part] for part in some or bench}
    return found


def _parts(bench: Bench | Mapping[str, Bench]) -> Iterable[str]:
    return () if callable(bench) else bench


def _choice(benches: Benches) -> str:
    parts = {name: " ".join(f"[{part}]" for part in _parts(bench)) for name, bench in benches.items()}
    return ", ".join(f"{name} {words}".strip() for name, words in parts.items())


def write(lines: list[str], results: Path) -> None:
    """Replace the section of the results with the same heading, or add one."""
    head, *sections = (part.rstrip("\n") for part in re.split(r"(?m)^(?=## )", results.read_text()))
    kept = [section for section in sections if not section.startswith(lines[0] + "\n")]
    position = next((place for place, section in enumerate(sections) if section not in kept), len(kept))
    kept.insert(position, "\n".join(lines))
    results.write_text("\n\n".join([head, *kept]) + "\n")


def _run(name: str, bench: Bench, command: str) -> list[str]:
    """Run a bench, printing as it goes; returns what it printed."""
    lines = [f"## {name}", "", *circumstances(command)]
    print("\n".join(lines), flush=True)
    for line in bench():
        print(line, flush=True)
        lines.append(line)
    return lines


def circumstances(command: str) -> list[str]:
    """When, where and with what a bench runs; the load is that of the minute before."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = f"{os.cpu_count()} cores ({_processor()}), {memory:.0f} GiB of memory, load {os.getloadavg()[0]:.1f}"
    libraries = ", ".join(f"{library} {_version(library)}" for library in _LIBRARIES)
    settings = "".join(f"{name}={os.environ[name]} " for name in _SETTINGS if name in os.environ)
    return [
        f"{datetime.now(UTC):%Y-%m-%d}; {machine};",
        f"Python {platform.python_version()}, {libraries};",
        f"{_measured()}; `{settings}python -m {command}`.",
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


def _measured() -> str:
    """The commit that is measured."""
    name = commit()
    return f"commit {name}" if name else "of no commit"
