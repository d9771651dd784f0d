"""Parts of a deleted dataset on other machines: a node that is busy is asked again, for some time."""

from types import SimpleNamespace

import pytest

from streamsvm.service.datasets import forgetting


@pytest.fixture
def pauses_until(tmp_path, monkeypatch):
    """Forgets a dataset whose parts go at the n-th attempt; returns the pauses that were made."""
    (tmp_path / ".uid.gone").mkdir()

    def forget(needed):
        attempts, pauses = [], []
        run = SimpleNamespace(
            run=lambda *_, **__: attempts.append(0) or SimpleNamespace(returncode=len(attempts) < needed)
        )
        monkeypatch.setattr(forgetting, "subprocess", run)
        monkeypatch.setattr(forgetting, "time", SimpleNamespace(sleep=pauses.append, time=lambda: 0.0))
        forgetting.forget_parts(tmp_path, SimpleNamespace(ray_address="auto"))
        forgetting._latest[0].join(10)
        return pauses

    return forget


def test_a_node_that_is_busy_is_asked_again_ever_later(tmp_path, pauses_until):
    first, second = pauses_until(3)
    assert first < second
    assert not list(tmp_path.iterdir())


def test_a_node_that_stays_away_is_left_for_another_time(tmp_path, pauses_until):
    assert 3 < len(pauses_until(1000)) < 10
    assert [path.name for path in tmp_path.iterdir()] == [".uid.gone"]
