"""CSV: every fault with its place, every accepted oddity, and equal rows from the kernel and from Python."""

import sys
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables.csv import CsvParser
from streamsvm.reader.parsers.tables.csv_head import LOOK_LINES
from streamsvm.reader.parsers.tables.matching import ToPredict
from tests.contracts.problems import joined
from tests.refusals import fault_of, refused

LIMITS = InputLimits()


def read(text: bytes, size: int = 1 << 20, window_bytes: int = 1 << 20, labelled: bool = True, **options):
    """The parser, and (labels, dense features from the first feature on) it read."""
    parser = CsvParser(InputOptions(**options), LIMITS, None, None if labelled else ToPredict())
    parser.window_bytes = window_bytes
    batches = list(parser.parse_chunks(text[k : k + size] for k in range(0, len(text), size)))
    rows = joined(batches)
    dense = np.zeros((len(rows), (parser.max_index or 0) + 1), np.float32)
    dense[np.repeat(np.arange(len(rows)), np.diff(rows.indptr)), rows.indices] = rows.values
    assert (parser.rows, parser.nnz) == (len(rows), rows.nnz)
    assert (rows.values != 0).all()
    return parser, rows.label.tolist(), dense[:, parser.index_base :].tolist()


fault = partial(fault_of, read)


FAULTS = [
    (b"1,2,3\n1,2\n", "column_count", 2, 1),
    (b"1,2,3\n1,2,3,4\n", "column_count", 2, 1),
    (b"1,2,3\n1,,3\n", "missing_value", 2, 3),
    (b"1,2,3\n1,2,NA\n", "missing_value", 2, 5),
    (b"1,2,3\n1,nan,2\n", "missing_value", 2, 3),
    (b",2,3\n", "missing_value", 1, 1),
    (b"1\t2\n\t\n", "missing_value", 2, 1),
    (b"1,2\n1,x\n", "not_numeric", 2, 3),
    (b"1,2\n1,1_0\n", "not_numeric", 2, 3),
    (b"1,2\n1,1 2\n", "not_numeric", 2, 3),
    (b"1,2\n1,\xef\xbc\x91\n", "not_numeric", 2, 3),
    (b"1,2\n1,\x001\n", "not_numeric", 2, 3),
    (b"1,2\n1,2\r3,4\n", "column_count", 2, 1),
    (b"1,2\nspam,2\n", "not_numeric", 2, 1),
    (b"label;a\n1;2,5\n", "not_numeric", 2, 3),
    (b"1,2\n1,inf\n", "value_not_finite", 2, 3),
    (b"1,2\n1e400,1\n", "value_not_finite", 2, 1),
    (b"1,2\n1,1e39\n", "row_overflow", 2, 3),
    (b'1,2\n1,"2\n', "bad_quote", 2, 3),
    (b'1,2\n1,"2"3\n', "bad_quote", 2, 6),
    (b'1,2\n1,2"3\n', "bad_quote", 2, 4),
    (b'1,2\n1,"2\n3"\n', "bad_quote", 2, 3),
    (b"label,a,b,a\n1,2,3,4\n", "duplicate_column", 1, 11),
    (b"a,b\n1,2\n", "label_column_missing", 1, None),
    (b"y,label\n1,2\n", "label_column_missing", 1, None),
    (b"123\n", "delimiter_mismatch", 1, None),
    (b"", "no_rows", None, None),
    (b"label,a\n", "no_rows", None, None),
    (b"PAR1\r\n", "unknown_format", None, None),
]


@pytest.mark.parametrize(("text", "code", "line", "column"), FAULTS)
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_fault_and_its_place(text, code, line, column, size):
    found = fault(text, size=size)
    assert (found.code, found.line, found.column) == (code, line, column)


def test_the_place_of_a_fault_far_into_the_text():
    text = b"label,a\n" + b"1,2.5\n" * 5000 + b"1,x\n"
    found = fault(text, window_bytes=1 << 10)
    assert (found.line, found.column, found.byte) == (5002, 3, len(text) - 2)
    assert "column 2 (a)" in found.message


def test_options_that_do_not_fit():
    assert fault(b"1,2\n", delimiter="semicolon").code == "delimiter_mismatch"
    assert fault(b"1,2\n", delimiter="ab").code == "bad_delimiter"
    assert fault(b"1,2\n", delimiter="1").code == "bad_delimiter"
    for wanted in ("0", "3", "-3", "a", "²"):
        assert fault(b"1,2\n", label_column=wanted).code == "label_column_missing"
    assert fault(b"1,2\n", header="yes", label_column="1").code == "no_rows"
    assert fault(b"label,a\n1,2\n", header="no").code == "not_numeric"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (b"1,2,3\n-1,0,4\n", {}),
        (b"1,2,3\n-1,0,4", {}),
        (b"1,2,3\r\n-1,0,4\r\n", {}),
        (b"\xef\xbb\xbf1,2,3\n-1,0,4\n", {}),
        (b"1, 2 ,3\n\n-1,\t0,4\n   \n", {}),
        (b'"1","2",3\n-1,0,"4"\n', {}),
        (b"+1,2e0,3.\n-1,.0,4\n", {}),
        (b"1;2;3\n-1;0;4\n", {}),
        (b"1|2|3\n-1|0|4\n", {}),
        (b"1\t2\t3\n-1\t0\t4\n", {}),
        (b"1\t2\t3\n-1\t0\t4\n", {"format": "tsv"}),
        (b"1\t2\t3\n-1\t0\t4\n", {"delimiter": "tab"}),
        (b"1 2 3\n-1 0 4\n", {"delimiter": "space"}),
        (b"1x2x3\n-1x0x4\n", {"delimiter": "x"}),
        (b"label,a,b\n1,2,3\n-1,0,4\n", {}),
        (b"a,Y,b\n2,1,3\n0,-1,4\n", {}),
        (b"a,b,c\n2,3,1\n0,4,-1\n", {"label_column": "c"}),
        (b"a,b,c\n2,3,1\n0,4,-1\n", {"label_column": "-1"}),
        (b"2,1,3\n0,-1,4\n", {"label_column": "2"}),
        (b"3,2,1\n2,1,3\n0,-1,4\n", {"label_column": "2", "header": "no", "on_bad_row": "skip"}),
        (b'"spam, ""x""",label,b\n2,1,3\n0,-1,4\n', {}),
        (b"caf\xc3\xa9,label,b\n2,1,3\n0,-1,4\n", {}),
    ],
)
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_what_is_accepted(text, options, size):
    parser, labels, features = read(text, size=size, **options)
    assert (labels[-2:], features[-2:]) == ([1.0, -1.0], [[2.0, 3.0], [0.0, 4.0]])
    assert (parser.index_base, parser.max_index) == (1, 2)


def test_a_number_that_is_also_a_name_is_refused():
    text = b"2,1,7\n7,8,9\n"
    with refused(InputError, "column_ambiguous") as caught:
        read(text, header="yes", label_column="1")
    assert "-3 is the one, -2 the other" in caught.value.hint
    assert read(text, header="yes", label_column="-3")[1] == [7.0]
    assert read(text, header="yes", label_column="-2")[1] == [8.0]
    assert read(text, header="yes", label_column="7")[1] == [9.0]
    assert read(text, header="yes", label_column="3")[1] == [9.0]
    assert read(b"1,2\n7,8\n", header="yes", label_column="1")[1] == [7.0]


def test_labels_are_doubles_and_values_are_rounded_once():
    _, labels, features = read(b"1e300,0.1\n0.1,1e-50\n")
    assert labels == [1e300, 0.1]
    assert features == [[float(np.float32(0.1))], [0.0]]


def test_a_table_without_labels():
    parser, labels, features = read(b"1,2\n3,4\n", labelled=False, index_base=0, like={"n_features": 2})
    assert (np.isnan(labels).all(), features, parser.max_index) == (True, [[1.0, 2.0], [3.0, 4.0]], 1)
    assert read(b"1\n3\n", labelled=False, like={"n_features": 1})[2] == [[1.0], [3.0]]
    assert read(b"a,b\n1,2\n", labelled=False, label_column="b", like={"n_features": 1})[1:] == ([2.0], [[1.0]])


def test_blank_lines_and_empty_rows_are_counted():
    parser, _, _ = read(b"\n1,0\n \n1,2\n\n")
    assert parser.counters == {"explicit_zeros": 0, "empty_rows": 1, "blank_lines": 3, "comment_lines": 0}


@pytest.mark.parametrize(
    "text", ["{0}", "{0}1,2\n", "1,2\n{0}", "1,2\n{0}3,4\n{0}", "label,x\n{0}", "label,x\n{0}1,2\n"]
)
@pytest.mark.parametrize("blank", ["\n", "\r\n", " \t\n", "\r \x0b\x0c\n"])
def test_many_blank_lines_take_no_step_of_python_each(text, blank):
    def steps(count):
        calls = 0

        def note(_frame, event, _argument):
            nonlocal calls
            calls += event in ("call", "c_call")

        parser = CsvParser(InputOptions("csv"), LIMITS)
        sys.setprofile(note)
        try:
            with suppress(InputError):
                list(parser.parse_chunks([text.format(blank * count).encode()]))
        finally:
            sys.setprofile(None)
        assert parser.counters["blank_lines"] == count * text.count("{0}")
        return calls

    few = 2 * LOOK_LINES
    steps(few)  # kernels are compiled
    assert steps(10 * few) < steps(few) + few


def test_a_line_of_delimiters_is_a_row():
    _, labels, features = read(b"1\t2\n\n\t\n \n3\t\n", format="tsv", header="no", missing="zero", on_bad_row="skip")
    assert (labels, features) == ([1.0, 3.0], [[2.0], [0.0]])


def test_too_many_columns():
    with refused(InputError, "too_many_features"):
        list(CsvParser(InputOptions(), InputLimits(max_features=2)).parse_chunks([b"1,2,3,5\n"]))


def test_a_line_too_long():
    with pytest.raises(InputError) as caught:
        list(CsvParser(InputOptions(), InputLimits(max_line_bytes=100)).parse_chunks([b"1,2\n" + b"1," * 10_000]))
    assert (caught.value.code, caught.value.line) == ("line_too_long", 2)


def test_bad_rows_are_left_out_and_counted():
    text = b"label,a\n" + b"1,2\n" * 3 + b"1,x\n,1\n-1,3\n" + b"1\n" * 20
    parser, labels, _ = read(text, on_bad_row="skip", window_bytes=64, size=7)
    assert labels == [1.0, 1.0, 1.0, -1.0]
    assert parser.rejected.rows == 22
    assert [(found.code, found.line) for found in parser.rejected.first[:3]] == [
        ("not_numeric", 5), ("missing_value", 6), ("column_count", 8),
    ]  # fmt: skip
    assert len(parser.rejected.first) == 10


FIELDS = st.sampled_from(
    [b"1", b"-2.5", b"1e3", b"0", b" 4 ", b'"7"', b"", b"nan", b"inf", b"x", b"1e39", b'"', b'"1"2', b"1\r", b"+",
     b"1_0", b"\t", b"1d2", b"infinity", b"0x1p3", b'""', b'1"', b"\x00", b"1e400", b"1E+2", b".", b".5", b"5."]
)  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(
    lines=st.lists(st.lists(FIELDS, min_size=2, max_size=3).map(b",".join), min_size=1, max_size=4), ends=st.booleans()
)
def test_blank_lines_in_between_change_nothing(lines, ends):
    text = b"1,2,3\n" + b"\n".join(lines) + b"\n" * ends
    apart = b"1,2,3\n" + b"\n\n".join(lines) + b"\n\n"

    def outcome(text, line_feeds):
        parser, labels, features = read(text, on_bad_row="skip", header="no")
        places = [(found.code, (found.line - 2) // line_feeds, found.column) for found in parser.rejected.first]
        return labels, features, places

    assert outcome(text, 1) == outcome(apart, 2)
