"""Documents: what a dataset stores of them, how rows are added, and how they are recognised."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.append import append_rows
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.sniff import PEEK_BYTES
from streamsvm.storage.blocks.dataset import Dataset, faults
from streamsvm.storage.blocks.feature_files import read_words, write_words
from streamsvm.storage.blocks.manifest import read_manifest
from tests.contracts.problems import stored_rows
from tests.refusals import refused

FIRST = ["a good movie", "bad acting", "", "good acting"]
SECOND = ["another film", "bad film"]


def lines(texts: list[str], labels: str = "pn") -> bytes:
    return "".join(f"{labels[k % len(labels)]}\t{text}\n" for k, text in enumerate(texts)).encode()


def append(directory: Path, data: bytes, **options):
    return append_rows([data], directory, InputOptions(**options), InputLimits(), threads=2)


def as_text(row: sparse.csr_matrix) -> str:
    row.sort_indices()
    pairs = zip(row.indices.tolist(), row.data.tolist(), strict=True)
    return " ".join(f"{feature}:{value}" for feature, value in pairs if value)


def check(directory: Path, texts: list[str], **options) -> None:
    """The rows are those of HashingVectorizer, and every n-gram is the word of its feature."""
    wanted = HashingVectorizer(norm=None, **options).transform(texts)
    found, _ = stored_rows(directory)
    dataset = Dataset(directory)
    numbers = dataset.in_own_order(np.arange(dataset.manifest.width, dtype=np.float64))
    stored = sparse.csr_matrix((found.values, numbers[found.indices].astype(int), found.indptr), wanted.shape)
    assert sorted(map(as_text, stored)) == sorted(map(as_text, wanted))
    words = read_words(directory)
    assert np.array_equal(words.features, np.unique(wanted.indices))
    for feature, word in zip(words.features, words.words, strict=True):
        (own,) = (
            HashingVectorizer(norm=None, analyzer=lambda x: [x], n_features=wanted.shape[1]).transform([word]).indices
        )
        assert own == feature


@pytest.mark.parametrize("n_features", [None, 50])
def test_rows_may_be_added(tmp_path, n_features):
    data = tmp_path / "data"
    made = ingest([lines(FIRST)], data, InputOptions("text", ngram_range="1,2", n_features=n_features))
    width = n_features or 1 << 20
    assert made.input == {
        "format": "text", "n_features": width, "analyzer": "word", "ngram_range": [1, 2], "alternate_sign": True,
        "lowercase": True,
    }  # fmt: skip
    assert (made.n_features, made.index_base, made.label_names) == (width, 0, ("n", "p"))
    check(data, FIRST, ngram_range=(1, 2), n_features=width)
    before = dict(zip(read_words(data).features.tolist(), read_words(data).words, strict=True))
    after = append(data, lines(SECOND, "q"))
    assert (after.n_rows, after.n_features, after.label_names, after.input) == (6, width, ("n", "p", "q"), made.input)
    check(data, FIRST + SECOND, ngram_range=(1, 2), n_features=width)
    now = dict(zip(read_words(data).features.tolist(), read_words(data).words, strict=True))
    assert before.items() <= now.items()
    assert list(faults(data)) == []


def test_rows_are_added_out_of_tables_too(tmp_path):
    data = tmp_path / "data"
    made = ingest([b"label,text\np,good one\nn,bad one\n"], data, InputOptions(text_column="text"))
    assert made.input["text_column"] == "text"
    append(data, b"text\tlabel\nthird one\tp\n")
    append(data, b"p\tfourth one\n", format="text")
    append(data, b"y,words\nn,fifth one\n", text_column="words")
    check(data, ["good one", "bad one", "third one", "fourth one", "fifth one"])


@pytest.mark.parametrize(
    "options",
    [{"analyzer": "char"}, {"ngram_range": "1,3"}, {"alternate_sign": "no"}, {"lowercase": "no"}, {"n_features": 8},
     {"format": "libsvm"}, {"normalize": "row_l2"}],
)  # fmt: skip
def test_options_that_contradict_the_dataset(tmp_path, options):
    data = tmp_path / "data"
    ingest([lines(FIRST)], data, InputOptions("text"))
    with refused(InputError, "option_unused"):
        append(data, lines(SECOND), **options)
    assert read_manifest(data).n_rows == 4


def test_options_that_say_the_same_are_fine(tmp_path):
    data = tmp_path / "data"
    ingest([lines(FIRST)], data, InputOptions("text", ngram_range="1,2", analyzer="char", n_features=64))
    append(data, lines(SECOND), ngram_range="1, 2", analyzer="char", n_features=64)
    assert read_manifest(data).n_rows == 6


def test_damaged_words_are_told_and_otherwise_missing(tmp_path):
    data = tmp_path / "data"
    ingest([lines(FIRST)], data, InputOptions("text"))
    path = data / "words"
    whole = path.read_bytes()
    words = read_words(data)
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        found = read_words(data)
        assert found is None or (found.words == words.words and np.array_equal(found.features, words.features))
        assert (found is None) == (len(list(faults(data))) == 1)
    path.write_bytes(whole[:-1])
    assert read_words(data) is None
    path.unlink()
    assert read_words(data) is None and list(faults(data)) == []
    assert append(data, lines(SECOND)).n_rows == 6
    write_words(data, words)
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("data", "options", "format_"),
    [
        (b"1\tsome words are here\n-1\tand some more of them\n", {}, "text"),
        (b"\xef\xbb\xbfgood\tsome words are here\n\nbad\tand more of them", {}, "text"),
        (b"good\tsome words are here\nbad\tand more of them\n" * 4000, {}, "text"),
        (b"good\tsome words are here\nbad\tand more of them\n", {"label_column": "2"}, "table"),
        (b"good\tok\nbad\tsee you at 10:30\ngood\tsome words are here\n", {}, "text"),
        (b"label\ttext\ngood\tsome words are here\n", {}, "table"),
        (b"label\ta\tb\n1\t2\t3\n", {}, "table"),
        (b"<=50K\tsome words are here\n>50K\tand more of them\n", {}, "text"),
        (b"1\tsome words are here\n" * 9 + b"a stray line\n", {}, "text with a fault"),
        (b"a name\tsome words are here\n", {}, "table"),
    ],
)
def test_what_is_recognised(tmp_path, data, options, format_):
    assert len(data) < PEEK_BYTES or len(data) > 2 * PEEK_BYTES
    try:
        made = ingest([data], tmp_path / "data", InputOptions(**options))
    except InputError as error:
        codes = ("not_numeric", "label_column_missing", "header_unclear") if format_ == "table" else ("label_missing",)
        assert format_ != "text" and error.code in codes
    else:
        assert made.input["format"] == {"table": "csv"}.get(format_, format_)


def test_more_features_than_a_job_may_have_are_refused(tmp_path):
    with refused(InputError, "too_many_features"):
        ingest([b"1\tgood\n"], tmp_path / "data", InputOptions("text"), InputLimits(max_features=1 << 19))
