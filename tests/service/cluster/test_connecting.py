"""Why there is no cluster, or a machine cannot join one: each reason has its code and a hint, or what Ray says."""

import contextlib
import pickle
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time

import pytest

from streamsvm.service.cluster.nodes import connecting
from streamsvm.service.cluster.nodes.connecting import check_ray, connect, join
from streamsvm.service.cluster.nodes.ray_machines import check_versions, is_for_good, told
from streamsvm.service.errors import ServiceError
from streamsvm.storage.errors import DatasetCorrupt, OutOfSpace
from tests.refusals import refused


def test_without_ray_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(connecting.importlib.util, "find_spec", lambda _: None)
    with refused(ServiceError, "ray_missing") as caught:
        check_ray("auto")
    assert 'pip install "streamsvm[ray]"' in caught.value.hint


def test_without_an_address_it_says_what_to_set():
    pytest.importorskip("ray")
    with refused(ServiceError, "ray_address") as caught:
        check_ray(None)
    assert "STREAMSVM_RAY_ADDRESS" in caught.value.hint


def _answer(listening, certificate):
    """Whoever comes: a handshake that asks for a certificate, or words without one."""
    with contextlib.suppress(OSError):
        connection, _ = listening.accept()
        if certificate is None:
            connection.sendall(b"\0\0\x12\x04 settings")
            connection.recv(4096)
            connection.close()
            return
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificate)
        context.wrap_socket(connection, server_side=True)


@contextlib.contextmanager
def answered(listening, certificate=None):
    """By a thread, the first who comes."""
    thread = threading.Thread(target=_answer, args=(listening, certificate))
    thread.start()
    yield
    thread.join()


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        ("Version mismatch: The cluster was started with:\n    Ray: 2.40.0", "ray_version", "same versions"),
        ("Unauthenticated: the token is missing", "ray_token", "RAY_AUTH_TOKEN"),
        ("Failed to connect to GCS at 10.0.0.1:6379", "ray_unreachable", "ray start --head"),
        ("", "ray_unreachable", "ray start --head"),
    ],
)
def test_what_ray_says_is_told_in_our_words(monkeypatch, said, code, words):
    ray = pytest.importorskip("ray")

    def refuse(**_):
        raise RuntimeError(said)

    monkeypatch.setattr(connecting, "join", lambda _: None)
    monkeypatch.setattr(ray, "init", refuse)
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        answered(listening),
        pytest.raises(ServiceError) as caught,
    ):
        connect(f"127.0.0.1:{listening.getsockname()[1]}")
    assert caught.value.code == code
    assert words in caught.value.hint


def test_where_nobody_listens_it_says_so_at_once():
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
    with refused(ServiceError, "ray_unreachable", match=address):
        connect(address)


@pytest.fixture
def certificate(tmp_path):
    """One of its own making, with its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    path = tmp_path / "own.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", path, "-out", path]
    subprocess.run([*command, "-days", "1", "-subj", "/CN=localhost"], check=True, capture_output=True)
    return path


@pytest.mark.parametrize(("has_tls", "asks", "words"), [(True, "0", "RAY_TLS_CA_CERT"), (False, "1", "Unset")])
def test_one_side_has_tls_and_the_other_has_not(monkeypatch, certificate, has_tls, asks, words):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_USE_TLS", asks)
    own = certificate if has_tls else None
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        answered(listening, own),
        pytest.raises(ServiceError) as caught,
    ):
        connect(f"127.0.0.1:{listening.getsockname()[1]}")
    assert caught.value.code == "ray_tls"
    assert words in caught.value.hint
    assert is_for_good(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        ServiceError("process_died", "the trainer ended", "look", {"line": 3}),
        DatasetCorrupt("the file is missing", 7),
        OutOfSpace("the disk is full"),
    ],
)
def test_errors_come_from_other_machines_as_they_are(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (again.code, again.message, again.hint) == (error.code, error.message, error.hint)


def test_another_version_on_a_node_is_refused_by_name():
    with pytest.raises(ServiceError, match=r"0\.0\.1") as caught:
        check_versions({"0.0.1"})
    assert is_for_good(caught.value)


def test_what_a_machine_failed_of_is_what_the_job_failed_of():
    assert told(3, OutOfSpace("the disk is full")).code == "out_of_space"
    assert "machine 3" in told(3, RuntimeError("died")).message
    assert not is_for_good(RuntimeError("died"))


def test_what_a_killed_process_leaves_is_removed(tmp_path):
    directory = tmp_path / "run"
    directory.mkdir()
    (directory / "cache").write_bytes(b"rows")
    program = (
        "import sys, time; from pathlib import Path; "
        "from streamsvm.service.cluster.machine.shard_run import DirectoryRemover;"
        f"kept = DirectoryRemover(Path({str(directory)!r})); print('ready', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert directory.exists()
        process.kill()
    deadline = time.monotonic() + 20
    while directory.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not directory.exists()


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
