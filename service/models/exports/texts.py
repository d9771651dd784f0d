"""Parts of the texts of LIBLINEAR and LIBSVM: the header, numbers as C writes them, and a last line for this program.

Both programs stop reading after the last weight or vector. A line follows there if the model has an `input`, which says
how rows become features and names the columns. It has the word `input`, the CRC of the rest, and a JSON object. The
number of classes announces it by a leading zero, `nr_class 02`, which C reads as the same number.
"""

import json
import zlib
from collections.abc import Collection, Iterator
from typing import Any, BinaryIO

from streamsvm.service.models.exports.parts import ModelFormatError
from streamsvm.storage.models.model_file import Model

HEADER_BYTES = 1 << 20  # of a line of the header: there may be many labels
PIECE_BYTES = 1 << 19
_INPUT = b"input "


def n_classes_word(model: Model, n_classes: int) -> str:
    """Write the number of classes, with a leading zero if the model has an `input`."""
    return f"{'0' if model.about.get('input') else ''}{n_classes}"


def has_input(word: str) -> bool:
    """Whether the number of classes announces an `input` line."""
    return word.startswith("0")


def input_line(model: Model) -> Iterator[bytes]:
    """Yield the last line of a text, with the model's `input`, in pieces; nothing if the model has no `input`."""
    if input_ := model.about.get("input"):
        document = json.dumps(input_, separators=(",", ":")).encode()
        line = b"%b%08x %b\n" % (_INPUT, zlib.crc32(document), document)
        yield from (line[begin : begin + PIECE_BYTES] for begin in range(0, len(line), PIECE_BYTES))


def read_input(line: bytes) -> dict[str, Any]:
    """Read the `input` in a line. Raises ModelFormatError if the line is damaged, cut, or of another kind."""
    document = line[len(_INPUT) + 9 : -1]
    if line != b"%b%08x %b\n" % (_INPUT, zlib.crc32(document), document):
        raise ModelFormatError("the last line, which says how rows become features, is damaged or cut")
    try:
        input_ = json.loads(document)
    except (ValueError, RecursionError):
        input_ = None
    if not isinstance(input_, dict):
        raise ModelFormatError("the last line, which says how rows become features, is no JSON object")
    return input_


def last_line(file: BinaryIO, begin: int) -> int:
    """Return the offset where the last line of a file begins; `begin` if no line begins after that offset."""
    place = file.seek(0, 2) - 1  # a line feed at the very end begins no line
    while place > begin:
        start = max(begin, place - PIECE_BYTES)
        file.seek(start)
        line_feed = file.read(place - start).rfind(b"\n")
        if line_feed >= 0:
            return start + line_feed + 1
        place = start
    return begin


def read_header(file: BinaryIO, program: str, names: Collection[str], end: str) -> dict[str, list[str]]:
    """Read the header: name -> the words after it; leaves the file after the line `end`.

    Raises ModelFormatError for a name that is not in `names`, or if the file ends before the line `end`.
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
    """Return the only word of a line. Raises ModelFormatError for no word, or several."""
    if len(words) != 1:
        raise ModelFormatError("a line of the header is not a name and a value")
    return words[0]


def integer(word: str) -> int:
    """Read an integer of a header. Raises ModelFormatError."""
    if not word.removeprefix("-").isdecimal() or len(word) > 11:
        raise ModelFormatError("a number of the header is not an integer")
    return int(word)


def floats(words: list[bytes]) -> list[float]:
    """Read numbers as C does. Raises ModelFormatError."""
    try:
        if any(b"_" in word for word in words):  # Python reads 1_0 as 10, C does not
            raise ValueError
        return list(map(float, words))
    except ValueError:
        raise ModelFormatError("a weight or the bias is not a number") from None
