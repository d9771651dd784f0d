"""An object store on this machine: moto's server as a process; a proxy before it cuts answers or holds them back."""

import http.client
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from tests.end_to_end.service import wait_for

KEY, SECRET = "AKIATESTTESTTESTTEST", "wJalrXUtnFEMISECRETSECRETSECRET"


class S3:
    """A server; its buckets are empty after `reset`."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(self._answers)
        assert self._process.poll() is None, "another server has this port"

    def environment(self, url: str = "", key: str = KEY, secret: str = SECRET) -> dict[str, str]:
        """Variables by which it is found, and with which credentials."""
        return {
            "AWS_ENDPOINT_URL": url or self.url,
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def reset(self) -> None:
        """Forget all, and let everybody in."""
        self._post("reset-auth", "inf")
        self._post("reset")

    def put(self, path: str, data: bytes) -> None:
        """Write bucket/key; the bucket is made."""
        httpx.put(f"{self.url}/{path.partition('/')[0]}").raise_for_status()
        httpx.put(f"{self.url}/{path}", content=data).raise_for_status()

    def get(self, path: str) -> bytes:
        """Read bucket/key."""
        bucket, _, key = path.partition("/")
        with self._client("s3").get_object(Bucket=bucket, Key=key)["Body"] as body:
            return body.read()

    def _client(self, service: str) -> Any:
        import boto3  # noqa: PLC0415 - the environment of MLflow's tests has none, and the same conftest

        return boto3.client(service, endpoint_url=self.url, region_name="us-east-1",
                            aws_access_key_id=KEY, aws_secret_access_key=SECRET)  # fmt: skip

    def let_in_one(self) -> tuple[str, str]:
        """From now on only who has this key and this secret may read."""
        iam = self._client("iam")
        iam.create_user(UserName="reader")
        allowed = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}'
        iam.put_user_policy(UserName="reader", PolicyName="all", PolicyDocument=allowed)
        made = iam.create_access_key(UserName="reader")["AccessKey"]
        iam.close()
        self._post("reset-auth", "0")
        return made["AccessKeyId"], made["SecretAccessKey"]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _post(self, what: str, data: str = "") -> None:
        httpx.post(f"{self.url}/moto-api/{what}", content=data).raise_for_status()

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/moto-api/").status_code < 500
        except httpx.TransportError:
            return False


@contextmanager
def running() -> Iterator[S3]:
    """With one."""
    server = S3()
    try:
        yield server
    finally:
        server.close()


def use(monkeypatch: Any, variables: dict[str, str]) -> None:
    """In this process, and those it starts; no other credentials are found."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@contextmanager
def breaking(s3: S3, after_bytes: int, times: int) -> Iterator[list[str]]:
    """The address of the store, and ranges asked for: so many answers to a range end after so many bytes of it."""
    seen: list[str] = []

    def cut(_: str, wanted: str | None, data: bytes) -> bytes:
        if not wanted:
            return data
        seen.append(wanted)
        return data[:after_bytes] if len(seen) <= times + 1 else data

    with _before(s3, cut) as address:
        seen.append(address)
        yield seen


@contextmanager
def _before(s3: S3, change: Callable[[str, str | None, bytes], bytes]) -> Iterator[str]:
    """The address of a server that hands requests on; change(path, range, data) is what GET answers with.

    If that is less than the data, the connection ends after it.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self) -> None:
            away = http.client.HTTPConnection("127.0.0.1", s3.port, timeout=60)
            away.request(self.command, self.path, headers=dict(self.headers))
            answer = away.getresponse()
            data = answer.read()
            away.close()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                    self.send_header(name, value)
            self.end_headers()
            if self.command == "HEAD":
                return
            changed = change(self.path, self.headers.get("Range"), data)
            self.close_connection = len(changed) < len(data)
            with suppress(ConnectionError):
                self.wfile.write(changed)

        do_GET = do_HEAD = _forward  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
