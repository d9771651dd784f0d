"""LIBSVM text: every fault with its place, every accepted oddity, and equality with the slow reader."""

import itertools
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsvm.reader.errors import InputError, excerpt
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.libsvm import LibsvmParser
from streamsvm.reader.parsers.libsvm_kernel import INDEX_LIMIT
from streamsvm.storage.rows.csr import INDEX, INDPTR, LABEL, VALUE, WEIGHT
from tests.reference import libsvm_text
from tests.refusals import refused

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT.parent / "shared" / "data"
COUNTED = ("blank_lines", "comment_lines", "explicit_zeros", "empty_rows")


def pieces(data, size):
    return (data[i : i + size] for i in range(0, len(data), size))


def outcome(data, size=1 << 20, index_base="auto", limits=None, window_bytes=1 << 12, threads=3):
    """The parser's rows and counts of a text, in the reference's form."""
    options = InputOptions(index_base=index_base)
    parser = LibsvmParser(options, limits or InputLimits(), threads, window_bytes=window_bytes, range_bytes=1)
    text = libsvm_text.Text()
    try:
        for batch in parser.parse_chunks(pieces(data, size)):
            assert (batch.label.dtype, batch.indptr.dtype) == (LABEL, INDPTR)
            assert (batch.indices.dtype, batch.values.dtype) == (INDEX, VALUE)
            assert batch.indptr[0] == 0
            for i in range(len(batch)):
                row = slice(batch.indptr[i], batch.indptr[i + 1])
                pairs = list(zip(batch.indices[row].tolist(), batch.values[row].tolist(), strict=True))
                text.rows.append((float(batch.label[i]), pairs))
            if batch.weight is not None:
                assert batch.weight.dtype == WEIGHT
                text.weights = (text.weights or []) + batch.weight.tolist()
    except InputError as error:
        return error.code, error.line, error.column
    assert parser.rows == len(text.rows)
    assert parser.nnz == sum(len(pairs) for _, pairs in text.rows)
    counted = tuple(map(parser.counters.get, COUNTED))
    return repr((text.rows, text.weights)), counted, parser.index_base, parser.max_index


def expected(data, index_base="auto", limits=None):
    limits = limits or InputLimits()
    text = libsvm_text.read(data, index_base, limits.max_line_bytes, limits.max_features)
    if text.fault:
        return text.fault
    counted = tuple(getattr(text, name) for name in COUNTED)
    base = int(min(text.indices, default=1) != 0) if index_base == "auto" else index_base
    return repr((text.rows, text.weights)), counted, base, max(text.indices, default=None)


FAULTS = [
    (b"-9007199254740993 1:1\n", "label_not_exact", 1, 1),
    (b"1 1:nan\n", "value_not_finite", 1, 3),
    (b"1 1:1\n1 2:-INF", "value_not_finite", 2, 3),
    (b"1 1:1e400\n", "value_not_finite", 1, 3),
    (b"1 1:1 2:-1e99999999999999999999 3:1\n", "value_not_finite", 1, 7),
    (b"1 1:1_0\n", "bad_number", 1, 3),
    (b"1 1:0x10\n", "bad_number", 1, 3),
    (b"1 1:.\n", "bad_number", 1, 3),
    (b"1 1:1e\n", "bad_number", 1, 3),
    (b"nan 1:1\n", "bad_label", 1, 1),
    (b"1 1:1\n\n  -inf 1:1\n", "bad_label", 3, 3),
    (b"1e400 1:1\n", "bad_label", 1, 1),
    (b"spam 1:1\n", "bad_label", 1, 1),
    (b"1 1:1\n 1:1\n", "bad_label", 2, 2),
    (b"spam:1 1:1\n", "bad_label", 1, 1),
    (b"1:nan 1:1\n", "value_not_finite", 1, 3),
    (b"1:1e400 1:1\n", "value_not_finite", 1, 3),
    (b"1:1 1:1\n-1:-0.5 1:1\n", "negative_weight", 2, 4),
    (b"1:0 1:1\n1:-1e-400\n", "negative_weight", 2, 3),
    (b"1:x 1:1\n", "bad_number", 1, 3),
    (b"1: 1:1\n", "bad_weight", 1, 3),
    (b"1:-0\n", "negative_weight", 1, 3),
    (b"1:2:3 1:1\n", "bad_weight", 1, 3),
    (b"1:1e39 1:1\n", "row_overflow", 1, 3),
    (b"1:\x00 1:1\n", "bad_byte", 1, 3),
    (b"1, 1:1\n", "bad_label", 1, 1),
    (b"qid:1 1:1\n", "bad_label", 1, 1),
    (b"1,2 1:1\n", "multilabel", 1, 1),
    (b"1 2:1 3:1 2147483648:1\n", "index_too_large", 1, 11),
    (b"1 1234567890123456789012345678901234567890:1\n", "index_too_large", 1, 3),
    (b"1 2147483647:1\n", "too_many_features", 1, 3),
    (b"1 134217728:1\n", "too_many_features", 1, 3),
    (b"1 -1:1\n", "bad_index", 1, 3),
    (b"1 1.0:1\n", "bad_index", 1, 3),
    (b"1 one:1\n", "bad_index", 1, 3),
    (b"1 3:1 2:1\n", "index_order", 1, 7),
    (b"1 3:0 2:1\n", "index_order", 1, 7),
    (b"1 3:1 003:1\n", "index_duplicate", 1, 7),
    (b"1 0:1 0:1\n", "index_duplicate", 1, 7),
    (b"1 :1\n", "bad_pair", 1, 3),
    (b"1 1: 1\n", "bad_pair", 1, 3),
    (b"1 1:2:3\n", "bad_pair", 1, 3),
    (b"1 5\n", "bad_pair", 1, 3),
    (b"1 1:#\n", "bad_pair", 1, 3),
    (b"1 qid:3 1:1\n", "qid_unsupported", 1, 3),
    (b"1 1:1\n1 1:\x001\n", "bad_byte", 2, 5),
    (b"1 1:1\r1 1:1\r", "bad_byte", 1, 6),
    (b"1 1:1\n1 1:1\r", "bad_byte", 2, 6),
    (b"1 1:\xc3\xa9\n", "bad_byte", 1, 5),
    (b"\xff\xfe1\x00 \x00", "bad_byte", 1, 1),
    (b"1 1:1 # caf\xc3\xa9\n", "bad_byte", 1, 12),
    (b"# a\r\r\n", "bad_byte", 1, 4),
    (b"1 1:1 \xef\xbb\xbf\n", "bad_byte", 1, 7),
    (b"", "no_rows", None, None),
    (b"\xef\xbb\xbf", "no_rows", None, None),
    (b"# nothing\n\n", "no_rows", None, None),
    (b"1 1:1e39\n", "row_overflow", 1, 3),
    (b"1 0012:-1e200 13:x\n", "row_overflow", 1, 3),
    (b"1 1:340282356779733661637539395458142568448\n", "row_overflow", 1, 3),
    (b"1 1:340282356779733600000000000000000000000 2:x\n", "bad_number", 1, 45),
]


@pytest.mark.parametrize(("data", "code", "line", "column"), FAULTS)
def test_faults_are_told_with_their_place(data, code, line, column):
    for size in (1, 7, 4096):
        for threads in (1, 2, 5):
            assert outcome(data, size, threads=threads) == (code, line, column)
            assert outcome(data, size, threads=threads, window_bytes=4) == (code, line, column)
    assert expected(data) == (code, line, column)


def test_index_zero_is_refused_in_a_file_that_starts_at_one():
    with pytest.raises(InputError) as caught:
        list(LibsvmParser(InputOptions(index_base=1), InputLimits()).parse_chunks([b"1 1:1\n1 0:1\n"]))
    assert (caught.value.code, caught.value.line, caught.value.column) == ("index_zero", 2, 3)
    assert "index_base=0" in caught.value.hint
    for base in ("auto", 0):
        assert outcome(b"1 0:1\n", index_base=base)[2:] == (0, 0)


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("size", [1, 7, 4096])
def test_line_too_long(size, complete):
    limits = InputLimits(max_line_bytes=20)
    data = b"1 1:1\n# " + b"x" * 19 + b"\n" * complete
    assert outcome(data, size, limits=limits) == ("line_too_long", 2, None)
    assert outcome(data, size, limits=limits, window_bytes=8) == ("line_too_long", 2, None)
    assert outcome(b"\xef\xbb\xbf1 1:1 2:1 3:1 4:1 50\n", limits=limits) == ("bad_pair", 1, 19)


FOREIGN = [
    b"PK\x03\x04", b"PAR1", b"\x93NUMPY\x01", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd",
    b"\xfd7zXZ\x00", b"BZh91AY", b"<!DOCTYPE html>", b"\n <html>", b"{\"a\": 1}", b"\xef\xbb\xbf[1, 2]",
]  # fmt: skip


@pytest.mark.parametrize("head", FOREIGN)
def test_other_formats_are_refused(head):
    for size in (1, 7, 4096):
        assert outcome(head + b"\n1 1:1\n", size) == ("unknown_format", None, None)
    assert expected(head) == ("unknown_format", None, None)


ODDITIES = [
    # data, (blank lines, comment lines, explicit zeros, empty rows), least index, greatest index
    (b"1 1:1\n\n \t\n\r\n-1 2:2", (3, 0, 0, 0), 1, 2),
    (b"# a\n  # b\n1 1:1 # c\n1 2:3#d\n", (0, 2, 0, 0), 1, 2),
    (b"1\t1:1 \t 2:1\t\n", (0, 0, 0, 0), 1, 2),
    (b"1 1:1\r\n1 2:1 \r\n", (0, 0, 0, 0), 1, 2),
    (b"1 1:0 2:1 3:-0.0 4:1e-60 5:0e999 6:1e-999999999999999\n", (0, 0, 5, 0), 1, 6),
    (b"1\n-1#\n+2.5e0 1:1", (0, 0, 0, 2), 1, 1),
    (b"\xef\xbb\xbf1 1:1\n", (0, 0, 0, 0), 1, 1),
    (b"1 00000000000000000000000001:1. 2:.5 3:+1E+2 4:-1e-2 5:007\n", (0, 0, 0, 0), 1, 5),
    (b"1 5:0\n", (0, 0, 1, 0), 5, 5),
    (b"1\n", (0, 0, 0, 1), None, None),
    (b"# a\n\n1:0.5 1:1\n-1 1:1\n 2:+1e2\t1:1\n1:0\n", (1, 1, 0, 1), 1, 1),
    (b"\xef\xbb\xbf#\n \t\r\n1:2.5 3:1\n", (1, 1, 0, 0), 3, 3),
    (b"# 1:1 2:2\n\n#\n1 3:1\n", (1, 2, 0, 0), 3, 3),
    (b"-0 1:1\n1e-400 2:1\n123456789012345683968 3:1", (0, 0, 0, 0), 1, 3),
]


@pytest.mark.parametrize(("data", "counted", "least", "greatest"), ODDITIES)
def test_oddities_are_accepted_and_counted(data, counted, least, greatest):
    for size, threads in itertools.product((1, 7, 4096), (1, 2, 5)):
        result = outcome(data, size, threads=threads)
        assert result == expected(data)
        assert result[1:] == (counted, int(least != 0), greatest)


@pytest.mark.parametrize("threads", [1, 5])
def test_rows_have_weights_if_the_first_has_one(threads):
    tokens = ["2", *map(repr, np.random.default_rng(0).uniform(size=300).tolist()), "1e-30", "0.1234567890123456789012"]
    text = "".join(f"-1:{token} 1:1\n" for token in tokens) + "1 2:1\n"
    batches = list(
        LibsvmParser(InputOptions(), InputLimits(), threads=threads, window_bytes=256, range_bytes=1).parse_chunks(
            [text.encode()]
        )
    )
    assert np.concatenate([batch.weight for batch in batches]).tolist() == [*map(float, tokens), 1.0]
    assert np.concatenate([batch.label for batch in batches]).tolist() == [-1.0] * len(tokens) + [1.0]
    assert all(batch.weight is None for batch in LibsvmParser(InputOptions(), InputLimits()).parse_chunks([b"1 1:1\n"]))


NUMBERS = st.one_of(
    st.sampled_from(["0", "1", "-1", "+.5", "1.", "1e5", "1e39", "nan", "-inf", "1e400", "x", "1e", "", "1:2", "1_0"]),
    st.floats(allow_nan=False).map(repr),
    st.floats(width=32, allow_nan=False).map(repr),
    st.from_regex(r"\A[+-]?[0-9]{0,25}\.[0-9]{0,25}([eE][+-]?[0-9]{1,3})?\Z"),
    st.decimals(allow_nan=False, places=6, min_value=-100, max_value=100).map(str),
)
INDICES = st.one_of(
    st.integers(0, 40).map(str),
    st.sampled_from(["007", "2147483647", "2147483648", "134217727", "9" * 40, "-1", "a", "", "qid"]),
)
JUNK = st.sampled_from(
    [b" ", b"\t", b"\r", b"\r\n", b"\n", b"#", b"# c", b"\x00", b"\x80", b":", b"1,2", b"\x0b", b"1:1"]
)


@st.composite
def texts(draw):
    lines = []
    labels = draw(st.sampled_from([NUMBERS, st.one_of(NUMBERS, st.tuples(NUMBERS, NUMBERS).map(":".join))]))
    for _ in range(draw(st.integers(1, 5))):
        indices = draw(st.lists(INDICES, max_size=5))
        if draw(st.integers(0, 3)):
            indices = sorted({index for index in indices if index.isdigit() and int(index) < 1000}, key=int)
        pairs = [f"{index}:{draw(NUMBERS)}" for index in indices]
        line = draw(st.sampled_from([" ", "  ", "\t"])).join([draw(labels), *pairs]).encode()
        for _ in range(draw(st.sampled_from([0, 0, 0, 1]))):
            at = draw(st.integers(0, len(line)))
            line = line[:at] + draw(JUNK) + line[at:]
        lines.append(line + draw(st.sampled_from([b"\n", b"\n", b"\r\n", b" \n", b""])))
    return b"".join(lines)


@settings(max_examples=1000, deadline=None)
@given(
    data=st.one_of(texts(), texts(), st.binary(max_size=40), st.lists(JUNK, max_size=9).map(b"".join)),
    size=st.sampled_from([1, 7, 4096]),
    index_base=st.sampled_from(["auto", 0, 1]),
    max_line=st.sampled_from([2**24, 2**24, 30]),
    window_bytes=st.sampled_from([4, 64, 4096]),
    threads=st.sampled_from([1, 2, 7]),
)
def test_same_as_the_slow_reader(data, size, index_base, max_line, window_bytes, threads):
    limits = InputLimits(max_line_bytes=max_line)
    assert outcome(data, size, index_base, limits, window_bytes, threads) == expected(data, index_base, limits)


def exact_decimal(number):
    """An exact decimal expansion of a fraction over a power of two."""
    shift = number.denominator.bit_length() - 1
    return f"{number.numerator * 5**shift}e-{shift}"


def near_ties(count, seed):
    """Decimals at the middle of two neighbouring float32, and just beside it."""
    rng = np.random.default_rng(seed)
    for bits in rng.integers(0, 0x7F7FFFFF, count):
        low, high = np.array([bits, bits + 1], np.uint32).view(np.float32)
        middle = exact_decimal((Fraction(float(low)) + Fraction(float(high))) / 2)
        digits, exponent = middle.split("e")
        yield middle
        yield f"{int(digits) * 1000 + int(rng.integers(-1, 2))}e{int(exponent) - 3}"
        yield f"{float(middle):.17g}"
        yield f"{float(middle):.15e}"


def test_numbers_are_correctly_rounded():
    rng = np.random.default_rng(5)
    random = [f"{m}e{e}" for m, e in zip(rng.integers(0, 2**63, 20000), rng.integers(-70, 15, 20000), strict=True)]
    tokens = [*near_ties(3000, 1), *random, *map(repr, rng.standard_normal(20000).tolist())]
    tokens += ["7.006492321624085e-46", "1e-45"]
    tokens = [token for token in tokens if float(token) < 3e38]
    data = "".join(f"{token} 1:{token}\n" for token in tokens).encode()
    parser = LibsvmParser(InputOptions(), InputLimits())
    batches = list(parser.parse_chunks([data]))
    numbers = np.array([float(token) for token in tokens])
    assert np.array_equal(np.concatenate([batch.label for batch in batches]), numbers)
    rounded = numbers.astype(np.float32)
    assert np.array_equal(np.concatenate([batch.values for batch in batches]), rounded[rounded != 0])
    assert parser.counters["explicit_zeros"] == np.count_nonzero(rounded == 0)


def test_a_line_longer_than_the_window_with_more_ties_than_fit_at_first():
    tie = "1.000000059604644775390625" + "0" * 40
    count = 130_000
    data = ("1 " + " ".join(f"{i}:{tie}" for i in range(count)) + "\n").encode()
    limits = InputLimits()
    assert 2 * (4 << 20) < len(data) < limits.max_line_bytes
    batches = list(LibsvmParser(InputOptions(), InputLimits()).parse_chunks(pieces(data, 1 << 20)))
    assert [len(batch) for batch in batches] == [1]
    assert np.array_equal(batches[0].indices, np.arange(count))
    assert np.all(batches[0].values == np.float32(1))
    with refused(InputError, "line_too_long"):
        list(
            LibsvmParser(InputOptions(), InputLimits(max_line_bytes=len(data) - 2)).parse_chunks(pieces(data, 1 << 20))
        )


def test_more_short_rows_than_a_batch_takes():
    batches = list(LibsvmParser(InputOptions(), InputLimits()).parse_chunks([b"1\n" * 600_000]))
    assert sum(len(batch) for batch in batches) == 600_000
    assert len(batches) > 2


@pytest.mark.parametrize("token", [b"9" * 3_000_000, b"1e" + b"9" * 3_000_000, b"0." + b"0" * 3_000_000 + b"1e3000001"])
def test_very_long_tokens(token):
    assert outcome(token + b" 1:1\n") == expected(token + b" 1:1\n")
    assert outcome(b"1 1:" + token + b"\n") == expected(b"1 1:" + token + b"\n")
    assert outcome(b"1 " + b"9" * 3_000_000 + b":1\n") == ("index_too_large", 1, 3)


def test_the_problem_is_short_and_printable():
    with pytest.raises(InputError) as caught:
        list(LibsvmParser(InputOptions(), InputLimits()).parse_chunks([b"1 1:1\n1 2:" + b"\x1bx" * 1000 + b"\n"]))
    problem = caught.value.problem()
    assert set(problem) == {"code", "detail", "hint", "at"}
    assert problem["at"] == {"line": 2, "column": 3, "byte": 8}
    assert len(problem["detail"]) < 100
    assert problem["detail"].isprintable()
    assert str(caught.value).startswith("line 2: ")
    assert InputError("no_rows", "none").problem()["at"] == {}
    assert excerpt(b"a" * 100) == "'" + "a" * 37 + "...'"
    assert excerpt("Größe €".encode()) == "'Größe €'"
    assert excerpt("é\n".encode("latin1")) == "'??'"
    assert excerpt("é".encode() * 100) == "'" + "é" * 37 + "...'"


def test_the_byte_offset_counts_from_the_start_of_the_text():
    data = b"\xef\xbb\xbf" + b"1 1:1\n" * 1000 + b"1 1:x\n"
    for window_bytes, threads in itertools.product((4, 64, 1 << 20), (1, 4)):
        parser = LibsvmParser(InputOptions(), InputLimits(), threads=threads, window_bytes=window_bytes, range_bytes=16)
        with pytest.raises(InputError) as caught:
            list(parser.parse_chunks(pieces(data, 11)))
        assert (caught.value.line, caught.value.column, caught.value.byte) == (1001, 3, 6005)


def test_the_first_fault_is_told_whoever_finds_it():
    """Threads read ranges with faults side by side: the error is the first in the text, after the rows before it."""
    lines = [b"1 %d:1" % (k + 1) for k in range(2000)]
    for first in (0, 1, 499, 500, 501, 1250, 1999):
        text = b"\n".join([*lines[:first], *(b"1 1:x" for _ in lines[first:])])
        parser = LibsvmParser(InputOptions(), InputLimits(), threads=8, window_bytes=1 << 20, range_bytes=1)
        found = []
        with pytest.raises(InputError) as caught:
            found.extend(batch.indices for batch in parser.parse_chunks([text]))
        assert (caught.value.line, caught.value.column) == (first + 1, 3)
        assert len(found) == 0 or np.array_equal(np.concatenate(found), np.arange(1, sum(map(len, found)) + 1))


@pytest.mark.parametrize(
    ("name", "rows", "nnz", "greatest"),
    [("a9a", 32561, 451592, 123), ("letter.multiclass", 15000, None, 16), ("dna.multiclass", 2000, 91233, 180)],
)
def test_real_data(name, rows, nnz, greatest):
    path = DATA / f"{name}.libsvm.zst"
    if not path.exists():
        pytest.skip("the data is not here")
    text = zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())
    parser = LibsvmParser(InputOptions(), InputLimits())
    batches = list(parser.parse_chunks(pieces(text, 100_001)))
    assert (parser.rows, parser.max_index) == (rows, greatest)
    assert nnz in (None, parser.nnz)
    tokens = re.findall(rb"([0-9]+):(\S+)", text)
    indices = np.array([int(index) for index, _ in tokens])
    values = np.array([float(value) for _, value in tokens]).astype(np.float32)
    assert np.array_equal(np.concatenate([batch.indices for batch in batches]), indices[values != 0])
    assert np.array_equal(np.concatenate([batch.values for batch in batches]), values[values != 0])
    assert indices.max() < INDEX_LIMIT
