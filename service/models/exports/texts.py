"""What the texts of LIBLINEAR and of LIBSVM have in common: a header of lines that begin with a name, C's numbers.

Both programs stop reading after the last weight or vector. There a model has one more line, if it has an `input`, which
says how rows become features and what columns are called: `input`, the CRC of what follows, and a JSON object. A zero
before the number of classes, `nr_class 02`, which is the same number in C, says that there is such a line.
"""

import json
import zlib
from collections.abc import Collection, Iterator
from typing import Any, BinaryIO

from streamsvm.service.models.exports.errors import ModelFormatError
from streamsvm.service.models.names import is_c_int
from streamsvm.storage.models.model_file import Label, Model

HEADER_BYTES = 1 << 20  # of a line of the header: there may be many labels
PIECE_BYTES = 1 << 19
_INPUT = b"input "


def n_classes_word(model: Model, n_classes: int) -> str:
    """The number of classes in a header: with a zero before it if the model has an `input`."""
    return f"{'0' if model.about.get('input') else ''}{n_classes}"


def has_input(word: str) -> bool:
    """Whether a number of classes says that the last line is an `input`."""
    return word.startswith("0")


def input_line(model: Model) -> Iterator[bytes]:
    """The `input` of a model as the last line of its text, in pieces; nothing if it has none."""
    if input_ := model.about.get("input"):
        told = json.dumps(input_, separators=(",", ":")).encode()
        line = b"%b%08x %b\n" % (_INPUT, zlib.crc32(told), told)
        yield from (line[begin : begin + PIECE_BYTES] for begin in range(0, len(line), PIECE_BYTES))


def read_input(line: bytes) -> dict[str, Any]:
    """The `input` in a line of a text. ModelFormatError if it is damaged, cut, or another line."""
    told = line[len(_INPUT) + 9 : -1]
    if line != b"%b%08x %b\n" % (_INPUT, zlib.crc32(told), told):
        raise ModelFormatError("the last line, which says how rows become features, is damaged or cut")
    try:
        input_ = json.loads(told)
    except (ValueError, RecursionError):
        input_ = None
    if not isinstance(input_, dict):
        raise ModelFormatError("the last line, which says how rows become features, is no JSON object")
    return input_


def last_line(file: BinaryIO, begin: int) -> int:
    """Where the last line of a file begins, at `begin` or behind it."""
    place = file.seek(0, 2) - 1  # its end is no begin
    while place > begin:
        start = max(begin, place - PIECE_BYTES)
        file.seek(start)
        found = file.read(place - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        place = start
    return begin


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
