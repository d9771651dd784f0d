"""/v1/registered-models: versions, aliases that move at once, and references wherever a model's id may stand."""

import asyncio
import json

import httpx
import numpy as np
import pytest

from streamsvm.service.errors import ServiceError
from streamsvm.storage.models.model_file import Model
from tests.api.app import Service, check_problem, model_of_texts, some_model

ROW = {"rows": [{"1": 1.0}]}
CHAMPION = "/v1/registered-models/churn/aliases/champion"


def named(service: Service, name: str, *models: str) -> list[int]:
    answers = [service.request("POST", f"/v1/models/{model}/register", json={"name": name}) for model in models]
    assert {answer.status_code for answer in answers} == {201}
    return [answer.json()["version"] for answer in answers]


@pytest.fixture
def filled(service):
    """A service with a dataset and three models."""
    dataset = service.add_dataset("data")
    service.model, service.half, service.texts = (
        service.add_model(dataset, model) for model in (some_model(), some_model(bias=0.5), model_of_texts())
    )
    return service


@pytest.fixture
def churn(filled):
    """A service whose model `churn` has two versions, `filled.model` and `filled.texts`."""
    assert named(filled, "churn", filled.model, filled.texts) == [1, 2]
    return filled


def test_a_registration_that_is_sent_again_gets_its_first_answer(filled, monkeypatch):
    def register(key: str, name: str = "churn", model: str = filled.model) -> httpx.Response:
        path = f"/v1/models/{model}/register"
        return filled.request("POST", path, json={"name": name}, headers={"Idempotency-Key": key})

    first = register("a")
    assert (first.status_code, first.json()["version"], first.headers["location"]) == (201, 1, "/v1/models/churn:1")
    assert "idempotent-replayed" not in first.headers
    named(filled, "churn", filled.half)
    again = register("a")
    assert (again.status_code, again.json(), again.headers["idempotent-replayed"]) == (201, first.json(), "true")
    check_problem(register("a", "other"), "idempotency_key_reused", 422)
    check_problem(register("a", model=filled.half), "idempotency_key_reused", 422)
    monkeypatch.setattr(type(filled.store), "keep_answer", lambda *_: None)  # the service dies before it answers
    unanswered = register("b", model=filled.texts)
    again = register("b", model=filled.texts)
    assert again.json() == unanswered.json() and again.json()["version"] == 3


def moved(service: Service, version: int, **headers: str) -> httpx.Response:
    return service.request("PUT", CHAMPION, json={"version": version}, headers=headers)


def test_versions_count_up_and_a_model_has_one_of_a_name(churn):
    assert named(churn, "churn", churn.model) == [1]
    assert named(churn, "other", churn.texts, churn.model) == [1, 2]
    shown = churn.request("GET", "/v1/registered-models/churn").json()
    assert [(each["version"], each["model_id"]) for each in shown["versions"]] == [(2, churn.texts), (1, churn.model)]
    (first, second) = churn.request("GET", "/v1/registered-models").json()["registered_models"]
    assert (first["name"], first["latest_version"], second["name"]) == ("churn", 2, "other")
    for name, version in (("churn", 1), ("other", 2), ("churn", 2)):
        churn.store.move_alias(name, "champion", version, "me")
    listed = churn.request("GET", "/v1/registered-models").json()["registered_models"]
    assert [[(each["alias"], each["version"]) for each in one["aliases"]] for one in listed] == [
        [("champion", 2)], [("champion", 2)]
    ]  # fmt: skip


def test_the_page_of_many_versions_shows_the_newest(churn):
    dataset = churn.store.dataset("data")["id"]
    named(churn, "churn", *(churn.add_model(dataset, some_model()) for _ in range(50)))
    page = churn.request("GET", "/registered-models/churn").text
    assert page.count('class="id" href="/models/') == 50 and "The newest 50 of 52 versions." in page
    assert page.count("<option>") == 52


def test_no_number_is_given_twice(churn):
    assert churn.request("DELETE", f"/v1/models/{churn.texts}").status_code == 204
    assert named(churn, "churn", churn.half) == [3]
    assert churn.request("DELETE", "/v1/registered-models/churn/versions/3").status_code == 204
    assert named(churn, "churn", churn.half) == [4]


@pytest.mark.parametrize("reference", ["churn:1", "churn@champion", "{id}"])
def test_a_reference_may_stand_wherever_an_id_may(churn, reference):
    assert moved(churn, 1).status_code == 200
    reference, request = reference.format(id=churn.model), churn.request
    assert request("GET", f"/v1/models/{reference}").json()["id"] == churn.model
    expected = request("POST", f"/v1/models/{churn.model}/predict", json=ROW)
    found = request("POST", f"/v1/models/{reference}/predict", json=ROW)
    assert found.json() == expected.json()
    is_named = reference != churn.model
    assert found.headers.get("Model-Id") == (churn.model if is_named else None)
    assert found.headers.get("Model-Version") == ("1" if is_named else None)
    file = request("GET", f"/v1/models/{reference}/file?format=npz")
    assert file.content == request("GET", f"/v1/models/{churn.model}/file?format=npz").content
    evaluated = request("POST", f"/v1/models/{reference}/evaluate", json={"dataset": "data"}).json()
    assert evaluated["model_id"] == churn.model and evaluated["rows"]


def test_references_that_mean_nothing(churn):
    for reference in ("spam", "churn:3", "churn:0", "churn@loser", "churn:1@champion", "mdl_spam", "churn:99999999999"):
        code = "unknown_alias" if reference == "churn@loser" else "unknown_model"
        for method, path, body in (
            ("GET", "", None),
            ("POST", "/predict", ROW),
            ("POST", "/evaluate", {"dataset": "data"}),
        ):
            check_problem(churn.request(method, f"/v1/models/{reference}{path}", json=body), code, 404)


def test_names_and_bodies_that_are_refused(filled):
    path = f"/v1/models/{filled.model}/register"
    for name in ("", "Churn", "mdl_x", "-x", "a:1", "a@b", "ä", "x" * 65, "a/b"):
        check_problem(filled.request("POST", path, json={"name": name}), "model_name_invalid", 422)
    for body in ({}, {"name": 1}, {"name": "a", "more": 1}, {"name": None}):
        answer = filled.request("POST", path, json=body)
        assert answer.status_code == 422 and answer.json()["code"] in ("unknown_field", "wrong_type")


def test_an_alias_is_moved_only_by_those_who_know_where_it_is(churn):
    check_problem(churn.request("GET", CHAMPION), "unknown_alias", 404)
    assert moved(churn, 1, **{"If-None-Match": "*"}).status_code == 200
    check_problem(moved(churn, 2, **{"If-None-Match": "*"}), "alias_moved", 412)
    tag = churn.request("GET", CHAMPION).headers["ETag"]
    assert moved(churn, 2, **{"If-Match": tag}).json()["version"] == 2
    for stale in (tag, '"spam"', '"0"', '"-1"', f'"{"9" * 5000}"'):
        check_problem(moved(churn, 1, **{"If-Match": stale}), "alias_moved", 412)
    check_problem(churn.request("DELETE", CHAMPION, headers={"If-Match": tag}), "alias_moved", 412)
    assert moved(churn, 1, **{"If-Match": "*"}).json()["version"] == 1
    assert churn.request("DELETE", CHAMPION).status_code == 204
    check_problem(churn.request("DELETE", CHAMPION), "unknown_alias", 404)
    # One that is made anew is not the one that was known before.
    moved(churn, 1)
    check_problem(moved(churn, 2, **{"If-Match": tag}), "alias_moved", 412)


def test_an_alias_points_at_versions_that_exist(churn):
    for version in (0, -1, 3, 10**30):
        check_problem(moved(churn, version), "unknown_model", 404)
    answer = churn.request("PUT", "/v1/registered-models/churn/aliases/1x", json={"version": 1})
    check_problem(answer, "alias_invalid", 422)


def test_who_moved_an_alias_is_on_record(churn):
    token = churn.tokens.new("deployer", "submit")
    churn = Service(churn.settings.data_dir)  # the app has read the table of tokens
    headers = {"Authorization": f"Bearer {token}"}
    moved(churn, 1, **headers)
    moved(churn, 2, **headers)
    churn.request("DELETE", CHAMPION, headers=headers)
    shown = churn.request("GET", "/v1/registered-models/churn", headers=headers).json()
    assert [(move["version"], move["moved_by"]) for move in shown["moves"]] == [
        (None, "token deployer"), (2, "token deployer"), (1, "token deployer")
    ]  # fmt: skip
    assert shown["aliases"] == []


def test_a_version_that_an_alias_points_at_is_not_deleted(churn):
    moved(churn, 1)
    for path in (f"/v1/models/{churn.model}", "/v1/models/churn@champion", "/v1/registered-models/churn/versions/1"):
        check_problem(churn.request("DELETE", path), "model_in_use", 409)
    assert churn.request("POST", f"/v1/models/{churn.model}/predict", json=ROW).status_code == 200
    moved(churn, 2)
    assert churn.request("DELETE", "/v1/models/churn:1").status_code == 204
    check_problem(churn.request("GET", f"/v1/models/{churn.model}"), "unknown_model", 404)


def test_a_name_is_forgotten_and_its_models_stay(churn):
    moved(churn, 1)
    assert churn.request("DELETE", "/v1/registered-models/churn").status_code == 204
    check_problem(churn.request("GET", "/v1/registered-models/churn"), "unknown_model_name", 404)
    check_problem(churn.request("DELETE", "/v1/registered-models/churn"), "unknown_model_name", 404)
    assert churn.request("GET", f"/v1/models/{churn.model}").status_code == 200
    assert churn.request("DELETE", f"/v1/models/{churn.model}").status_code == 204


def test_a_job_makes_the_next_version(filled):
    for number in (1, 2):
        submitted = filled.request("POST", "/v1/jobs", json={"dataset": "data", "model_name": "churn"})
        job = submitted.json()["id"]
        filled.store.claim()
        filled.store.finish(job, "succeeded", [f"mdl_{number}a", f"mdl_{number}"], model_id=f"mdl_{number}")
    assert [each["model_id"] for each in filled.store.registered_model("churn")["versions"]] == ["mdl_2", "mdl_1"]


def test_a_job_without_a_model_makes_none(filled):
    job = filled.request("POST", "/v1/jobs", json={"dataset": "data", "model_name": "churn"}).json()["id"]
    filled.store.claim()
    filled.store.request(job, "cancel")
    filled.store.finish(job, "succeeded", ["mdl_1"], model_id="mdl_1")
    with pytest.raises(ServiceError, match="no such model_name"):
        filled.store.registered_model("churn")
    for fields in ({"model_name": "mdl_x"}, {"model_name": "x", "folds": 2, "refit": False}, {"model_name": ""}):
        answer = filled.request("POST", "/v1/jobs", json={"dataset": "data", **fields})
        check_problem(answer, "wrong_type" if fields["model_name"] == "" else "model_name_range", 422)


def test_every_answer_is_of_one_version_while_the_alias_moves(service):
    """Clients predict by alias while it is moved to and fro: each answer's headers and values are of one model."""
    dataset = service.add_dataset("data")
    values = {}
    for weight in (1.0, 2.0):
        about = some_model().about
        values[service.add_model(dataset, Model(np.array([weight]), (1.0, -1.0), 1, None, 0.0, about))] = weight
    named(service, "churn", *values)
    moved(service, 1)
    answers = asyncio.run(_predict_while_moving(service))
    assert len(answers) == 400
    for answer in answers:
        assert answer.status_code == 200, answer.text
        (decision_value,) = (json.loads(answer.text)["predictions"][0]["decision_value"],)
        assert decision_value == values[answer.headers["Model-Id"]]
    assert {answer.headers["Model-Version"] for answer in answers} == {"1", "2"}


async def _predict_while_moving(service: Service) -> list[httpx.Response]:
    transport = httpx.ASGITransport(service.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

        async def predict() -> list[httpx.Response]:
            return [await client.post("/v1/models/churn@champion/predict", json=ROW) for _ in range(40)]

        async def move() -> None:
            for number in range(40):
                answer = await client.put(CHAMPION, json={"version": 1 + number % 2})
                assert answer.status_code == 200
                # What is asked after a move is answered by the version it was moved to.
                shown = await client.post("/v1/models/churn@champion/predict", json=ROW)
                assert shown.headers["Model-Version"] == str(1 + number % 2)

        *answers, _ = await asyncio.gather(*(predict() for _ in range(10)), move())
        return [answer for each in answers for answer in each]
