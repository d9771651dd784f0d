"""What is installed is `streamsvm` alone. Its rooms are folders here, the interface for Python is a folder of its own.

All else about the package stands in pyproject.toml.
"""

from pathlib import Path

from setuptools import setup

ROOMS = ("api", "reader", "service", "storage", "trainer")
PYTHON = Path("api/python")  # it is the package `streamsvm`


def packages() -> list[str]:
    """The names of all packages, of the folders that have modules."""
    folders = {path.parent for room in ROOMS for path in Path(room).rglob("__init__.py")} - {PYTHON}
    return ["streamsvm", *sorted(".".join(("streamsvm", *folder.parts)) for folder in folders)]


setup(packages=packages())
