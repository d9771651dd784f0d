"""A job whose record has values that nobody thought of costs itself: lists, pages and metrics show all the others."""

import json

import pytest

from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.storage.models.model_file import write_model
from tests.api.app import some_model

GOOD = {
    "converged": False, "stop_reason": "max_passes", "passes": 3, "models": [],
    "certificate": dict.fromkeys(
        ("m_plus", "m_minus", "gap", "primal_objective", "dual_objective", "relative_duality_gap", "w_error"), 0.5
    ),
}  # fmt: skip
GOOD["lanes"] = [{"class": 1.0, "fold": None, "C": 1.0, "converged": False, "passes": 3, **GOOD["certificate"]}]
VALUES = (None, float("nan"), float("inf"), -float("inf"), 1e308, 0)
COLUMNS = {
    **{f"{name}-{value}": {"result": {**GOOD, "certificate": {**GOOD["certificate"], name: value}}}
       for name in GOOD["certificate"] for value in VALUES},
    "no-certificate": {"result": {"converged": False}},
    "result-text": {"result": "nothing"},
    "result-odd": {"result": {"converged": 0, "certificate": 3, "lanes": 7, "models": None}},
    "spec-empty": {"spec": {}, "result": GOOD},
    "spec-odd": {"spec": {"C": None, "tolerance": "x"}, "result": GOOD},
    "transitions-odd": {"transitions": [3], "result": GOOD},
    "progress-nan": {"progress": {"gap": float("nan"), "pass": float("inf")}, "result": GOOD},
    "failure-odd": {"failure": {"code": None}},
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_every_list_shows_the_others(service, name):
    """The page of the job itself takes every value that a result may have."""
    service.request.is_checked = False
    dataset = service.add_dataset("data")
    spec = parse_spec({"dataset": "data"}).model_dump()
    other, odd = (service.store.add_job(dataset, spec) for _ in range(2))
    service.store.claim_job(odd)
    service.store.finish_job(odd, "succeeded", result=GOOD)
    with service.store._database.write() as connection:
        for column, value in COLUMNS[name].items():
            connection.execute(f"UPDATE jobs SET {column} = ? WHERE id = ?", (json.dumps(value), odd))
    answer = service.request("GET", "/v1/jobs")
    assert {job["id"] for job in answer.json()["jobs"]} == {other, odd}
    own = (f"/jobs/{odd}", f"/compare?jobs={odd},{other}", f"/v1/jobs/{odd}/events")
    for path in ("/", "/metrics", f"/v1/jobs/{odd}", *(() if "odd" in name else own)):
        answer = service.request("GET", path)
        assert answer.status_code == 200, (path, answer.text[:500])
        assert "record_unreadable" not in answer.text or name.partition("-")[0] not in GOOD["certificate"]
        assert "NaN" not in answer.text and "Infinity" not in answer.text
    assert service.request("DELETE", f"/v1/jobs/{odd}").status_code == 204


ENDINGS = {"regression": ("epsilon_insensitive", None), "one-problem": ("hinge", None), "odd": ("hinge", {"no": 1})}


@pytest.mark.parametrize("name", ENDINGS)
def test_models_whose_lanes_have_no_class_are_shown(service, name):
    """None is the class of a lane of regression, and of all classes in one problem; an odd one hides no other."""
    loss, label = ENDINGS[name]
    spec = parse_spec({"dataset": "data", "loss": loss, **({"solver": "dcd"} if name == "regression" else {})})
    job = service.store.add_job(service.add_dataset("data"), spec.model_dump())
    model = job.replace("job", "mdl")
    write_model(service.settings.models / model, some_model())
    service.store.claim_job()
    result = {**GOOD, "lanes": [{**GOOD["lanes"][0], "class": label}], "models": [{"model_id": model, "C": 1.0}]}
    service.store.finish_job(job, "succeeded", result=result, model_id=model)
    for path in ("/", *(() if name == "odd" else (f"/jobs/{job}", f"/models/{model}"))):
        answer = service.request("GET", path)
        assert answer.status_code == 200 and model in answer.text, path


ODD_PREDICTIONS = {
    "spec": "{", "result": '{"rows": 1}', "failure": "[3", "requested": "later", "model_id": "mdl_x",
}  # fmt: skip


@pytest.mark.parametrize("column", ODD_PREDICTIONS)
def test_an_odd_prediction_costs_itself(service, column):
    service.request.is_checked = False
    service.store.adopt_model("mdl_1", "then")
    asked = {"model": "m", "import": "a.csv", "destination": "b.csv"}
    other, odd = (service.store.add_prediction("mdl_1", asked) for _ in range(2))
    with service.store._database.write() as connection:
        connection.execute(f"UPDATE predictions SET {column} = ? WHERE id = ?", (ODD_PREDICTIONS[column], odd))
    (directory := service.settings.predictions / odd).mkdir(parents=True)
    (directory / "progress.json").write_text("[1]" if column == "spec" else '{"rows": null}')
    answer = service.request("GET", "/v1/predictions")
    assert [each["id"] for each in answer.json()["predictions"]] == [odd, other]
    assert service.request("GET", f"/v1/predictions/{odd}").json()["progress"] is None
    assert service.request("POST", f"/v1/predictions/{odd}/cancel").json()["state"] == "cancelled"
    assert service.request("DELETE", f"/v1/predictions/{odd}").status_code == 204
