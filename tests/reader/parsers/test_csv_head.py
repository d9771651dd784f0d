"""Whether the first line of a table names its columns, decided by the lines below and by known names."""

import pytest

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables.csv import CsvParser
from streamsvm.reader.parsers.tables.matching import ToPredict
from tests.refusals import refused

WORDS = "p,x,s\ne,x,s\ne,b,f\n"
MANY = "".join(f"{'pe'[k % 2]},{'xbs'[k % 3]},{'sf'[k % 2]}\n" for k in range(20))


def head(text: str, labelled: bool = True, like=None, **options) -> list[str] | None:
    """Names of the columns that make features, None if the first line is a row; all lines but names are rows."""
    like = like if labelled or like else {"n_features": 4}
    parser = CsvParser(
        InputOptions("csv", like=like, **options), InputLimits(), None, None if labelled else ToPredict()
    )
    rows = sum(map(len, parser.parse_chunks([text.encode()])))
    assert rows == text.count("\n") - parser.has_names
    return parser.input["columns"] if parser.has_names else None


@pytest.mark.parametrize(
    ("text", "options", "names"),
    [
        # words above words
        ("class,cap,odor\n" + WORDS, {"categorical": "all"}, ["cap", "odor"]),
        ("cap,odor,CLASS\n" + WORDS, {"categorical": "all", "label_column": "-1"}, ["cap", "odor"]),
        ("edible,cap,odor\n" + MANY, {"categorical": "all", "label_column": "1"}, ["cap", "odor"]),
        (WORDS, {"categorical": "all"}, None),
        (MANY, {"categorical": "all"}, None),
        ("n,y,a\ny,n,b\ny,y,a\n", {"categorical": "all"}, None),
        ("republican,n,y,n\ndemocrat,y,n,n\n", {"categorical": "all"}, None),
        ("class,n,y\n" + WORDS, {"categorical": "all", "label_column": "class"}, ["n", "y"]),
        # words above words, and numbers beside them
        ("setosa,5.1,3\nvirginica,4.9,4\n", {}, None),
        ("setosa,5\nvirginica,4\n", {}, None),
        ("species,0,1,2\nsetosa,5.1,3.5,1.4\nsetosa,4.9,3.0,1.4\n", {"label_column": "species"}, ["0", "1", "2"]),
        ("kind,0,1,2\nsetosa,5.1,3.5,1.4\n", {"label_column": "-4"}, ["0", "1", "2"]),
        # words above numbers, words where there can be none
        ("label,a\n1,2\n", {}, ["a"]),
        ("a,b\n1,2\n", {"label_column": "1"}, ["b"]),
        # numbers
        ("0,1,2,3\n1,-0.5,0.25,7\n", {}, ["1", "2", "3"]),
        ("0,1,2,3\n1,-0.5,0.25,7\n", {"label_column": "-1"}, ["0", "1", "2"]),
        (",0,1,2\n0,1,5,6\n1,0,7,8\n", {}, ["1", "2"]),
        ("10,20,30,40\n1,0.5,2.5,7\n", {}, None),
        ("1,2,3\n-1,0,4\n", {}, None),
        ("0,2,1\n1,0.5,2.5\n", {}, None),
        ("0.0,1.0,2.0\n1,0.5,2.5\n", {}, None),
        ("5,6,7,8,9\n1,0.5,2.5,7,8\n", {"label_column": "-1"}, ["5", "6", "7", "8"]),
    ],
)
def test_names_or_a_row(text, options, names):
    assert head(text, **options) == names


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("0,1,2,3\n1,0,2,7\n", {}),
        ("0,1\n1,2.5\n", {}),
        ("1,2,3,4\n5,6,7,8\n", {}),
        ("edible,cap,odor\n" + WORDS, {"categorical": "all"}),
    ],
)
def test_a_guess_is_refused_and_the_hint_helps(text, options):
    with refused(InputError, "header_unclear") as caught:
        head(text, **options)
    assert "header=yes" in caught.value.hint and "header=no" in caught.value.hint
    assert head(text, header="no", **options) is None
    assert head(text, header="yes", label_column="-1", **options) is not None


def told(text: str, **options) -> dict:
    parser = CsvParser(InputOptions("csv", **options), InputLimits())
    list(parser.parse_chunks([text.encode()]))
    return parser.input


@pytest.mark.parametrize("labelled", [True, False])
def test_where_rows_before_had_names_a_row_is_no_line_of_names(labelled):
    like = told("label,a,b\n1,2,3\n")
    for text in ("1,2,3\n", "0,1,2\n1,0.5,2.5\n"):
        with refused(InputError, "header_differs"):
            head(text, labelled, like)
    numbered = told("0,1,2,3\n1,0.5,0.25,7\n", label_column="-4")
    assert head("3,2,1,0\n1,0.5,0.25,7\n", labelled, numbered) == ["1", "2", "3"]
    with refused(InputError, "header_differs"):
        head("0,1,2\n1,0.5,0.25\n", labelled, numbered)


@pytest.mark.parametrize("labelled", [True, False])
def test_where_rows_before_had_none_a_line_of_names_is_refused(labelled):
    like = told("1,2,3\n", header="no")
    for text in ("label,a,b\n1,2,3\n", "y,2,3\n1,5,6\n", "a,b\n2,3\n"):
        with refused(InputError, "header_differs"):
            head(text, labelled, like)
    assert head("0,1,2\n1,0.5,2.5\n", labelled, like, label_column="1") is None
    words = told(WORDS, categorical="all")
    assert head("p,b,s\n", labelled, words, label_column="1") is None
    with refused(InputError, "header_differs"):
        head("class,cap,odor\n" + WORDS, labelled, words)


def test_a_row_to_be_predicted_may_count_up_but_not_as_pandas_counts():
    assert head("1,2,3,4\n", labelled=False) is None
    assert head("1,2,3,4\n1,0.5,2.5,7\n", labelled=False) is None
    with refused(InputError, "header_unclear"):
        head("0,1,2,3\n", labelled=False)
