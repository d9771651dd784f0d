"""Ranges and stripes of files: bytes and lines, new tries where a connection broke, and files that change."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsvm.reader.errors import InputError
from streamsvm.reader.sources import fetch
from streamsvm.reader.sources.fetch import LinesOfRange, Share, Stripe, deal, read_bytes, read_range, read_stripes
from streamsvm.reader.sources.files import PAUSES, SourceFile, list_files
from tests.refusals import refused

FILES = [SourceFile("a", 25, "1"), SourceFile("b", 0, "1"), SourceFile("c", 30, "1")]
TEXT = b"".join(b"%d %d:1\n" % (k % 2, k + 1) for k in range(1000))


@pytest.fixture
def file(memory):
    memory.pipe("/bucket/a.svm", TEXT)
    (found,) = list_files(["s3://bucket/a.svm"])
    memory.flaky.asked.clear()
    return found


@pytest.mark.parametrize("piece_bytes", [1, 7, 4096, 1 << 20])
@pytest.mark.parametrize("threads", [1, 4])
def test_pieces_come_in_their_order(file, piece_bytes, threads):
    size = 300
    pieces = list(read_range(file, 5, size, threads=threads, piece_bytes=piece_bytes))
    assert b"".join(pieces) == TEXT[5:size]
    assert max(map(len, pieces)) <= piece_bytes


def lines_of(file, start, stop, **options):
    """The lines that begin in this range, in pieces."""
    return [piece for _, pieces in read_stripes([Stripe(file, start, stop)], **options) for piece in pieces]


def test_several_are_under_way_but_not_all(file, memory):
    entered, let_go = threading.Semaphore(0), threading.Event()

    def wait():
        entered.release()
        assert let_go.wait(60)

    memory.flaky.before_read = wait
    pieces = read_range(file, threads=3, piece_bytes=100)
    reading = threading.Thread(target=next, args=(pieces,))
    reading.start()
    for _ in range(3):
        assert entered.acquire(timeout=60)
    let_go.set()
    reading.join()
    assert len(memory.flaky.asked) <= 3 + 1
    pieces.close()


def test_a_connection_that_breaks_is_made_again_where_it_broke(file, memory):
    memory.flaky.faults = [40, ConnectionResetError(), TimeoutError(), 10]
    pauses = []
    assert read_bytes(file, 100, 200, pauses.append) == TEXT[100:200]
    assert [start for _, start, _ in memory.flaky.asked] == [100, 140, 140, 140, 150]
    assert pauses == list(PAUSES[:2])


def test_it_is_not_tried_for_ever(file, memory):
    memory.flaky.faults = [ConnectionResetError("secret") for _ in range(20)]
    pauses = []
    with refused(InputError, "source_unavailable") as caught:
        read_bytes(file, 0, 10, pauses.append)
    assert "secret" not in str(caught.value) and file.url in str(caught.value)
    assert pauses == list(PAUSES)


def test_what_is_denied_is_not_tried_again(file, memory):
    memory.flaky.faults = [PermissionError("secret")]
    with pytest.raises(InputError) as caught:
        list(read_range(file))
    assert caught.value.code == "source_denied" and "secret" not in str(caught.value)
    assert len(memory.flaky.asked) == 1


@pytest.mark.parametrize("change", ["shorter", "longer", "same size", "gone"])
def test_a_file_that_changes_is_told(file, memory, change):
    pieces = read_range(file, threads=1, piece_bytes=1000)
    next(pieces)
    if change == "gone":
        memory.rm("/bucket/a.svm")
    else:
        new = {"shorter": TEXT[:500], "longer": TEXT + b"1\n", "same size": TEXT[::-1]}[change]
        memory.pipe("/bucket/a.svm", new)
    with pytest.raises(InputError) as caught:
        list(pieces)
    assert caught.value.code == "source_changed" and file.url in str(caught.value)


def test_stripes_of_several_files_are_read_one_after_the_other(file, memory):
    memory.pipe("/bucket/b.svm", TEXT[:1000])
    (other,) = list_files(["s3://bucket/b.svm"])
    stripes = [Stripe(file, 0, 50), Stripe(file, 100, 150), Stripe(other, 0, 1000)]
    found = [b"".join(pieces) for _, pieces in read_stripes(stripes, piece_bytes=30)]
    assert found[2] == TEXT[:1000]
    end = TEXT.index(b"\n", 149) + 1
    assert found[0] + b"".join(lines_of(file, 50, 100)) + found[1] == TEXT[:end]
    # Pieces of a stripe that were not taken are dropped.
    taken = [next(iter(pieces)) for _, pieces in read_stripes(stripes, piece_bytes=30)]
    assert taken[0] == taken[2] == TEXT[:30]


def test_a_line_without_end_is_not_searched_for_ever(memory, monkeypatch):
    monkeypatch.setattr(fetch, "LONGEST_LINE", 1000)
    memory.pipe("/bucket/long", b"1\n" + b"x" * 5000)
    (found,) = list_files(["s3://bucket/long"])
    with refused(InputError, "line_too_long"):
        list(lines_of(found, 0, 10, piece_bytes=100))
    assert list(lines_of(found, 10, 20, piece_bytes=100)) == []


line = st.text("ab ", max_size=12).map(str.encode)
texts = st.lists(st.tuples(line, st.sampled_from([b"\n", b"\r\n", b"\n\n"])), max_size=12).map(
    lambda pairs: b"".join(body + end for body, end in pairs)
)


@given(texts, st.binary(max_size=3).map(lambda tail: tail.replace(b"\n", b"")), st.integers(1, 30), st.integers(1, 9))
def test_each_line_belongs_to_the_range_it_begins_in(body, tail, stripe_bytes, piece_bytes):
    text = body + tail
    begins = [0, *(k + 1 for k, byte in enumerate(text) if byte == 10)]
    ends = [*begins[1:], len(text)]
    for start in range(0, len(text), stripe_bytes):
        stop = min(start + stripe_bytes, len(text))
        begin = max(start - 1, 0)
        pieces = [text[k : k + piece_bytes] for k in range(begin, len(text), piece_bytes)]
        expected = b"".join(text[a:b] for a, b in zip(begins, ends, strict=True) if start <= a < stop)
        found = LinesOfRange(pieces, start, stop)
        assert b"".join(found) == expected
        assert not expected or text[found.first :].startswith(expected)


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
