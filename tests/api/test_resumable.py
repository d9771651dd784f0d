"""Uploads go on after a lost connection from the byte that the service names, and make the dataset of an uncut one."""

import errno
import gzip
import io
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from streamsvm.reader.errors import InputError
from streamsvm.service.cli import main
from streamsvm.service.datasets import resuming, uploads
from streamsvm.service.errors import ServiceError
from streamsvm.service.records.store import Store
from streamsvm.service.remote.client import Client
from streamsvm.service.remote.connection import Connection
from streamsvm.storage.blocks.manifest import read_manifest
from tests.api.answers import check_answer
from tests.api.app import Service, check_problem
from tests.api.cutting import CuttingProxy
from tests.api.server import RunningServer, read_answer, request
from tests.api.test_leaving import ingests, nothing_is_left, reset
from tests.end_to_end.service import wait_for

ROWS = b"1 1:1\n-1 2:1\n"
PARTIAL = "application/partial-upload"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def offset(self) -> int:
        return int(self.headers["upload-offset"])

    @property
    def code(self) -> str:
        return json.loads(self.body)["code"]


def parsed(head: bytes, body: bytes) -> Answer:
    first, *lines = head.decode().split("\r\n")
    pairs = (line.split(": ", 1) for line in lines)
    return Answer(int(first.split()[1]), {name.lower(): text for name, text in pairs}, body)


class Uploader:
    """Speaks the protocol to a running service, request by request."""

    def __init__(self, server: RunningServer, name: str = "d") -> None:
        self.server, self.name, self.place = server, name, ""

    def begin(self, body: bytes = b"", complete: str = "?0", **headers: str) -> Answer:
        answer = self.send("PUT", f"/v1/datasets/{self.name}", body, Upload_Complete=complete, **headers)
        self.place = answer.headers.get("location", "")
        return answer

    def patch_bytes(self, offset: int, body: bytes, complete: str = "?1", **headers: str) -> bytes:
        told = {"Upload_Offset": str(offset), "Upload_Complete": complete, "Content_Type": PARTIAL, **headers}
        return request("PATCH", self.place, body, **told)

    def patch(self, offset: int, body: bytes, complete: str = "?1", **headers: str) -> Answer:
        return self._answer("PATCH", self.place, self.patch_bytes(offset, body, complete, **headers))

    def send(self, method: str, path: str = "", body: bytes = b"", **headers: str) -> Answer:
        path = path or self.place
        return self._answer(method, path, request(method, path, body, **headers))

    def _answer(self, method: str, path: str, data: bytes) -> Answer:
        answer = parsed(*self.server.answer(data))
        check_answer(method, path, answer.status, answer.headers.get("content-type", ""), answer.body)
        return answer

    def head(self, place: str = "", **headers: str) -> Answer:
        with closing(self.server.connect()) as client:
            client.sendall(request("HEAD", place or self.place, **headers))
            data = b""
            while not data.endswith(b"\r\n\r\n"):
                data += client.recv(65536)
        return parsed(data.removesuffix(b"\r\n\r\n"), b"")


@pytest.fixture
def server(service):
    with RunningServer(service) as running:
        yield running


@pytest.fixture
def upload(server):
    return Uploader(server)


def soon(seconds: float) -> None:
    time.sleep(seconds / 10)


def rows(count: int) -> bytes:
    chosen = random.Random(count)
    row = "{} {}:{:.4f} {}:{:.4f}\n".format
    drawn = ((chosen.choice((1, -1)), chosen.randrange(1, 50), chosen.random()) for _ in range(count))
    return "".join(row(*each, chosen.randrange(50, 5000), chosen.random()) for each in drawn).encode()


def content(service: Service, name: str) -> dict[str, Any]:
    return content_of(service.settings.datasets / service.store.dataset(name)["id"])


def content_of(directory: Path) -> dict[str, Any]:
    """Every byte of a dataset but the uid, which is drawn, and the checksums of the blocks' heads, which have it."""
    uid, manifest = read_manifest(directory).uid.encode(), read_manifest(directory)
    files = (path for path in directory.rglob("*") if path.is_file() and path.name != "manifest.json")
    shown = {str(path.relative_to(directory)): path.read_bytes().replace(uid, b"") for path in files}
    return {**shown, "rows": manifest.n_rows, "labels": manifest.labels, "bytes": manifest.input_bytes}


@pytest.mark.parametrize(("pack", "seed"), [(bytes, 0), (gzip.compress, 1)], ids=["plain", "gzip"])
def test_a_file_whose_connections_are_cut_makes_the_same_dataset(service, server, tmp_path, pack, seed):
    text = pack(rows(20_000))
    file = tmp_path / "file"
    file.write_bytes(text)
    assert service.request("PUT", "/v1/datasets/uncut", content=text).status_code == 201
    with CuttingProxy(server.address, 12, len(text) // 8, seed) as proxy:
        Client(proxy.url, sleep=soon).add_dataset("cut", file)
        assert proxy.cuts_left < 6
    assert content(service, "cut") == content(service, "uncut")


def test_a_session_by_hand(service, server, upload):
    text = rows(1000)
    begun = upload.begin(text[:500])
    assert (begun.status, begun.headers["upload-complete"], begun.offset) == (202, "?0", 500)
    assert begun.headers["upload-limit"] == f"max-size={service.settings.max_upload_bytes}, max-age=600"
    assert json.loads(begun.body)["state"] == "ingesting"
    more = upload.patch(500, text[500:600], "?0")
    assert (more.status, more.offset, more.headers["upload-complete"]) == (204, 600, "?0")
    asked = upload.head()
    assert (asked.status, asked.offset, asked.headers["cache-control"]) == (204, 600, "no-store")
    done = upload.patch(600, text[600:])
    assert (done.status, done.headers["upload-complete"]) == (201, "?1")
    assert json.loads(done.body) == json.loads(upload.send("GET", "/v1/datasets/d").body)
    assert json.loads(done.body)["rows"] == 1000
    again = upload.head()
    assert (again.status, again.headers["upload-complete"], again.offset) == (204, "?1", len(text))
    assert upload.patch(len(text), b"").code == "unknown_upload"
    service.request("PUT", "/v1/datasets/uncut", content=text)
    assert content(service, "d") == content(service, "uncut")


def test_an_upload_in_one_request_says_that_it_is_complete(upload):
    done = upload.begin(ROWS, "?1")
    assert (done.status, done.headers["upload-complete"], done.offset) == (201, "?1", len(ROWS))
    assert "location" not in done.headers and json.loads(done.body)["rows"] == 2


def test_plain_uploads_are_as_before(server, upload):
    head, _ = server.answer(request("PUT", "/v1/datasets/d", ROWS))
    assert b" 201 " in head and b"upload-" not in head
    # Malformed headers count as missing, as the draft says.
    head, _ = server.answer(request("PUT", "/v1/datasets/e", ROWS, Upload_Complete="1"))
    assert b" 201 " in head and b"upload-" not in head


def test_an_interim_response_names_the_upload_if_the_client_speaks_this_version_of_the_draft(server, upload):
    version = {"Upload_Draft_Interop_Version": "8"}
    with closing(server.connect()) as client:
        told = request("PUT", "/v1/datasets/d", Content_Length=str(len(ROWS)), Upload_Complete="?1", **version)
        client.sendall(told + ROWS[:5])
        interim = parsed(*read_answer(client))
        assert interim.status == 104 and "max-age" in interim.headers["upload-limit"]
        upload.place = interim.headers["location"]
        wait_for(lambda: ingests_bytes(server, upload) == 5)
        reset(client)
    assert upload.patch(5, ROWS[5:]).status == 201


def ingests_bytes(server: RunningServer, upload: Uploader) -> int:
    """Bytes that the service has taken; not asked with HEAD, which would end the request under way."""
    resumable = server.server.config.app.state.context.datasets.resumable
    return resumable.find(upload.name, upload.place.rsplit("/", 1)[1]).offset


def test_a_wrong_offset_is_told_the_right_one(service, upload):
    upload.begin(ROWS[:5])
    for offset in (0, 4, 6, 10**11):
        answer = upload.patch(offset, ROWS[5:], Content_Length=str(len(ROWS) - 5))
        problem = json.loads(answer.body)
        assert (answer.status, problem["code"], problem["at"]) == (409, "upload_offset_mismatch", {"byte": 5})
        assert (answer.offset, answer.headers["upload-complete"]) == (5, "?0")
    assert upload.patch(5, ROWS[5:]).status == 201


def test_parts_that_are_refused_leave_the_upload_as_it_was(upload):
    upload.begin(ROWS[:5])
    for headers, status, code in (
        ({"Content_Type": "text/plain"}, 415, "partial_upload_type"),
        ({"Upload_Offset": "-5"}, 400, "upload_header_missing"),
        ({"Upload_Complete": "yes"}, 400, "upload_header_missing"),
        ({"Upload_Length": "7"}, 400, "upload_length_mismatch"),
        ({"Upload_Length": str(2**45), "Upload_Complete": "?0"}, 413, "body_too_large"),
    ):
        refused = upload.patch(5, ROWS[5:], **headers)
        assert (refused.status, refused.code) == (status, code)
        assert upload.head().offset == 5
    assert upload.patch(5, ROWS[5:]).status == 201


def test_more_bytes_than_were_told_end_the_upload(service, upload):
    upload.begin(ROWS[:5], Upload_Length="9")
    assert upload.patch(5, ROWS[5:6], "?1").code == "upload_length_mismatch"
    assert upload.patch(5, ROWS[5:], "?0").code == "upload_length_mismatch"
    wait_for(lambda: nothing_is_left(service))
    assert upload.head().status == 404


def test_of_two_parts_at_once_the_later_one_wins(server, upload):
    upload.begin(ROWS[:5])
    with closing(server.connect()) as first:
        first.sendall(upload.patch_bytes(5, ROWS[5:7], Content_Length=str(len(ROWS) - 5)))
        wait_for(lambda: ingests_bytes(server, upload) == 7)
        assert upload.patch(5, ROWS[5:]).code == "upload_offset_mismatch"  # and the first goes on
        assert upload.patch(7, ROWS[7:]).status == 201
        assert parsed(*read_answer(first)).code == "upload_taken_over"


def test_many_parts_at_once_make_one_dataset(service, server, upload):
    text = rows(2000)
    upload.begin(text[:5])
    clients = [server.connect() for _ in range(8)]
    for client in clients:
        client.sendall(upload.patch_bytes(5, text[5:]))
    answers = [parsed(*read_answer(client)) for client in clients]
    for client in clients:
        client.close()
    assert sorted(answer.status for answer in answers).count(201) == 1
    assert {answer.status for answer in answers} <= {201, 404, 409, 410}
    assert service.request("GET", "/v1/datasets/d").json()["rows"] == 2000


def test_asking_ends_the_request_that_still_sends(server, upload):
    upload.begin()
    with closing(server.connect()) as first:
        first.sendall(upload.patch_bytes(0, ROWS[:7], Content_Length=str(len(ROWS))))
        wait_for(lambda: ingests_bytes(server, upload) == 7)
        assert upload.head().offset == 7
        assert parsed(*read_answer(first)).code == "upload_taken_over"
    assert upload.patch(7, ROWS[7:]).status == 201


def test_a_fault_in_a_later_part_is_told_and_nothing_is_left(service, upload):
    upload.begin(ROWS)
    answer = upload.patch(len(ROWS), b"spam 1:1\n")
    assert (answer.status, answer.headers["upload-complete"]) == (422, "?1")
    problem = json.loads(answer.body)
    assert (problem["code"], problem["at"]) == ("bad_label", {"line": 3, "column": 1, "byte": len(ROWS)})
    assert nothing_is_left(service)
    # Whoever did not get that answer is told it again.
    assert upload.head().status == 422 and json.loads(upload.patch(0, b"").body)["at"] == problem["at"]


@pytest.mark.parametrize("full", ["disk", "store"])
def test_a_disk_that_is_full_when_an_upload_begins_or_ends_is_told(service, upload, monkeypatch, caplog, full):
    """It was logged as an error that nobody foresaw."""

    def fail(*_):
        if full == "disk":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(*((uploads, "mark") if full == "disk" else (Store, "set_dataset_ready")), fail)
    answer = upload.begin(ROWS, complete="?1")
    assert (answer.status, answer.code) == (507, "out_of_space")
    assert not [record for record in caplog.records if "nobody foresaw" in record.message]
    wait_for(lambda: nothing_is_left(service))


def test_the_client_tells_the_fault_of_a_file_whose_answer_was_lost(service, server):
    text = rows(3000) + b"spam 1:1\n"
    with CuttingProxy(server.address, 6, len(text), 5) as proxy, pytest.raises(InputError) as fault:
        Client(proxy.url, sleep=soon).add_dataset("d", io.BytesIO(text))
    assert fault.value.code == "bad_label" and fault.value.line == 3001


def test_giving_an_upload_up_leaves_nothing(service, server, upload):
    upload.begin(ROWS)
    with closing(server.connect()) as client:
        client.sendall(upload.patch_bytes(len(ROWS), ROWS, Content_Length="5000"))
        wait_for(lambda: ingests_bytes(server, upload) == 2 * len(ROWS))
        assert upload.send("DELETE").status == 204
        assert nothing_is_left(service)
        assert parsed(*read_answer(client)).code == "given_up"
    assert upload.head().status == 404
    assert upload.send("DELETE").code == upload.patch(0, ROWS).code == "unknown_upload"


def test_deleting_the_dataset_gives_its_upload_up(service, server, upload):
    """Whether it waits or sends."""
    upload.begin(ROWS)
    assert upload.send("DELETE", "/v1/datasets/d").status == 204
    assert nothing_is_left(service) and upload.head().status == 404
    with closing(server.connect()) as client:
        client.sendall(request("PUT", "/v1/datasets/d", Content_Length="5000") + ROWS)
        wait_for(lambda: ingests(service), 30)
        assert upload.send("DELETE", "/v1/datasets/d").status == 204
        assert nothing_is_left(service) and parsed(*read_answer(client)).code == "given_up"


def test_an_upload_waits_as_long_as_the_setting_says(tmp_path):
    service = Service(tmp_path, upload_wait=0.3)
    with RunningServer(service) as server:
        upload = Uploader(server)
        upload.begin(ROWS)
        wait_for(lambda: nothing_is_left(service), 30)
        assert upload.head().status == 404
        assert upload.begin(ROWS, "?1").status == 201


def test_a_slow_part_does_not_count_as_waiting(tmp_path):
    service = Service(tmp_path, upload_wait=0.2)
    with RunningServer(service) as server, closing(server.connect()) as client:
        client.sendall(request("PUT", "/v1/datasets/d", Content_Length=str(len(ROWS)), Upload_Complete="?1") + ROWS[:5])
        wait_for(lambda: ingests(service), 30)
        with pytest.raises(AssertionError):
            wait_for(lambda: nothing_is_left(service), 0.6)
        client.sendall(ROWS[5:])
        assert parsed(*read_answer(client)).status == 201


def test_a_client_that_has_forgotten_its_upload_begins_anew(service, server, upload):
    upload.begin(ROWS)
    first = upload.place
    assert upload.begin(ROWS * 2, "?1").status == 201  # under the same name
    assert upload.head(first).status == 404
    assert service.request("GET", "/v1/datasets/d").json()["rows"] == 4
    other = Uploader(server, "e")
    other.begin(ROWS)
    head, _ = server.answer(request("PUT", "/v1/datasets/e", ROWS))
    assert b" 201 " in head


def test_an_upload_of_another_client_stays(tmp_path):
    service = Service(tmp_path)
    ada, bob = ({"Authorization": f"Bearer {service.tokens.new(name, 'submit')}"} for name in ("ada", "bob"))
    with RunningServer(service) as server:
        upload = Uploader(server)
        upload.begin(ROWS[:5], **ada)
        refused = Uploader(server).begin(ROWS, "?1", **bob)
        assert (refused.status, refused.code) == (409, "dataset_exists")
        assert upload.patch(5, ROWS[5:], **ada).status == 201


def test_waiting_uploads_hold_slots_until_they_are_silent_for_long(tmp_path, monkeypatch):
    service = Service(tmp_path, max_uploads=2)
    ada, bob = ({"Authorization": f"Bearer {service.tokens.new(name, 'submit')}"} for name in ("ada", "bob"))
    with RunningServer(service) as server:
        first, second, other = Uploader(server, "a"), Uploader(server, "b"), Uploader(server, "c")
        first.begin(ROWS[:5], **ada)
        refused = second.begin(ROWS[:5], **ada)  # one client has not all
        assert (refused.status, refused.code, "retry-after" in refused.headers) == (429, "too_many_uploads", True)
        assert second.begin(ROWS[:5], **bob).status == 202
        assert other.begin(ROWS, "?1", **bob).code == "too_many_uploads"
        monkeypatch.setattr(resuming, "_SILENT_SECONDS", 0.0)
        assert other.begin(ROWS, "?1", **bob).status == 201
        assert second.head(**bob).status == 404  # bob's own made room
        assert first.patch(5, ROWS[5:], **ada).status == 201


def test_the_end_of_the_service_ends_uploads_that_wait_and_the_next_one_says_begin_anew(tmp_path):
    service = Service(tmp_path)
    with RunningServer(service) as server:
        upload = Uploader(server)
        upload.begin(ROWS[:5])
        wait_for(lambda: ingests(service), 30)
    wait_for(lambda: not ingests(service), 30)
    service = Service(tmp_path)
    assert nothing_is_left(service)
    with RunningServer(service) as server:
        upload.server = server
        assert upload.head().status == 404
        answer = upload.patch(5, ROWS[5:])
        assert (answer.status, answer.code) == (404, "unknown_upload")
        assert "from byte 0" in json.loads(answer.body)["hint"]


def test_a_finished_upload_is_known_after_a_restart(tmp_path):
    service = Service(tmp_path)
    with RunningServer(service) as server:
        upload = Uploader(server)
        upload.begin(ROWS[:5])
        upload.patch(5, ROWS[5:])
    with RunningServer(Service(tmp_path)) as server:
        upload.server = server
        asked = upload.head()
        assert (asked.status, asked.headers["upload-complete"], asked.offset) == (204, "?1", len(ROWS))


def test_rows_are_added_in_one_request(service, upload):
    service.request("PUT", "/v1/datasets/d", content=ROWS)
    refused = service.request("POST", "/v1/datasets/d/blocks", content=ROWS, headers={"Upload-Complete": "?0"})
    check_problem(refused, "upload_not_resumable", 422)
    added = service.request("POST", "/v1/datasets/d/blocks", content=ROWS, headers={"Upload-Complete": "?1"})
    assert added.json()["rows"] == 4


def test_a_client_tries_a_bounded_number_of_times(service, server, tmp_path):
    pauses: list[float] = []
    with CuttingProxy(server.address, 10**6, 200, 1) as proxy, pytest.raises(ServiceError) as lost:
        Client(proxy.url, sleep=pauses.append).add_dataset("d", io.BytesIO(rows(100_000)))
    assert lost.value.code == "no_service"
    assert pauses[-8:] == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0]


def test_a_client_that_may_not_try_again_does_not(service, server):
    with CuttingProxy(server.address, 10**6, 200, 1) as proxy, pytest.raises(ServiceError) as lost:
        Connection(proxy.url, retries=0, sleep=pytest.fail).upload("/v1/datasets/d", io.BytesIO(ROWS * 1000))
    assert lost.value.code == "no_service"


def test_a_stream_that_cannot_seek_is_sent_plainly(service, server, monkeypatch, capsys):
    """By the command, from its standard input."""
    reading, writing = os.pipe()
    os.write(writing, ROWS)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        monkeypatch.setattr("sys.stdin", pipe)
        assert main(["data", "add", "d", "-", "--url", f"http://127.0.0.1:{server.address[1]}"]) == 0
    assert capsys.readouterr().out == "d: 2 rows, 2 features, 2 non-zeros\n"


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_curl_goes_on_by_hand(service, server, tmp_path):
    """The session of api/README.md."""
    text, url = rows(5000), f"http://127.0.0.1:{server.address[1]}"
    file = tmp_path / "rows.svm"
    file.write_bytes(text)
    readme = (Path(__file__).parents[2] / "api" / "README.md").read_text()
    (session,) = re.findall(r"```sh\n(UPLOAD=.*?)```", readme, re.DOTALL)
    lines = session.replace("train.svm.zst", "rows.svm").splitlines()
    command = ["bash", "-c", "\n".join(["set -e", *lines, "curl -s $U/v1/datasets/rcv1"])]
    shown = subprocess.run(
        command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env={**os.environ, "U": url}
    ).stdout
    assert json.loads(shown[shown.rindex('{"name"') :])["rows"] == 5000, shown
