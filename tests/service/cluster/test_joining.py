"""A machine that cannot join a cluster says what Ray says, and leaves nothing running."""

import socket

import pytest

from streamsvm.service.cluster.nodes import connecting
from streamsvm.service.cluster.nodes.connecting import join


def test_who_does_not_answer_is_given_up(monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr(connecting, "_JOIN_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(RuntimeError):
        join(f"127.0.0.1:{silent.getsockname()[1]}")
    assert connecting._nodes[-1].poll() is not None


def test_what_ray_says_last_of_an_error_is_told():
    said = "Local node IP: 10.0.0.2\nRuntimeError: Version mismatch: Ray: 2.40.0\n  Python: 3.12\n"
    assert connecting._last_error(said) == "RuntimeError: Version mismatch: Ray: 2.40.0"
    assert connecting._last_error("") == "no answer"
