"""The template of a proxy with TLS, before a service: with nginx where there is one, else what it has to say."""

import re
import shutil
import socket
import ssl
import subprocess
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from tests.api.app import Service
from tests.api.server import RunningServer, read_answer, request
from tests.end_to_end.service import wait_for

TEMPLATE = Path(__file__).resolve().parents[2] / "deploy/proxy/nginx.conf"
NAME = "svm.example.org"
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin:/opt/nginx/sbin")


def test_what_the_template_says():
    text = re.sub(r"#.*", "", TEMPLATE.read_text())
    assert text.count("{") == text.count("}")
    assert all(line.rstrip().endswith((";", "{", "}")) for line in text.splitlines() if line.strip())
    for needed in (
        "proxy_set_header Host $http_host;", "proxy_set_header X-Forwarded-For $remote_addr;",
        "proxy_set_header X-Forwarded-Proto https;", "proxy_request_buffering off;", "proxy_buffering off;",
        "client_max_body_size 0;",
    ):  # fmt: skip
        assert needed in text


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def is_listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def adapted(directory: Path, service_port: int, ports: dict[str, int]) -> Path:
    """The template for other ports, and a certificate of its own."""
    certificate, key = directory / "certificate", directory / "key"
    made = f"req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN={NAME} -out {certificate} -keyout {key}"
    subprocess.run(["openssl", *made.split()], check=True, capture_output=True)
    text = TEMPLATE.read_text()
    changes = {
        "/etc/ssl/svm.example.org.crt": str(certificate),
        "/etc/ssl/private/svm.example.org.key": str(key),
        "/run/nginx.pid": str(directory / "pid"),
        "127.0.0.1:8000": f"127.0.0.1:{service_port}",
        "listen 80;": f"listen 127.0.0.1:{ports['http']};",
        "listen 443 ssl;": f"listen 127.0.0.1:{ports['https']} ssl;",
        "    listen [::]:80;\n": "",
        "    listen [::]:443 ssl;\n": "",
    }
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    kinds = "client_body", "proxy", "fastcgi", "uwsgi", "scgi"
    bodies = "".join(f"{kind}_temp_path {directory}/{kind};" for kind in kinds)
    path = directory / "nginx.conf"
    path.write_text(text.replace("http {", f"http {{ {bodies}", 1))
    return path


@contextmanager
def proxy(directory: Path, service_port: int):
    """Its port for TLS, while it runs."""
    ports = {"http": free_port(), "https": free_port()}
    configuration = adapted(directory, service_port, ports)
    command = [str(NGINX), "-c", str(configuration), "-p", str(directory), "-e", str(directory / "error.log")]
    subprocess.run([*command, "-t"], check=True, capture_output=True)
    running = subprocess.Popen([*command, "-g", "daemon off;"])
    try:
        wait_for(lambda: is_listening(ports["https"]), 30)
        yield ports["https"]
    finally:
        running.terminate()
        running.wait(30)


@pytest.mark.skipif(NGINX is None, reason="no nginx")
def test_nginx_before_a_service(tmp_path, caplog):
    service = Service(tmp_path / "data", allowed_hosts=(NAME,), trusted_proxies=("127.0.0.1",))
    token = service.tokens.new("ada", "submit")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with ExitStack() as stack:
        stack.enter_context(caplog.at_level("INFO", "streamsvm.api"))
        server = stack.enter_context(RunningServer(service, header=2.0))
        port = stack.enter_context(proxy(tmp_path, server.address[1]))

        def connect() -> socket.socket:
            plain = socket.create_connection(("127.0.0.1", port), timeout=30)
            return stack.enter_context(closing(context.wrap_socket(plain, server_hostname=NAME)))

        form = {"Host": NAME, "Origin": f"https://{NAME}", "X_Forwarded_For": "203.0.113.9"}
        client = connect()
        client.sendall(request("POST", "/login", f"token={token}".encode(), **form))
        head, _ = read_answer(client)
        assert head.startswith(b"HTTP/1.1 303 ") and b"; Secure" in head
        # The line is written once the answer is sent.
        wait_for(lambda: caplog.records)
        fields = caplog.records[0].fields
        assert (fields["address"], fields["token"]) == ("127.0.0.1", "ada")
        # Who leaves behind the proxy is noticed, too.
        client = connect()
        upload = {"Host": NAME, "Authorization": f"Bearer {token}", "Content_Length": "5000"}
        client.sendall(request("PUT", "/v1/datasets/d", **upload) + b"1 1:1\n")
        wait_for(service.store.datasets, 30)
        client.close()
        wait_for(lambda: not service.store.datasets(), 30)
