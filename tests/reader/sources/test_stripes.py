"""Stripes are dealt in turn, and shares have each byte once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsvm.reader.sources.files import SourceFile
from streamsvm.reader.sources.stripes import Share, Stripe, deal

FILES = [SourceFile("a", 25, "1"), SourceFile("b", 0, "1"), SourceFile("c", 30, "1")]


def test_stripes_are_dealt_in_turn():
    a, _, c = FILES
    assert deal(FILES, Share(0, 2, 10)) == [Stripe(a, 0, 10), Stripe(a, 20, 25), Stripe(c, 10, 20)]
    assert deal(FILES, Share(1, 2, 10)) == [Stripe(a, 10, 20), Stripe(c, 0, 10), Stripe(c, 20, 30)]


def test_neighbours_are_one():
    a, _, c = FILES
    assert deal(FILES, Share(stripe_bytes=10)) == [Stripe(a, 0, 25), Stripe(c, 0, 30)]
    assert all(stripe.is_whole for stripe in deal(FILES, Share(stripe_bytes=10)))


def test_a_file_that_cannot_be_cut_is_dealt_whole():
    a, _, c = FILES
    assert deal(FILES, Share(0, 2, 10), whole=[a]) == [Stripe(a, 0, 25), Stripe(c, 10, 20)]


@pytest.mark.parametrize("share", [(2, 2, 10), (-1, 2, 10), (0, 0, 10), (0, 1, 0)])
def test_what_is_no_share(share):
    with pytest.raises(ValueError, match="share"):
        Share(*share)


@given(st.lists(st.integers(0, 99), max_size=5), st.integers(1, 7), st.integers(1, 40), st.data())
def test_shares_have_each_byte_once(sizes, of, stripe_bytes, data):
    files = [SourceFile(str(name), size, "1") for name, size in enumerate(sizes)]
    whole = [file for file in files if data.draw(st.booleans())]
    seen = [
        (stripe.file.url, byte)
        for number in range(of)
        for stripe in deal(files, Share(number, of, stripe_bytes), whole)
        for byte in range(stripe.start, stripe.stop)
    ]
    assert sorted(seen) == sorted((file.url, byte) for file in files for byte in range(file.size))
