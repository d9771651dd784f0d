"""Documents: hashed n-grams equal those of HashingVectorizer; and faults of lines."""

import io

import numpy as np
import pyarrow
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers import open_parser
from streamsvm.reader.parsers.tables.matching import ToPredict
from streamsvm.reader.parsers.text import hashed_text
from streamsvm.reader.parsers.text.parser import TextParser
from streamsvm.reader.parsers.text.tables import TextTableParser
from streamsvm.reader.parsers.values import LabelNames
from streamsvm.storage.rows.csr import Rows

# Word characters of one to four bytes, blanks of all kinds, and what changes its length in lower case or depends on
# what stands around it.
ODD = (
    "aB9_éÉßẞΣσςİı中\u023a\u212a\U00010400\U0001d54f"
    + " \x0b\x1c\x85\xa0\u2028\u3000"
    + ".,-'\x00\u0301\u200d\U0001f600"
)
characters = st.one_of(st.sampled_from(ODD), st.characters(codec="utf-8")).filter(lambda c: c not in "\n\r\t")
documents = st.lists(st.text(characters, max_size=40), min_size=1, max_size=6)
ranges = st.tuples(st.integers(1, 5), st.integers(0, 4)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def read(parser, data: bytes, size: int = 1 << 16) -> Rows:
    batches = list(parser.parse_chunks([data[k : k + size] for k in range(0, len(data), size)]))
    ends = np.cumsum([0, *(batch.nnz for batch in batches)])
    indptr = np.concatenate([[0], *(batch.indptr[1:] + end for batch, end in zip(batches, ends[:-1], strict=True))])
    joined = (np.concatenate([getattr(b, name) for b in batches]) for name in ("indices", "values"))
    return Rows(np.concatenate([batch.label for batch in batches]), indptr, *joined)


def text_parser(threads: int = 1, labelled: bool = True, names: LabelNames | None = None, **options) -> TextParser:
    return TextParser(InputOptions("text", **options), InputLimits(), names, None if labelled else ToPredict(), threads)


def expected(texts: list[str], **options) -> sparse.csr_matrix:
    found = HashingVectorizer(norm=None, **options).transform(texts)
    found.eliminate_zeros()
    found.sort_indices()
    return found


def check(rows: Rows, wanted: sparse.csr_matrix) -> None:
    assert np.array_equal(rows.indptr, wanted.indptr)
    assert np.array_equal(rows.indices, wanted.indices)
    assert np.array_equal(rows.values, wanted.data)


@settings(max_examples=300, deadline=None)
@given(
    documents, st.sampled_from(["word", "char", "char_wb"]), ranges, st.sampled_from([1, 7, 1000, 1 << 20]),
    st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip
@example(["ΑΣ ΑΣΑ Σ İİ"], "word", (1, 2), 1 << 20, True, True, True)
@example(["ab  \x0b cd", " a"], "char", (2, 3), 1 << 20, True, True, False)
@example(["a bc  def"], "char_wb", (3, 5), 1 << 20, True, True, False)
def test_rows_are_those_of_hashing_vectorizer(texts, analyzer, ngram_range, n_features, sign, lower, labelled):
    options = {"analyzer": analyzer, "n_features": n_features}
    flags = {"alternate_sign": ("no", "yes")[sign], "lowercase": ("no", "yes")[lower]}
    least, most = ngram_range
    parser = text_parser(labelled=labelled, ngram_range=f"{least},{most}", **flags, **options)
    lines = "".join(("1\t" if labelled else "") + text + "\n" for text in texts).encode()
    found = read(parser, lines, 7)
    check(found, expected(texts, ngram_range=ngram_range, alternate_sign=sign, lowercase=lower, **options))
    assert parser.index_base == 0 and parser.max_index == n_features - 1


@pytest.mark.parametrize("n_features", [3, 1 << 20, 1 << 26])
def test_many_documents_on_several_threads(monkeypatch, n_features):
    """Rows, labels and first words do not depend on threads or on the pieces of the text."""
    monkeypatch.setattr(hashed_text, "PIECE_BYTES", 1 << 10)
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{k}" for k in rng.integers(0, 500, rng.integers(0, 60))) for _ in range(1000)]
    data = "".join(f"{'abc'[k % 3]}\t{text}\n" for k, text in enumerate(texts)).encode()
    found = []
    for threads, window in ((1, 1 << 22), (4, 1 << 12)):
        names = LabelNames("string")
        parser = text_parser(threads, names=names, n_features=n_features)
        parser.window_bytes = window
        rows = read(parser, data)
        check(rows, expected(texts, n_features=n_features))
        assert [names.names[int(label)] for label in rows.label] == ["abc"[k % 3] for k in range(len(texts))]
        found.append(parser.words.in_order())
    assert found[0].words == found[1].words and np.array_equal(found[0].features, found[1].features)


@pytest.mark.parametrize("last", ["", "\u00c9t\u00e9 O\u00f9"], ids=["ASCII", "not ASCII"])
@pytest.mark.parametrize(("analyzer", "most"), [("word", 1), ("word", 3), ("char", 4), ("char_wb", 5)])
def test_long_documents(analyzer, most, last):
    """Documents with more n-grams than are counted at once, and more features than the first table holds."""
    rng = np.random.default_rng(0)
    texts = [" ".join(f"W{k:x}_{k % 7}," for k in rng.integers(0, 9000, n)) + last for n in (1, 85, 256, 257, 9000)]
    rows = read(text_parser(analyzer=analyzer, ngram_range=f"1,{most}"), "".join(f"1\t{t}\n" for t in texts).encode())
    check(rows, expected(texts, analyzer=analyzer, ngram_range=(1, most)))


def test_short_labels_and_long_ones_are_told_apart():
    labels = ["a", "aa", "a" * 7, "a" * 8, "b" * 200, "a\u00e9"]
    for some in (labels[:3], labels):
        names = LabelNames("string")
        data = "".join(f" {label} \tword\n" for label in some * 3).encode()
        assert [names.names[int(label)] for label in read(text_parser(names=names), data).label] == some * 3


def test_the_first_word_on_a_feature_is_kept():
    parser = text_parser(n_features=2, alternate_sign="no")
    read(parser, b"1\tword another third fourth fifth sixth\n1\tseventh\n")
    kept = parser.words.in_order()
    places = {int(expected([word], n_features=2).indices[0]): word for word in ("fourth", "third", "another", "word")}
    assert dict(zip(kept.features.tolist(), kept.words, strict=True)) == {f: w.encode() for f, w in places.items()}
    for word, sign in zip(kept.words, kept.signs, strict=True):
        assert expected([word.decode()], n_features=2).data[0] == sign


def test_a_long_word_is_cut_between_characters():
    parser = text_parser()
    read(parser, ("1\t" + "é" * 60 + "\n").encode())
    assert parser.words.in_order().words == [("é" * 48 + "…").encode()]


def test_labels_blank_lines_and_empty_documents():
    parser = text_parser()
    rows = read(parser, b"\xef\xbb\xbf2\tsome words\r\n\n  \n-1.5\t\n 3 \t\t \ttab bed\t\n")
    assert rows.label.tolist() == [2, -1.5, 3] and np.diff(rows.indptr).tolist() == [2, 0, 2]
    assert parser.counters == {"explicit_zeros": 0, "empty_rows": 1, "blank_lines": 2, "comment_lines": 0}
    assert (parser.rows, parser.nnz) == (3, 4)


def test_without_labels_every_line_is_a_document():
    rows = read(text_parser(labelled=False), b"some words\n\nmore\twords")
    assert np.isnan(rows.label).all() and np.diff(rows.indptr).tolist() == [2, 0, 2]


FAULTS = [
    (b"1\tgood\nno tab\n", {}, ("label_missing", 2, 1)),
    (b"1\tgood\n\tno label\n", {}, ("label_missing", 2, 1)),
    (b"1\tgood\n1\tab\xe9d\n", {}, ("not_text", 2, 5)),
    (b"1\tgood\n1\t\xed\xa0\x80\n", {}, ("not_text", 2, 3)),
    (b"1\tgood\nx\tbad\n", {}, ("not_numeric", 2, 1)),
    (b"1\tgood\nnan\tbad\n", {}, ("missing_value", 2, 1)),
    (b"x\tgood\ny\x00\tbad\n", {}, ("bad_byte", 2, 1)),
    (b"1\tgood\n" + b"x" * 300 + b"\tbad\n", {"label_type": "string"}, ("label_too_long", 2, 1)),
    (b"1\tgood\n1\t" + b"x" * 2000 + b"\n", {}, ("line_too_long", 2, None)),
]


@pytest.mark.parametrize(("data", "options", "fault"), FAULTS)
def test_faults(data, options, fault):
    def parser(**more):
        return TextParser(InputOptions("text", **options, **more), InputLimits(max_line_bytes=1000))

    with pytest.raises(InputError) as caught:
        read(parser(), data)
    assert (caught.value.code, caught.value.line, caught.value.column) == fault
    if fault[0] == "line_too_long" and len(data) > 1 << 16:
        return
    skipping = parser(on_bad_row="skip")
    assert len(read(skipping, data + b"1\tlast\n")) == 2
    assert skipping.rejected.rows == 1 and skipping.rejected.first[0].problem() == caught.value.problem()
    assert set(skipping.words.in_order().words) == {b"good", b"last"}


def test_the_first_fault_of_several_is_told():
    with pytest.raises(InputError) as caught:
        read(text_parser(), b"1\tgood\n1\tb\xffd\nnone\nx\ty\n")
    assert (caught.value.code, caught.value.line) == ("not_text", 2)


def test_a_line_that_never_ends_takes_bounded_memory():
    parser, given_out = text_parser(), 0

    def chunks():
        nonlocal given_out
        yield b"1\t"
        while True:
            given_out += 1 << 20
            yield b"word " * (1 << 20)

    with pytest.raises(InputError) as caught:
        list(parser.parse_chunks(chunks()))
    assert caught.value.code == "line_too_long" and given_out < 64 << 20


def test_a_document_of_the_longest_line():
    word = "word%06d "
    text = "".join(word % (k % 90_000) for k in range(200_000))
    check(read(text_parser(), f"1\t{text}\n".encode(), 1 << 20), expected([text]))


def test_what_is_no_utf8_is_replaced():
    data = b"caf\xe9 ab\xff\xfecd \xe4\xb8 \xf0\x9f\x98"
    found = read(text_parser(on_bad_text="replace", analyzer="char", ngram_range="1,3"), b"1\t" + data + b"\n")
    check(found, expected([data.decode(errors="replace")], analyzer="char", ngram_range=(1, 3)))


@pytest.mark.parametrize("wanted", ["", "1", "2,1", "0,1", "1,17", "1,2,3", "a,b", "1, 999"])
def test_ngram_ranges_that_are_none(wanted):
    with pytest.raises(InputError, match="ngram_range"):
        text_parser(ngram_range=wanted)


def table(data: bytes, format_: str = "csv", **options) -> tuple[Rows, TextTableParser]:
    parser = TextTableParser(InputOptions(format_, **options), InputLimits())
    parser.window_bytes = 64
    return read(parser, data, 5), parser


def test_a_column_of_a_table():
    data = b'id,label,text,w\n7,1,"good, ""movie""\nnext line",2\n\n8,-1,bad one,1\r\n9,1,,0.5'
    rows, parser = table(data, text_column="text", weight_column="w")
    check(rows, expected(['good, "movie"\nnext line', "bad one", ""]))
    assert rows.label.tolist() == [1, -1, 1] and parser.counters["blank_lines"] == 1
    assert parser.input["text_column"] == "text"


@pytest.mark.parametrize(
    ("data", "options", "texts", "labels"),
    [
        (b'b\tsay "hi" now\na\t5" pipe\n', {"text_column": "2", "format_": "tsv"}, ['say "hi" now', '5" pipe'], [1, 0]),
        (b"some text,1\nmore text,0\n", {"text_column": "1"}, ["some text", "more text"], [1, 0]),
        (b"some text,1\nmore text,0\n", {"text_column": "1", "label_column": "-1"}, ["some text", "more text"], [1, 0]),
        (b"words,y\nsome text,1\n", {"text_column": "1"}, ["some text"], [1]),
        (b"words,kind\nsome text,1\n", {"text_column": "1", "label_column": "2"}, ["some text"], [1]),
        (b"y|words\n1|some text\n", {"text_column": "words"}, ["some text"], [1]),
        (b"y,words\n1,some text\n", {"text_column": "2", "header": "no"}, ["words", "some text"], [1, 0]),
    ],
)  # fmt: skip
def test_where_columns_are(data, options, texts, labels):
    rows, _ = table(data, **options)
    check(rows, expected(texts))
    assert rows.label.tolist() == labels


@pytest.mark.parametrize(
    ("data", "options", "fault"),
    [
        (b"y,t\n1,a\n1,b,c\n", {"text_column": "t"}, ("column_count", 3, 1)),
        (b'y,t\n1,a\n1,"b"c\n', {"text_column": "t"}, ("bad_quote", 3, 6)),
        (b'y,t\n1,a\n1,"bc\n', {"text_column": "t"}, ("bad_quote", 3, 1)),
        (b"y,t\n1,a\nx,b\n", {"text_column": "t"}, ("not_numeric", 3, 1)),
        (b"t,y\na,1\nb,\n", {"text_column": "t"}, ("missing_value", 3, 3)),
        (b"y,t,w\n1,a,1\n1,b,-1\n", {"text_column": "t", "weight_column": "w"}, ("negative_weight", 3, 5)),
        (b"y,t\n1,a\n1,b\xff\n", {"text_column": "t"}, ("not_text", 3, 4)),
        (b'y,t\n1,"a ""b"""\n1,"""\xff"""\n', {"text_column": "t"}, ("not_text", 3, 5)),
        (b"y,t\n1,a\n", {"text_column": "u"}, ("text_column_missing", 1, None)),
        (b"y,t\n1,a\n", {"text_column": "y"}, ("same_column", 1, None)),
        (b"y,t,t\n1,a,b\n", {"text_column": "t"}, ("duplicate_column", 1, 1)),
        (b"y,t\n", {"text_column": "t"}, ("no_rows", None, None)),
    ],
)
def test_faults_of_tables(data, options, fault):
    with pytest.raises(InputError) as caught:
        table(data, **options)
    assert (caught.value.code, caught.value.line, caught.value.column) == fault
    assert ("no option fills in" in (caught.value.hint or "")) == (fault[0] == "missing_value")


def test_a_column_of_parquet(tmp_path):
    texts = ["good movie", "bad\nmovie", "", None]
    columns = {"text": texts, "label": ["p", "n", "p", "n"], "date": [1.5, None, 2.0, 3.0]}
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file)
    names = LabelNames()
    options = InputOptions("parquet", text_column="text", on_bad_row="skip")
    parser = open_parser(options, InputLimits(), names, 2, tmp_path)
    rows = read(parser, file.getvalue())
    check(rows, expected(["good movie", "bad\nmovie", ""]))
    assert names.names == ("n", "p") and rows.label.tolist() == [1, 0, 1]
    (fault,) = parser.rejected.first
    assert (fault.code, fault.line) == ("missing_value", 4) and "column 1 (text)" in fault.message
    assert "no option fills in" in fault.hint
    with pytest.raises(InputError, match="is of type string"):
        read(open_parser(options, InputLimits(), LabelNames("number"), 1, tmp_path), file.getvalue())
