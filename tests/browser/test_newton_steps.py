"""The page of a job that makes Newton steps: rings on its curves, the legend's words, and where a running job is."""

import pytest

from tests.api.app import Service as Filled
from tests.browser.looks import SCREENS, every_look
from tests.browser.test_lanes import add_job, drawn, line
from tests.end_to_end.service import Service, wait_for

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


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A service with jobs that have ended, by what they are."""
    service = Service(tmp_path_factory.mktemp("newton"))
    filled = Filled(service.data_dir)
    dataset_id = filled.add_dataset("data")
    of_lanes = {**STEPS[1], "lanes": [of_lane(0, 0.25, 311), of_lane(1, 0.125, None)]}
    lanes = [{**BOUNDS, "lane": k, "gap": 0.25 / (k + 1), "m_plus": 0.0, "m_minus": 0.0} for k in range(2)]
    histories = {
        "one": ([line(1, 0.25, 0, sweeps=[{**SWEEP, "primal_bound": None}], newton=STEPS)], 1, MADE),
        "lanes": ([line(1, 0.25, None, lanes=lanes, newton=[of_lanes])], 2, MADE),
        "without": ([line(1, 0.25, 0)], 1, {}),
    }
    service.jobs = {
        name: add_job(filled, dataset_id, history, n_lanes, made=made)
        for name, (history, n_lanes, made) in histories.items()
    }
    try:
        yield service.start()
    finally:
        service.kill()


@pytest.fixture
def open_job(served, open_page):
    def open_(name, chart="chart-gap", **options):
        page = open_page(served.url, **options)
        page.goto(f"{served.url}/jobs/{served.jobs[name]}")
        page.locator(f"#{chart} canvas").wait_for()
        return page

    return open_


def legend(page, chart):
    """{label: value} of the rows of a legend that are shown."""
    rows = page.locator(f"#{chart} .u-series:visible").all()
    return {row.locator(".u-label").inner_text(): row.locator(".u-value").inner_text() for row in rows}


@every_look
def test_newton_steps_are_rings_on_the_curves(open_job, screen, scheme):
    page = open_job("one", viewport=SCREENS[screen], color_scheme=scheme)
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
    assert page.evaluate("document.documentElement.scrollWidth") <= SCREENS[screen]["width"]


def test_the_arrow_keys_go_to_a_step(open_job):
    page = open_job("one")
    page.focus("#chart-gap")
    for _ in range(2):
        page.keyboard.press("ArrowLeft")
    wait_for(lambda: "11: 22 scans, 400 rows, sigma 1" in legend(page, "chart-gap")["Newton step"])
    page.keyboard.press("ArrowLeft")
    wait_for(lambda: legend(page, "chart-gap")["Newton step"] == "\N{EN DASH}")


def test_the_report_says_how_much_work_there_was(open_job):
    text = open_job("one").locator(".result").first.inner_text()
    assert text.startswith("Converged after 2 passes, 5 sweeps, 12 Newton steps in 24 scans (tolerance).")
    text = open_job("without").locator(".result").first.inner_text()
    assert text.startswith("Converged after 2 passes (tolerance).")


def test_a_lane_has_rings_where_it_takes_part(open_job):
    page = open_job("lanes", "chart-lanes")
    wait_for(lambda: "Newton step" in drawn(page, "chart-lanes"))
    found = drawn(page, "chart-lanes")
    assert found["class 0"] == [[0.3, 0.25], [0.5, 0.25]] and found["Newton step"] == [[0.3, 0.25]]
    wait_for(lambda: "12: 24 scans, 311 rows, sigma 5" in legend(page, "chart-lanes")["Newton step"])


def test_without_newton_steps_the_legend_says_nothing_of_them(open_job):
    page = open_job("without")
    wait_for(lambda: "tolerance" in drawn(page, "chart-gap"))
    assert "Newton step" not in drawn(page, "chart-gap")


def test_a_running_job_shows_the_step_it_is_at(open_job):
    """What events say is put before the page of a job that has ended."""
    page = open_job("one")
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
