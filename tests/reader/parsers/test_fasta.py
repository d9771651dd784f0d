"""FASTA: compared with a slow, clear reader; and its faults."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.fasta import FastaParser, letters_of
from streamsvm.reader.parsers.values import LabelNames
from streamsvm.storage.rows.csr import INDEX, VALUE
from tests.contracts.problems import joined

UNKNOWN = "NRYSWKMBDHVnryswkmbdhv"
LETTERS = "ACGTacgt" + UNKNOWN


def parsed(text: bytes, piece: int = 1 << 20, **given):
    """The parser, and all rows of a text that comes in pieces."""
    labelled = given.pop("labelled", True)
    names = given.pop("names", None)
    parser = FastaParser(InputOptions("fasta", **given), InputLimits(), names, labelled=labelled)
    parser.window_bytes = 64
    rows = list(parser.parse_chunks(text[k : k + piece] for k in range(0, len(text), piece)))
    return parser, joined(rows)


def strings(rows, length: int) -> list[str]:
    ends = rows.indptr.tolist()
    return [letters_of(rows.indices[i:j], rows.values[i:j], length) for i, j in itertools.pairwise(ends)]


def packed(string: str) -> tuple[list[int], list[float]]:
    """Unpack the strings bit by bit, as storage.rows.csr defines them."""
    words, values = [], []
    for begin in range(0, len(string), 16):
        part = string[begin : begin + 16].upper()
        word = sum(max("ACGT".find(letter), 0) << (2 * k) for k, letter in enumerate(part))
        words.append(word - (1 << 32) if word >= 1 << 31 else word)
        values.append(1.0 + sum(1 << k for k, letter in enumerate(part) if letter not in "ACGT"))
    return words, values


@st.composite
def records(draw):
    length = draw(st.integers(1, 70))
    letters = st.text(st.sampled_from(LETTERS), min_size=length, max_size=length)
    found = draw(st.lists(st.tuples(st.floats(allow_nan=False, allow_infinity=False), letters), min_size=1))
    return length, found


@settings(deadline=None)
@given(records(), st.integers(1, 30), st.sampled_from(["\n", "\r\n"]), st.integers(1, 200), st.booleans())
def test_rows_are_as_the_contract_says(records, width, end, piece, last_end):
    length, found = records
    text = ""
    for label, string in found:
        lines = [string[k : k + width] for k in range(0, length, width)]
        text += end.join([f"> chr=1, label={label!r}, x", *lines, ""]) + end * (length % 2)
    data = text.encode() if last_end else text.encode().rstrip()
    parser, rows = parsed(data, piece)
    assert rows.label.tolist() == [label for label, _ in found]
    both = [packed(string) for _, string in found]
    assert rows.indices.tolist() == [word for words, _ in both for word in words]
    assert rows.values.tolist() == [value for _, values in both for value in values]
    assert (rows.indices.dtype, rows.values.dtype) == (INDEX, VALUE)
    assert parser.input == {"format": "fasta", "length": length, "alphabet": "ACGT"}
    assert (parser.index_base, parser.max_index) == (0, -(-length // 16) - 1)
    assert strings(rows, length) == [re.sub(f"[{UNKNOWN}]", "N", string).upper() for _, string in found]
    assert parser.counters["unknown_letters"] == sum(letter in UNKNOWN for _, string in found for letter in string)


def test_a_long_string_of_many_windows():
    string = "ACGTN" * 1000
    _parser, rows = parsed(f">label=1\n{string}\n>label=2\n{string}\n".encode(), piece=7)
    assert strings(rows, 5000) == [string, string]


def test_labels_that_are_strings():
    names = LabelNames("auto")
    text = b">label=yes\nAC\n> x label=no,\nGT\n>a|label=yes|\nNN\n"
    _, rows = parsed(text, names=names)
    assert [names.names[int(label)] for label in rows.label] == ["yes", "no", "yes"]


def test_labels_of_any_letters():
    names = LabelNames("string")
    _, rows = parsed(">label=gr\u00fcn\nAC\n>label=7\nGT\n".encode(), names=names, piece=5)
    assert [names.names[int(label)] for label in rows.label] == ["gr\u00fcn", "7"]


def test_numbers_are_rounded_correctly():
    texts = ["1e-30", "0.1", "3.14159265358979323846", "-0", "123456789012345678901234567890.0"]
    _, rows = parsed("".join(f">label={text}\nA\n" for text in texts).encode())
    assert rows.label.tolist() == [float(text) for text in texts]


FAULTS = [
    (b">label=9007199254740993\nACG\n", "label_not_exact", 1, 8),
    (b">label=1\nACG\n>label=1\nAC\n>label=1\nACG\n", "string_length", 3, 1),
    (b">label=1\nACG\n>label=1\nACG\nT\n", "string_length", 5, 1),
    (b">label=1\nACG\n>label=1\nAC", "string_length", 3, 1),
    (b">label=1\nACXG\n", "not_a_base", 2, 3),
    (b">label=1\nAC GT\n", "not_a_base", 2, 4),
    (b">label=1\nAC\n> no mark\nAC\n", "label_missing", 3, 1),
    (b">label=1\nAC\n> mylabel=2\nAC\n", "label_missing", 3, 1),
    (b">label=1\nAC\n> label= 2\nAC\n", "label_missing", 3, 9),
    (b"\nACGT\n>label=1\nACGT\n", "no_header", 2, 1),
    (b">label=1\n>label=2\nAC\n", "empty_sequence", 1, 1),
    (b">label=1\nAC\n>label=2\n\n", "empty_sequence", 3, 1),
    (b">label=1\nA\x00\n", "bad_byte", 2, 2),
    (b">label=1\nA\xff\n", "bad_byte", 2, 2),
    (b">label=1\nA\rC\n", "bad_byte", 2, 2),
    (b">label=1\nAC\n>lab\x00el=1\nA\n", "bad_byte", 3, 5),
    (b">label=1\nAC\n>label=no\nAC\n", "bad_label", 3, 8),
    (b">label=1\nAC\n>label=1e999\nAC\n", "bad_label", 3, 8),
    (b">label=1\nAC\n>label=nan\nAC\n", "bad_label", 3, 8),
]


@pytest.mark.parametrize(("text", "code", "line", "column"), FAULTS)
@pytest.mark.parametrize("piece", [1, 1000])
def test_faults_say_where(text, code, line, column, piece):
    with pytest.raises(InputError) as caught:
        parsed(text, piece)
    assert (caught.value.code, caught.value.line, caught.value.column) == (code, line, column)
    assert caught.value.hint


@pytest.mark.parametrize(("text", "code", "line", "column"), FAULTS)
def test_bad_rows_are_left_out(text, code, line, column):
    parser, rows = parsed(text + b"\n>label=5\nACG\n"[: -1 if b"ACG" in text else -2], on_bad_row="skip")
    assert parser.rejected.rows >= 1
    assert (parser.rejected.first[0].code, parser.rejected.first[0].line) == (code, line)
    assert rows.label.tolist()[-1:] == [5] or parser.rejected.rows > 1


def test_what_follows_a_bad_row_is_read():
    text = b"AC\n>label=1\nACG\n>label=2\nAXG\nTTT\n\n>\nACG\n>label=4\nACGT\n>label=5\n\n>label=6\nac\nn\n"
    parser, rows = parsed(text, on_bad_row="skip")
    assert rows.label.tolist() == [1, 6]
    assert strings(rows, 3) == ["ACG", "ACN"]
    codes = [fault.code for fault in parser.rejected.first]
    assert codes == ["no_header", "not_a_base", "label_missing", "string_length", "empty_sequence"]


def test_texts_of_rows_left_out_are_no_labels():
    names = LabelNames("string")
    parser, rows = parsed(b">label=a\nAC\n>label=bad\nA\n>label=c\nGT\n", piece=3, on_bad_row="skip", names=names)
    assert [names.names[int(label)] for label in rows.label] == ["a", "c"]
    assert "bad" not in names.names
    assert parser.rejected.rows == 1


def test_lengths_go_on_as_they_were():
    with pytest.raises(InputError, match="the first one 4"):
        parsed(b">label=1\nACG\n", like={"format": "fasta", "length": 4})


@pytest.mark.parametrize("text", [b">label=3\nACG\n> x\nGGT\n", b"ACG\n\nGGT", b"\r\nACG\r\nggt\r\n"])
def test_strings_to_be_predicted_need_no_labels(text):
    _parser, rows = parsed(text, labelled=False)
    assert strings(rows, 3) == ["ACG", "GGT"]
    assert np.isnan(rows.label[1])
    assert (rows.label[0] == 3) == text.startswith(b">")


@pytest.mark.parametrize(
    ("text", "code", "line"), [(b"ACG\nAC\n", "string_length", 2), (b"ACG\n>A\n", "not_a_base", 2)]
)
def test_faults_of_lines_without_headers(text, code, line):
    with pytest.raises(InputError) as caught:
        parsed(text, labelled=False)
    assert (caught.value.code, caught.value.line) == (code, line)


def test_nothing_at_all():
    with pytest.raises(InputError, match="no row"):
        parsed(b"\n\n")


def test_memory_is_bounded_where_a_string_never_ends():
    parser = FastaParser(InputOptions("fasta"), InputLimits(max_line_bytes=100))
    parser.window_bytes = 64
    with pytest.raises(InputError) as caught:
        list(parser.parse_chunks([b">label=1\n", *[b"ACGTACGTAC\n"] * 20]))
    assert (caught.value.code, caught.value.line) == ("string_length", 12)
