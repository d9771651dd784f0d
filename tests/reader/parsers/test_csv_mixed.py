"""Tables with categories: compared with a slow, clear reader and with scikit-learn; and their faults."""

import csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction import FeatureHasher

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.fasta import letters_of
from streamsvm.reader.parsers.tables import categories
from streamsvm.reader.parsers.tables.csv import CsvParser
from streamsvm.reader.parsers.tables.matching import ToPredict
from streamsvm.reader.parsers.values import LabelNames
from tests.contracts.problems import joined
from tests.refusals import refused

WORDS = st.text(st.sampled_from('abc ,"é'), max_size=5).map(str.strip)
NUMBERS = st.one_of(st.integers(-9, 9).map(str), st.floats(-1e6, 1e6, width=32).map(repr), st.sampled_from(["", "NA"]))


def parsed(text, piece: int = 1 << 20, **given):
    """The parser, and all rows of a text that comes in pieces."""
    data = text if isinstance(text, bytes) else text.encode()
    labelled, names = given.pop("labelled", True), given.pop("names", None)
    options = InputOptions(**{"format": "csv", **given})
    parser = CsvParser(options, InputLimits(), names, None if labelled else ToPredict())
    parser.window_bytes = 64
    return parser, joined(list(parser.parse_chunks(data[k : k + piece] for k in range(0, len(data), piece))))


def feature_names(told: dict) -> list[str]:
    """Names of all features, in their order."""
    numbers = [name for name in told["columns"] if name not in told["categorical"]]
    missing = [f"{name} is missing" for name in numbers] if told["missing"] == "indicator" else []
    words = {number: f"{name}={word}" for name, of in told["dictionary"].items() for word, number in of.items()}
    assert sorted(words) == list(range(len(words)))
    return [*numbers, *missing, *(words[number] for number in range(len(words)))]


def as_dicts(rows, names: list[str], base: int = 1) -> list[dict[str, float]]:
    found = []
    for row in range(len(rows)):
        part = slice(rows.indptr[row], rows.indptr[row + 1])
        indices = rows.indices[part]
        assert len(np.unique(indices)) == len(indices)
        found.append({names[f - base]: v for f, v in zip(indices.tolist(), rows.values[part].tolist(), strict=True)})
    return found


def expected(table: list[list[str]], header: list[str], words: set[str], missing: str) -> list[dict[str, float]]:
    """Read the table with csv.reader, a cell at a time."""
    found = []
    for line in table:
        row: dict[str, float] = {}
        for name, cell in list(zip(header, line, strict=True))[1:]:
            if name in words:
                row[f"{name}={cell}"] = 1.0
            elif cell in ("", "NA"):
                row |= {f"{name} is missing": 1.0} if missing == "indicator" else {}
            elif np.float32(cell):
                row[name] = float(np.float32(cell))
        found.append(row)
    return found


@st.composite
def tables(draw):
    """A header, lines of cells, and which columns hold categories."""
    is_word = draw(st.lists(st.booleans(), min_size=1, max_size=5))
    header = ["label", *(f"c{k}" for k in range(len(is_word)))]
    cells = [st.integers(-2, 2).map(str), *(WORDS if each else NUMBERS for each in is_word)]
    lines = draw(st.lists(st.tuples(*cells).map(list), min_size=1, max_size=12))
    return header, lines, {name for name, each in zip(header[1:], is_word, strict=True) if each}


def written(header: list[str], lines: list[list[str]], end: str, quoting: int) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator=end, quoting=quoting).writerows([header, *lines])
    return file.getvalue()


@settings(deadline=None)
@given(
    tables(), st.sampled_from(["zero", "indicator"]), st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), st.integers(1, 100),
)  # fmt: skip
def test_rows_are_those_of_a_slow_reader(table, missing, end, quoting, piece):
    header, lines, words = table
    text = written(header, lines, end, quoting)
    categorical = ",".join(sorted(words)) or None
    parser, rows = parsed(text, piece, categorical=categorical, missing=missing, header="yes")
    assert rows.label.tolist() == [float(line[0]) for line in lines]
    assert parser.input is not None
    names = feature_names(parser.input)
    assert as_dicts(rows, names) == expected(lines, header, words, missing)
    assert parser.max_index == (len(names) or None)


@settings(deadline=None)
@given(tables(), st.sampled_from([3, 64, 1 << 20]))
def test_hashed_categories_are_those_of_feature_hasher(table, n_features):
    header, lines, words = table
    numbers = [name for name in header[1:] if name not in words]
    text = written(header, lines, "\n", csv.QUOTE_MINIMAL)
    categorical = ",".join(sorted(words)) or None
    options = {"categorical": categorical, "missing": "zero", "header": "yes", "categories": "hashed"}
    parser, rows = parsed(text, n_features=n_features, **options)
    cells = [{n: c for n, c in zip(header, line, strict=True) if n in words} for line in lines]
    hashed = FeatureHasher(n_features, dtype=np.float64).transform(cells)
    for row in range(len(lines)):
        part = slice(rows.indptr[row], rows.indptr[row + 1])
        pairs = dict(zip((rows.indices[part] - 1 - len(numbers)).tolist(), rows.values[part].tolist(), strict=True))
        want = hashed[[row]].tocoo()
        there = {int(c): float(v) for c, v in zip(want.col, want.data, strict=True) if v}
        assert {feature: value for feature, value in pairs.items() if feature >= 0} == there
    assert parser.max_index == len(numbers) + n_features


def test_all_that_is_not_a_number():
    parser, rows = parsed("color,size,label\nred,1,1\n,2,-1\nblue,NA,1\n", categorical="all", missing="zero")
    assert parser.input is not None and parser.input["categorical"] == ["color"]
    assert as_dicts(rows, feature_names(parser.input)) == [
        {"size": 1.0, "color=red": 1.0}, {"size": 2.0, "color=": 1.0}, {"color=blue": 1.0},
    ]  # fmt: skip


def test_words_are_seen_in_lines_that_have_quotes_within_quotes():
    parser, rows = parsed('label,n,t\n1,2,"a ""b"""\n0,3,"c, ""d"""\n', categorical="all")
    assert parser.input["categorical"] == ["t"]
    assert len(rows) == 2


def test_a_table_without_names():
    parser, rows = parsed("1,tcp,5\n-1,udp,6\n", categorical="all")
    assert parser.input is not None
    assert (parser.input["has_names"], parser.input["columns"]) == (False, ["2", "3"])
    assert as_dicts(rows, feature_names(parser.input)) == [{"3": 5.0, "2=tcp": 1.0}, {"3": 6.0, "2=udp": 1.0}]


def test_columns_by_number_that_hold_words():
    parser, rows = parsed("a,x,1\nb,y,2\n", categorical="1,2", label_column="-1")
    assert rows.label.tolist() == [1, 2]
    assert parser.input is not None and parser.input["columns"] == ["1", "2"]


def test_numbers_as_categories():
    parser, rows = parsed("label,code\n1,07\n1,7\n", categorical="code")
    assert parser.input is not None
    assert as_dicts(rows, feature_names(parser.input)) == [{"code=07": 1.0}, {"code=7": 1.0}]


def test_words_of_many_parts_are_categories_if_they_occur_twice():
    parser, _ = parsed("label,side\n" + "".join(f"{k % 2},{side} on {side}\n" for k, side in enumerate("RLRLRL")))
    assert parser.input is not None and list(parser.input["dictionary"]["side"]) == ["R on R", "L on L"]
    with pytest.raises(InputError) as caught:
        parsed("label,note\n" + "".join(f"{k % 2},a b {k}\n" for k in range(6)))
    assert caught.value.code == "not_numeric" and "text_column=note" in caught.value.hint


def test_labels_weights_and_groups():
    names = LabelNames("auto")
    text = "who,w,label,proto\na,2,yes,tcp\nb,0.5,no,udp\n"
    options = {"weight_column": "w", "group_column": "who", "categorical": "proto"}
    _, rows = parsed(text, names=names, **options)
    assert [names.names[int(label)] for label in rows.label] == ["yes", "no"]
    assert rows.weight is not None and rows.weight.tolist() == [2, 0.5]
    assert rows.group is not None and len(set(rows.group.tolist())) == 2


BASE = "label,proto,size\n1,tcp,1\n"
FAULTS = [
    ("1,,2\n", {}, "missing_value", 3),
    ("1,udp,\n", {}, "missing_value", 7),
    ("1,udp,big\n", {"missing": "zero"}, "not_numeric", 7),
    ("1,udp,1e39\n", {}, "row_overflow", 7),
    ("1,udp\n", {}, "column_count", 1),
    ('1,"udp,2\n', {}, "bad_quote", 3),
    ('1,"a""b",big\n', {}, "not_numeric", 10),
    ("no,udp,2\n", {"label_type": "number"}, "not_numeric", 1),
    (b"1,\xff\xfe,2\n", {}, "not_utf8", 3),
]


@pytest.mark.parametrize(("line", "options", "code", "column"), FAULTS)
@pytest.mark.parametrize("piece", [1, 1000])
def test_faults_say_where(line, options, code, column, piece):
    data = BASE.encode() + (line if isinstance(line, bytes) else line.encode())
    with pytest.raises(InputError) as caught:
        parsed(data, piece, **{"categorical": "proto", "missing": "error", **options})
    assert (caught.value.code, caught.value.line, caught.value.column) == (code, 3, column)
    assert caught.value.hint


@pytest.mark.parametrize(("line", "options", "code", "column"), FAULTS)
def test_bad_rows_are_left_out(line, options, code, column):
    data = BASE.encode() + (line if isinstance(line, bytes) else line.encode()) + b"-1,udp,4\n"
    parser, rows = parsed(data, **{"categorical": "proto", "on_bad_row": "skip", **options})
    assert rows.label.tolist() == [1, -1]
    assert [fault.code for fault in parser.rejected.first] == [code]
    assert parser.input is not None and list(parser.input["dictionary"]["proto"]) == ["tcp", "udp"]


def test_blank_lines_are_counted():
    parser, rows = parsed("label,a\n\n1,x\n \n2,y\n", categorical="a")
    assert (len(rows), parser.counters["blank_lines"]) == (2, 2)


def test_too_many_categories(monkeypatch):
    monkeypatch.setattr(categories, "MOST_CATEGORIES", 50)
    lines = "".join(f"1,word{k}\n" for k in range(51))
    with pytest.raises(InputError) as caught:
        parsed("label,a\n" + lines, categorical="a")
    assert caught.value.code == "too_many_categories" and "hashed" in caught.value.hint
    assert parsed("label,a\n" + lines[:-9], categorical="a")[0].rows == 50


def test_a_large_dictionary():
    words = [f"word{k}" for k in np.random.default_rng(0).permutation(20_000)]
    text = "label,a,b\n" + "".join(f"1,{word},{word[::-1]}\n" for word in words)
    parser, rows = parsed(text, categorical="a,b")
    assert parser.input is not None
    found = as_dicts(rows, feature_names(parser.input))
    assert found == [{f"a={word}": 1.0, f"b={word[::-1]}": 1.0} for word in words]


FURTHER = {"categorical": "proto", "missing": "indicator"}


def further(text, **options):
    """Read rows to predict with the `input` of the table BASE."""
    parser, _ = parsed("label,proto,size\n1,tcp,1\n-1,udp,\n", **FURTHER)
    assert parser.input is not None
    return parser.input, *parsed(text, like=parser.input, **{"labelled": False, **options})


@pytest.mark.parametrize("text", ["size,proto\n5,udp\n", "proto,size\nudp,5\n", "other,proto,size\n9,udp,5\n"])
def test_further_tables_find_their_columns(text):
    told, parser, rows = further(text)
    assert as_dicts(rows, feature_names(told)) == [{"size": 5.0, "proto=udp": 1.0}]
    assert parser.unknown_words == {} and np.isnan(rows.label[0])


def test_categories_never_seen_are_counted():
    told, parser, rows = further("proto,size\nicmp,5\n,6\n")
    assert as_dicts(rows, feature_names(told)) == [{"size": 5.0}, {"size": 6.0}]
    assert parser.unknown_words == {"proto": 1}  # a gap is none


def test_new_categories_extend_the_dictionary():
    told, parser, rows = further("label,size,proto\n1,5,icmp\n", labelled=True)
    assert parser.input is not None
    assert parser.input["dictionary"] == {"proto": {"tcp": 0, "udp": 1, "icmp": 2}}
    assert told["dictionary"] == {"proto": {"tcp": 0, "udp": 1}}
    assert as_dicts(rows, feature_names(parser.input)) == [{"size": 5.0, "proto=icmp": 1.0}]


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        ("size\n5\n", {}, "column_missing"),
        ("1,2,3,4\n", {}, "header_differs"),
        ("0,udp,5\n", {}, "header_differs"),
        ("label,size,proto,x\n1,2,tcp,4\n", {"labelled": True}, "columns_differ"),
        ("size,proto\n5,tcp\n", {"categories": "hashed"}, "option_unused"),
        ("size,proto\n5,tcp\n", {"categorical": "size"}, "option_unused"),
    ],
)
def test_tables_that_do_not_go_on(text, options, code):
    with refused(InputError, code):
        further(text, **options)


def test_a_column_of_strings():
    parser, rows = parsed("id,label,seq\n7,1,ACgn\n8,-1,TTTT\n", string_column="seq")
    assert parser.input == {"format": "fasta", "length": 4, "alphabet": "ACGT", "string_column": "seq"}
    assert [letters_of(rows.indices[k : k + 1], rows.values[k : k + 1], 4) for k in (0, 1)] == ["ACGN", "TTTT"]
    assert (rows.label.tolist(), parser.index_base, parser.max_index) == ([1, -1], 0, 0)


@pytest.mark.parametrize(
    ("cell", "code", "column"), [("AC", "string_length", 3), ("ACXT", "not_a_base", 5), ("", "empty_sequence", 3)]
)
def test_faults_of_strings(cell, code, column):
    with pytest.raises(InputError) as caught:
        parsed(f"label,seq\n1,ACGT\n1,{cell}\n", string_column="seq")
    assert (caught.value.code, caught.value.line, caught.value.column) == (code, 3, column)


def test_a_first_string_that_is_left_out_says_no_length():
    parser, rows = parsed("label,seq\n1,AX\n1,ACGT\n1,AC\n", string_column="seq", on_bad_row="skip")
    assert (len(rows), parser.rejected.rows) == (1, 2)
    assert parser.input is not None and parser.input["length"] == 4
