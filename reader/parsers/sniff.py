"""Recognises the format of an input by its first bytes."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat

import orjson

from streamsvm.reader.errors import InputError

HEAD_BYTES = 32
PEEK_BYTES = 64 << 10

NPZ, PARQUET, FEATHER = b"PK\x03\x04", b"PAR1", b"ARROW1"
# The first bytes of files that need random access. Streams of Arrow begin with FF FF FF FF.
_STORED = ((NPZ, "npz"), (PARQUET, "parquet"), (FEATHER, "arrow"), (b"\xff\xff\xff\xff", "arrow"), (b"ORC", "orc"))
_NUMBER = rb"[-+]?+(?:\d++\.?+\d*+|\.\d++)(?:[eE][-+]?+\d++)?+"
# A line of LIBSVM text with features: label, label:weight or neither, then index:value pairs. Values may be faulty, and
# the label a word.
_PAIRS = re.compile(
    rb"(?:(?:%b(?:,%b)*+(?::%b)?+|[A-Za-z_][^\s,;|:]*+)(?=\s))?\s*+(?:(?:\d++|qid):[^\s:;|#]++(?:\s++|(?=#)|$))++(#|$)"
    % ((_NUMBER,) * 3)
)
_ALONE = re.compile(rb"[^\s,;|:]*+\s*+(#|$)")  # a line of one word, which may be a label, or a comment
_DELIMITER = re.compile(rb"[,;|\t]")
# Bytes that no text has: a ninth of random bytes, half of UTF-16. If there are only a few, their lines are faulty.
_CONTROL = bytes(set(range(32)) - set(b"\t\n\v\f\r")) + b"\x7f"
_LABEL = re.compile(rb'[^\s,;|:"]{1,64}')
_SEQUENCE = re.compile(rb"[A-Za-z*-]+")  # a line of FASTA, perhaps with letters that are no bases
_MARKUP = re.compile(rb"\s*<[A-Za-z!?/]")
_WORD = re.compile(rb"[A-Za-z\x80-\xff]{2,}")
_NAN = re.compile(rb"(?<=[:\s])-?(NaN|Infinity)\b")  # no JSON, but Python writes it: the parser reports its line
_SAMPLE, _MOST_CONTROL = 512, 8

_CSV = 'to_csv("FILE.csv", index=False)'
_ARFF = 'loadarff("FILE")[0]).map(lambda x: x.decode() if isinstance(x, bytes) else x)'
_ROWS = """python -c 'import json; [print(json.dumps(row)) for row in json.load(open("FILE"))]' > FILE.jsonl"""
_SVM = 'sklearn.datasets.dump_svmlight_file(scipy.io.mmread("FILE"), y, "FILE.svm")'
_SQL = 'pandas.read_sql("SELECT * FROM t", sqlite3.connect("FILE"))'
_FASTTEXT = r"lines of label, tab, text of it: sed 's/^__label__\([^ ]*\) /\1\t/' FILE > FILE.txt"
_HDF5 = 'or fit(X, y) with X = h5py.File("FILE")["X"][:]'
# Files that no parser reads: a pattern of their first bytes, what they are, and a hint how to convert them.
_UNREAD = (
    (rb"version https://git-lfs", "a pointer file of Git LFS, not the data", "fetch the data: git lfs pull"),
    (rb"(?i)(%[^\n]*\n|\s)*@relation\s", "ARFF", f"make CSV of it: pandas.DataFrame(scipy.io.arff.{_ARFF}.{_CSV}"),
    (rb"%%MatrixMarket", "Matrix Market, which has no labels", f"make LIBSVM text of it and of labels y: {_SVM}"),
    (rb"(?s).{257}ustar", "a tar archive", "unpack it, and give its files: tar -xf FILE"),
    (rb"SQLite format 3\0", "a SQLite database", f"make CSV of its table t: {_SQL}.{_CSV}"),
    (rb"\x89HDF\r\n\x1a\n", "an HDF5 file", f'make CSV of a frame: pandas.read_hdf("FILE").{_CSV}; {_HDF5}'),
    (rb"\x80[\x02-\x05]", "a pickle", f'make CSV of a frame that you trust: pandas.read_pickle("FILE").{_CSV}'),
    (rb"\xd0\xcf\x11\xe0", "a workbook of an old Excel", f'make CSV of it: pandas.read_excel("FILE").{_CSV}'),
    (rb"\xff\xfe|\xfe\xff", "text in UTF-16", "make UTF-8 of it: iconv -f UTF-16 -t UTF-8 FILE > FILE.txt"),
    (rb"FEA1", "a Feather file of version 1", f'make CSV of it: pandas.read_feather("FILE").{_CSV}'),
    (rb"\x89PNG|\xff\xd8\xff|GIF8", "an image", ""),
    (rb"%PDF", "a PDF document", ""),
    (rb"\x7fELF", "a program", ""),
)
# Text of other programs that would be taken for CSV; to a model of documents it is documents.
_NO_CSV = (
    (rb"__label__\S+ ", "text of fastText", f"make {_FASTTEXT}"),
    (rb"[-+.\d]+[^|\n]* \|\w* +[A-Za-z_]\w*:[-+.\d]", "text of Vowpal Wabbit", "make LIBSVM text or JSON lines of it"),
)
_NUMPY = 'make CSV of its rows: numpy.savetxt("FILE.csv", numpy.load("FILE"), delimiter=","); or fit(X, y)'
# Entries as in _UNREAD. All parsers of text refuse inputs of _NO_TEXT; all but that of JSON lines refuse _NO_ROWS.
_NO_TEXT = (
    (NPZ, "npz", ""),
    (PARQUET, "a Parquet file", ""),
    (FEATHER + rb"|\xff{4}", "a file or stream of Arrow", ""),
    (rb"\x93NUMPY", "a numpy array", _NUMPY),
    (rb"\x1f\x8b|\x28\xb5\x2f\xfd|\xfd7zXZ\0|BZh", "compressed twice", "decompress it once"),
    (rb"\s*\[\s*\{", "a JSON array of records", f"make JSON lines of it: {_ROWS}"),
)
_NO_ROWS = (
    (_MARKUP.pattern, "an HTML or XML page", ""),
    (rb"\s*[{[]", "JSON, but not an object a line", "make JSON lines of it: jq -c . FILE > FILE.jsonl"),
)


def lines_of(head: bytes) -> list[bytes]:
    """Return the lines of `head` that are not blank. A last line that is cut off is left out if there are others."""
    whole, end, cut = head.removeprefix(b"\xef\xbb\xbf").rpartition(b"\n")
    lines = whole if end and len(head) >= PEEK_BYTES else whole + end + cut
    return [line for line in map(bytes.strip, lines.split(b"\n"), repeat(b" \r")) if line]


def most(fit: Sequence[bool]) -> bool:
    """Return whether more than half of `fit`, a truth value for each line, are true."""
    return 2 * sum(fit) > len(fit)


def has_documents(head: bytes) -> bool:
    """Return whether nine of ten lines of `head` are a short label, a tab and a text, and most texts have three words.

    It is False, too, if the first line looks like names of columns: a shorter text, a label that occurs nowhere else.
    """
    lines = [line.partition(b"\t") for line in lines_of(head)]
    if 10 * sum(not (tab and _LABEL.fullmatch(label)) for label, tab, _ in lines) > len(lines):
        return False
    are_words = [b"\t" not in text and len(_WORD.findall(text)) > 2 for *_, text in lines]
    return most(are_words) and (are_words[0] or lines[0][0] in {label for label, *_ in lines[1:]})


def refuse_unread(head: bytes) -> None:
    """Raise InputError unknown_format if an input that begins with `head` is a file that no parser reads."""
    _refuse(head.removeprefix(b"\xef\xbb\xbf"), _UNREAD)


def refuse_foreign(head: bytes, is_json: bool = False) -> None:
    """Raise InputError unknown_format if `head`, HEAD_BYTES without a byte order mark, cannot begin a text of rows.

    is_json  whether the rows are read as JSON lines
    """
    _refuse(head, _NO_TEXT if is_json else _NO_TEXT + _NO_ROWS)


def _refuse(head: bytes, files: tuple[tuple[bytes, str, str], ...]) -> None:
    for beginning, name, hint in files:
        if re.match(beginning, head):
            raise InputError("unknown_format", f"this is {name}", hint=hint or None, byte=0)


def has_objects(head: bytes) -> bool:
    """Return whether the first line of an input whose first PEEK_BYTES are `head` is, or begins, a JSON object."""
    line, end, _ = head.removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")
    if not line.startswith(b"{"):
        return False
    if not end and len(head) >= PEEK_BYTES:
        return line[1:].lstrip().startswith(b'"')
    try:
        return isinstance(orjson.loads(_NAN.sub(b"null", line)), dict)
    except orjson.JSONDecodeError:
        return False


def has_pairs(head: bytes) -> bool:
    """Return whether half or more of the lines of `head` with several words are LIBSVM text with index:value pairs."""
    lines = [line for line in lines_of(head) if not _ALONE.match(line)]
    if len(lines) == 1 and len(head) >= PEEK_BYTES:
        lines = [lines[0].rpartition(b" ")[0]]  # the last pair may be cut off
    return bool(lines) and 2 * sum(map(bool, map(_PAIRS.match, lines))) >= len(lines)


def stored_format(head: bytes) -> str | None:
    """Return the format of an input that begins with `head` and needs random access; None if its format is another."""
    format_ = next((name for signature, name in _STORED if head.startswith(signature)), None)
    # A text may begin with these letters.
    return None if format_ == "orc" and not _n_control(head) else format_


def _n_control(head: bytes) -> int:
    """Return how many of the first _SAMPLE bytes are control characters that no text has."""
    sample = head[:_SAMPLE]
    return len(sample) - len(sample.translate(None, _CONTROL))


def recognise(head: bytes) -> str:
    """Return the format of an input whose first PEEK_BYTES are `head`. Raises InputError unknown_format."""
    stored = stored_format(head)
    if stored is not None:
        return stored
    if has_objects(head):
        return "jsonl"
    n_control, sample = _n_control(head), head[:_SAMPLE]
    if n_control > _MOST_CONTROL and 20 * n_control > len(sample):
        refuse_foreign(head[:HEAD_BYTES])
        raise InputError("unknown_format", "this is no text: binary data, or UTF-16", byte=0)
    rows = [line for line in lines_of(head) if not line.startswith((b"#", b"{", b"[")) and not _MARKUP.match(line)]
    first, below = next(iter(rows), b""), [line for line in rows if not line.startswith(b">")]
    if first.startswith(b">") and (not below or most([bool(_SEQUENCE.fullmatch(line)) for line in below])):
        return "fasta"
    # A line of LIBSVM text has pairs, or is a label alone.
    is_table = _DELIMITER.search(first) or len(first.split()) > 1
    if not is_table or has_pairs(head):
        return "libsvm"
    _refuse(first, _NO_CSV)
    return "csv"


def with_head(text: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Return the first PEEK_BYTES of a text, and an iterator over the whole text."""
    rest, head = iter(text), b""
    while len(head) < PEEK_BYTES and (chunk := next(rest, None)) is not None:
        head += chunk
    return head[:PEEK_BYTES], chain([head], rest)
