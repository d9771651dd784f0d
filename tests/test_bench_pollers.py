"""How the bench of pollers measures training: by what moves also when no rows stream."""

import pytest

from tests.bench import pollers


class Shown:
    """A service whose job has these counts, one after the other, a second apart."""

    def __init__(self, monkeypatch, *updates: int, state: str = "running") -> None:
        self._shown = iter(updates)
        self._state = state
        clock = iter(range(1000))
        monkeypatch.setattr(pollers.time, "monotonic", lambda: float(next(clock)))

    def job(self, _job_id: str) -> dict:
        return {"state": self._state, "progress": {"updates": next(self._shown), "rows_streamed": 500}}


def test_updates_count_where_no_rows_stream(monkeypatch):
    during = []
    rate = pollers.updates_per_second(Shown(monkeypatch, 100, 350), "job", lambda: during.append(1))
    assert rate == 250.0 and during == [1]


def test_a_job_that_has_ended_is_no_measure(monkeypatch):
    with pytest.raises(AssertionError, match="succeeded"):
        pollers.updates_per_second(Shown(monkeypatch, 100, 100, state="succeeded"), "job", lambda: None)
