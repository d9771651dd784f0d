"""The input of a command: a path, - for standard input, a URL, or a pattern of several files."""

import re
from pathlib import Path

from streamsvm.reader.sources.locations import is_pattern, is_url, located

Given = Path | str


def file_or_url(text: str) -> Given:
    """A path; a URL, or a pattern of several files, stays a text."""
    if is_url(text):
        # The reader tells what is wrong with it.
        is_one = text.lower().startswith("file:///") and not is_pattern(text)
        return Path(located(text).path) if is_one else text
    return text if is_pattern(text) and not Path(text).exists() else Path(text)


def plain_name(given: Given) -> str:
    """The last part of a path or URL, without the signs of a pattern."""
    name = given.name if isinstance(given, Path) else re.sub(r"\*|\[[^]]*\]", "", given.rstrip("/").rpartition("/")[2])
    return name.strip("-_") or "data"


def dataset_name(given: Given) -> str:
    """The name of a file, without endings, as a dataset's name."""
    name = re.sub(r"[^a-z0-9_-]+", "-", plain_name(given).split(".")[0].lower()).strip("-_")
    return name[:64] or "data"
