"""The demo's text: its rows follow their model, and are the same every time."""

from itertools import islice

import numpy as np
import pytest

from streamsvm.reader.limits import Limits
from streamsvm.reader.parsers.libsvm.parser import LibsvmParser
from streamsvm.service.demo.text import FLIPPED, TEST, TRAINING, Corpus, write_text


@pytest.fixture(scope="module")
def corpus():
    return Corpus()


def parsed(text):
    (rows,) = LibsvmParser("auto", Limits()).parse_chunks([text])
    return rows


@pytest.mark.parametrize("part", [TRAINING, TEST])
def test_rows_are_what_the_reader_takes(corpus, part):
    chunk = next(corpus.chunks(part))
    rows = parsed(chunk)
    assert len(rows.indptr) - 1 == chunk.count(b"\n") == 1000
    assert set(rows.label.tolist()) == {-1.0, 1.0}
    squares = np.add.reduceat(rows.values.astype(float) ** 2, rows.indptr[:-1])
    np.testing.assert_allclose(squares, 1.0, rtol=1e-5)


def test_the_same_every_time(corpus):
    first, second = (list(islice(each.chunks(TRAINING), 2)) for each in (corpus, Corpus()))
    assert first == second
    assert first[0] != first[1]
    assert first[0] != next(corpus.chunks(TEST))
    assert first[0] != next(Corpus(1).chunks(TRAINING))


def test_as_much_as_was_asked_for(corpus, tmp_path):
    write_text(tmp_path / "rows", corpus, TRAINING, rows=1500)
    text = (tmp_path / "rows").read_bytes()
    assert text.count(b"\n") == 1500 and text.endswith(b"\n")
    write_text(tmp_path / "size", corpus, TRAINING, size=1 << 20)
    assert (tmp_path / "size").stat().st_size >= 1 << 20
    assert text.startswith(next(corpus.chunks(TRAINING))[:1000])


def test_words_say_something(corpus):
    """Votes of the words get more rows right than chance, and not more than there are labels that are not flipped."""
    rows = parsed(next(corpus.chunks(TRAINING)))
    says = np.zeros(len(corpus._class))
    says[corpus._feature] = corpus._class
    votes = np.add.reduceat(says[rows.indices - 1], rows.indptr[:-1])
    right = np.mean(np.sign(votes) == rows.label)
    assert 0.75 < right <= 1 - FLIPPED + 0.05
