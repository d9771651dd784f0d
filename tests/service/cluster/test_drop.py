"""Parts of a dataset that machines are to forget, where a node is down, does not answer, or a kill comes between."""

from types import SimpleNamespace

import pytest

from streamsvm.service.cluster.dataset import spread
from streamsvm.service.cluster.dataset.shards import shard_names
from streamsvm.service.errors import ServiceError

NAMES = shard_names("uid", 2)


class Node:
    """An agent that has parts; what it raises comes before it drops one, or after."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.before: BaseException | None = None
        self.after: BaseException | None = None
        self.drop = SimpleNamespace(remote=self._drop)

    def _drop(self, name: str) -> None:
        if self.before:
            raise self.before
        self.names.remove(name)
        if self.after:
            raise self.after


@pytest.fixture
def drop(tmp_path, monkeypatch):
    """Drops the parts of a dataset that these nodes have."""
    ray = SimpleNamespace(get=lambda answer, timeout: answer, kill=lambda agent: None)
    monkeypatch.setattr(spread, "read_manifest", lambda _: SimpleNamespace(uid="uid", parts=(1, 1)))
    monkeypatch.setattr(spread, "connect", lambda _: ray)

    def dropped(*nodes: Node) -> None:
        there = dict(enumerate(nodes))
        monkeypatch.setattr(spread, "agents_of", lambda *_: (there, {k: list(n.names) for k, n in there.items()}))
        spread.drop(tmp_path, "auto")

    return dropped


def test_all_that_nodes_have_goes(drop):
    nodes = Node(NAMES[0], "another"), Node(NAMES[1])
    drop(*nodes)
    assert [node.names for node in nodes] == [["another"], []]


def test_a_part_on_a_node_that_is_down_is_waited_for(drop):
    here, away = Node(NAMES[0]), Node(NAMES[1])
    for _ in range(2):
        with pytest.raises(ServiceError, match="1 parts are on no node"):
            drop(here)
    drop(here, away)
    assert not here.names + away.names
    drop(here)


def test_a_kill_once_a_part_is_dropped_leaves_nothing_to_wait_for(drop, monkeypatch):
    here, away = Node(NAMES[0]), Node(NAMES[1])
    monkeypatch.setattr(spread.Path, "unlink", lambda _: None)  # who is killed does nothing more
    here.after = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        drop(here)
    with pytest.raises(ServiceError, match="1 parts"):
        drop(here)
    drop(here, away)


def test_a_node_that_does_not_answer_is_asked_again(drop):
    here, other = Node(NAMES[0]), Node(NAMES[1])
    here.before = TimeoutError()
    with pytest.raises(TimeoutError):
        drop(other, here)
    with pytest.raises(ServiceError, match="1 parts"):
        drop(other)
    here.before = None
    drop(here)
    assert not here.names + other.names
