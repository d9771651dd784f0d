"""gs:// and az:// against what stands for their stores: a server of their interface on this machine.

They are not installed with the rest, for their libraries ask for versions of fsspec of their own: pip install
"streamsvm[gcs]" "streamsvm[azure]" gcp-storage-emulator; npm install -g azurite.
"""

import base64
import json
import os
import shutil
import socket
import subprocess
import sys

import httpx
import pytest

from streamsvm.storage.blocks.manifest import read_manifest
from tests.end_to_end.service import wait_for

pytestmark = pytest.mark.slow
TEXT = b"".join(b"%d 1:%d 3:0.5\n" % (2 * (k % 2) - 1, k + 1) for k in range(1000))
_INGEST = [sys.executable, "-m", "streamsvm.reader.ingest.run"]
_GOOGLE = """
import sys, threading
from gcp_storage_emulator.server import create_server
create_server("127.0.0.1", int(sys.argv[1]), in_memory=True, default_bucket="bucket").start()
threading.Event().wait()
"""
_KEY = base64.b64encode(b"a key of nobody's, as long as need be, of sixty-four bytes in all").decode()


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def answers(url):
    try:
        return httpx.get(url)
    except httpx.TransportError:
        return None


@pytest.fixture
def google(port):
    """Environment variables that point to a store whose bucket `bucket` has two files."""
    for name in ("gcsfs", "gcp_storage_emulator"):
        pytest.importorskip(name)
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen([sys.executable, "-c", _GOOGLE, str(port)], stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: answers(f"{url}/storage/v1/b/bucket"))
        for name in ("part-0", "part-1"):
            httpx.post(f"{url}/upload/storage/v1/b/bucket/o?uploadType=media&name={name}", content=TEXT)
        yield {"STORAGE_EMULATOR_HOST": url}
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def azure(port):
    """Likewise."""
    pytest.importorskip("adlfs")
    blobs = pytest.importorskip("azure.storage.blob")
    if not (azurite := shutil.which("azurite-blob")):
        pytest.skip("Azurite is not installed: npm install -g azurite")
    url = f"http://127.0.0.1:{port}"
    found = f"DefaultEndpointsProtocol=http;AccountName=us;AccountKey={_KEY};BlobEndpoint={url}/us;"
    command = [azurite, "--silent", "--inMemoryPersistence", "--blobPort", str(port), "--skipApiVersionCheck"]
    server = subprocess.Popen(command, env=os.environ | {"AZURITE_ACCOUNTS": f"us:{_KEY}"})
    try:
        wait_for(lambda: answers(url))
        with blobs.BlobServiceClient.from_connection_string(found) as client:
            bucket = client.create_container("bucket")
            for name in ("part-0", "part-1"):
                bucket.upload_blob(name, TEXT)
        yield {"AZURE_STORAGE_CONNECTION_STRING": found}
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize(("store", "scheme"), [("google", "gs"), ("azure", "az")])
def test_files_of_a_store_are_read_and_what_is_wrong_is_told(request, tmp_path, store, scheme):
    environment = os.environ | request.getfixturevalue(store)

    def ingest(url):
        command = [*_INGEST, tmp_path / "dataset", "--source", f"{scheme}://{url}"]
        return json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=False).stdout)

    assert ingest("bucket/part-*")["rows"] == 2000
    assert read_manifest(tmp_path / "dataset").nnz == 4000
    shutil.rmtree(tmp_path / "dataset")
    assert ingest("bucket/none-*")["problem"]["code"] == "source_empty"
    assert ingest("bucket/none")["problem"]["code"] == "source_not_found"
    assert ingest("nobucket/part-0")["problem"]["code"] == "source_not_found"
    assert not (tmp_path / "dataset").exists()


def test_a_key_that_is_wrong_is_not_let_in(azure, tmp_path):
    other = base64.b64encode(b"x" * 64).decode()
    wrong = {name: value.replace(_KEY, other) for name, value in azure.items()}
    command = [*_INGEST, tmp_path / "dataset", "--source", "az://bucket/part-0"]
    done = subprocess.run(command, env=os.environ | wrong, capture_output=True, check=False)
    assert json.loads(done.stdout)["problem"]["code"] == "source_denied"
    assert other.encode() not in done.stdout + done.stderr
