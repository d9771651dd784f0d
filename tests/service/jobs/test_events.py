"""Events of a job: each is told once, in order, also to those who come back."""

import pytest

from streamsvm.service.jobs.progress.feed import news


def steps(*states: str) -> list[dict]:
    return [{"state": state, "at": "2026-01-01T00:00:00Z"} for state in states]


def passes(*numbers: int) -> list[dict]:
    return [{"pass": number, "gap": 1 / number} for number in numbers]


def kinds(events) -> list[str]:
    return [event.kind for event in events]


ENDED = steps("queued", "running", "succeeded"), passes(1, 2, 3)
TOLD = ["state", "state", "pass", "pass", "pass", "state"]


def test_the_passes_lie_between_the_beginning_of_their_attempt_and_its_end():
    assert kinds(news(*ENDED, 0)) == TOLD


@pytest.mark.parametrize("seen", range(len(TOLD) + 1))
def test_who_comes_back_is_told_the_rest(seen):
    told = news(*ENDED, 0)
    after = told[seen - 1].number if seen else 0
    assert news(*ENDED, after) == told[seen:]


def test_numbers_grow():
    numbers = [event.number for event in news(*ENDED, 0)]
    assert numbers == sorted(set(numbers)) and numbers[0] > 0


def test_another_attempt_tells_its_passes_again():
    *_, last = news(steps("queued", "running"), passes(1, 2, 3), 0)
    again = steps("queued", "running", "queued", "running")
    assert kinds(news(again, [], last.number)) == ["state", "state"]
    *_, begun = news(again, [], last.number)
    assert kinds(news(again, passes(1), begun.number)) == ["pass"]


def test_a_job_that_never_ran():
    assert kinds(news(steps("queued", "cancelled"), [], 0)) == ["state", "state"]
