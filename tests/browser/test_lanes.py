"""The page of a job: gaps of several lanes, their table, the curve of a cross-validation, and Newton steps.

Newton steps are rings on the curves, words of the legend, and where a running job is.
"""

import json

import httpx
import numpy as np
import pytest

from tests.api.app import Service as Filled
from tests.api.server import RunningServer
from tests.browser.looks import SCREENS
from tests.browser.test_model_page import titles
from tests.end_to_end.service import PLAIN, Service, running, wait_for

OUTCOME = {"converged": True, "stop_reason": "tolerance", "passes": 2}
CERTIFICATE = {
    "gap": 5e-4, "primal_objective": 2.0, "dual_objective": 1.9, "relative_duality_gap": 0.05, "m_plus": 0.0,
    "m_minus": -5e-4, "w_error": 0.0,
}  # fmt: skip
VALUES = (0.01, 0.1, 1.0, 10.0)
CV = [
    {
        "C": C,
        "folds": [{"accuracy": mean, "auc": None}] * 3,
        "mean": {"accuracy": mean, "f1": 0.5, "auc": None},
        "std": {"accuracy": 0.05, "f1": 0.0, "auc": None},
    }
    for C, mean in zip(VALUES, (0.7, 0.8, 0.9, 0.85), strict=True)
]


def line(number, gap, lane, **more):
    """Of a history; half a second a pass."""
    counted = {"rows_streamed": 60, "resident_rows": 60, "evicted_rows": 0, "free_rows": 3, "updates": 120}
    waits = {"reader_wait_seconds": 0.25, "trainer_wait_seconds": 0.0}
    found = {"gap": gap, "relative_gap_bound": gap, "dual_objective": 1.0, "primal_bound": 2.0}
    return {"pass": number, "lane": lane, "elapsed_seconds": number / 2, **found, **counted, **waits, **more}


def in_turn(n_lanes):
    """Two passes a lane; lane k ends at 1 / (k + 1) / 2."""
    return [line(2 * k + p + 1, 1 / (k + 1) / (p + 1), k) for k in range(n_lanes) for p in range(2)]


def side_by_side(n_lanes, first):
    """The same passes in two groups, one after the other: their lines are of all of a group, and say `first` of one."""
    groups = np.array_split(np.arange(n_lanes), 2)
    lanes = [[{"lane": int(k), "gap": 1 / (int(k) + 1) / (p + 1)} for k in group] for group in groups for p in range(2)]
    figures = {"m_plus": 0.0, "m_minus": 0.0, "relative_gap_bound": 0.5, "dual_objective": 1.0, "primal_bound": 2.0}
    told = [[{**figures, **lane} for lane in each] for each in lanes]
    return [line(p + 1, 1.0, first and each[0]["lane"], lanes=each) for p, each in enumerate(told)]


def worst_in_turn():
    """Two lanes side by side, of objectives far apart: after the first pass the one is the worst, then the other."""
    figures = [[(1.0, 10.0), (0.5, 20.0)], [(0.1, 11.0), (0.4, 21.0)]]
    lanes = [
        [
            {"lane": k, "gap": gap, "relative_gap_bound": 0.5, "dual_objective": D, "primal_bound": 2 * D}
            for k, (gap, D) in enumerate(each)
        ]
        for each in figures
    ]
    sweep = {"sweep": 1, "elapsed_seconds": 0.25, "gap": 3.0, "dual_objective": 5.0, "lanes": lanes[0]}
    return [line(1, 1.0, None, lanes=lanes[0], sweeps=[sweep]), line(2, 0.4, None, lanes=lanes[1])]


SWEEP = {"sweep": 1, "elapsed_seconds": 0.1, "gap": 2.0, "relative_gap_bound": None, "dual_objective": 0.5}
STEP = {"step": 11, "elapsed_seconds": 0.2, "scans": 22, "system_rows": 400, "sigma": 1.0, "gap": 1.0}
BOUNDS = {"relative_gap_bound": 0.5, "dual_objective": 1.0, "primal_bound": 2.0}
STEPS = [
    {**STEP, **BOUNDS},
    {**STEP, **BOUNDS, "step": 12, "elapsed_seconds": 0.3, "scans": 24, "system_rows": 311, "sigma": 5.0, "gap": 0.25},
]
MADE = {"sweeps": 5, "newton_steps": 12, "scans": 24}


def of_lane(number, gap, rows):
    return {"lane": number, "gap": gap, "relative_gap_bound": gap, "system_rows": rows, "sigma": None}


def add_job(filled, dataset_id, history, n_lanes, cv=None, made=None):
    """A job that has ended, with its history and a result, which says what it made; classes 0, 1, ... are its lanes."""
    spec = {"dataset": "data", "C": list(VALUES), "tolerance": 1e-3, "scoring": "accuracy"}
    job = filled.store.add_job(dataset_id, spec, 1000)
    while filled.store.claim() is not None:
        pass
    (filled.settings.jobs / job).mkdir(parents=True)
    text = "".join(json.dumps(each) + "\n" for each in history)
    (filled.settings.jobs / job / "history.ndjson").write_text(text)
    lanes = [{"class": f"class {k}", "fold": None, "C": 1.0, **OUTCOME, **CERTIFICATE} for k in range(n_lanes)]
    result = {**OUTCOME, **(made or {}), "certificate": CERTIFICATE, "lanes": lanes, "models": []}
    filled.store.finish(job, "succeeded", result={**result, **({"cv": cv, "selected_C": 1.0} if cv else {})})
    return job


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A service with jobs that have ended, by what they are."""
    service = Service(tmp_path_factory.mktemp("lanes"))
    filled = Filled(service.data_dir)
    dataset_id = filled.add_dataset("data")
    histories = {
        "two in turn": (in_turn(2), 2),
        "two side by side": (side_by_side(2, None), 2),
        "worst in turn": (worst_in_turn(), 2),
        "many in turn": (in_turn(200), 200),
        "many side by side": (side_by_side(200, None), 200),
        "many that name their first": (side_by_side(200, "first"), 200),
    }
    service.jobs = {name: add_job(filled, dataset_id, *each) for name, each in histories.items()}
    of_lanes = {**STEPS[1], "lanes": [of_lane(0, 0.25, 311), of_lane(1, 0.125, None)]}
    lanes = [{**BOUNDS, "lane": k, "gap": 0.25 / (k + 1), "m_plus": 0.0, "m_minus": 0.0} for k in range(2)]
    one = line(1, 0.25, 0, sweeps=[{**SWEEP, "primal_bound": None}], newton=STEPS)
    service.jobs |= {
        "newton steps": add_job(filled, dataset_id, [one], 1, made=MADE),
        "newton lanes": add_job(
            filled, dataset_id, [line(1, 0.25, None, lanes=lanes, newton=[of_lanes])], 2, made=MADE
        ),
        "without": add_job(filled, dataset_id, [line(1, 0.25, 0)], 1),
    }
    service.jobs["folds"] = add_job(filled, dataset_id, in_turn(12), 12, CV)
    service.jobs["one C"] = add_job(filled, dataset_id, in_turn(3), 3, CV[:1])
    with running(service):
        yield service


def drawn(page, chart):
    """{label: [[x, y], ...]} of what a chart draws, without places that have no value."""
    return page.evaluate(
        """(id) => {
          const plot = charts.plots.get(id);
          const points = (line) => line.map((y, at) => [plot.data[0][at], y]).filter(([, y]) => (y ?? null) !== null);
          return Object.fromEntries(plot.series.slice(1).map(({ label }, at) => [label, points(plot.data[at + 1])]));
        }""",
        chart,
    )


@pytest.fixture
def open_job(served, open_page):
    def open_(name, chart="chart-lanes", **options):
        page = open_page(served.url, **options)
        page.goto(f"{served.url}/jobs/{served.jobs[name]}")
        page.locator(f"#{chart} canvas").wait_for(state="attached")
        if chart == "chart-lanes":
            page.click("text=How it was trained")
            wait_for(lambda: page.locator("#lanes-note").inner_text())
        return page

    return open_


@pytest.mark.parametrize("name", ["two in turn", "two side by side"])
def test_two_lanes_are_two_lines_by_seconds(open_job, name):
    page = open_job(name)
    wait_for(lambda: len(drawn(page, "chart-lanes").get("class 1", ())) == 2)
    found = drawn(page, "chart-lanes")
    assert list(found) == ["class 0", "class 1", "tolerance"]
    assert found["class 0"] == [[0.5, 1.0], [1.0, 0.5]] and found["class 1"] == [[1.5, 0.5], [2.0, 0.25]]
    assert {y for _, y in found["tolerance"]} == {1e-3}
    # The objective is that of what was run last alone; its seconds go on counting.
    assert drawn(page, "chart-objective")["dual"] == [[1.5, 1.0], [2.0, 1.0]]
    # Counted anew for each run: half of a pass was waiting, in the second pass nothing.
    assert drawn(page, "chart-waits")["reader waits"] == [[1, 50], [2, 0], [3, 50], [4, 0]]


def test_the_objective_is_of_one_lane_the_worst_in_the_end(open_job):
    page = open_job("worst in turn")
    wait_for(lambda: len(drawn(page, "chart-objective")["dual"]) == 2)
    assert drawn(page, "chart-objective") == {
        "primal, at most": [[0.5, 40.0], [1.0, 42.0]],
        "dual": [[0.5, 20.0], [1.0, 21.0]],
    }


@pytest.mark.parametrize(
    ("name", "screen", "scheme"),
    [("many in turn", "desk", "light"), ("many side by side", "phone", "dark"),
     ("many that name their first", "desk", "light")],
)  # fmt: skip
def test_of_many_lanes_the_worst_and_the_best_are_drawn(open_job, name, screen, scheme):
    page = open_job(name, viewport=SCREENS[screen], color_scheme=scheme)
    wait_for(lambda: "of 200 the worst" in page.locator("#lanes-note").inner_text())
    # The history may come in several parts.
    wait_for(lambda: len(drawn(page, "chart-lanes").get("class 199 (best)", ())) == 2)
    found = drawn(page, "chart-lanes")
    assert list(found) == ["class 0 (worst)", "class 1 (worst)", "class 2 (worst)", "class 199 (best)", "tolerance"]
    assert [y for _, y in found["class 199 (best)"]] == [1 / 200, 1 / 400]
    assert page.evaluate("document.documentElement.scrollWidth") <= SCREENS[screen]["width"]
    colors = page.evaluate("charts.plots.get('chart-lanes').series.slice(1, 5).map((line) => line.stroke())")
    assert len(set(colors)) == 4
    # Where nobody points, the legend has the last value of each.
    shown = page.locator("#chart-lanes .u-series").first.locator(".u-value")
    last = page.evaluate("charts.plots.get('chart-lanes').data[0].at(-1)")
    wait_for(lambda: shown.inner_text() == f"{last:g}")
    assert page.locator("#chart-lanes .u-series").nth(1).locator(".u-value").inner_text() == "0.500"
    assert page.locator("#lanes tbody tr").count() == 200 and not page.is_visible("#lanes")


def test_the_curve_of_a_cross_validation(open_job):
    page = open_job("folds", viewport=SCREENS["phone"], color_scheme="dark")
    page.locator("#curve svg").wait_for()
    assert titles(page, "#curve .dot") == [
        f"C = {C:g}: accuracy {mean} ± 0.050{', selected' if C == 1 else ''}"
        for C, mean in zip(VALUES, ("0.7000", "0.8000", "0.9000", "0.8500"), strict=True)
    ]
    dots = page.locator("#curve .dot").evaluate_all(
        "all => all.map((dot) => [dot.cx, dot.cy].map((at) => at.baseVal.value))"
    )
    x, y = np.array(dots).T
    # The scale of C is logarithmic, that of the metric is not.
    np.testing.assert_allclose(np.diff(x), np.diff(x)[0], rtol=1e-4)
    np.testing.assert_allclose((y - y[0]) / (y[2] - y[0]), [0, 0.5, 1, 0.75], atol=1e-4)
    assert page.locator("#curve .dot.selected").count() == 1
    # The band is a standard deviation each way: a quarter of the distance of 0.7 and 0.9.
    corners = page.locator("#curve .band").evaluate("band => [...band.points].map((point) => point.y)")
    np.testing.assert_allclose(
        [corners[0] - y[0], corners[-1] - y[0]], np.array([1, -1]) * (y[2] - y[0]) / 4, atol=1e-2
    )
    assert page.locator("#curve option").all_inner_texts() == ["accuracy", "f1"]
    page.select_option("#curve select", "f1")
    assert titles(page, "#curve .dot")[0] == "C = 0.01: f1 0.5000 ± 0.0"
    assert page.locator("#curve svg").count() == 1
    letters = page.locator("#curve text").first.evaluate("text => text.getBoundingClientRect().height")
    assert letters > 9
    assert "selected" in page.locator("#cv tr", has_text="0.9 ±").inner_text()


def test_the_answer_does_not_wait_for_the_passes(served, open_page):
    page = open_page(served.url)
    page.route("**/events", lambda _route: None)
    page.goto(f"{served.url}/jobs/{served.jobs['folds']}")
    page.locator("#curve svg").wait_for()
    assert page.inner_text("#state") == "succeeded"
    assert float(page.inner_text("[data-figure=gap]")) == CERTIFICATE["gap"]


def test_of_one_C_there_is_a_table_alone(open_job):
    page = open_job("one C")
    assert page.locator("#cv tbody tr").count() == 1 and page.locator("#curve").count() == 0


CSV = "kind,weight,a,b,c\n" + "".join(
    f"{('setosa', 'versicolor', 'virginica')[k % 3]},{1 + k % 2},{k * 7 % 11},{k % 3},{k * 5 % 13}\n"
    for k in range(300)
)


def test_from_a_table_with_names_and_weights_to_the_best_C(open_page, served, tmp_path):
    """As somebody new would."""
    name = f"flowers-{tmp_path.name[-1]}"  # another one where the test is tried once more
    (tmp_path / f"{name}.csv").write_text(CSV)
    page = open_page(served.url)
    page.set_input_files("#upload [name=file]", tmp_path / f"{name}.csv")
    wait_for(lambda: page.is_visible("#upload [name=label_column]"))
    assert page.locator("#columns option").evaluate_all("all => all.map((option) => option.value)") == [
        "kind", "weight", "a", "b", "c",
    ]  # fmt: skip
    page.fill("#upload [name=label_column]", "kind")
    page.fill("#upload [name=weight_column]", "weight")
    page.click("#upload button")
    output = page.locator("#upload output")
    wait_for(lambda: output.inner_text().startswith(f"{name}: 300 rows, 3 features"))
    assert "labels setosa, versicolor, virginica (strings), weights 1 to 2" in output.inner_text()

    wait_for(lambda: page.input_value("#dataset-choice") == name)
    assert not page.is_visible("#submit [name=folds]")
    page.fill("#submit [name=C]", "0.01, 0.1 1")
    assert page.input_value("#submit [name=validation]") == "0.1" and page.is_enabled("#submit [name=scoring]")
    page.fill("#submit [name=validation]", "")
    assert page.is_disabled("#submit [name=scoring]")
    page.fill("#submit [name=validation]", "0.2")
    page.fill("#submit [name=folds]", "2")  # one of the two
    assert page.input_value("#submit [name=validation]") == ""
    page.select_option("#submit [name=scoring]", "f1")
    page.select_option("#submit [name=probability]", "sigmoid")
    page.click("text=More settings")
    page.fill("#submit [name=cache_bytes]", "1")
    page.click("#submit button")
    page.wait_for_url("**/jobs/job_*")
    job = page.url.rsplit("/", 1)[1]
    spec = served.job(job)["spec"]
    assert (spec["C"], spec["folds"], spec["scoring"]) == ([0.01, 0.1, 1.0], 2, "f1")
    assert (spec["probability"], spec["refit"], spec["keep"]) == ("sigmoid", True, "selected")

    # While it runs: lanes by name, and a table that fills. The page loads itself anew when the job ends.
    page.click("text=27 lanes")
    first = page.locator("#lanes tbody tr").first
    wait_for(lambda: first.locator("td").last.text_content() == "done" or page.locator("#curve").count())
    assert first.locator("td").all_text_contents()[:3] == ["setosa", "0", "0.01"]

    ended = served.wait_until_ended(job)
    assert ended["state"] == "succeeded", ended["failure"]
    page.locator("#curve svg").wait_for()
    assert first.locator("td").nth(3).text_content().isdecimal()
    assert page.input_value("#curve select") == "f1"
    assert page.locator("#confusion .cell").count() == 9
    found = titles(page, "#curve .dot")
    assert len(found) == 3
    best = ended["result"]["selected_C"]
    assert [title for title in found if title.endswith(", selected")] == [
        title for title in found if title.startswith(f"C = {best:g}:")
    ]
    page.click("text=Look at the model")
    page.click("#evaluate button")
    page.locator(".cell").first.wait_for()
    assert page.locator(".cell").count() == 9 and page.locator(".dot").count() > 0


@pytest.mark.parametrize(
    ("fields", "name", "says"),
    [
        ({"C": "0.1, x"}, "C", "'x' is not a number. Write 1, or several: 0.01, 0.1, 1"),
        ({"C": "1 2 3 4 5 6 7 8 9 10", "folds": "100"}, "C", "are 1010 problems"),
        ({"folds": "2", "scoring": "neg_log_loss"}, "scoring", "neg_log_loss needs probabilities"),
        ({"tolerance": "1e-3", "seed": "9e20"}, "seed", "seed"),
    ],
)
def test_a_problem_is_shown_at_its_field_until_that_changes(browser, served, fields, name, says):
    page = browser.new_page()
    page.goto(served.url)
    for summary in page.locator("#submit summary").all():
        summary.click()
    for field, value in fields.items():
        place = page.locator(f"#submit [name={field}]")
        if place.evaluate("field => field.tagName") == "SELECT":
            place.evaluate(
                "(field, value) => { field.selectedOptions[0].disabled = false; field.value = value; }", value
            )
            place.dispatch_event("input")
        else:
            place.fill(value)
    page.click("#submit button")
    fault = page.locator(f"#submit label:has([name={name}]) .fault")
    fault.wait_for()
    assert says in fault.inner_text()
    assert page.locator(f"#submit [name={name}]").get_attribute("aria-invalid") == "true"
    page.locator(f"#submit [name={name}]").dispatch_event("input")
    assert fault.count() == 0
    page.close()


def test_a_problem_of_no_field_is_shown_below(browser, served):
    sent = httpx.put(f"{served.url}/v1/datasets/weighted", content=b"1:2 1:1\n-1:1 1:2\n", **PLAIN)
    assert sent.status_code == 201
    page = browser.new_page()
    page.goto(served.url)
    page.select_option("#dataset-choice", "weighted")
    page.locator("#submit summary").last.click()
    page.select_option("#submit [name=solver]", "pegasos")
    page.click("#submit button")
    fault = page.locator("#submit > .fault")
    wait_for(lambda: "pegasos would ignore" in fault.inner_text())
    page.close()


def legend(page, chart):
    """{label: value} of the rows of a legend that are shown."""
    rows = page.locator(f"#{chart} .u-series:visible").all()
    return {row.locator(".u-label").inner_text(): row.locator(".u-value").inner_text() for row in rows}


def test_newton_steps_are_rings_on_the_curves(open_job):
    page = open_job("newton steps", "chart-gap")
    wait_for(lambda: "Newton step" in drawn(page, "chart-gap"))
    # Two lines have rings; the legend names them once.
    series = page.evaluate("charts.plots.get('chart-gap').series.map(({ label }) => label)")
    assert series.count("Newton step") == 2
    data = page.evaluate("charts.plots.get('chart-gap').data")
    rings = [data[k] for k, label in enumerate(series) if label == "Newton step"]
    assert rings == [[None, 1.0, 0.25, None], [None, 0.5, 0.5, None]]
    assert drawn(page, "chart-objective")["Newton step"] == [[0.2, 1.0], [0.3, 1.0]]
    wait_for(lambda: "12: 24 scans, 311 rows, sigma 5" in legend(page, "chart-gap").get("Newton step", ""))
    assert list(legend(page, "chart-gap"))[-1] == "Newton step"
    colors = page.evaluate("charts.plots.get('chart-gap').series.slice(1).map((line) => line.stroke())")
    assert colors[-1] == colors[-2] and colors[-1] not in colors[:-2]
    page.focus("#chart-gap")
    for _ in range(2):
        page.keyboard.press("ArrowLeft")
    wait_for(lambda: "11: 22 scans, 400 rows, sigma 1" in legend(page, "chart-gap")["Newton step"])
    page.keyboard.press("ArrowLeft")
    wait_for(lambda: legend(page, "chart-gap")["Newton step"] == "\N{EN DASH}")
    text = page.locator(".result").first.inner_text()
    assert text.startswith("Converged after 2 passes, 5 sweeps, 12 Newton steps in 24 scans (tolerance).")


def test_rings_of_many_steps_are_thinned_and_the_last_stays(open_job):
    page = open_job("newton steps", "chart-gap")
    lines = [[None if k % 10 == 3 else float(k) for k in range(300)] for _ in range(2)]
    marks = page.evaluate("(lines) => marksOf(lines).map(({ line }) => line)", lines)
    assert [len(line) for line in marks] == [300, 300]
    shown = [value for line in marks for value in line if value is not None]
    assert 20 <= len(shown) <= 41 and shown.count(299.0) == 2
    few = [[None, 1.0, 2.0]]
    assert page.evaluate("(lines) => marksOf(lines).map(({ line }) => line)", few) == few


def test_without_newton_steps_nothing_is_said_of_them(open_job):
    page = open_job("without", "chart-gap")
    assert page.locator(".result").first.inner_text().startswith("Converged after 2 passes (tolerance).")
    wait_for(lambda: "tolerance" in drawn(page, "chart-gap"))
    assert "Newton step" not in drawn(page, "chart-gap")


def test_a_lane_has_rings_where_it_takes_part(open_job):
    page = open_job("newton lanes")
    wait_for(lambda: "Newton step" in drawn(page, "chart-lanes"))
    found = drawn(page, "chart-lanes")
    assert found["class 0"] == [[0.3, 0.25], [0.5, 0.25]] and found["Newton step"] == [[0.3, 0.25]]
    wait_for(lambda: "12: 24 scans, 311 rows, sigma 5" in legend(page, "chart-lanes")["Newton step"])


def test_a_running_job_shows_the_best_C_so_far(open_page, tmp_path):
    service = Filled(tmp_path)
    job = service.store.add_job(service.add_dataset("data"), {"dataset": "data", "C": "auto", "folds": 5}, 1000)
    service.store.claim()
    with RunningServer(service) as server:
        page = open_page(f"http://127.0.0.1:{server.address[1]}")
        page.goto(f"{page.url}jobs/{job}")
        assert page.locator("#no-score-yet").is_visible() and not page.locator("#so-far").is_visible()
        seen = {"block": 0, "blocks": 1, "rows_streamed": 0, "elapsed_seconds": 1.0, "lane": {"count": 1, "of": 2}}
        page.evaluate("showProgress", {**seen, "best_C": 0.25, "best_score": 0.875})
        words = page.locator("#so-far").inner_text()
        assert words == "accuracy 0.875 so far, on rows that are held out from training, with C = 0.250"
        assert not page.locator("#no-score-yet").is_visible()
        page.close()  # its stream of events ends before the server does


def test_a_running_job_shows_the_step_it_is_at(open_job):
    """What events say is put before the page of a job that has ended."""
    page = open_job("newton steps", "chart-gap")
    wait_for(lambda: "Newton step" in drawn(page, "chart-gap"))
    progress = {
        **BOUNDS, "lane": {"number": 0, "count": 1, "of": 1}, "block": 1, "blocks": 1, "elapsed_seconds": 0.75,
        "sweep": 0, "gap": 0.125, "dual_objective": 1.5, "solver_phase": "newton",
    }  # fmt: skip
    step = {"step": 13, "scans": 28, "system_rows": 300, "sigma": None}
    for seconds, newton in ((0.75, step), (0.8, step), (0.9, {**step, "step": 14, "scans": 30})):
        page.evaluate("addRunning", {**progress, "newton": newton, "elapsed_seconds": seconds})
    running = page.evaluate("charts.job.running")
    assert [each["step"] for each in running] == [13, 14]
    assert page.evaluate("place", {**progress, "newton": step}) == "Newton step 13, 28 scans"
    # A step of the pass that is over, and one before any, are no new points.
    for newton in (STEPS[1], None):
        page.evaluate("addRunning", {**progress, "newton": newton, "elapsed_seconds": 1.0})
    assert page.evaluate("charts.job.running.length") == 2
    assert page.evaluate("place", {**progress, "newton": None, "sweep": 5}) == "sweep 5"
