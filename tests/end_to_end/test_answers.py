"""A session over every route: each real answer is what the OpenAPI document says, field by field, and nothing else."""

import json

import httpx
import numpy as np
import pytest

from streamsvm.api.answers import type_of
from streamsvm.api.requests.resumable import PARTIAL
from tests.api.answers import ROUTES, checked, route_of, strictly
from tests.contracts.problems import libsvm_text, random_problem
from tests.end_to_end.service import PLAIN, Service

EVENTS = {"state": "Transition", "pass": "Pass", "progress": "PhaseAndProgress", "end": "Job"}
TABLE = b"weight,colour,label\n" + b"".join(
    b"%d,%s,%s\n" % each for each in ((1, b"red", b"a"), (2, b"blue", b"b")) * 30
)


class Session:
    """Requests to a service; each answer is held against the document, and its route noted."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.seen: set[str] = set()
        self.client = httpx.Client(base_url=service.url, **PLAIN)

    def __call__(self, method: str, path: str, status: int = 200, **arguments: object) -> httpx.Response:
        answer = checked(self.client.request(method, path, **arguments))  # type: ignore[arg-type]
        assert answer.status_code == status, answer.text
        route = route_of(method, answer.request.url.path)
        if route is not None and answer.is_success:
            self.seen.add(str(route.operation_id))
        return answer

    def run(self, **fields: object) -> dict:
        """The job with these fields once it has ended."""
        job = self("POST", "/v1/jobs", 202, json=fields).json()
        while job["finished_at"] is None:
            job = self("GET", f"/v1/jobs/{job['id']}", params={"wait_seconds": 10, "after": job["seq"]}).json()
        assert job["state"] in ("succeeded", "stopped"), job["failure"]
        self("GET", f"/v1/jobs/{job['id']}/history")
        for model in job["result"]["models"]:
            self("GET", f"/v1/models/{model['model_id']}")
            self("POST", f"/v1/models/{model['model_id']}/evaluate", json={"dataset": fields["dataset"]})
        return job


@pytest.fixture
def session(new_service, tmp_path):
    X, y = random_problem(300, 40)
    folder = tmp_path / "import"
    folder.mkdir()
    (folder / "rows.svm").write_bytes(libsvm_text(X, y))
    (folder / "three.svm").write_bytes(libsvm_text(X, np.arange(300) % 3))
    (folder / "numbers.svm").write_bytes(libsvm_text(X, y * np.arange(300)))
    (tmp_path / "export").mkdir()
    session = Session(new_service(import_dir=folder, export_dir=tmp_path / "export").start())
    with session.client:
        yield session


def test_every_answer_of_a_session_is_as_the_document_says(session):
    datasets(session)
    uploads(session)
    job = jobs(session)
    models(session, job["model_id"])
    registry(session, job["model_id"])
    health(session)
    predictions(session, job["model_id"])
    errors(session)
    the_end(session, job)
    missing = {str(route.operation_id) for route in ROUTES} - session.seen
    assert not missing, f"add requests to these routes to the session: {missing}"


def datasets(session):
    for name in ("rows", "three", "numbers"):
        session("PUT", f"/v1/datasets/{name}?import={name}.svm", 202)
    table = session("PUT", "/v1/datasets/table?categorical=all&missing=indicator&label_type=string", 201, content=TABLE)
    assert table.json()["input"]["category_counts"] == {"colour": 2}
    documents = b"".join(b"%d\tgood words %d\n" % (label, k) for k, label in enumerate((1, -1) * 20))
    session("PUT", "/v1/datasets/documents?format=text", 201, content=documents)
    session("PUT", "/v1/datasets/strings?format=fasta", 201, content=b">label=1\nACGT\n>label=-1\nGGTN\n" * 18)
    session("PUT", "/v1/datasets/weights", 201, content=b"1:2 1:1\n-1:0.5 2:1\n" * 9)
    skipped = session("PUT", "/v1/datasets/skipped?on_bad_row=skip", 201, content=b"1 1:1\nspam\n-1 2:1\n").json()
    assert skipped["rejected"][0]["at"]["line"] == 2
    session("POST", "/v1/datasets/weights/blocks", 201, content=b"1:1 1:2\n")
    session("GET", "/v1/datasets/weights/blocks")
    session("DELETE", "/v1/datasets/weights/blocks/1", 204)
    for name in ("table", "documents", "strings", "weights"):
        session("GET", f"/v1/datasets/{name}")
        session("GET", f"/v1/datasets/{name}/sample")
    session("GET", "/v1/datasets")


def uploads(session):
    for way in ("PATCH", "DELETE"):
        begun = session("PUT", "/v1/datasets/parts", 202, content=b"1 1:1\n", headers={"Upload-Complete": "?0"})
        place = begun.headers["location"]
        assert session("HEAD", place, 204).headers["upload-offset"] == "6"
        if way == "DELETE":
            session("DELETE", place, 204)
        else:
            part = {"Content-Type": PARTIAL, "Upload-Offset": "6", "Upload-Complete": "?1"}
            session("PATCH", place, 201, content=b"-1 2:1\n", headers=part)
            session("DELETE", "/v1/datasets/parts", 204)


def jobs(session):
    session("GET", "/v1/info")
    session("POST", "/v1/jobs/estimate", json={"dataset": "table"})
    first = session.run(dataset="rows", C=[0.1, 1.0], folds=3, probability="sigmoid", keep="all")
    session.run(dataset="three", kernel="rbf", max_passes=3)
    session.run(dataset="three", folds=2, tolerance=0.1, labels={"a": "b"}, bias=1.0)
    session.run(dataset="three", loss="logistic", model_name="three")
    session.run(dataset="numbers", loss="squared_epsilon_insensitive", folds=2)
    session.run(dataset="rows", solver="cpa", max_passes=3)
    session.run(dataset="table", features=["scale", {"pairs": {"bits": 8}}])
    session.run(dataset="strings", features=["weighted_degree"], max_passes=2)
    job = session.run(dataset="documents", max_passes=1, relative_gap=1e-12, pace="fixed")
    session("GET", f"/v1/jobs/{first['id']}/history?format=csv")
    events(session, first["id"])
    resumed = session("POST", f"/v1/jobs/{job['id']}/resume", 202, json={"max_passes": 3}).json()
    assert resumed["continues"] == job["id"]
    endless = {"dataset": "rows", "relative_gap": None, "max_passes": 1_000_000, "pace": "fixed"}
    stopped, cancelled = (session("POST", "/v1/jobs", 202, json=endless).json()["id"] for _ in range(2))
    session("POST", f"/v1/jobs/{cancelled}/cancel", 202)
    session.service.wait_for_state(stopped, "running")
    session("POST", f"/v1/jobs/{stopped}/stop", 202)
    session.service.wait_until_ended(stopped)
    session("GET", "/v1/jobs?page_size=3")
    return first


def events(session, job_id):
    text = session("GET", f"/v1/jobs/{job_id}/events").text
    told = [dict(line.split(": ", 1) for line in event.splitlines()) for event in text.strip().split("\n\n")]
    for event in told:
        strictly(type_of(EVENTS[event["event"]]), event["data"].encode())
    assert {event["event"] for event in told} == {"state", "pass", "end"}


def models(session, model_id):
    every = session("GET", "/v1/models").json()["models"]
    assert len(every) >= 10
    for rows, kind in (({"rows": [{"1": 1.0}]}, "application/json"), ({"rows": [{}]}, "application/x-ndjson")):
        session("POST", f"/v1/models/{model_id}/predict", json=rows, headers={"Accept": kind})
    of_table = next(each["id"] for each in every if (shown(session, each)["input"] or {}).get("format") == "table")
    body = {"rows": [{"weight": 1, "colour": "green", "other": 3}]}
    told = session("POST", f"/v1/models/{of_table}/predict", json=body).json()
    assert told["unknown_columns"] == {"count": 1, "names": ["other"]}
    session("POST", f"/v1/models/{model_id}/predict", content=b"0 1:1\n", headers={"Accept": "text/csv"})
    session("GET", f"/v1/models/{model_id}/file?format=npz")
    session("POST", f"/v1/models/{model_id}/threshold", 201, json={"threshold": 0.1})


def shown(session, model):
    return session("GET", f"/v1/models/{model['id']}").json()


def registry(session, model_id):
    session("POST", f"/v1/models/{model_id}/register", 201, json={"name": "rows"})
    session("PUT", "/v1/registered-models/rows/aliases/champion", json={"version": 1})
    session("GET", "/v1/registered-models/rows/aliases/champion")
    session("GET", "/v1/registered-models")
    session("DELETE", "/v1/registered-models/rows/aliases/champion", 204)
    assert session("GET", "/v1/registered-models/rows").json()["moves"][0]["version"] is None
    session("DELETE", "/v1/registered-models/rows/versions/1", 204)
    session("DELETE", "/v1/registered-models/rows", 204)


def health(session):
    session("GET", "/v2/health/live")
    session("GET", "/v2/health/ready")
    session("GET", "/metrics")


def predictions(session, model_id):
    fields = {"model": model_id, "import": "rows.svm", "destination": "found.csv"}
    given = session("POST", "/v1/predictions", 202, json=fields).json()
    while given["finished_at"] is None:
        given = session("GET", f"/v1/predictions/{given['id']}", params={"wait_seconds": 10}).json()
    assert given["state"] == "succeeded", given
    other = session("POST", "/v1/predictions", 202, json={**fields, "destination": "other.csv"}).json()
    session("POST", f"/v1/predictions/{other['id']}/cancel", 202)
    session("GET", "/v1/predictions")
    session("DELETE", f"/v1/predictions/{given['id']}", 204)


def errors(session):
    session("GET", "/v1/datasets/missing", 404)
    session("PUT", "/v1/datasets/bad", 422, content=b"1 1:1\n1 spam\n")
    session("POST", "/v1/jobs", 422, json={"dataset": "rows", "C": -1})
    session("POST", "/v1/jobs", 400, content=b"{")
    session("GET", "/v1/nothing", 404)


def the_end(session, job):
    session("DELETE", f"/v1/jobs/{job['id']}", 204)
    session("DELETE", f"/v1/models/{job['model_id']}", 204)
    session("DELETE", "/v1/datasets/skipped", 204)
    left = session("GET", "/v1/datasets").json()["datasets"]
    assert json.dumps(left).count('"ready"') == len(left)
