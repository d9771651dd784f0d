"""Every page for everybody: by the keyboard, in light and dark, on a screen of any size, and as axe-core sees it."""

import re

import pytest

from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.storage.models.model_file import Model
from tests.api.app import Service as Filled
from tests.api.app import model_of_texts
from tests.browser.looks import SCREENS, every_look
from tests.browser.test_lanes import CV, add_job, drawn, in_turn, line
from tests.contracts.problems import random_problem
from tests.end_to_end.service import Service, running, wait_for

AXE_SCRIPT = pytest.importorskip("axe_playwright_python.base", reason="axe-playwright-python is missing").AXE_SCRIPT

# A pass of two sweeps, of an objective that has many digits in common.
SWEPT = line(1, 0.25, 0, dual_objective=6604.9755, primal_bound=6604.9765)
UNKNOWN = {"relative_gap_bound": None, "primal_bound": None}
SWEPT["sweeps"] = [
    {"sweep": 1, "elapsed_seconds": 0.2, "gap": 1.0, "dual_objective": 6604.9725, **UNKNOWN},
    {"sweep": 2, "elapsed_seconds": 0.4, "gap": 0.5, "dual_objective": 6604.9745, **UNKNOWN},
]
GAP = "M+ \N{MINUS SIGN} M\N{MINUS SIGN}"
MAIL = "kind,a,b\n" + "".join(f"{('ham', 'spam')[k % 2]},{k % 3},{'x' if k == 7 else k}\n" for k in range(60))
KINDS = ("back.", "buffer_overflow.", "ftp_write.", "guess_passwd.")
ATTACKS = "kind,a\n" + "".join(f"{kind},{k}\n" for k, kind in enumerate(KINDS))


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A service with a page of each kind, by name."""
    folder = tmp_path_factory.mktemp("access")
    (folder / "out").mkdir()
    # Jobs that wait go on waiting.
    service = Service(folder, jobs_at_once=0, export_dir=folder / "out", import_dir=folder / "out")
    filled = Filled(service.data_dir)
    dataset_id = filled.add_dataset("data", *random_problem(300, 4, 2))
    filled.request("PUT", "/v1/datasets/mail?format=csv&label_column=kind&on_bad_row=skip", content=MAIL)
    fault = {
        "code": "source_empty",
        "detail": "no file matches s3://lake/day=*/*.csv",
        "hint": "check it",
        "at": {},
    }
    filled.store.fail_dataset(filled.store.add_dataset("nothing"), fault)
    filled.request("PUT", "/v1/datasets/connections-of-a-week?format=csv&label_column=kind", content=ATTACKS)
    jobs = {
        "one": add_job(filled, dataset_id, [SWEPT], 1),
        "two": add_job(filled, dataset_id, [line(1, 0.75, 0), line(2, 0.125, 0)], 1),
        "folds": add_job(filled, dataset_id, in_turn(12), 12, CV),
    }
    failure = {"code": "process_died", "message": "it died", "hint": "", "log_tail": ""}
    jobs["failed"] = filled.store.add_job(dataset_id, {"dataset": "data", "C": 1.0, "tolerance": 1e-3}, 1000)
    filled.store.claim()
    filled.store.finish(jobs["failed"], "failed", failure=failure)
    models = [
        filled.add_model(dataset_id, model)
        for model in (model_of_texts(), Model(random_problem(4, 4)[0].toarray()[0], (1.0, -1.0), 1))
    ]
    filled.store.register_model("champ", models[1])
    filled.store.move_alias("champ", "champion", 1, "somebody")
    for name, priority in (("waits", 0), ("urgent", 5)):
        jobs[name] = filled.store.add_job(
            dataset_id, parse_spec({"dataset": "data", "priority": priority}).model_dump()
        )
    filled.store.explain_job(jobs["waits"], waits_for=[jobs["urgent"]])
    predictions = predictions_of(filled, models[1])
    service.pages = {
        "home": "/",
        **{f"job: {name}": f"/jobs/{job}" for name, job in jobs.items() if name not in ("waits", "urgent")},
        **{f"model {k}": f"/models/{model}" for k, model in enumerate(models)},
        "dataset": "/datasets/data",
        "table": "/datasets/mail",
        "compared": f"/compare?jobs={jobs['one']},{jobs['two']}",
        "registered": "/registered-models/champ",
        "predictions": "/predictions",
        **{f"prediction {state}": f"/predictions/{each}" for state, each in predictions.items()},
        "queue": "/queue",
        "reference": "/reference",
        "login": "/login",
    }  # fmt: skip
    service.jobs = jobs
    with running(service):
        yield service


def predictions_of(filled: Filled, model: str) -> dict[str, str]:
    """Predictions that have ended, by their state."""
    spec = {"model": "champ", "import": "day=*/part-*.parquet", "destination": "predicted.parquet", "keep": ["id"]}
    made = {state: filled.store.add_prediction(model, spec) for state in ("succeeded", "failed")}
    for prediction in made.values():
        filled.store.claim(prediction, "prediction")
    result = {"rows": 12345, "bytes": 1 << 20, "total_bytes": 1 << 20, "unknown_features": 0}
    filled.store.finish(made["succeeded"], "succeeded", result=result, kind="prediction")
    failure = {"code": "column_missing", "message": "the rows have no column id", "hint": "Leave it out of keep."}
    filled.store.finish(made["failed"], "failed", failure=failure, kind="prediction")
    return made


def uncover(page):
    """Open what is folded; wait until curves are there."""
    page.evaluate("[...document.querySelectorAll('details')].slice(0, 12).forEach((each) => { each.open = true; })")
    if page.locator("#charts").count() and "failed" not in page.title():
        page.locator("#charts canvas").first.wait_for()


# What axe-core finds by colours and by room: the rest of its rules look at elements, which screens have in common.
LOOKS = ["color-contrast", "link-in-text-block", "scrollable-region-focusable"]
# Pages that are made as others are: on one screen.
ALIKE = {"job: one", "job: failed", "model 1", "dataset", "prediction succeeded"}


@every_look
def test_axe_finds_nothing_serious_pages_have_titles_and_fit_the_screen(served, open_page, screen, scheme):
    page = open_page(served.url, viewport=SCREENS[screen], color_scheme=scheme)
    titles, rules = {}, {"runOnly": LOOKS} if screen == "phone" else {}
    for name, path in served.pages.items():
        if screen == "phone" and name in ALIKE:
            continue
        page.goto(served.url + path)
        titles[name] = page.title()
        assert page.locator("h1").count() >= 1, name
        uncover(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= SCREENS[screen]["width"], name
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 3 * 128) == (scheme == "dark"), name
        page.evaluate(AXE_SCRIPT)
        found = page.evaluate("(rules) => axe.run({resultTypes: ['violations'], ...rules})", rules)
        assert found["passes"], name
        wrong = [
            (each["id"], each["nodes"][0]["target"])
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
        ]
        assert wrong == [], name
    assert all(title != "StreamSVM" for title in titles.values()), titles
    assert "data" in titles["job: two"] and "mail" in titles["table"] and "compared" in titles["compared"]


def test_lists_fit_their_cards(served, open_page):
    """The buttons at the ends of rows are seen without scrolling."""
    page = open_page(served.url, viewport={"width": 400, "height": 900})
    scrolled = "all => all.filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.id)"
    for name in ("home", "queue", "predictions"):
        page.goto(served.url + served.pages[name])
        for width in (400, 1400):
            page.set_viewport_size({"width": width, "height": 900})
            page.locator(".scroll table").first.wait_for()
            assert page.locator(".scroll").evaluate_all(scrolled) == [], (name, width)


def focused(page):
    return page.evaluate(
        "[document.activeElement.tagName, document.activeElement.id, document.activeElement.textContent.trim()]"
    )


def test_the_first_key_leads_to_the_content_and_what_has_the_focus_is_seen(served, open_page):
    page = open_page(served.url)
    page.keyboard.press("Tab")
    assert focused(page)[2] == "Skip to the content"
    assert page.locator(".skip").bounding_box()["y"] >= 0
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert focused(page)[:2] == ["DIV", "dataset-list"]
    for _ in range(25):
        page.keyboard.press("Tab")
        style = page.evaluate(
            "(({outlineStyle, outlineWidth}) => [outlineStyle, outlineWidth])(getComputedStyle(document.activeElement))"
        )
        assert style[0] != "none" and style[1] != "0px", focused(page)


def test_jobs_are_compared_by_the_keyboard(served, open_page):
    page = open_page(served.url)
    assert page.is_disabled("#compare button")
    for name in ("two", "one"):
        page.focus(f"[name=jobs][value={served.jobs[name]}]")
        page.keyboard.press("Space")
    wait_for(lambda: page.is_enabled("#compare button"))
    # The list is made anew as things go on: what was chosen, and where one was, stays.
    page.evaluate("document.getElementById('job-list').append(document.createElement('i'))")
    page.evaluate("refresh()")
    assert page.locator("#job-list i").count() == 0 and page.locator("[name=jobs]:checked").count() == 2
    assert page.evaluate("document.activeElement.value") == served.jobs["one"]
    page.focus("#compare button")
    page.keyboard.press("Enter")
    page.wait_for_url("**/compare?*")
    page.locator("#chart-gap canvas").wait_for()
    found = drawn(page, "chart-gap")
    points = {tuple(map(tuple, curve)) for curve in found.values()}
    page.locator("#chart-bound canvas").wait_for()
    assert [curve[-1][1] for curve in drawn(page, "chart-bound").values()] == [0.05, 0.05]
    assert 6604.9755 in [curve[-1][1] for curve in drawn(page, "chart-objective").values()]
    assert points == {((0.2, 1.0), (0.4, 0.5), (0.5, 5e-4)), ((0.5, 0.75), (1.0, 5e-4))}
    seconds = page.locator("[data-seconds]").all_inner_texts()
    assert sorted(seconds) == ["0.500", "1.00"]


def test_a_job_that_has_ended_is_drawn_with_its_sweeps_to_its_certificate(served, open_page):
    page = open_page(served.url)
    page.goto(served.url + served.pages["job: one"])
    wait_for(lambda: page.locator("#chart-gap canvas").count() and drawn(page, "chart-gap")[GAP][-1][1] == 5e-4)
    assert drawn(page, "chart-gap")[GAP] == [[0.2, 1.0], [0.4, 0.5], [0.5, 5e-4]]
    assert drawn(page, "chart-objective")["primal, at most"] == [[0.5, 2.0]]
    wait_for(lambda: page.locator("[data-figure=gap]").inner_text() == "5.00e-4")
    assert page.locator("[data-figure=relative_gap_bound]").text_content() == "0.0500"


def test_of_one_pass_figures_are_shown_and_no_curve(served, open_page):
    page = open_page(served.url)
    for name, has_curve in (("one", False), ("two", True)):
        page.goto(served.url + served.pages[f"job: {name}"])
        page.locator("#chart-gap canvas").wait_for()
        assert page.locator("#chart-rows").is_hidden()
        page.click("#card-training > summary")
        wait_for(lambda: "60" in page.locator("#chart-rows .u-legend").inner_text())
        assert page.locator("#chart-rows canvas").is_visible() == has_curve
        assert page.locator("#chart-rows .u-legend").bounding_box()["width"] > 200


def test_of_a_job_that_failed_before_its_first_pass_nothing_is_drawn(served, open_page):
    page = open_page(served.url)
    page.goto(served.url + served.pages["job: failed"])
    page.locator("#charts").wait_for(state="hidden")
    assert page.locator("#block").is_hidden() and "it died" in page.locator("main").inner_text()


def test_numbers_at_an_axis_have_room_and_keep_all_their_digits(served, open_page):
    page = open_page(served.url)
    page.goto(served.url + served.pages["job: one"])
    page.locator("#chart-gap canvas").wait_for()
    shown = "(splits) => wholeDecades(null, splits.map((exponent) => 10 ** exponent)).map((value) => value !== null)"
    assert page.evaluate(shown, [-2, -1.5, -1, 0]) == [True, False, True, True]
    assert page.evaluate(shown, list(range(-13, 2))) == [k % 2 == 0 for k in range(-13, 2)]
    root = "{root: {dataset: {}}}"
    texts = page.evaluate(f"axisTexts({root}, [6604.975, 6604.98, 6604.985])")
    assert texts == ["6,604.975", "6,604.980", "6,604.985"]
    offset = page.evaluate(
        f"(() => {{ const u = {root}; return [axisTexts(u, [6604.975201, 6604.975203]), u.root.dataset.offset]; }})()"
    )
    assert offset == [["0", "0.000002"], "6,604.975201 +"]
    # There is room for the longest.
    room = page.evaluate(
        """() => {
          const paper = document.createElement("canvas").getContext("2d");
          paper.font = "12px system-ui";
          return roomFor(null, ["6,604.975"]) - paper.measureText("6,604.975").width;
        }"""
    )
    assert room >= 15


def test_curves_are_read_by_the_arrow_keys(served, open_page):
    page = open_page(served.url)
    page.goto(served.url + served.pages["job: two"])
    page.click("#card-training > summary")
    page.locator("#chart-rows canvas").wait_for()
    shown = page.locator("#chart-rows .u-series:first-child .u-value")
    wait_for(lambda: shown.inner_text() == "2")
    page.focus("#chart-rows")
    page.keyboard.press("ArrowLeft")
    wait_for(lambda: shown.inner_text() == "1")
    page.keyboard.press("ArrowLeft")
    assert shown.inner_text() == "1"
    page.keyboard.press("End")
    wait_for(lambda: shown.inner_text() == "2")
    page.keyboard.press("Home")
    wait_for(lambda: shown.inner_text() == "1")
    page.keyboard.press("Tab")
    wait_for(lambda: shown.inner_text() == "2")
