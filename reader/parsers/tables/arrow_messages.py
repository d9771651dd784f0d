"""Measures the messages of Arrow's IPC formats before pyarrow decodes them, for files of unknown origin.

A stream is a message for the schema, then one for each dictionary and batch, then an end mark:

    message = FF FF FF FF, int32 bytes of metadata (0: the end mark), metadata (Message.fbs), body
    file    = "ARROW1" 0 0, stream, footer, int32 bytes of the footer, "ARROW1"

The footer (File.fbs) has the schema, and the places of dictionaries and batches. Some programs, such as polars, begin a
file with no message for the schema: such a file is read by its footer.

https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc
"""

import struct
from collections.abc import Iterator
from typing import IO, NamedTuple

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import Limits

MAGIC, CONTINUATION = b"ARROW1", b"\xff\xff\xff\xff"
MOST_BATCH_BYTES = 1 << 30  # of a compressed batch, which is decoded as a whole, and of a dictionary
_MOST_METADATA_BYTES = 64 << 20
END, DICTIONARY, BATCH = 0, 2, 3  # values of MessageHeader; END is none of them
_VALUE_BYTES = 8
_DICTIONARIES, _BATCHES, _BLOCK_BYTES = 2, 3, 24  # fields of Footer, and the size of an entry: int64, int32, int64


class Message(NamedTuple):
    """A message: its kind, the bytes [start, stop) of the file that hold it, and the rows and decoded bytes it has."""

    kind: int
    start: int
    stop: int
    rows: int = 0
    decoded: int = 0


def stream_places(file: IO[bytes], size: int, limits: Limits) -> list[int]:
    """Where streams begin in a file of `size` bytes, one behind the other. InputError as `messages`."""
    places, begins = list[int](), True
    for message in messages(file, size, limits):
        if begins:
            places.append(message.start)
        begins = message.kind == END
    return places


def messages(file: IO[bytes], size: int, limits: Limits) -> Iterator[Message]:
    """Yield the messages of the streams in a file of `size` bytes, of which each ends with one of the kind END.

    InputError bad_arrow, batch_too_large, and decompressed_too_large for more decoded bytes than `limits` allow.
    """
    place, decoded = _first(file, size), 0
    is_file = place > 0
    while True:
        body, length = _message(file, place, size)
        if length == 0:
            yield Message(END, place, body)
            if is_file or body == size:
                return
            place = body
            continue
        message = _whole(file, place, body, length, size)
        decoded += message.decoded
        limits.check_size(decoded, size)
        yield message
        place = message.stop


def needs_footer(file: IO[bytes], size: int) -> bool:
    """Whether a file has no message where its stream should begin. InputError bad_arrow if it was cut."""
    place = _first(file, size)
    file.seek(place)
    return place > 0 and file.read(len(CONTINUATION)) != CONTINUATION


def check_blocks(file: IO[bytes], size: int, limits: Limits) -> None:
    """Measure the dictionaries and batches that the footer names. InputError as `messages`."""
    ends = size - len(MAGIC) - 4
    file.seek(max(0, ends))
    (length,) = struct.unpack("<i", file.read(4))
    if not 0 < length <= min(_MOST_METADATA_BYTES, ends):
        raise bad_arrow("the footer is longer than the file")
    file.seek(ends - length)
    data, decoded = file.read(length), 0
    try:
        footer = _Table(data, _u32(data, 0))
        blocks = footer.structs(_DICTIONARIES, _BLOCK_BYTES) + footer.structs(_BATCHES, _BLOCK_BYTES)
    except (struct.error, IndexError) as error:
        raise bad_arrow("the footer is damaged") from error
    for block in blocks:
        (place,) = struct.unpack_from("<q", block)
        if not 0 <= place < size:
            raise bad_arrow("the footer names a place outside of the file")
        decoded += _whole(file, place, *_message(file, place, size), size).decoded
        limits.check_size(decoded, size)


def bad_arrow(message: str) -> InputError:
    """The error for a file that cannot be read."""
    return InputError("bad_arrow", message)


def _first(file: IO[bytes], size: int) -> int:
    """Where the first stream begins."""
    file.seek(0)
    if file.read(len(MAGIC)) != MAGIC:
        return 0
    file.seek(max(0, size - len(MAGIC)))
    if size < 2 * len(MAGIC) or file.read(len(MAGIC)) != MAGIC:
        raise bad_arrow("the file has no end: it was cut")
    return 8


def _message(file: IO[bytes], place: int, size: int) -> tuple[int, int]:
    """Where the body of the message at `place` begins, and the size of its metadata, which are before; 0: the end."""
    file.seek(place)
    head = file.read(8)
    if len(head) < 8:
        raise bad_arrow("the stream has no end mark: it was cut, or its writer was not closed")
    if not head.startswith(CONTINUATION):
        raise bad_arrow("no message stands where one should")
    (length,) = struct.unpack("<i", head[4:])
    if not 0 <= length <= min(_MOST_METADATA_BYTES, size - place - 8):
        raise bad_arrow("a message is longer than the file")
    return place + 8 + length, length


def _whole(file: IO[bytes], place: int, body: int, length: int, size: int) -> Message:
    """The message at `place`, with `length` bytes of metadata before `body`."""
    file.seek(body - length)
    try:
        return _measured(file, file.read(length), place, body, size)
    except (struct.error, IndexError) as error:
        raise bad_arrow("the metadata of a message are damaged") from error


def _measured(file: IO[bytes], metadata: bytes, place: int, body: int, size: int) -> Message:
    """The message at `place` with these metadata, whose body begins at `body`."""
    message = _Table(metadata, _u32(metadata, 0))
    kind, length = message.number(1, "<B"), message.number(3, "<q")
    if not 0 <= length <= size - body:
        raise bad_arrow("the file ends within a batch: it was cut")
    header = message.table(2) if kind in (DICTIONARY, BATCH) else None
    batch = header.table(1) if header and kind == DICTIONARY else header
    if batch is None:
        return Message(kind, place, body + length)
    held = _decompressed_bytes(file, batch, body, length)
    if max(held or 0, length if kind == DICTIONARY else 0) > MOST_BATCH_BYTES:
        raise InputError("batch_too_large", f"a batch has {held or length} bytes, {MOST_BATCH_BYTES} is the most")
    # The size as an array counts, too: a column of nulls takes no bytes.
    rows = batch.number(0, "<q")
    array = rows * len(batch.structs(1, 16)) * _VALUE_BYTES
    return Message(kind, place, body + length, rows, max(held or length, array))


def _decompressed_bytes(file: IO[bytes], batch: "_Table", body: int, length: int) -> int | None:
    """The size of a batch's buffers, as they say themselves; None: they are not compressed."""
    if batch.table(3) is None:
        return None
    total = 0
    for data in batch.structs(2, 16):
        offset, stored = struct.unpack("<qq", data)
        if not (offset >= 0 and 0 <= stored <= length - offset):
            raise bad_arrow("a buffer lies outside of its batch")
        if stored:
            file.seek(body + offset)
            (decoded,) = struct.unpack("<q", file.read(8))
            if decoded < -1:
                raise bad_arrow("a buffer has a negative size")
            total += stored if decoded == -1 else decoded
    return total


class _Table:
    """A table of a flatbuffer. struct.error for what lies outside of the buffer."""

    def __init__(self, data: bytes, place: int) -> None:
        self._data, self._place = data, place
        self._fields = place - struct.unpack_from("<i", data, place)[0]
        if self._fields < 0:
            raise struct.error("outside")

    def _field(self, number: int) -> int | None:
        (size,) = struct.unpack_from("<H", self._data, self._fields)
        entry = 4 + 2 * number
        offset = struct.unpack_from("<H", self._data, self._fields + entry)[0] if entry + 2 <= size else 0
        return self._place + offset if offset else None

    def number(self, number: int, kind: str) -> int:
        """A field that is an integer of this kind, of `struct`; 0 by default."""
        field = self._field(number)
        return 0 if field is None else struct.unpack_from(kind, self._data, field)[0]

    def table(self, number: int) -> "_Table | None":
        """A field that is a table; None if there is none."""
        field = self._field(number)
        return None if field is None else _Table(self._data, field + _u32(self._data, field))

    def structs(self, number: int, size: int) -> list[bytes]:
        """The entries, of `size` bytes each, of a field that is a vector of structs."""
        field = self._field(number)
        if field is None:
            return []
        begin = field + _u32(self._data, field)
        count = _u32(self._data, begin)
        if begin + 4 + count * size > len(self._data):
            raise struct.error("outside")
        return [self._data[begin + 4 + k * size : begin + 4 + (k + 1) * size] for k in range(count)]


def _u32(data: bytes, place: int) -> int:
    return struct.unpack_from("<I", data, place)[0]
