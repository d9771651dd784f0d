"""Events of a job: each is told once, in order, also to those who come back."""

import json

import pytest

from streamsvm.service.jobs.progress import feed
from streamsvm.service.jobs.progress.feed import Place, begun_last, read_part


def steps(*states: str) -> list[dict]:
    return [{"state": state, "at": "2026-01-01T00:00:00Z"} for state in states]


def passes(*numbers: int) -> list[dict]:
    return [{"pass": number, "gap": 1 / number} for number in numbers]


@pytest.fixture
def news(tmp_path):
    """Tell a client at a place of a job with these changes of state and this history, part by part."""

    def told(transitions, history, place):
        path = tmp_path / f"history-{len(list(tmp_path.iterdir()))}"
        path.write_text("".join(json.dumps(each) + "\n" for each in history))
        found = list(place.states(transitions, begun_last(transitions)))
        place.begin(begun_last(transitions))
        while (part := read_part(path, place.begun, place.offset, place.offset + feed.PART_BYTES)).end > place.offset:
            place.offset = part.end
            found += place.unseen(part.events)
        return [*found, *place.states(transitions, len(transitions))]

    return told


def kinds(found) -> list[str]:
    return [event.kind for event in found]


ENDED = steps("queued", "running", "succeeded"), [*passes(1, 2, 3), {"result": {}}]
TOLD = ["state", "state", "pass", "pass", "pass", "state"]


def test_the_passes_lie_between_the_beginning_of_their_attempt_and_its_end_and_numbers_grow(news):
    found = news(*ENDED, Place(0))
    numbers = [event.number for event in found]
    assert kinds(found) == TOLD and numbers == sorted(set(numbers)) and numbers[0] > 0
    assert kinds(news(steps("queued", "cancelled"), [], Place(0))) == ["state", "state"]


@pytest.mark.parametrize("seen", range(len(TOLD) + 1))
def test_who_comes_back_is_told_the_rest(news, seen):
    told = news(*ENDED, Place(0))
    after = told[seen - 1].number if seen else 0
    assert news(*ENDED, Place(after)) == told[seen:]


def test_who_stays_is_told_what_is_new(news):
    place = Place(0)
    assert kinds(news(steps("queued"), [], place)) == ["state"]
    assert kinds(news(steps("queued", "running"), passes(1), place)) == ["state", "pass"]
    assert kinds(news(steps("queued", "running"), passes(1, 2, 3), place)) == ["pass", "pass"]
    assert kinds(news(*ENDED, place)) == ["state"]


def test_another_attempt_tells_its_passes_again(news):
    place = Place(0)
    news(steps("queued", "running"), passes(1, 2, 3), place)
    again = steps("queued", "running", "queued", "running")
    assert kinds(news(again, passes(1), place)) == ["state", "state", "pass"]


def test_a_long_history_comes_in_parts_also_where_a_line_is_longer_than_a_part(news, monkeypatch):
    monkeypatch.setattr(feed, "PART_BYTES", 100)
    history = [{**each, "lanes": "x" * (500 * (each["pass"] == 7))} for each in passes(*range(1, 31))]
    told = news(steps("queued", "running"), history, Place(0))
    assert [json.loads(event.data) for event in told if event.kind == "pass"] == history


def test_half_a_line_waits_for_its_end(tmp_path):
    path = tmp_path / "history"
    path.write_bytes(b'{"pass": 1}\n{"pass": 2')
    part = read_part(path, 2, 0, path.stat().st_size)
    assert [json.loads(event.data) for event in part.events] == [{"pass": 1}]
    assert part.end == 12
    assert read_part(path, 2, 12, path.stat().st_size) == ((), 12)
