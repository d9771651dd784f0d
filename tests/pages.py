"""The pages of documentation, and what stands in them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted({path for pattern in ("*.md", "[a-z]*/**/*.md") for path in ROOT.glob(pattern)})


def page(folder: str = ".") -> str:
    """The README of a folder."""
    return (ROOT / folder / "README.md").read_text()


def section(text: str, heading: str) -> str:
    """What stands below a heading, to the next of its level."""
    return text.split(f"## {heading}\n")[1].split("\n## ", maxsplit=1)[0]


def blocks(text: str, language: str) -> list[str]:
    """The blocks of code in this language, at whatever depth of a list."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
