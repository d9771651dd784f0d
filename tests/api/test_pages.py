"""The pages without a browser: what they allow, and that they never fail."""

import html
import json
import re

import numpy as np
import pytest

from streamsvm.service.jobs.fields import texts
from streamsvm.service.jobs.fields.descriptions import FIELDS
from streamsvm.service.models.exports import MODEL_FORMATS
from streamsvm.service.terminal.remote import exit_code
from streamsvm.storage.blocks.dataset import staged_path
from streamsvm.storage.features.maps import listed_maps
from streamsvm.storage.models.model_file import Model, write_model
from streamsvm.storage.run.checkpoint import SLOTS
from streamsvm.storage.run.state import RUN_FILE, create_state
from streamsvm.trainer.solvers import SOLVERS
from tests.api.app import CERTIFICATE, ONE_LANE, Service, some_model
from tests.contracts.problems import random_problem


def test_pages_allow_nothing_from_elsewhere_and_no_inline_script(filled):
    job = filled.store.jobs()[0]["id"]
    found = (
        "/",
        f"/jobs/{job}",
        f"/models/{filled.model}",
        "/datasets/data",
        f"/compare?jobs={job},{job}2",
        "/reference",
        "/queue",
        "/predictions",
    )
    for path in (*found, "/predictions/prd_0", "/models/mdl_0", "/jobs/job_0", "/datasets/none", "/compare"):
        answer = filled.request("GET", path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert not re.search(
            r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=|https?://(?!localhost/v1/models/)", answer.text
        )


def test_everything_a_page_asks_for_is_there(filled):
    job = filled.store.jobs()[0]["id"]
    for path in ("/", f"/jobs/{job}", "/queue", "/predictions"):
        asked = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', filled.request("GET", path).text))
        assert len(asked) >= 3
        for url in asked:
            assert filled.request("GET", url).status_code == 200


@pytest.mark.parametrize("name", ["", "nosuch.js", "../pages/routes.py", "%2e%2e/routes.py", "uplot"])
def test_only_files_of_the_folder_are_given_out(filled, name):
    assert filled.request("GET", f"/static/{name}").status_code == 404


@pytest.mark.parametrize("state", ["queued", "running", "succeeded", "stopped", "failed", "cancelled"])
def test_a_job_in_every_state_has_its_buttons(tmp_path, state):
    service = Service(tmp_path)
    service.add_dataset("data")
    job = service.request("POST", "/v1/jobs", json={"dataset": "data"}).json()["id"]
    if state != "queued":
        service.store.claim()
        if state != "running":
            failure = {"code": "process_died", "message": "it died", "hint": "", "log_tail": ""}
            service.store.finish(job, state, failure=failure if state == "failed" else None)
    text = service.request("GET", f"/jobs/{job}").text
    has_ended = state not in ("queued", "running")
    assert ("/cancel" in text) == ("/stop" in text) == (not has_ended)
    assert ('data-method="DELETE"' in text) == has_ended
    assert ("it died" in text) == (state == "failed")
    assert service.request("GET", "/").text.count(f"badge {state}") == 1


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "on the rows of training is known when training ends"),
        ({"validation": 0.1}, "on rows that are held out from training is known when training ends"),
        ({"C": [0.1, 1], "folds": 3}, "on rows that are held out from training is known when training ends"),
        ({"C": "auto"}, "is known once the first values of C have been tried"),
        ({"C": [0.1, 1]}, "No rows are held out from training to say how good each C is"),
    ],
)
def test_a_running_job_says_how_good_it_is_or_when_that_is_known(tmp_path, fields, words):
    service = Service(tmp_path)
    service.add_dataset("data")
    job = service.request("POST", "/v1/jobs", json={"dataset": "data", **fields}).json()["id"]
    service.store.claim()
    assert (
        words in service.request("GET", f"/jobs/{job}").text
        and "so far </span>" not in service.request("GET", "/").text
    )
    run = service.settings.jobs / job / "run"
    run.mkdir(parents=True)
    (run / RUN_FILE).write_text(json.dumps({"lane": ONE_LANE, "reader": {"blocks": None}}))
    control = create_state(run, 60, 41).control
    control["best_C"], control["best_score"] = 0.25, 0.875
    progress = service.request("GET", f"/v1/jobs/{job}").json()["progress"]
    assert (progress["best_C"], progress["best_score"]) == (0.25, 0.875)
    assert "so far </span>0.875" in service.request("GET", "/").text


def test_the_reference_shows_every_route_with_its_fields(filled):
    text = filled.request("GET", "/reference").text
    for path, methods in filled.request("GET", "/openapi.json").json()["paths"].items():
        assert f">{path}<" in text
        for operation in methods.values():
            (card,) = re.findall(rf'id="{operation["operationId"]}">(.*?)</details>', text, re.DOTALL)
            for parameter in operation.get("parameters", ()):
                assert f'<td class="id">{parameter["name"]}<td>{parameter["in"]}' in card
    (submit,) = re.findall(r'id="submitJob">(.*?)</details>', text, re.DOTALL)
    assert '<td class="id">cache_bytes<td>body<td>integer<td>268435456' in submit
    assert '<td class="id">dataset<td>body<td>string<td>required' in submit


def test_the_reference_shows_the_objects_of_answers_with_their_fields(filled):
    text = filled.request("GET", "/reference").text
    schemas = filled.app.openapi()["components"]["schemas"]
    for name in ("Job", "FilePrediction", "Dataset", "DatasetSummary", "Pass"):
        (shown,) = re.findall(rf'id="{name}">.*?</details>', text, re.DOTALL)
        for field, described in schemas[name]["properties"].items():
            assert f'<td class="id">{field}<td' in shown
            assert described.get("description", "") in html.unescape(shown)
    linked = set(re.findall(r'href="#(\w+)"', text))
    assert {"FilePrediction", "PredictionSpec", "Job"} <= linked
    assert all(text.count(f'id="{name}"') == 1 for name in linked)


def test_a_page_without_anything(service):
    text = service.request("GET", "/").text
    assert "No dataset yet" in text and "No job yet" in text and "No model yet" in text


@pytest.mark.parametrize("damage", [b"", b"{}", b"\x00" * 100])
def test_a_damaged_dataset_hides_nothing_else(service, damage):
    service.add_dataset("whole")
    damaged = service.add_dataset("damaged")
    job = service.request("POST", "/v1/jobs", json={"dataset": "damaged"}).json()["id"]
    service.store.claim()
    run = service.settings.jobs / job / "run"
    run.mkdir(parents=True)
    (run / RUN_FILE).write_text(json.dumps({"lane": ONE_LANE, "reader": {"blocks": None}}))
    create_state(run, 60, 41)
    (service.settings.datasets / damaged / "manifest.json").write_bytes(damage)
    answer = service.request("GET", "/")
    assert answer.status_code == 200 and "unreadable" in answer.text and "whole" in answer.text
    (shown,) = service.request("GET", "/v1/jobs").json()["jobs"]
    assert (shown["id"], shown["phase"], shown["progress"]["blocks"]) == (job, "starting", None)


def test_jobs_beyond_the_first_fifty_are_on_pages_of_their_own(service):
    dataset = service.add_dataset("data")
    ids = [service.store.add_job(dataset, {"dataset": "data", "C": 1.0}, 1000) for _ in range(60)]
    first = service.request("GET", "/").text
    (older,) = re.findall(r'href="(/\?before=job_[0-9A-Z]+)#jobs"', first)
    second = service.request("GET", older).text
    shown = [re.findall(r'href="/jobs/(job_\w+)"', text) for text in (first, second)]
    assert shown[0] + shown[1] == sorted(ids, reverse=True)
    assert "before=" not in second and "Newest" in second


def job_form(service) -> str:
    (form,) = re.findall(r'<form class="card" id="submit".*?</form>', service.request("GET", "/").text, re.DOTALL)
    return form


def for_solver(needs: str, solver: str) -> bool:
    """Whether what the form has is for a solver alone, and for this one."""
    return solver in json.loads(html.unescape(needs)).get("solver", ())


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_form_has_the_losses_of_a_solver(filled, solver):
    form = job_form(filled)
    losses = re.findall(r'<option value="(\w+)" data-needs="([^"]*)"', form)
    assert {name for name, needs in losses if for_solver(needs, solver)} == set(SOLVERS[solver].losses)


SHOWN = [field for field in FIELDS.values() if field.part is not None]


@pytest.mark.parametrize("field", SHOWN, ids=lambda field: field.name)
def test_the_form_shows_a_field_with_meaning_and_default(filled, field):
    (label,) = (html.unescape(each) for each in job_form(filled).split("<label")[1:] if f'name="{field.name}"' in each)
    assert texts.plain(field.meaning, "empty") in label
    ((kind, default),) = re.findall(r'data-kind="(\w+)" data-default="([^"]*)"', label)
    if kind == "size":
        assert int(default) << 20 == field.default
    elif field.choices or field.kind is bool:
        choices = field.choices or ("true", "false")
        assert tuple(re.findall(r'<option value="(\w+)"', label)) == choices
        assert default == ("" if field.default is None else str(field.default).lower())
    else:
        shown = "" if field.default in (None, []) else str(field.default).removesuffix(".0")
        assert default == shown
    # Without a value it says what that means; a field that has to have one is required.
    may_be_empty = re.search('placeholder="[^"]|<option value=""', label) is not None
    assert may_be_empty == (field.is_nullable or field.name == "features")


def test_a_model_has_a_page(filled):
    text = filled.request("GET", f"/models/{filled.model}").text
    assert (
        "<title>data: model" in text and "Converged after 3 passes" in text and "<span>1</span> <span>-1</span>" in text
    )
    for name in MODEL_FORMATS:
        # LIBSVM's text is of kernel machines.
        assert (f"/v1/models/{filled.model}/file?format={name}" in text) == (name != "libsvm")
    assert f"http://localhost/v1/models/{filled.model}/predict" in text
    assert f'href="/models/{filled.model}"' in filled.request("GET", "/").text
    assert filled.request("GET", "/models/mdl_0").status_code == 404


def test_pages_offer_the_download_first_that_the_route_has_by_default(service):
    dataset = service.add_dataset("data")
    job = service.store.add_job(dataset, {"dataset": "data"}, 10)
    service.store.claim()
    listed = listed_maps(2**31 - 2, 1, np.array([1, 2**31 - 2]))
    model = Model(np.ones(2), (1.0, -1.0), 1, about={"loss": "hinge"}, maps=listed)
    write_model(service.settings.models / "mdl_wide", model)
    service.store.finish(job, "succeeded", model_id="mdl_wide", result={"lanes": [{"class": 1.0}], "models": []})
    assert service.request("GET", "/v1/models/mdl_wide").json()["formats"] == ["npz", "liblinear", "onnx"]
    for path in ("/models/mdl_wide", f"/jobs/{job}", "/"):
        names = re.findall(r"/v1/models/mdl_wide/file\?format=(\w+)", service.request("GET", path).text)
        assert names[:3] == ["npz", "liblinear", "onnx"], path
    assert service.request("GET", "/v1/models/mdl_wide/file").headers["content-type"] == "application/zip"


def test_a_job_of_several_lanes_shows_each_and_its_models(service):
    dataset = service.add_dataset("data")
    job = service.store.add_job(dataset, {"dataset": "data", "C": [0.1, 1.0]}, 10)
    service.store.claim()
    certificate = {
        "gap": 0.5, "primal_objective": 2.0, "dual_objective": 1.5, "relative_duality_gap": 0.25, "m_plus": 0.25,
        "m_minus": -0.25, "w_error": 0.0,
    }  # fmt: skip
    outcome = {"converged": True, "stop_reason": "tolerance", "passes": 7}
    lanes = [{"class": "spam", "C": C, **outcome, **certificate} for C in (0.1, 1.0)]
    ids = [f"mdl_{k:026d}" for k in range(2)]
    models = [{"C": C, "model_id": model} for C, model in zip((0.1, 1.0), ids, strict=True)]
    result = {**outcome, "certificate": certificate, "lanes": lanes, "models": models}
    service.store.finish(job, "succeeded", models=ids, model_id=ids[-1], result=result)
    text = service.request("GET", f"/jobs/{job}").text
    assert "2 lanes" in text and text.count("<td>spam") == 2
    assert all(f'href="/models/{model}"' in text for model in ids)
    # LIBLINEAR's text has no place for such a class.
    assert "format=npz" in text and "format=liblinear" not in text
    home = service.request("GET", "/").text
    assert "0.1, 1" in home
    # A model has a C of its own.
    for model, C in zip(ids, ("0.1", "1"), strict=True):
        (row,) = re.findall(rf'<a href="/models/{model}".*?</tr>', home, re.DOTALL)
        assert f'<td class="what">C = {C}\n' in row
        assert "format=npz" in row and "format=liblinear" not in row


def test_pages_lead_with_the_model_that_was_chosen_and_say_how_good_it_is(service):
    X, _ = random_problem(60, 40)
    service.add_dataset("three", X, np.arange(60) % 3.0)
    fields = {"dataset": "three", "C": [0.1, 1.0], "folds": 2, "loss": "squared_hinge"}
    job = service.request("POST", "/v1/jobs", json=fields).json()["id"]
    service.store.claim()
    cv = [{"C": C, "folds": [{}] * 2, "mean": {"accuracy": C}, "std": {"accuracy": 0.0}} for C in (0.1, 1.0)]
    outcome = {"converged": True, "stop_reason": "relative_gap", "passes": 7}
    gaps = {(0, 0.1): 0.5, (None, 0.1): 0.3, (0, 1.0): 0.4, (None, 1.0): 0.125}
    lanes = [
        {"class": 1.0, "fold": fold, "C": C, **outcome, **CERTIFICATE, "relative_duality_gap": gap}
        for (fold, C), gap in gaps.items()
    ]
    found = {"cv": cv, "selected_C": 1.0, "confusion": {"labels": [1.0, -1.0], "rows": [[3, 1], [2, 10]]}}
    models = [{"C": 1.0, "model_id": "mdl_0"}]
    result = {**outcome, **found, "certificate": CERTIFICATE, "lanes": lanes, "models": models}
    took = {"elapsed_seconds": 83.0, "eta_seconds": 0}
    service.store.finish(job, "succeeded", models=["mdl_0"], result=result, progress=took)
    text = service.request("GET", f"/jobs/{job}").text
    places = [text.index(each) for each in ("accuracy 1", "relative duality gap 0.125", 'id="curve"', 'id="confusion"')]
    assert places == sorted(places) and places[-1] < text.index('id="tiles"')
    assert "the most frequent class gives 0.75" in text and "that of the chosen model" in text
    home = service.request("GET", "/").text
    for row, C in (f"jobs/{job}", "0.1, 1"), ("models/mdl_0", "1"):
        (shown,) = re.findall(rf'<a href="/{row}".*?</tr>', home, re.DOTALL)
        assert f"C = {C}, squared hinge, 3 classes, 2 folds" in shown and ">1:23" in shown and "left" not in shown


def test_a_job_that_has_not_ended_names_the_lanes_that_were_planned(service):
    X, _ = random_problem(60, 40)
    service.add_dataset("three", X, np.arange(60) % 3.0)
    fields = {"dataset": "three", "C": [0.1, 1.0], "folds": 2}
    job = service.request("POST", "/v1/jobs", json=fields).json()["id"]
    text = service.request("GET", f"/jobs/{job}").text
    (names,) = re.findall(r"data-lanes='([^']*)'", text)
    expected = [
        {"class": k, "fold": fold, "C": C} for k in (0.0, 1.0, 2.0) for fold in (0, 1, None) for C in (0.1, 1.0)
    ]
    assert json.loads(names) == expected
    assert "18 lanes" in text and re.findall(r'<tr data-lane="(\d+)"', text) == [str(k) for k in range(18)]
    assert 'id="chart-lanes"' in text and 'id="chart-gap"' not in text
    # What is done says so; the names are those of before.
    certificate = {"gap": 0.5, "primal_objective": 2.0, "dual_objective": 1.5, "relative_duality_gap": 0.25}
    outcome = {"converged": True, "stop_reason": "tolerance", "passes": 7}
    lanes = [{**expected[k], **outcome, **certificate} for k in (4, 1)]
    service.store.claim()
    service.store.finish(job, "stopped", result={**outcome, "certificate": certificate, "lanes": lanes})
    text = service.request("GET", f"/jobs/{job}").text
    there = [k for k in range(18) if k not in (1, 4)]
    assert re.findall(r'<tr data-lane="(\d+)"', text) == [str(k) for k in there]
    # Without the data, those that are done are what is known.
    assert service.request("DELETE", "/v1/datasets/three").status_code == 204
    assert "2 lanes" in service.request("GET", f"/jobs/{job}").text


def test_labels_cannot_leave_the_names_of_lanes(service):
    dataset = service.add_dataset("data")
    job = service.store.add_job(dataset, {"dataset": "data", "C": 1.0}, 10)
    service.store.claim()
    name = "'><script>alert(1)</script>"
    certificate = {"gap": 0.5, "primal_objective": 2.0, "dual_objective": 1.5, "relative_duality_gap": 0.25}
    outcome = {"converged": True, "stop_reason": "tolerance", "passes": 7}
    lanes = [{"class": label, "fold": None, "C": 1.0, **outcome, **certificate} for label in (name, "ham", "spam")]
    service.store.finish(job, "succeeded", result={**outcome, "certificate": certificate, "lanes": lanes})
    text = service.request("GET", f"/jobs/{job}").text
    assert "<script>alert" not in text
    (names,) = re.findall(r"data-lanes='([^']*)'", text)
    assert [lane["class"] for lane in json.loads(names)] == [name, "ham", "spam"]


def test_of_many_values_of_C_the_range_is_listed(service):
    dataset = service.add_dataset("data")
    service.store.add_job(dataset, {"dataset": "data", "C": [10.0**k for k in range(-3, 4)]}, 10)
    assert '<td class="what">C = 7: 0.001 to 1,000\n' in service.request("GET", "/").text


def test_a_job_goes_on_only_from_a_checkpoint_and_says_what_it_continues(service):
    dataset = service.add_dataset("data")
    first = service.store.add_job(dataset, {"dataset": "data", "C": 1.0, "max_passes": 3}, 10)
    service.store.claim()
    service.store.finish(first, "succeeded")
    assert "/resume" not in service.request("GET", f"/jobs/{first}").text
    (service.settings.jobs / first).mkdir(exist_ok=True)
    (service.settings.jobs / first / SLOTS[0]).touch()
    assert f'data-path="/v1/jobs/{first}/resume"' in service.request("GET", f"/jobs/{first}").text
    second = service.store.add_job(dataset, {"dataset": "data", "C": 1.0}, 10, continues=first)
    text = service.request("GET", f"/jobs/{second}").text
    assert f'continues <a class="id" href="/jobs/{first}"' in text and "/resume" not in text


def test_a_model_of_several_texts_shows_them_as_texts_and_no_liblinear(service):
    labels = ("<b>", "spam", "ham")
    model = service.add_model(
        service.add_dataset("data"), Model(np.ones((3, 4)), labels, 1, sigmoid=((-1.0, 0.0),) * 3)
    )
    text = service.request("GET", f"/models/{model}").text
    assert "<span>&lt;b&gt;</span> <span>spam</span>" in text and "<b>" not in text
    assert "format=liblinear" not in text and "format=npz" in text
    assert "sigmoid" in text and 'id="evaluate"' in text


def test_of_very_many_labels_the_first_are_shown(service):
    labels = tuple(float(place) for place in range(100))
    model = service.add_model(service.add_dataset("data"), Model(np.ones((100, 4)), labels, 1))
    text = service.request("GET", f"/models/{model}").text
    assert "<span>29</span>" in text and "<span>30</span>" not in text and "and 70 more" in text


def test_without_a_dataset_there_is_nothing_to_evaluate_on(service):
    model = service.add_model(service.add_dataset("data"), some_model())
    assert service.request("DELETE", "/v1/datasets/data").status_code == 204
    text = service.request("GET", f"/models/{model}").text
    assert 'id="evaluate"' not in text and "model.js" not in text


@pytest.fixture
def of_texts(service):
    """A dataset with labels that are texts, rows left out, and rows added since."""
    body = b"kind,a,b\n<b>,1,0\nham,2,3\nham,x,3\nham,4,5\n"
    url = "/v1/datasets/mail?format=csv&label_column=kind&on_bad_row=skip"
    assert service.request("PUT", url, content=body).status_code == 201
    added = service.request(
        "POST", "/v1/datasets/mail/blocks?format=csv&label_column=kind", content=b"kind,a,b\nham,1,1\n"
    )
    assert added.status_code == 201
    return service


def table(text, name):
    """Rows of a table, as texts without markup."""
    (body,) = re.findall(rf'<table id="{name}">.*?<tbody>(.*?)</tbody>', text, re.DOTALL)
    cells = [re.split(r"<t[hd][^>]*>", row)[1:] for row in re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)]
    return [[re.sub(r"<[^>]*>", "", cell).strip() for cell in row] for row in cells]


def test_a_dataset_has_a_page(of_texts):
    text = of_texts.request("GET", "/datasets/mail").text
    assert table(text, "labels") == [["ham", "3", "75.0%"], ["&lt;b&gt;", "1", "25.0%"]]
    assert "<b>" not in text
    # Of the three rows it was made with; a row was added since.
    assert table(text, "features") == [["a", "3", "100.0%"], ["b", "2", "66.7%"]]
    assert table(text, "lengths") == [["0", "0", "0.0%"], ["1", "1", "33.3%"], ["2 to 3", "2", "66.7%"]]
    assert [row[:2] for row in table(text, "longest")] == [["2", "2"], ["3", "2"], ["1", "1"]]
    assert "of the 3 rows it was made with" in text
    ((line, what, code),) = table(text, "rejected")
    assert (line, code) == ("4", "not_numeric") and "&#39;x&#39; is not a number" in what
    blocks = of_texts.request("GET", "/v1/datasets/mail/blocks").json()["blocks"]
    shown = re.findall(r"<title>block (\d+): (\d+) rows", text)
    assert shown == [(str(block["block"]), str(block["rows"])) for block in blocks] and len(blocks) == 2
    assert 'href="/datasets/mail"' in of_texts.request("GET", "/").text


def test_a_dataset_whose_scales_are_far_apart_names_features_on_its_page(service):
    table = "kind,small,large\n" + "".join(f"{('a', 'b')[k % 2]},{k % 3 + 1},{1e6 * (k % 5 + 1)}\n" for k in range(20))
    service.request("PUT", "/v1/datasets/far?format=csv&label_column=kind", content=table)
    shown = service.request("GET", "/v1/datasets/far").json()
    assert [each["name"] for each in shown["profile"]["far_scales"]] == ["large", "small"]
    text = service.request("GET", "/datasets/far").text
    assert '<table id="scales">' in text and "3.32e+06" in text
    assert '<table id="scales">' not in service.request("GET", "/datasets/data").text


def test_a_dataset_of_before_profiles_has_a_page(of_texts):
    (profile,) = of_texts.settings.datasets.glob("*/profile.json")
    profile.unlink()
    assert of_texts.request("GET", "/v1/datasets/mail").json()["profile"] is None
    text = of_texts.request("GET", "/datasets/mail").text
    assert len(table(text, "labels")) == 2 and 'id="longest"' not in text


def test_of_many_labels_the_page_of_a_dataset_has_the_most_frequent(service):
    X, _ = random_problem(300, 40)
    y = np.where(np.arange(300) < 100, 50, np.arange(300) % 50)
    service.add_dataset("many", X, y)
    rows = table(service.request("GET", "/datasets/many").text, "labels")
    assert rows[0] == ["50", "100", "33.3%"] and len(rows) == 21
    assert rows[-1][0] == "31 more" and sum(int(row[1]) for row in rows) == 300


def test_a_dataset_without_classes_says_between_what_its_labels_are(service):
    body = "".join(f"{k / 7} 1:{k + 1}\n" for k in range(10_100)).encode()
    service.request("PUT", "/v1/datasets/values", content=body)
    text = service.request("GET", "/datasets/values").text
    assert "numbers from 0 to 1,443" in text or "numbers from 0 to 1442.71" in text
    assert 'id="labels"' not in text


@pytest.mark.parametrize("state", ["ingesting", "failed"])
def test_a_dataset_that_is_not_ready_is_listed_and_has_a_page(service, state):
    dataset_id = service.store.add_dataset("coming", {"import": "a.svm", "bytes": 1 << 20, "options": {}})
    told = ['<progress max="1048576" value="524288">', "1,234 rows so far, 512.0 KiB"]
    if state == "failed":
        failure = {"code": "bad_number", "detail": "'<b>' is not a number", "hint": "write numbers", "at": {"line": 7}}
        service.store.fail_dataset(dataset_id, failure)
        told = ["line 7: &#39;&lt;b&gt;&#39; is not a number", "write numbers", 'data-path="/v1/datasets/coming"']
    else:
        staged = staged_path(service.settings.datasets / dataset_id)
        staged.mkdir()
        (staged / "progress").write_text('{"read_bytes": 524288, "rows": 1234, "non_zeros": 5}')
    home, answer = service.request("GET", "/").text, service.request("GET", "/datasets/coming")
    assert all(each in home for each in told) and ("<option>coming</option>" in home) == (state == "ingesting")
    assert answer.status_code == 200 and state in answer.text
    assert ("line 7: &#39;&lt;b&gt;&#39; is not a number" in answer.text) == (state == "failed")


@pytest.mark.parametrize("path", ["datasets/none", "datasets/%3Cb%3E", "jobs/job_0", "jobs/%3Cb%3E"])
def test_what_is_not_there_is_told_in_a_sentence(filled, path):
    answer = filled.request("GET", f"/{path}", headers={"Accept": "text/html"})
    assert answer.status_code == 404 and "<h1>Not found</h1>" in answer.text and "<b>" not in answer.text
    assert f"There is no such {path.partition('s/')[0]}. It may have been deleted" in answer.text


def test_compared_jobs_show_the_fields_that_differ(service):
    service.add_dataset("data")
    fields = [{"C": 1.0}, {"C": 1000.0, "solver_options": {"spill": False}}, {"C": [0.1, 1.0]}]
    jobs = [service.request("POST", "/v1/jobs", json={"dataset": "data", **each}).json()["id"] for each in fields]
    text = service.request("GET", f"/compare?jobs={','.join(jobs)}").text
    (body,) = re.findall(r'<tbody id="fields">(.*?)</tbody>', text, re.DOTALL)
    rows = [re.findall(r"<t[hd][^>]*>([^<\n]*)", row) for row in re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)]
    assert rows[0] == ["Fields that differ"]
    assert rows[1:] == [["C", "1", "1,000", "[0.1, 1.0]"], ["spill", "true", "false", "true"]]
    (drawn,) = re.findall(r"data-jobs='([^']*)'", text)
    expected = [{"id": job, "name": name, "certificate": None} for job, name in zip(jobs, "ABC", strict=True)]
    assert json.loads(drawn) == expected
    assert "All fields are the same" in service.request("GET", f"/compare?jobs={jobs[0]},{again(service)}").text


def again(service):
    return service.request("POST", "/v1/jobs", json={"dataset": "data", "C": 1.0}).json()["id"]


def test_jobs_that_cannot_be_compared(filled):
    for query, status, says in (
        ("", 422, "0 jobs cannot be compared"),
        ("?jobs=", 422, "0 jobs"),
        ("?jobs=job_1,job_1", 422, "1 jobs"),
        ("?jobs=a,b,c,d,e,f", 422, "6 jobs"),
        ("?jobs=job_0,job_1", 404, "no such job"),
        ("?jobs=%3Cb%3E,job_1", 404, "no such job"),
    ):
        answer = filled.request("GET", f"/compare{query}")
        assert answer.status_code == status and says in answer.text and "<b>" not in answer.text


@pytest.mark.parametrize(
    ("reason", "code", "hint"), [("max_passes", 4, "a larger max_passes"), ("averaged", 0, '"combine": "line_search"')]
)
def test_a_job_that_ended_short_of_its_target_says_so_and_shows_its_notes(service, reason, code, hint):
    dataset = service.add_dataset("data")
    job = service.store.add_job(dataset, {"dataset": "data", "labels": {"experiment": "<first>"}}, 10)
    service.store.claim()
    certificate = {**CERTIFICATE, "dual_objective": 1.0, "relative_duality_gap": 0.5, "gap": None}
    result = {"converged": False, "stop_reason": reason, "passes": 2, "certificate": certificate, "lanes": []}
    service.store.finish(job, "succeeded", result=result)
    for path in ("/", f"/jobs/{job}"):
        text = service.request("GET", path).text
        assert re.search('class="badge stopped"[^>]*>succeeded, not converged<', text), path
        assert "experiment: &lt;first&gt;" in text
    shown = service.request("GET", f"/v1/jobs/{job}").json()
    assert (shown["state"], exit_code(shown)) == ("succeeded", code) and hint in shown["warnings"][-1]["hint"]
