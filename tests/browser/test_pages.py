"""The pages as a person uses them."""

import httpx
import pytest

from tests.end_to_end.conftest import ENDLESS
from tests.end_to_end.service import wait_for


def passes_drawn(page) -> int:
    """The last pass in a legend, 0: nothing is drawn yet."""
    shown = page.locator("#chart-rows .u-series:first-child .u-value")
    text = shown.text_content() if shown.count() else ""
    return int(text) if text.isdecimal() else 0  # "--" while nothing is drawn


def curve(page) -> str:
    return page.locator("#chart-gap canvas").evaluate("canvas => canvas.toDataURL()")


def wait_for_pass(page, number: int) -> None:
    # Not the page's own waiting: the policy forbids to evaluate text.
    wait_for(lambda: passes_drawn(page) >= number)


@pytest.fixture(autouse=True)
def _cancel_what_runs(service):
    """Jobs of a test end with it, also where it fails: they share the service, and later ones would wait for them."""
    yield
    for job in service.get("/v1/jobs?state=running")["jobs"]:
        httpx.post(f"{service.url}/v1/jobs/{job['id']}/cancel")
        service.wait_until_ended(job["id"])


@pytest.fixture
def endless(service):
    """A job that goes on until the test is over."""
    job = service.submit(**ENDLESS)
    service.wait_for_pass(job, 1)
    return job


def test_upload_train_watch_stop_download(service, open_page, text, tmp_path):
    (tmp_path / "My Rows.svm").write_bytes(text)
    page = open_page(service.url)
    page.set_input_files("#upload [name=file]", tmp_path / "My Rows.svm")
    assert page.input_value("#upload [name=name]") == "my-rows"
    page.click("#upload button")
    page.locator("#dataset-list", has_text="my-rows").wait_for()
    wait_for(lambda: page.input_value("#dataset-choice") == "my-rows")

    page.fill("#submit [name=validation]", "")
    page.click("text=More settings")
    page.fill("#submit [name=relative_gap]", "")  # so that it does not end by itself
    page.fill("#submit [name=cache_bytes]", "1")
    page.fill("#submit [name=max_passes]", "1000000")
    page.click("#submit button")
    page.wait_for_url("**/jobs/job_*")
    wait_for_pass(page, 1)
    drawn, earlier = curve(page), passes_drawn(page)  # in this order: what is drawn is of that pass at most
    wait_for_pass(page, earlier + 2)
    wait_for(lambda: curve(page) != drawn)

    page.click("#stop")
    page.locator("#state", has_text="stopped").wait_for()
    with page.expect_download() as waiting:
        page.click("text=Download model")
    waiting.value.save_as(tmp_path / "m.model")
    assert (tmp_path / "m.model").read_bytes().startswith(b"solver_type L2R_L1LOSS_SVC_DUAL\n")
    wait_for_pass(page, earlier + 2)
    page.set_viewport_size({"width": 700, "height": 900})
    wait_for_pass(page, earlier + 2)


def test_a_job_that_has_ended_goes_on_from_its_page(service, open_page):
    job = service.submit(dataset="data", tolerance=1e-9, max_passes=2, cache_bytes=1 << 17, pace="fixed")
    service.wait_until_ended(job)
    page = open_page(service.url)
    page.goto(f"{service.url}/jobs/{job}")
    page.click("text=Go on, as a new job")
    page.fill("#resume [name=max_passes]", "4")
    assert page.input_value("#resume [name=tolerance]") == "1e-09"
    assert page.input_value("#resume [name=relative_gap]") == ""
    page.fill("#resume [name=tolerance]", "")
    page.fill("#resume [name=relative_gap]", "1e-12")
    page.click("#resume button")
    page.locator(f"text=continues {job}").wait_for()
    wait_for_pass(page, 4)
    assert service.job(page.url.rsplit("/", 1)[1])["spec"]["tolerance"] is None
    assert service.job(page.url.rsplit("/", 1)[1])["spec"]["relative_gap"] == 1e-12


def test_a_kernel_has_its_own_fields(service, open_page):
    page = open_page(service.url)
    page.click("text=More settings")
    assert not page.is_visible("#submit [name=budget]")
    page.select_option("#submit [name=kernel]", "rbf")
    page.fill("#submit [name=budget]", "30")
    page.fill("#submit [name=tolerance]", "0.5")
    page.click("#submit button")
    page.wait_for_url("**/jobs/job_*")
    spec = service.job(page.url.rsplit("/", 1)[1])["spec"]
    assert (spec["solver"], spec["budget"], spec["tolerance"]) == ("bsca", 30, 0.5)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ({}, (None, 1e-4)),
        ({"tolerance": "0.5"}, (0.5, None)),
        ({"tolerance": "0.5", "relative_gap": "0.0001"}, (0.5, 1e-4)),
        ({"relative_gap": ""}, (None, None)),
    ],
)
def test_a_tolerance_that_is_typed_takes_the_place_of_the_relative_gap(service, open_page, typed, expected):
    page = open_page(service.url)
    page.click("text=More settings")
    page.fill("#submit [name=max_passes]", "1")
    for name, text in typed.items():
        page.fill(f"#submit [name={name}]", text)
    page.click("#submit button")
    page.wait_for_url("**/jobs/job_*")
    spec = service.job(page.url.rsplit("/", 1)[1])["spec"]
    assert (spec["tolerance"], spec["relative_gap"]) == expected


def test_a_cancelled_job_says_so(service, open_page, endless):
    page = open_page(service.url)
    page.click(f"a[title={endless}]")
    page.click("text=Settings")
    page.on("dialog", lambda dialog: dialog.accept())
    page.click("text=Cancel")
    page.locator("#state", has_text="cancelled").wait_for()
    assert page.locator("text=Download model").count() == 0
    # The page has loaded itself anew, and the card that was opened is open still.
    page.locator("button", has_text="Cancel").wait_for(state="detached")
    page.locator("#card-settings[open]").wait_for()
    assert page.locator("#card-log[open]").count() == 0


def test_what_was_wrong_with_a_file_is_shown(service, browser, tmp_path):
    (tmp_path / "bad.svm").write_bytes(b"1 1:1\n-1 2:x\n")
    page = browser.new_page()
    page.goto(service.url)
    page.set_input_files("#upload [name=file]", tmp_path / "bad.svm")
    page.click("#upload button")
    fault = page.locator("#upload .fault")
    fault.wait_for()
    assert fault.inner_text().startswith("line 2: ")
    page.close()


def test_the_page_goes_on_when_the_service_comes_back(new_service, browser, text):
    service = new_service().start()
    service.upload("data", text)
    job = service.submit(**ENDLESS)
    page = browser.new_page()
    page.set_default_timeout(60_000)
    page.goto(f"{service.url}/jobs/{job}")
    wait_for_pass(page, 2)
    service.signal(9)
    service.wait(10)
    service.start()
    page.locator("#phase", has_text="training").wait_for()
    service.wait_for_pass(job, 2, attempt=2)
    wait_for_pass(page, 1)
    httpx.post(f"{service.url}/v1/jobs/{job}/cancel")
    page.locator("#state", has_text="cancelled").wait_for()
    page.close()


def test_with_a_token_one_logs_in_first(new_service, browser, text):
    service = new_service()
    token = service.processes.run("token", "new", "me", "--data-dir", service.data_dir, text=True).stdout.split()[-1]
    service.start(authorization=f"Bearer {token}")
    page = browser.new_page()
    page.goto(service.url)
    page.fill("[name=token]", token)
    page.click("button")
    page.locator("text=No dataset yet").wait_for()
    page.wait_for_load_state()  # the scripts, too
    page.set_input_files("#upload [name=file]", {"name": "mine.svm", "mimeType": "text/plain", "buffer": text})
    page.click("#upload button")
    page.locator("#dataset-list", has_text="mine").wait_for()
    page.click("text=Log out")
    page.locator("[name=token]").wait_for()
    page.close()


def test_the_upload_form_shows_the_options_of_a_format(service, open_page, tmp_path):
    """Documents, as somebody new would bring them, with the heaviest words of their model."""
    (tmp_path / "reviews.txt").write_text("good\ta fine film\nbad\ta dull film\n" * 30)
    page = open_page(service.url)
    page.click("text=How to read it")
    shown = {"label_column": (True, False, True), "index_base": (True, True, True), "text_column": (True, False, True)}
    shown |= {"analyzer": (False, True, False), "delimiter": (True, False, False)}
    for name, wanted in shown.items():
        for format_, is_shown in zip(("", "text", "parquet"), wanted, strict=True):
            page.select_option("#upload [name=format]", format_)
            assert page.is_visible(f"#upload [name={name}]") == is_shown, (name, format_)
    page.fill("#upload [name=text_column]", "2")
    assert page.is_visible("#upload [name=analyzer]")
    page.fill("#upload [name=text_column]", "")
    page.select_option("#upload [name=format]", "text")
    page.fill("#upload [name=ngram_range]", "1,2")
    page.set_input_files("#upload [name=file]", tmp_path / "reviews.txt")
    page.click("#upload button")
    wait_for(lambda: page.input_value("#dataset-choice") == "reviews")
    assert service.get("/v1/datasets/reviews")["input"]["ngram_range"] == [1, 2]
    assert not page.is_visible("#upload [name=analyzer]")
    page.click("#submit button")
    page.wait_for_url("**/jobs/job_*")
    job = service.wait_until_ended(page.url.rsplit("/", 1)[1])
    page.locator(f"a[href*='{job['model_id']}']").first.wait_for()  # the page of the job has loaded itself once more
    page.goto(f"{service.url}/models/{job['model_id']}")
    assert job["state"] == "succeeded", job
    assert "fine film" in page.locator("#heaviest").inner_text()
