"""What the texts of LIBLINEAR and of LIBSVM have in common: a header of lines that begin with a name, C's numbers."""

from collections.abc import Collection
from typing import BinaryIO

from service.models.exports.errors import ModelFormatError
from service.models.names import is_c_int
from storage.model_file import Label

HEADER_BYTES = 1 << 20  # of a line of the header: there may be many labels


def read_header(file: BinaryIO, program: str, names: Collection[str], end: str) -> dict[str, list[str]]:
    """The words after each name of the header; leaves `file` after the line `end`.

    ModelFormatError for a name that is not among `names`, or a file that ends before.
    """
    header: dict[str, list[str]] = {}
    while line := file.readline(HEADER_BYTES):
        name, *words = line.decode("ascii", "replace").split() or [""]
        if name == end and not words and line.endswith(b"\n"):
            return header
        if name and name not in names:
            raise ModelFormatError(f"this is not the text of a {program} model")
        header[name] = words
    raise ModelFormatError("the file ends inside the header")


def one_word(words: list[str]) -> str:
    """The word of a line that has one."""
    if len(words) != 1:
        raise ModelFormatError("a line of the header is not a name and a value")
    return words[0]


def integer(word: str) -> int:
    """Of a header."""
    if not word.removeprefix("-").isdecimal() or len(word) > 11:
        raise ModelFormatError("a number of the header is not an integer")
    return int(word)


def floats(words: list[bytes]) -> list[float]:
    """Numbers as C reads them."""
    try:
        if any(b"_" in word for word in words):  # Python reads 1_0 as 10, C does not
            raise ValueError
        return list(map(float, words))
    except ValueError:
        raise ModelFormatError("a weight or the bias is not a number") from None


def label_number(label: Label, program: str, hint: str) -> int:
    """A label as a C int; ModelFormatError if it is none."""
    if isinstance(label, str):
        raise ModelFormatError(f"{program}'s labels are numbers, this model's are texts", hint)
    if not is_c_int(label):
        raise ModelFormatError(f"{program}'s labels are 32-bit integers, {label!r} is not", hint)
    return int(label)
