"""A job whose record has values that nobody thought of costs itself: lists, pages and metrics show all the others."""

import json

import pytest

from service.jobs.spec import parse_spec

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
    dataset = service.add_dataset("data")
    spec = parse_spec({"dataset": "data"}).model_dump()
    other, odd = (service.store.add_job(dataset, spec) for _ in range(2))
    service.store.claim_job([other])
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
        assert "NaN" not in answer.text and "Infinity" not in answer.text
    assert service.request("DELETE", f"/v1/jobs/{odd}").status_code == 204
