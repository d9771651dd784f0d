"""What a command reads: a file by its path, - for standard input, or files by a URL or a pattern."""

import re
from pathlib import Path

from streamsvm.reader.sources.locations import is_pattern, is_url, located

Given = Path | str


def file_or_url(text: str) -> Given:
    """A path; of a store, or of several files, the text as it is."""
    if is_url(text):
        # What is wrong with it is told by who reads it.
        is_one = text.lower().startswith("file:///") and not is_pattern(text)
        return Path(located(text).path) if is_one else text
    return text if is_pattern(text) and not Path(text).exists() else Path(text)


def plain_name(given: Given) -> str:
    """The last part of a path or URL, without what makes a pattern of it."""
    name = given.name if isinstance(given, Path) else re.sub(r"\*|\[[^]]*\]", "", given.rstrip("/").rpartition("/")[2])
    return name.strip("-_") or "data"


def dataset_name(given: Given) -> str:
    """A dataset's name made of a file's, without endings."""
    name = re.sub(r"[^a-z0-9_-]+", "-", plain_name(given).split(".")[0].lower()).strip("-_")
    return name[:64] or "data"
