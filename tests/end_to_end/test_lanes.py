"""Jobs of several problems over the same rows: classes and values of C, in the service and on the command line."""

import json

import httpx
import numpy as np
import pytest

from tests.contracts.problems import libsvm_text, random_problem
from tests.end_to_end.conftest import weights
from tests.end_to_end.service import PLAIN, wait_for
from tests.reference.dcd import primal_objective
from tests.reference.liblinear import liblinear_predict, train

CLASSES = (-3.0, 0.0, 2.0, 7.0)
VALUES = (0.01, 0.1, 1.0)
EXACT = {"tolerance": None, "relative_gap": 1e-7, "max_passes": 100_000, "cache_bytes": 1 << 17}


@pytest.fixture(scope="module")
def rows():
    """(X, y) of 900 rows in four classes, a third of them of the first."""
    X, _ = random_problem(900, 120)
    rng = np.random.default_rng(3)
    scores = X @ rng.normal(size=(X.shape[1], len(CLASSES))) + [0.3, 0, 0, -0.1]
    y = np.array(CLASSES)[np.argmax(scores + rng.normal(0, 0.3, scores.shape), axis=1)]
    assert len(set(y)) == len(CLASSES)
    return X, y


@pytest.fixture(scope="module")
def many(service, rows):
    """The service, with the rows as `many`."""
    service.upload("many", libsvm_text(*rows))
    return service


def model_file(service, model_id: str, format_: str) -> bytes:
    response = httpx.get(f"{service.url}/v1/models/{model_id}/file?format={format_}", **PLAIN)
    assert response.status_code == 200, response.text
    return response.content


def check_against_liblinear(w: np.ndarray, X, y, C: float) -> None:
    """w (n_classes, n_features), class by class: the objective is LIBLINEAR's to a millionth."""
    for own, label in zip(w, CLASSES, strict=True):
        sign = np.where(y == label, 1.0, -1.0)
        best = train(X, sign, C, eps=1e-6).primal
        assert primal_objective(X, sign, own, C, "hinge") <= best * (1 + 1e-6)


def test_every_class_is_told_from_the_rest_at_every_C(many, rows, tmp_path):
    X, y = rows
    ended = many.train(dataset="many", C=[1.0, 0.01, 0.1, 1.0], **EXACT)
    assert ended["result"]["converged"]
    lanes = ended["result"]["lanes"]
    assert [(lane["class"], lane["C"]) for lane in lanes] == [(label, C) for label in CLASSES for C in VALUES]
    assert all(lane["relative_duality_gap"] <= 1e-7 for lane in lanes)
    assert [model["C"] for model in ended["result"]["models"]] == list(VALUES)
    assert ended["model_id"] == ended["result"]["models"][-1]["model_id"]
    for model in ended["result"]["models"]:
        w = weights(model_file(many, model["model_id"], "npz"))
        check_against_liblinear(w, X, y, model["C"])
    path = tmp_path / "model"
    path.write_bytes(model_file(many, ended["model_id"], "liblinear"))
    labels, _ = liblinear_predict(path, X)
    answer = httpx.post(
        f"{many.url}/v1/models/{ended['model_id']}/predict", content=libsvm_text(X, y),
        headers={"Content-Type": "text/libsvm"}, **PLAIN,
    )  # fmt: skip
    assert answer.status_code == 200, answer.text
    assert [each["label"] for each in answer.json()["predictions"]] == labels.tolist()


def test_the_history_has_each_lane_of_each_pass(many):
    ended = many.train(dataset="many", C=[0.1, 1.0], pace="fixed", **EXACT)
    passes = many.get(f"/v1/jobs/{ended['id']}/history")["passes"]
    assert [each["pass"] for each in passes] == list(range(1, len(passes) + 1))
    for each in passes:
        assert [lane["lane"] for lane in each["lanes"]] == list(range(2 * len(CLASSES)))
        assert each["gap"] == max(lane["gap"] for lane in each["lanes"])
    assert ended["result"]["passes"] == len(passes)
    shown = {"number": 0, "count": 8, "of": 8, "class": None, "fold": None, "C": None, "seconds_before": 0.0}
    assert ended["progress"]["lane"] == shown


def test_the_history_goes_on_from_lane_to_lane(many):
    """Of a solver that trains them one after the other."""
    one_by_one = {**EXACT, "solver": "dcd", "cache_bytes": 4 << 20}
    ended = many.train(dataset="many", C=[0.1, 1.0], pace="fixed", **one_by_one)
    passes = many.get(f"/v1/jobs/{ended['id']}/history")["passes"]
    assert [each["pass"] for each in passes] == list(range(1, len(passes) + 1))
    assert sorted({each["lane"] for each in passes}) == list(range(2 * len(CLASSES)))
    assert [each["lane"] for each in passes] == sorted(each["lane"] for each in passes)
    assert ended["result"]["passes"] == len(passes)
    seconds = [each["elapsed_seconds"] for each in passes]
    assert seconds == sorted(seconds)
    before = pytest.approx([each["elapsed_seconds"] for each in passes if each["lane"] < 7][-1], abs=0.1)
    shown = {"number": 7, "count": 1, "of": 8, "class": CLASSES[-1], "fold": None, "C": 1.0, "seconds_before": before}
    assert ended["progress"]["lane"] == shown


def test_a_job_that_is_stopped_keeps_the_models_that_are_whole(service):
    """Two classes: a lane a C, one after the other."""
    before = {model["id"] for model in service.get("/v1/models")["models"]}
    slow = {"tolerance": 1e-12, "max_passes": 50, "pace": "fixed", "cache_bytes": 1 << 17, "solver": "bm"}
    job = service.submit(dataset="data", C=[0.1, 1.0, 10.0, 1000.0], **slow)
    wait_for(lambda: (p := service.job(job)["progress"]) and p["lane"]["number"] >= 1)
    httpx.post(f"{service.url}/v1/jobs/{job}/stop", **PLAIN)
    ended = service.wait_until_ended(job)
    assert ended["state"] == "stopped" and not ended["result"]["converged"]
    made = ended["result"]["models"]
    assert 2 <= len(made) < 4 and [model["C"] for model in made] == [0.1, 1.0, 10.0][: len(made)]
    after = {model["id"] for model in service.get("/v1/models")["models"]}
    assert after - before == {model["model_id"] for model in made}


def test_a_job_that_is_stopped_ends_the_lanes_that_its_first_model_needs(many):
    """A lane a class, one after the other; without a stop the first goes on for ever."""
    endless = {"tolerance": 1e-300, "relative_gap": None, "max_passes": 1_000_000, "solver": "dcd"}
    job = many.submit(dataset="many", C=[1.0, 2.0], **endless)
    wait_for(lambda: (p := many.job(job)["progress"]) and p["pass"] >= 3)
    httpx.post(f"{many.url}/v1/jobs/{job}/stop", **PLAIN)
    ended = many.wait_until_ended(job)
    assert (ended["state"], [model["C"] for model in ended["result"]["models"]]) == ("stopped", [1.0])
    assert {lane["class"] for lane in ended["result"]["lanes"]} == set(CLASSES)
    assert {lane["stop_reason"] for lane in ended["result"]["lanes"]} == {"stopped"}


def test_lanes_side_by_side_that_are_stopped_are_models_as_they_are(service):
    slow = {"tolerance": 1e-12, "max_passes": 100_000, "pace": "fixed", "cache_bytes": 1 << 17}
    job = service.submit(dataset="data", C=[0.1, 1.0, 10.0, 50.0], **slow)
    wait_for(lambda: (p := service.job(job)["progress"]) and p["pass"] >= 3)
    httpx.post(f"{service.url}/v1/jobs/{job}/stop", **PLAIN)
    ended = service.wait_until_ended(job)
    assert ended["state"] == "stopped" and not ended["result"]["converged"]
    assert [model["C"] for model in ended["result"]["models"]] == [0.1, 1.0, 10.0, 50.0]
    assert {lane["stop_reason"] for lane in ended["result"]["lanes"]} <= {"stopped", "tolerance"}


def test_labels_that_turn_out_to_be_more_than_two_while_the_data_arrives(processes, rows, tmp_path):
    """The command begins on the first two, and anew when the file has been read."""
    X, y = rows
    order = np.argsort(y == CLASSES[-1], kind="stable")
    done = processes.run(
        "train", "-", "-C", "0.1,1", "-B", "-1", "--cache", "128KiB", "--relative-gap", "1e-7", "-e", "none", "--json",
        "-o", tmp_path / "out.npz", input=libsvm_text(X[order], y[order]),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for C, name in ((0.1, "out.C=0.1.npz"), (1.0, "out.C=1.npz")):
        check_against_liblinear(weights((tmp_path / name).read_bytes()), X, y, C)
    assert not (tmp_path / "out.npz").exists()
    assert len(json.loads(done.stdout.splitlines()[-1])["result"]["lanes"]) == len(CLASSES)  # of the last model
