"""The commit that a bench measures."""

from __future__ import annotations

import subprocess
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
# What benches write: it changes nothing that they measure.
_RESULTS = ("tests/bench/**/RESULTS.md", "tests/bench/RESULTS.md", "tests/bench/**/*.png")


def commit() -> str | None:
    """The commit of the tree, `-dirty` behind it if the tree is more than the commit has; None outside git."""
    name = _git("rev-parse", "--short=8", "HEAD")
    if name is None:
        return None
    changes = _git(
        "status", "--porcelain", "--untracked-files=no", "--", ".", *(f":(exclude,glob){one}" for one in _RESULTS)
    )
    return f"{name}-dirty" if changes else name


def is_ancestor(name: str) -> bool:
    """Whether a commit is HEAD or before it."""
    return _git("merge-base", "--is-ancestor", name, "HEAD") is not None


def has_history() -> bool:
    """Whether the tree is a clone with all commits."""
    return _git("rev-parse", "--is-shallow-repository") == "false"


def _git(*words: str) -> str | None:
    """What git prints; None if it fails."""
    found = subprocess.run(["git", *words], cwd=TREE, capture_output=True, text=True, check=False)
    return None if found.returncode else found.stdout.strip()
