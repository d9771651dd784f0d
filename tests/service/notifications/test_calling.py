"""One call: to the address that was looked up, within its time, whatever the receiver does."""

import datetime
import socket
import ssl
import threading
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from streamsvm.service.notifications.calling import Refused, call
from streamsvm.service.notifications.destinations import Destination, destination
from tests.service.notifications.receiver import Receiver


def place(receiver: Receiver, path: str = "/hook?to=me") -> Destination:
    return destination(receiver.url(path), [receiver.host])


def test_a_body_arrives():
    with Receiver(204) as receiver:
        assert call(place(receiver), {"A": "b"}, b"{}") == 204
    (arrival,) = receiver.arrivals
    assert (arrival.path, arrival.body, arrival.headers["a"]) == ("/hook?to=me", b"{}", "b")
    assert arrival.headers["content-type"] == "application/json" and arrival.headers["host"] == receiver.host


@pytest.mark.parametrize("status", [301, 307, 404, 410, 500, 503])
def test_other_statuses(status):
    with Receiver(status) as receiver, pytest.raises(Refused, match=str(status)) as caught:
        call(place(receiver), {}, b"{}")
    assert len(receiver.arrivals) == 1, "a redirect was followed"
    assert caught.value.is_final == (status == 410)


def test_a_receiver_that_is_gone():
    with Receiver() as receiver:
        gone = place(receiver)
    with pytest.raises(ConnectionRefusedError):
        call(gone, {}, b"{}")


def test_a_receiver_that_says_nothing():
    answering = threading.Event()
    with Receiver(hold=answering.wait) as receiver:
        with pytest.raises(TimeoutError):
            call(place(receiver), {}, b"{}", seconds=0.1)
        answering.set()


def test_a_receiver_that_sends_a_byte_now_and_then():
    """Each byte comes in time, all of them do not."""
    listener, ended = socket.create_server(("127.0.0.1", 0)), threading.Event()

    def drip() -> None:
        connection, _ = listener.accept()
        with connection:
            while not ended.wait(0.02):
                try:
                    connection.sendall(b"H")
                except OSError:
                    return

    host = f"127.0.0.1:{listener.getsockname()[1]}"
    dripping = threading.Thread(target=drip)
    dripping.start()
    began = time.monotonic()
    with listener, pytest.raises(TimeoutError):
        call(destination(f"http://{host}/", [host]), {}, b"{}", seconds=0.2)
    ended.set()
    dripping.join()
    assert time.monotonic() - began < 2


def test_a_name_is_looked_up_once():
    """A second look-up could give another address than the one that was checked."""
    with Receiver() as receiver:
        looked_up = []

        def resolve(host, port, **_):
            looked_up.append(host)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

        name = f"hooks.example.com:{receiver.server.server_port}"
        call(destination(f"http://{name}/", [name]), {}, b"{}", resolve=resolve)
    assert looked_up == ["hooks.example.com"] and receiver.arrivals[0].headers["host"] == name


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A file with a certificate of hooks.example.com that signs itself, and its key."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hooks")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - datetime.timedelta(1)).not_valid_after(now + datetime.timedelta(1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("hooks.example.com")]), False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    path = tmp_path_factory.mktemp("certificate") / "hooks.pem"
    packed = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    with path.open("ab") as file:
        file.write(key.private_bytes(serialization.Encoding.PEM, *packed))
    return path


@pytest.mark.parametrize("host", ["hooks.example.com", "others.example.com"])
def test_the_certificate_is_of_the_name_and_not_of_the_address(certificate, host):
    def resolve(_, port, **__):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    with Receiver() as receiver:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(certificate)
        receiver.server.socket = server.wrap_socket(receiver.server.socket, server_side=True)
        name = f"{host}:{receiver.server.server_port}"
        found = destination(f"https://{name}/", [name])
        trusting = ssl.create_default_context(cafile=str(certificate))
        if host == "hooks.example.com":
            assert call(found, {}, b"{}", resolve=resolve, context=trusting) == 200
            with pytest.raises(ssl.SSLCertVerificationError):
                call(found, {}, b"{}", resolve=resolve)
        else:
            with pytest.raises(ssl.SSLCertVerificationError):
                call(found, {}, b"{}", resolve=resolve, context=trusting)
