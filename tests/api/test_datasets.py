"""/v1/datasets: what comes in is whole or nothing, and every fault is a problem."""

import gzip

import pytest

from tests.api.app import Service, check_problem, nothing_is_left

TEXT = b"1 1:0.5 3:1\n-1 2:1\n# comment\n1 7:0\n"
BAD_UPLOADS = {
    "bad_label": (b"1 1:1\nspam 1:1\n", {"line": 2, "column": 1}),
    "bad_number": (b"1 1:1\n-1 2:1,5\n", {"line": 2}),
    "value_not_finite": (b"1 1:nan\n", {"line": 1}),
    "index_order": (b"1 3:1 2:1\n", {"line": 1}),
    "no_rows": (b"", {}),
    "unknown_format": (b"\x89PNG\r\n\x1a\n" + bytes(100), {}),
    "compressed_truncated": (gzip.compress(TEXT * 1000)[:-9], {}),
}
STATUS = {"unknown_format": 415}
WRONG_NAMES = ["%2e%2e", "a%2fb", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "a%00b", "Data", "-a", "_a", "a.b", "a b",
               "d%C3%A4ta", "d%D0%B0ta", "%EF%BD%81", "1%CC%81", "%F0%9F%98%80", "a" * 65, "%ff"]  # fmt: skip


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_an_upload_is_read_in(service, pack):
    body = pack(TEXT)
    response = service.request("PUT", "/v1/datasets/rcv1?format=libsvm", content=body)
    assert response.status_code == 201
    shown = response.json()
    assert (shown["name"], shown["state"]) == ("rcv1", "ready")
    assert (shown["rows"], shown["non_zeros"], shown["features"], shown["index_base"]) == (3, 3, 7, 1)
    assert shown["label_counts"] == {"1": 2, "-1": 1}
    assert (shown["input_bytes"], shown["comment_lines"], shown["explicit_zeros"]) == (len(body), 1, 1)
    assert service.request("GET", "/v1/datasets/rcv1").json() == shown
    (listed,) = service.request("GET", "/v1/datasets").json()["datasets"]
    assert listed.items() <= shown.items()


def test_the_options_of_an_input(service):
    query = "format=csv&label_column=class&delimiter=semicolon&header=yes&index_base=0&n_features=5&on_bad_row=skip"
    body = b"a;class;b\n3;1;4\n3;-1;x\n0;-1;2\n"
    shown = service.request("PUT", f"/v1/datasets/d?{query}&normalize=row_l2", content=body).json()
    assert (shown["rows"], shown["features"], shown["index_base"], shown["normalize"]) == (2, 5, 0, "row_l2")
    assert shown["squared_norms"] == {"min": pytest.approx(1), "mean": pytest.approx(1), "max": pytest.approx(1)}
    assert shown["rejected_rows"] == 1
    assert (shown["rejected"][0]["code"], shown["rejected"][0]["at"]) == (
        "not_numeric",
        {"line": 3, "column": 6, "byte": 21},
    )


def test_labels_that_are_strings_weights_and_groups_are_shown(service):
    query = "label_column=kind&weight_column=w&group_column=-1"
    body = b"kind,w,a,person\nspam,2,1,p\nham,0,2,p\nspam,0.5,3,q\n"
    shown = service.request("PUT", f"/v1/datasets/d?{query}", content=body).json()
    assert (shown["rows"], shown["features"], shown["has_groups"]) == (3, 1, True)
    assert (shown["label_type"], shown["label_range"]) == ("string", None)
    assert list(shown["label_counts"].items()) == [("ham", 1), ("spam", 2)]
    assert shown["weights"] == {"sum": 2.5, "min": 0.0, "max": 2.0, "zero_rows": 1}
    more = service.request("POST", "/v1/datasets/d/blocks?format=csv", content=b"y,a\neggs,1\n").json()
    assert more["label_counts"] == {"eggs": 1, "ham": 1, "spam": 2}
    assert more["weights"] == {"sum": 3.5, "min": 0.0, "max": 2.0, "zero_rows": 1}
    wrong = service.request("PUT", "/v1/datasets/e?weight_column=v", content=b"y,w\n1,1\n")
    assert check_problem(wrong, "weight_column_missing", 422)["at"] == {"line": 1}
    plain = service.request("PUT", "/v1/datasets/e", content=TEXT).json()
    assert (plain["label_type"], plain["weights"], plain["has_groups"]) == ("number", None, False)


def test_a_bad_upload_leaves_nothing_behind_and_its_name_free(service):
    for code, (body, at) in BAD_UPLOADS.items():
        found = check_problem(service.request("PUT", "/v1/datasets/bad", content=body), code, STATUS.get(code, 422))
        assert at.items() <= found["at"].items()
        assert nothing_is_left(service), code
        check_problem(service.request("GET", "/v1/datasets/bad"), "unknown_dataset", 404)
    assert service.request("PUT", "/v1/datasets/bad", content=TEXT).status_code == 201


def test_names(service):
    for name in WRONG_NAMES:
        check_problem(service.request("PUT", f"/v1/datasets/{name}", content=TEXT), "name_invalid", 422)
        assert nothing_is_left(service), name
        assert service.request("GET", f"/v1/datasets/{name}").status_code in (404, 405), name
    for name in ("a-b_c", "9" * 64):
        assert service.request("PUT", f"/v1/datasets/{name}", content=TEXT).status_code == 201


def test_a_name_that_is_taken(filled):
    check_problem(filled.request("PUT", "/v1/datasets/data", content=TEXT), "dataset_exists", 409)
    assert filled.request("GET", "/v1/datasets/data").json()["rows"] == 60


WRONG_VALUES = ["format=arff", "format=", "index_base=2", "index_base=-1", "index_base=auto0", "n_features=0",
                "header=maybe", "normalize=l1", "on_bad_row=", "delimiter="]  # fmt: skip


def test_query_values_that_are_none(service):
    for query in WRONG_VALUES:
        check_problem(service.request("PUT", f"/v1/datasets/d?{query}", content=TEXT), "wrong_type", 422)
        assert nothing_is_left(service), query


def test_a_body_that_grows_too_large(tmp_path):
    service = Service(tmp_path, max_upload_bytes=1000)

    async def endless():
        while True:
            yield b"1 1:1\n" * 50

    check_problem(service.request("PUT", "/v1/datasets/d", content=endless()), "body_too_large", 413)
    packed = gzip.compress(b"1 1:1\n" * 1000)
    check_problem(service.request("PUT", "/v1/datasets/d", content=packed), "decompressed_too_large", 413)
    assert nothing_is_left(service)


def test_a_content_length_beyond_any_disk(service):
    response = service.request("PUT", "/v1/datasets/d", content=TEXT, headers={"Content-Length": "9" * 20})
    check_problem(response, "body_too_large", 413)


def test_a_dataset_is_deleted_once_no_job_needs_it(service):
    dataset_id = service.add_dataset("data")
    job = service.request("POST", "/v1/jobs", json={"dataset": "data"}).json()["id"]
    check_problem(service.request("DELETE", "/v1/datasets/data"), "dataset_in_use", 409)
    assert (service.settings.datasets / dataset_id).is_dir()
    service.store.claim()
    service.store.finish(job, "succeeded")
    assert service.request("DELETE", "/v1/datasets/data").status_code == 204
    assert nothing_is_left(service)
    check_problem(service.request("DELETE", "/v1/datasets/data"), "unknown_dataset", 404)


def test_a_dataset_still_being_read_in(service):
    service.store.add_dataset("data")
    assert service.request("GET", "/v1/datasets/data").json()["state"] == "ingesting"
    # A job may follow it, unless it needs to know it as a whole.
    weighted = {"dataset": "data", "class_weight": {"1": 2.0}}
    check_problem(service.request("POST", "/v1/jobs", json=weighted), "not_ready", 409)
    assert service.request("POST", "/v1/jobs", json={"dataset": "data"}).status_code == 202
    check_problem(service.request("DELETE", "/v1/datasets/data"), "dataset_in_use", 409)


def test_uploads_that_a_dead_process_left_are_cleared_away(service):
    left = service.store.add_dataset("half")
    (service.settings.datasets / f".{left}.x.staged").mkdir()
    kept = service.add_dataset("whole")
    again = Service(service.settings.data_dir)
    assert [record["id"] for record in again.store.datasets()] == [kept]
    assert [path.name for path in again.settings.datasets.iterdir()] == [kept]


def test_damage_on_disk_is_reported(service):
    dataset_id = service.add_dataset("data")
    (service.settings.datasets / dataset_id / "manifest.json").write_bytes(b"{")
    found = check_problem(service.request("GET", "/v1/datasets/data"), "dataset_corrupt", 500)
    assert found["hint"] and str(service.settings.data_dir) not in found["detail"]
    check_problem(service.request("POST", "/v1/jobs", json={"dataset": "data"}), "dataset_corrupt", 500)


def test_a_form_with_a_file_in_it_is_told_how_to_send_the_file(service):
    for query in ("", "?format=libsvm"):
        answer = service.request("PUT", f"/v1/datasets/form{query}", files={"file": ("a.svm", b"1 1:1\n-1 2:1\n")})
        assert "curl -T" in check_problem(answer, "multipart", 415)["hint"]
    assert service.request("GET", "/v1/datasets").json() == {"datasets": []}
