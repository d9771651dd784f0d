"""A model's page: its evaluation, with pictures."""

import re
from dataclasses import replace

import httpx
import numpy as np
import pytest

from streamsvm.service.models.heaviest import with_heaviest
from streamsvm.storage.models.model_file import Model
from tests.api.app import Service as Filled
from tests.api.app import model_of_texts
from tests.browser.looks import SCREENS
from tests.contracts.problems import random_problem
from tests.end_to_end.service import PLAIN, Service, running
from tests.raw_models import table_model

LABELS = (3.0, 1.0, -2.0)
USUAL = {"size": 4.0, "proto": "tcp", "flag": "S0"}
DOCUMENTS = {
    "format": "text", "n_features": 64, "analyzer": "word", "ngram_range": [1, 1], "alternate_sign": False,
    "lowercase": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A service with a dataset of three classes, and models by what they are."""
    service = Service(tmp_path_factory.mktemp("models"))
    filled = Filled(service.data_dir)
    X, _ = random_problem(300, 4, 2)
    noise = np.random.default_rng(0).standard_normal((300, 3)) / 2
    y = np.array(LABELS)[(X @ np.eye(4)[:, :3] + noise).argmax(axis=1)]
    dataset_id = filled.add_dataset("three", X, y)
    filled.add_dataset("two", X, np.where(y > 0, 1.0, -1.0))
    models = {
        "several": Model(4 * np.eye(3, 4), LABELS, 1, about={"loss": "logistic", "C": 1.0}),
        "two": Model(np.array([1.0, 1.0, -1.0, 0.0]), (1.0, -1.0), 1, about={"loss": "hinge", "C": 1.0}),
        "regression": Model(np.ones(4), (), 1),
        "texts": model_of_texts(),
        "twenty": Model(np.vstack([4 * np.eye(3, 4), np.zeros((17, 4))]), (*LABELS, *map(float, range(10, 27))), 1),
        "table": replace(
            table_model(), about={**table_model().about, "usual": USUAL}, mean=np.array([4.0, 0.75, 0.5, 0.0])
        ),
        "documents": Model(np.linspace(-1, 1, 64), ("good", "bad"), 0, about={"input": DOCUMENTS}),
        "thousand": Model(np.zeros((1000, 4)), (*LABELS, *map(float, range(10, 1007))), 1),
    }
    service.models = {name: filled.add_model(dataset_id, with_heaviest(model)) for name, model in models.items()}
    with running(service):
        yield service


@pytest.fixture
def evaluated(served, open_page):
    """The page of a model after its evaluation, and what the interface says of the same."""

    def evaluate(name: str, dataset: str, **options):
        page = open_page(served.url, **options)
        page.goto(f"{served.url}/models/{served.models[name]}")
        page.select_option("#evaluate [name=dataset]", dataset)
        page.click("#evaluate button")
        page.locator("#found dl").first.wait_for()
        url = f"{served.url}/v1/models/{served.models[name]}/evaluate?curves=true"
        return page, httpx.post(url, json={"dataset": dataset}, **PLAIN).json()

    return evaluate


def titles(page, selector: str) -> list[str]:
    return page.locator(f"{selector} title").evaluate_all("all => all.map((title) => title.textContent)")


def test_several_classes_are_drawn(evaluated):
    page, found = evaluated("several", "three", viewport=SCREENS["phone"], color_scheme="dark")
    assert page.locator("[data-figure=accuracy]").inner_text() == f"{100 * found['accuracy']:.1f}%"
    counts = [int(re.search(r": ([\d,]+) rows", title)[1]) for title in titles(page, ".cell")]
    assert counts == [count for row in found["confusion"]["rows"] for count in row]
    assert titles(page, ".cell")[1].startswith("3 predicted as 1: ")
    cells = page.locator(".cell").evaluate_all("all => all.map((cell) => cell.getBoundingClientRect().width)")
    assert len(cells) == 9 and min(cells) > 40
    there = [row for row in found["reliability"] if row["rows"]]
    assert len(titles(page, ".dot")) == len(there) > 3
    assert titles(page, ".dot")[0] == (
        f"said {100 * there[0]['probability']:.1f}%, was so {100 * there[0]['share']:.1f}%, of {there[0]['rows']} rows"
    )
    rows = page.locator("#classes tbody tr").evaluate_all("all => all.map((row) => row.innerText)")
    assert [row.split()[0] for row in rows] == ["3", "1", "-2"]
    assert page.evaluate("document.documentElement.scrollWidth") <= SCREENS["phone"]["width"]


def test_the_heaviest_features_are_those_of_the_class_chosen(served, open_page):
    page = open_page(served.url)
    page.goto(f"{served.url}/models/{served.models['several']}")
    assert table(page, "#heaviest .card:not([hidden])")[0][:2] == ["1", "4"]
    page.select_option("#heaviest select", label="-2")
    assert page.locator("#heaviest .card:visible").count() == 1
    assert table(page, "#heaviest .card:not([hidden])")[0][:2] == ["3", "4"]


def test_two_classes_without_probabilities(evaluated):
    page, found = evaluated("two", "two")
    assert page.locator(".charts .cell").count() == 4 and page.locator(".dot").count() == 0
    captions = page.locator("#found figcaption").evaluate_all("all => all.map((each) => each.textContent)")
    assert captions == ["Confusion", "ROC curve", "Precision and recall"]
    points = titles(page, ".point")
    n_points = len(found["curves"]["threshold"])
    assert len(points) == 2 * n_points > 20
    assert points[0] == "decision value above all: false positive rate 0.0%, true positive rate 0.0%"
    assert points[n_points - 1].endswith("or more: false positive rate 100.0%, true positive rate 100.0%")
    assert points[-1].endswith(f"or more: recall 100.0%, precision {100 * found['curves']['precision'][-1]:.1f}%")
    assert page.locator("[data-figure=auc]").inner_text() == f"{found['auc']:.4g}"
    # At the threshold that the model has, the slider shows the confusion of the evaluation.
    assert titles(page, "#threshold .cell") == titles(page, ".charts .cell")
    slider = page.locator("#threshold input")
    slider.press("Home")
    assert page.locator("#threshold output").inner_text().endswith("precision 100.0%, recall 0.0%")
    # Once more, it is the same and not there twice.
    page.click("#evaluate button")
    page.locator("#evaluate button:not([disabled])").wait_for()
    assert page.locator(".charts .cell").count() == 4
    for _ in range(3):
        slider.press("ArrowRight")
    shown = titles(page, "#threshold .cell")
    before = page.url
    page.click("#threshold button")
    page.wait_for_url(lambda url: url != before)
    page.select_option("#evaluate [name=dataset]", "two")
    page.click("#evaluate button")
    page.locator("#found dl").first.wait_for()
    assert page.url != before and titles(page, ".charts .cell") == shown


def test_regression_has_no_pictures(evaluated):
    page, _ = evaluated("regression", "three")
    assert page.locator("[data-figure=mse]").count() == 1
    assert page.locator("#found svg, #found table").count() == 0


def confused(found) -> list[list[str]]:
    """Pairs of different classes, those with most rows first."""
    labels, rows = found["confusion"]["labels"], found["confusion"]["rows"]
    pairs = [(count, k, j) for k, row in enumerate(rows) for j, count in enumerate(row) if count and k != j]
    pairs.sort(key=lambda pair: (-pair[0], pair[1], pair[2]))
    return [
        [f"{labels[k]:g}", f"{labels[j]:g}", str(count), f"{100 * count / sum(rows[k]):.1f}%"] for count, k, j in pairs
    ]


def table(page, selector: str) -> list[list[str]]:
    lines = page.locator(f"{selector} tr:has(td)")
    return lines.evaluate_all("all => all.map((row) => [...row.cells].map((cell) => cell.textContent))")


def test_twenty_classes_are_drawn_and_those_most_confused_are_named(evaluated):
    page, found = evaluated("twenty", "three", viewport=SCREENS["phone"])
    assert page.locator(".cell").count() == 400 and page.locator(".count").count() == 0
    assert table(page, "#confused") == confused(found)[:10]
    assert page.locator("#classes tbody tr").count() == 20 and page.is_visible("#classes")
    assert page.evaluate("document.documentElement.scrollWidth") <= SCREENS["phone"]["width"]


def test_of_very_many_classes_there_are_tables_alone(evaluated):
    page, found = evaluated("thousand", "three")
    assert page.locator("#found svg").count() == 0
    assert table(page, "#confused") == confused(found)[:10]
    assert page.locator("#classes tbody tr").count() == 1000 and not page.is_visible("#classes")
    page.click("text=Each of 1,000 classes")
    assert page.is_visible("#classes")


def test_what_cannot_be_evaluated_says_why(served, browser):
    page = browser.new_page()
    page.goto(f"{served.url}/models/{served.models['texts']}")
    page.select_option("#evaluate [name=dataset]", "three")
    page.click("#evaluate button")
    fault = page.locator("section:has(#evaluate) .fault")
    fault.wait_for()
    assert "the model's labels are ham, spam, ü" in fault.inner_text()
    page.close()


def open_model(served, open_page, name: str, **options):
    page = open_page(served.url, **options)
    page.goto(f"{served.url}/models/{served.models[name]}")
    return page, f"{served.url}/v1/models/{served.models[name]}/predict"


def given_back(page, tmp_path, name: str, text: str) -> list[str]:
    """Drop a file on the page; return the lines that it gives back."""
    (tmp_path / name).write_text(text)
    page.set_input_files("#trial [type=file]", tmp_path / name)
    with page.expect_download() as download:
        page.click("#answer a")
    assert download.value.suggested_filename == f"predicted-{name}"
    return download.value.path().read_text().splitlines()


def test_a_row_is_tried_and_explained(served, open_page, tmp_path):
    """The columns have their usual values; the answer's reasons add up to its decision value."""
    page, url = open_model(served, open_page, "table", viewport=SCREENS["phone"], color_scheme="dark")
    assert page.locator("#trial .fields input, #trial .fields select").evaluate_all(
        "all => all.map((field) => [field.parentElement.firstChild.textContent.trim(), field.value])"
    ) == [["proto", "tcp"], ["size", "4"], ["flag", "S0"]]
    page.select_option("#trial select >> nth=0", "udp")
    page.fill("#trial [type=number]", "1.5")
    page.click("#trial button")
    page.locator("#reasons").wait_for()
    row = {"rows": [{"proto": "udp", "size": 1.5, "flag": "S0"}]}
    (found,) = httpx.post(f"{url}?explain=10", json=row, **PLAIN).json()["predictions"]
    assert page.locator("#answer strong").inner_text() == "1" == f"{found['label']:g}"
    assert f"{found['decision_value']:.4g}" in page.locator("#answer dl").inner_text()
    reasons = {name: float(value.replace(",", "")) for name, value, *_ in table(page, "#reasons")}
    assert {name: reasons.pop(name) for name in found["contributions"]} == pytest.approx(
        found["contributions"], rel=1e-3
    )
    assert reasons == {"mean of the training rows": pytest.approx(found["base_value"], rel=1e-3)}
    assert page.evaluate("document.documentElement.scrollWidth") <= SCREENS["phone"]["width"]
    lines = given_back(page, tmp_path, "rows.csv", "proto,size,flag\nudp,1,S0\ntcp,-9,\n")
    assert lines == ["proto,size,flag,predicted", "udp,1,S0,1", "tcp,-9,,-1"]
    page.fill("#trial [type=number]", "")
    page.click("#trial button")
    page.locator("#answer strong").wait_for()  # missing=zero


def test_a_text_is_tried(served, open_page, tmp_path):
    page, url = open_model(served, open_page, "documents")
    page.fill("#trial textarea", "a fine film")
    page.click("#trial button")
    page.locator("#reasons").wait_for()
    (found,) = httpx.post(f"{url}?explain=10", json={"documents": ["a fine film"]}, **PLAIN).json()["predictions"]
    assert page.locator("#answer strong").inner_text() == found["label"]
    assert [row[0] for row in table(page, "#reasons")][1:] == [*found["contributions"]]
    assert "film" in found["contributions"]
    lines = given_back(page, tmp_path, "new.txt", "fine\nfilm\n")
    labels = httpx.post(url, json={"documents": ["fine", "film"]}, **PLAIN).json()["predictions"]
    assert lines == [f"{each['label']}\t{text}" for each, text in zip(labels, ("fine", "film"), strict=True)]


def test_numbered_rows_are_tried(served, open_page, tmp_path):
    page, _ = open_model(served, open_page, "several")
    for at, value in enumerate(("0", "2", "0", "1")):
        page.locator("#trial .fields input").nth(at).fill(value)
    page.click("#trial button")
    page.locator("#answer strong").wait_for()
    assert page.locator("#answer strong").inner_text() == "1"
    assert "decision value of 1\n8, probability" in page.locator("#answer dl").inner_text()
    assert given_back(page, tmp_path, "rows.svm", "3 2:1\n7 1:2 2:1\n") == ["1 2:1", "3 1:2 2:1"]


def test_downloads_are_in_one_menu(served, open_page):
    page, _ = open_model(served, open_page, "two")
    titles = page.locator("main h2").evaluate_all("all => all.map((title) => title.firstChild.textContent.trim())")
    assert titles == ["Where it is used", "Heaviest features", "Try it", "Evaluate it"]
    assert not page.is_visible("#download a")
    page.click("#download summary")
    with page.expect_download() as download:
        page.click("#download a >> text=npz")
    assert download.value.suggested_filename == f"{served.models['two']}.npz"


def test_a_model_gets_a_name_and_its_alias_is_moved(served, open_page):
    page, name = open_page(served.url), "churn"
    for number, model in enumerate(("two", "several"), 1):
        page.goto(f"{served.url}/models/{served.models[model]}")
        page.fill("#register [name=name]", name)
        page.click("#register button")
        page.wait_for_url(f"**/registered-models/{name}")
        assert page.locator("#versions tbody tr").count() == number
    page.select_option("#alias [name=version]", "1")
    page.click("#alias button")
    page.locator("#moves").wait_for()
    assert table(page, "#versions")[1][1].strip() == "champion"
    assert httpx.get(f"{served.url}/v1/models/{name}@champion", **PLAIN).json()["id"] == served.models["two"]
    page.goto(served.url)
    assert name in page.locator("#registered-list").inner_text()
